package poller

import (
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// withoutNumber as a size asks for as many as the API likes.
const withoutNumber = -1

// windows is what the answers of contact requests taught of an agency's windows: which numbers may be asked for, and
// whether what stands beside the records can be believed. The sizes are remembered in the store with whatever is
// committed next; the rest is learned anew by every process. Safe for concurrent use.
type windows struct {
	mu      sync.Mutex
	loaded  bool
	size    int                      // as in store.Operation
	largest int                      // as in store.Operation
	probe   time.Time                // when a number that was of no use may be asked for again
	totals  bool                     // a total was more than the count of its answer
	liar    bool                     // the API answered that nothing had changed where something had
	rules   string                   // under which contact requests are told apart
	gaps    map[string]store.Trouble // insertions that cannot be seen whole, and were told
}

// gapScope is the scope of a store.Trouble: not all contact requests of an insertion can be seen, and an event said so.
// Its Failures are how many were missing by the total, 0 if unknown.
const gapScope = "window"

// knowWindows reads what was learned before, once.
func (p *poll) knowWindows() error {
	w := &p.a.windows
	if w.known() {
		return nil
	}
	return p.a.p.store.View(func(tx *store.Tx) error {
		state, _, err := tx.Agency(p.a.id)
		if err != nil {
			return err
		}
		troubles, err := tx.Troubles(p.a.id)
		if err != nil {
			return err
		}
		w.load(state.Operation(string(listings.OperationContactRequests)), troubles, time.Now())
		return nil
	})
}

func (w *windows) known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.loaded
}

func (w *windows) load(o store.Operation, troubles []store.Trouble, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.loaded {
		return
	}
	w.size, w.largest, w.gaps = o.Size, o.Largest, map[string]store.Trouble{}
	for _, t := range troubles {
		if t.Scope == gapScope {
			w.gaps[t.Name] = t
		}
	}
	w.probe = now.Add(probeFirst/2 + rand.N(probeFirst))
	w.loaded = true
}

// A number that was of no use is asked for again once a day: a cap may have been lifted. After a start not at once, for
// there may be many starts.
const (
	probeEvery = 24 * time.Hour
	probeFirst = time.Hour
)

// mayProbe says whether it is time to ask for a number that was of no use, and takes the turn.
func (w *windows) mayProbe(now time.Time) bool {
	if now.Before(w.probe) {
		return false
	}
	w.probe = now.Add(probeEvery)
	return true
}

// firstSizes are the numbers to begin a poll with: the first one, and those to try where it is refused.
func (w *windows) firstSizes(wish int, now time.Time) []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	small := watch.WindowSizes[0]
	switch {
	case w.size == withoutNumber && w.mayProbe(now):
		return []int{small, withoutNumber}
	case w.size == withoutNumber:
		return []int{withoutNumber, small}
	case wish > small:
		return []int{wish, small, withoutNumber}
	}
	return []int{small, withoutNumber}
}

// answered learns which of the first sizes the API takes.
func (w *windows) answered(size int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if size != withoutNumber {
		size = 0
	}
	w.size = size
}

// next is the number to ask for after an answer to a smaller one; 0 if none brings more.
func (w *windows) next(asked, count int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, size := range watch.WindowSizes {
		switch {
		case size <= max(asked, count) || asked == 0 && size == watch.WindowSizes[0]:
		case w.largest == 0 || size <= w.largest || w.mayProbe(time.Now()):
			return size
		default:
			return 0
		}
	}
	return 0
}

// larger says whether next would name a number, without asking for it.
func (w *windows) larger(asked, count int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	limit := watch.WindowSizes[len(watch.WindowSizes)-1]
	if w.largest > 0 {
		limit = w.largest
	}
	return max(asked, count) < limit
}

// widest is the number that shows the most at once; 0: not learned.
func (w *windows) widest(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.largest == 0 || w.mayProbe(now) {
		return watch.WindowSizes[len(watch.WindowSizes)-1]
	}
	return w.unrefused(w.largest)
}

