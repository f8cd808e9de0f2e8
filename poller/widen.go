package poller

import (
	"context"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// widestEvery is how often the widest window is read where a smaller one looked closed, beside whenever a total grew by
// more than was found: late arrivals sort lower.
const widestEvery = 24 * time.Hour

// wideDue says whether the daily time has come to read the widest window of an insertion that is not seen whole.
func (p *poll) wideDue(now time.Time) bool {
	return !p.look.whole && p.look.wide != 0 && now.UnixNano() >= p.look.wide
}

// widen reads the widest window where it is time, or where a total tells of something unseen.
func (p *poll) widen(ctx context.Context, page *listings.ContactRequestsPage) error {
	now := time.Now()
	if p.catchUp.Whole {
		return nil
	}
	due, grew := p.wideDue(now), p.grew(page.Total, now)
	if !due && !grew {
		return nil
	}
	wide, err := p.askWidest(ctx, page)
	if err != nil {
		return err
	}
	found := 0
	if wide != page {
		if found, err = p.commitWide(wide); err != nil {
			return err
		}
	}
	p.look.wide = wideSlot(p.a.id, p.reference, now).UnixNano()
	if grew {
		p.look.learnGrowth(page.Total, found, now)
	}
	return nil
}

// grew says whether the total is larger than it was by more than was found, for a reason that is not known yet.
func (p *poll) grew(total int, now time.Time) bool {
	l := p.look
	if l.total < 0 || total-int(l.total) <= p.catchUp.New {
		return false
	}
	return l.growth == nil || total > l.growth.explained && !now.Before(l.growth.patient)
}

// learnGrowth keeps a total that counts something else from being a reason at every poll.
func (l *look) learnGrowth(total, found int, now time.Time) {
	if l.growth == nil {
		l.growth = new(growth)
	}
	g := l.growth
	g.explained = total
	if found > 0 {
		g.vain = 0
		return
	}
	g.vain++
	g.patient = now.Add(min(time.Minute<<min(g.vain, 12), widestEvery))
}

// askWidest asks for as many as this service shows at once: the last answer itself, if it takes no larger number.
func (p *poll) askWidest(ctx context.Context, page *listings.ContactRequestsPage) (*listings.ContactRequestsPage, error) {
	least := max(page.Size, len(page.ContactRequests))
	refused := false
	for size := p.a.windows.widest(time.Now()); size > least; size = p.a.windows.below(size) {
		wide, err := p.ask(ctx, watch.NewestFirst(size))
		if watch.RefusedSize(err) {
			refused = true
			continue
		}
		if err != nil {
			return nil, err
		}
		count := len(wide.ContactRequests)
		p.a.windows.hear(wide.Total, count)
		p.a.windows.lift(size, count)
		switch {
		case refused:
			p.a.windows.limit(size)
		case wide.Total > count && p.a.windows.believable():
			p.a.capped(count)
		}
		return wide, nil
	}
	if refused {
		p.a.windows.limit(watch.CapOf(least))
	}
	return page, nil
}

// commitWide commits the answer of the widest window, which the regular one made look complete, and counts what it found.
func (p *poll) commitWide(page *listings.ContactRequestsPage) (found int, err error) {
	a := answerOf(page, watch.NewestFirst(page.Size))
	var r result
	err = p.a.p.store.Update(func(tx *store.Tx) error {
		i, state, known, err := p.remembered(tx)
		if err != nil {
			return err
		}
		s, err := p.sight(tx, i, state, page.Received)
		if err != nil {
			return err
		}
		d := watch.DiffContactRequests(s, known, a)
		r = result{catchUp: p.catchUp.Clone()}
		r.catchUp.Judge(p.circumstances(i, known, a, s.Skew), a, d)
		found = d.New
		i.LastWide = page.Received.UTC()
		if err := tx.PutInsertion(p.a.id, i); err != nil {
			return err
		}
		gap, told := p.a.windows.gap(p.reference)
		r.recovered = told && r.catchUp.Whole
		closed := result{catchUp: p.catchUp, verdict: watch.ClosedOverlap, recovered: r.recovered}
		return p.write(tx, judgement{closed, i, state, d, gap}, page.Received)
	})
	if err == nil && r.recovered {
		p.a.toldGap(p.reference, nil)
	}
	return found, err
}
