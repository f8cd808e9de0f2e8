package poller

import (
	"context"
	"hash/fnv"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// windows is a copy of what was learned of the windows of an agency; learned changes it.
func (a *agency) windows() watch.Sizes {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sizes
}

func (a *agency) learned(change func(*watch.Sizes)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.sizes)
}

// slow is a larger number that fails again and again where a smaller one is answered: after some tries it is left alone
// for a day, because what cannot be seen must be told.
type slow struct {
	size, failures int
	since          time.Time
}

const slowLimit = 3

func (s *slow) given(size int, now time.Time) bool {
	return s != nil && s.failures >= slowLimit && size >= s.size && now.Sub(s.since) < watch.ProbeEvery
}

// failed returns what is known after one more failure.
func (s *slow) failed(err error, size int, now time.Time) *slow {
	switch watch.Classify(err) {
	case watch.ClassTransient, watch.ClassAside, watch.ClassDrift:
	default:
		return s
	}
	if s == nil || s.size != size || now.Sub(s.since) >= watch.ProbeEvery {
		s = &slow{size: size, since: now}
	}
	s.failures++
	return s
}

// grow asks for a larger number. There is no page where the API does not give one.
func (p *poll) grow(ctx context.Context, size int, page *listings.ContactRequestsPage) (*listings.ContactRequestsPage, error) {
	if p.look.slow.given(size, time.Now()) {
		return nil, nil
	}
	next, err := p.ask(ctx, watch.NewestFirst(size))
	if watch.RefusedSize(err) {
		p.a.learned(func(w *watch.Sizes) { w.Largest = max(page.Size, watch.CapOf(len(page.ContactRequests))) })
		return nil, nil
	}
	if err != nil {
		p.look.slow = p.look.slow.failed(err, size, time.Now())
		return nil, err
	}
	p.a.learned(func(w *watch.Sizes) { w.Lift(size, len(next.ContactRequests)) })
	return next, nil
}

// widestEvery is how often the widest window is read where a smaller one looked closed, beside whenever a total grew by
// more than was found: late arrivals sort lower.
const widestEvery = 24 * time.Hour

// wideSlot is when the widest window of an insertion is read next after t: once a day, each insertion at its own time of
// the day, so that they do not come all at once.
func wideSlot(agency, reference string, t time.Time) time.Time {
	h := fnv.New64a()
	h.Write([]byte(agency + "\x00" + reference))
	slot := t.Truncate(widestEvery).Add(time.Duration(h.Sum64() % uint64(widestEvery)))
	if !slot.After(t) {
		slot = slot.Add(widestEvery)
	}
	return slot
}

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
		err := p.commit(func(prior watch.Prior) (e watch.Effects, _ error) {
			e, found = watch.JudgeWidest(p.watched(), prior, answerOf(wide, watch.NewestFirst(wide.Size)), wide.Received)
			return e, nil
		})
		if err != nil {
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
	size := 0
	for p.a.learned(func(w *watch.Sizes) { size = w.Widest(time.Now()) }); size > least; size = p.a.windows().Below(size) {
		wide, err := p.ask(ctx, watch.NewestFirst(size))
		if watch.RefusedSize(err) {
			refused = true
			continue
		}
		if err != nil {
			return nil, err
		}
		count := len(wide.ContactRequests)
		p.a.learned(func(w *watch.Sizes) {
			w.Hear(wide.Total, count)
			w.Lift(size, count)
			switch {
			case refused:
				w.Largest = size
			case wide.Total > count && w.Totals:
				w.Capped(count)
			}
		})
		return wide, nil
	}
	if refused {
		p.a.learned(func(w *watch.Sizes) { w.Largest = watch.CapOf(least) })
	}
	return page, nil
}