// unrefused is a number, or 0 where it is one of those that are known to be refused. The lock is held.
func (w *windows) unrefused(size int) int {
	if w.size == withoutNumber && size <= watch.WindowSizes[0] {
		return 0
	}
	return size
}

// limit learns that numbers above largest bring no more.
func (w *windows) limit(largest int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.largest = largest
}

// lift learns that a number was worth asking for, because of how many it brought.
func (w *windows) lift(asked, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.largest > 0 && asked > w.largest && count > w.largest {
		w.largest = asked
	}
}

// hear learns whether the totals tell more than the count of their own answer.
func (w *windows) hear(total, count int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.totals = w.totals || total > count && count > 0
}

func (w *windows) believable() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.totals
}

// note writes what was learned into the state of the agency, and says whether there was something.
func (w *windows) note(state *store.Agency) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := string(listings.OperationContactRequests)
	o := state.Operation(name)
	if o.Size == w.size && o.Largest == w.largest {
		return false
	}
	o.Size, o.Largest = w.size, w.largest
	state.SetOperation(name, o)
	return true
}

// gap returns the gap that was told of an insertion.
func (w *windows) gap(reference string) (store.Trouble, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t, ok := w.gaps[reference]
	return t, ok
}

// told remembers, or forgets, that a gap was told.
func (w *windows) told(reference string, t *store.Trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if t == nil {
		delete(w.gaps, reference)
		return
	}
	w.gaps[reference] = *t
}

// slow is a larger number that fails again and again where a smaller one is answered: after some tries it is left alone
// for a day, because what cannot be seen must be told.
type slow struct {
	size, failures int
	since          time.Time
}

const slowLimit = 3

func (s *slow) given(size int, now time.Time) bool {
	return s != nil && s.failures >= slowLimit && size >= s.size && now.Sub(s.since) < probeEvery
}

// failed returns what is known after one more failure.
func (s *slow) failed(err error, size int, now time.Time) *slow {
	switch watch.Classify(err) {
	case watch.ClassTransient, watch.ClassAside, watch.ClassDrift:
	default:
		return s
	}
	if s == nil || s.size != size || now.Sub(s.since) >= probeEvery {
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
		p.a.windows.limit(max(page.Size, watch.CapOf(len(page.ContactRequests))))
		return nil, nil
	}
	if err != nil {
		p.look.slow = p.look.slow.failed(err, size, time.Now())
		return nil, err
	}
	p.a.windows.lift(size, len(next.ContactRequests))
	return next, nil
}

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

// below is the next smaller number to try after a refused one.
func (w *windows) below(size int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.largest > 0 && w.largest < size {
		return w.unrefused(w.largest)
	}
	for n := len(watch.WindowSizes) - 1; n >= 0; n-- {
		if watch.WindowSizes[n] < size {
			return w.unrefused(watch.WindowSizes[n])
		}
	}
	return 0
}

// capped learns that no answer holds more than count, whatever is asked for. What was returned at once before proves
// nothing any more.
func (a *agency) capped(count int) {
	a.windows.limit(watch.CapOf(count))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.most = min(a.most, count)
}

// setRules notes under which rules contact requests are told apart, and returns them as the one text that all share.
func (w *windows) setRules(rules string) (shared string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rules != rules {
		w.rules = rules
	}
	return w.rules
}

func (w *windows) currentRules() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rules
}

// lied notes that the API cannot be asked whether something has changed; lies says so.
func (w *windows) lied() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.liar = true
}

func (w *windows) lies() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.liar
}

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

