package watch

import (
	"hash/fnv"
	"math"
	"time"

	"doorbell/poller/listings"
)

// Polls is what a process remembers of the polls of one insertion; a restart forgets it at no harm. There is one for every insertion:
// what most have no need of stands elsewhere.
type Polls struct {
	At     time.Time // of the last good answer
	Slow   *Slow     // nil: no larger number has failed
	growth *growth   // nil: the total never grew by more than was found

	body, records listings.Sum // of the last answer that was committed with its window closed
	rules         string       // under which it was
	wide          int64        // when the widest window is due, in nanoseconds since 1970; 0: not known yet
	total         int32        // as last stated, -1 unknown
	first         int32        // how many to ask for at first, where a smaller window shows nothing; 0: as few as usual
	hidden        int32        // how many of those remembered it did not show, -1 unknown
	whole         bool         // that answer showed all there is
}

// NewPolls is that of an insertion that was not polled by this process.
func NewPolls() Polls { return Polls{total: -1, hidden: -1} }

// Slow is a larger number that fails again and again where a smaller one is answered: after some tries it is left alone for about an
// hour, because what cannot be seen must be announced as a gap.
type Slow struct {
	size int
	Backoff
}

// growth is what was learned of a total that grew by more than was found: where it counts something else, it is no reason to look at
// every poll.
type growth struct {
	explained int     // the largest total for which the widest window was read
	vain      Backoff // by looks that found nothing
}

const (
	slowLimit = 3
	slowAgain = time.Hour
	// widestEvery is how often the widest window is read where a smaller one looked closed, beside whenever a total grew by more than
	// was found: late arrivals sort lower.
	widestEvery = 24 * time.Hour
)

// MayAsk says whether a larger number is worth asking for: it has not failed too often of late.
func (p *Polls) MayAsk(size int, now time.Time) bool {
	s := p.Slow
	return s == nil || s.Failures < slowLimit || size < s.size || !now.Before(s.Until)
}

// LargerFailed notes that a larger number failed.
func (p *Polls) LargerFailed(err error, size int, now time.Time) {
	if !IsSlow(err) {
		return
	}
	if p.Slow == nil || p.Slow.size != size {
		p.Slow = &Slow{size, NewBackoff(slowAgain, slowAgain)}
	}
	p.Slow.Backoff = p.Slow.Backoff.Failed("", now, now)
}

// LargerAnswered notes that a larger number was answered.
func (p *Polls) LargerAnswered(size int) {
	if p.Slow != nil && size >= p.Slow.size {
		p.Slow = nil
	}
}

// IsSlow says whether an error may be that of a number that is too large.
func IsSlow(err error) bool {
	switch Classify(err) {
	case ClassTransient, ClassAside, ClassDrift:
		return true
	}
	return false
}

// Begin forgets the last answer, as another one is to be committed.
func (p *Polls) Begin() { p.body, p.records = listings.Sum{}, listings.Sum{} }

// Same notes that an answer is the one of before.
func (p *Polls) Same(page *listings.ContactRequestsPage) { p.body, p.At = page.Body, page.Received }

// Known says which answer need not be decoded, by its hash; nil where all of it is wanted in any case.
func (p *Polls) Known(rules string, now time.Time) func(listings.Sum) bool {
	if p.body == (listings.Sum{}) || p.WideDue(now) || p.rules != rules {
		return nil
	}
	return func(h listings.Sum) bool { return h == p.body || h == p.records }
}

// First is how many to ask for at first.
func (p *Polls) First(w *Sizes, now time.Time) []int { return w.First(int(p.first), now) }

// Ended keeps what lets the next poll see at once that nothing has changed, after a window was closed or given up. first is the answer
// with which the poll began, under rules; slot is when the widest window is due at the latest.
func (p *Polls) Ended(first *listings.ContactRequestsPage, rules string, c *CatchUp, v Verdict, w Sizes, slot, now time.Time) {
	p.body, p.records, p.rules, p.whole = first.Body, first.Records, rules, c.Whole
	if first.Total != c.Total {
		p.Begin() // the same answer would show another total than the last one
	}
	p.At, p.total, p.hidden = first.Received, small(c.Total), small(c.Newest.Hidden)
	if p.wide == 0 {
		p.wide = slot.UnixNano()
	}
	if v == ClosedGivenUp && p.Slow != nil {
		p.wide = min(p.wide, now.Add(slowAgain).UnixNano())
	}
	p.first = 0
	if shown := len(c.Newest.IDs); !c.Newest.Ordered && shown > 1 { // order is not to be had: only a window with all of them shows what is new
		if p.first = small(CapOf(shown + 1)); !w.Larger(0, shown) {
			p.first = small(CapOf(shown))
		}
	}
}

// small is a count as it is remembered, once for each insertion.
func small(n int) int32 { return int32(min(n, math.MaxInt32)) }

// WideDue says whether the daily time has come to read the widest window of an insertion that is not seen whole.
func (p *Polls) WideDue(now time.Time) bool {
	return !p.whole && p.wide != 0 && now.UnixNano() >= p.wide
}

// Grew says whether the total is larger than it was by more than was found, for a reason that is not known yet.
func (p *Polls) Grew(total, found int, now time.Time) bool {
	if p.total < 0 || total-int(p.total) <= found {
		return false
	}
	return p.growth == nil || total > p.growth.explained && !now.Before(p.growth.vain.Until)
}

// Widened notes what the widest window brought, which was read because it was due or, if grew, because of a total. The next one is due
// at slot.
func (p *Polls) Widened(grew bool, total, found int, slot, now time.Time) {
	p.wide, p.Slow = slot.UnixNano(), nil
	if !grew {
		return
	}
	if p.growth == nil || found > 0 {
		p.growth = &growth{vain: NewBackoff(2*time.Minute, widestEvery)}
	}
	if p.growth.explained = total; found == 0 {
		p.growth.vain = p.growth.vain.Failed("", now, now)
	}
}

// WideFailed lets the widest window be read later, where the regular one was answered.
func (p *Polls) WideFailed(now time.Time) { p.wide = now.Add(slowAgain).UnixNano() }

// WideSlot is when the widest window of an insertion is read next after t: once a day, each insertion at its own time of the day, so
// that they do not come all at once.
func WideSlot(agency, reference string, t time.Time) time.Time {
	h := fnv.New64a()
	h.Write([]byte(agency + "\x00" + reference))
	slot := t.Truncate(widestEvery).Add(time.Duration(h.Sum64() % uint64(widestEvery)))
	if !slot.After(t) {
		slot = slot.Add(widestEvery)
	}
	return slot
}