// end ends a catch-up that no answer closed by itself. Where it is given up, an event says so.
func (p *poll) end(v watch.Verdict) error {
	var gap *store.Trouble
	err := p.a.p.store.Update(func(tx *store.Tx) error {
		gap = nil
		i, state, known, err := p.remembered(tx)
		if err != nil {
			return err
		}
		if v == watch.ClosedGivenUp {
			if gap, err = p.tellGap(tx, i, known); err != nil {
				return err
			}
		}
		if p.a.windows.note(&state) {
			if err := tx.PutAgency(p.a.id, state); err != nil {
				return err
			}
		}
		next := watch.CloseCatchUp(i, p.catchUp, time.Now().UTC(), p.a.skew())
		return errors.Join(p.tellUntimed(tx, i), tx.NotePoll(p.a.id, p.reference, next.LastPoll), tx.PutInsertion(p.a.id, next))
	})
	if err != nil {
		return err
	}
	p.verdict = v
	if gap != nil {
		p.a.toldGap(p.reference, gap)
		p.a.p.log.Warn("not all contact requests of an insertion can be seen", "agency", p.a.id, "reached", len(p.catchUp.Shown))
	}
	return nil
}

// toldGap keeps up with what was told of an insertion that is not seen whole, or that it is now.
func (a *agency) toldGap(reference string, t *store.Trouble) {
	a.windows.told(reference, t)
	a.mu.Lock()
	defer a.mu.Unlock()
	n := troubleName{gapScope, reference}
	if t == nil {
		delete(a.saved, n)
		return
	}
	a.saved[n] = *t
}

// tellGap says that contact requests may be unseen. Where the answers are in no order, nobody could ever tell a new gap
// from the one before: it is said once, and again only where a total tells of more.
func (p *poll) tellGap(tx *store.Tx, i store.Insertion, known []store.ContactRequest) (*store.Trouble, error) {
	now := time.Now().UTC()
	missing := 0
	if p.a.windows.believable() {
		missing = max(0, p.catchUp.Total-len(known))
	}
	before, told := p.a.windows.gap(p.reference)
	if told && !p.catchUp.Newest.Ordered && missing <= before.Failures {
		return nil, nil
	}
	gap := &events.WatchGapDetected{
		Common:    events.Common{AgencyID: p.a.id, ObservedAt: now},
		Operation: string(listings.OperationContactRequests), PropertyReferenceID: p.reference,
		Reason: "window_full", Reached: p.reached(i, known),
	}
	gap.From, gap.To = p.between(i, known)
	if p.catchUp.Total >= 0 {
		gap.Total = &p.catchUp.Total
	}
	t := store.Trouble{Scope: gapScope, Name: p.reference, Failures: missing, Since: now, Told: true}
	return &t, errors.Join(appendEvent(tx, gap), tx.PutTrouble(p.a.id, t))
}

// reached counts the contact requests that answers of this catch-up showed, also those before a restart.
func (p *poll) reached(i store.Insertion, known []store.ContactRequest) int {
	n := len(p.catchUp.Shown)
	for _, k := range known {
		if k.Epoch == i.Epoch && !p.catchUp.Shown[k.ID] {
			n++
		}
	}
	return n
}

// between is the span of time in which unseen ones may lie: above the newest that was known before or that the other end
// showed, and below what the last answer reached. Without an order it is the time since the last good look.
func (p *poll) between(i store.Insertion, known []store.ContactRequest) (from, to time.Time) {
	from, to = i.Start.Add(p.a.skew()), p.catchUp.Newest.Oldest
	if !p.catchUp.Newest.Ordered || to.IsZero() {
		if i.Polled {
			from = i.LastPoll
		}
		return from, time.Now()
	}
	later := func(t time.Time) {
		if t.After(from) && !t.After(to) {
			from = t
		}
	}
	for _, k := range known {
		if k.Epoch < i.Epoch {
			later(k.CreatedAt)
		}
	}
	later(p.catchUp.UpTo)
	return from, to
}

// tellRecovered says that an insertion of which a gap was told is seen whole.
func (p *poll) tellRecovered(tx *store.Tx, gap store.Trouble, at time.Time) error {
	return errors.Join(tx.DeleteTrouble(p.a.id, gap), appendEvent(tx, &events.WatchRecovered{
		Common: events.Common{AgencyID: p.a.id, ObservedAt: at.UTC()}, Ends: "gap_detected", Since: gap.Since,
	}))
}
