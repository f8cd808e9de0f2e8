// Package schedule decides which insertion is polled next. It has no clock, no goroutine, no
// network and no store; the caller says what time it is.
//
// A poll of an insertion shows every contact request since the poll before, so with contact
// requests at rate λ and polls every T the mean latency is T/2. Under one budget for all insertions
// the mean over all contact requests is lowest with T ∝ 1/√λ (Sia, Cho and Cho, "Efficient
// monitoring algorithm for fast news alerts", 2007), not with equal turns, nor with polls in
// proportion to λ. So an insertion is due at
//
//	last poll + S/√λ, not before Options.Interval has passed and shortly before the cap at the latest,
//
// and what is due first is polled first, whichever agency it belongs to. S is what the budget
// allows: it rises while the first in the queue is overdue and falls while it is early, so walks,
// pauses and a slow API need no account of their own. If all are polled as often as Interval
// allows, the rest of the budget is not spent.
//
// Being late loses time but no knowledge, because a poll shows the past too. Hence there is no need
// to explore, and nothing need be stored: after a restart the first sweep brings the known contact
// requests, and with them λ (see rate).
//
// An urgent insertion (it has just appeared, its record has changed, a person asks for it) gets
// every second turn until the urgent ones are done; fewer while an insertion comes close to the
// cap. One that a person has named (see Nudge) comes before all of them, but not twice in a row.
// One whose poll failed is due again after its wait.
//
//	Add, Urge ──► queues by due ──Next──► in flight ──Polled──► new λ, queue
//	                   ▲                      └───────Put─────► wait, queue
package schedule

import (
	"container/heap"
	"math"
	"slices"
	"sync"
	"time"
)

// Options of New.
type Options struct {
	Rate      float64       // requests per second that may be spent on everything
	Interval  time.Duration // minimum between two regular polls of one insertion
	Staleness time.Duration // the cap: no insertion waits longer; 0: four rounds of polls at Rate

	// is called when there may be something to do; nil: nothing is. It must not block
	Changed func()
}

// Turn is what to poll now.
type Turn struct{ Agency, Reference string }

// None is no turn: there is nothing to do now.
var None Turn

// Schedule holds every insertion that is polled. Make it with New. Its methods are safe for
// concurrent use.
type Schedule struct {
	mu       sync.Mutex
	o        Options
	epoch    time.Time // moments are counted from it
	agencies map[string]*agency
	count    int     // insertions
	price    float64 // S, in seconds·√(1/s)
	rises    bool    // a greater S would make some of them due later,
	falls    bool    // a smaller one earlier
	turns    int
	order    time.Duration // of urgent insertions: how many there were
}

type agency struct {
	id       string
	items    map[string]*item
	queues   [2]queue
	flying   int           // polls under way
	paused   time.Duration // until then nothing is given out
	oneByOne bool
	seen     observed // of all its insertions
}

// The queues of an agency.
const (
	planned = iota // by when it is their turn
	urgent         // in the order in which they became so, nudged ones first
	flying         // not a queue: under way
)

type item struct {
	agency    *agency
	reference string
	last      time.Duration // last good poll; before the first one an interval before it was added
	until     time.Duration // its poll failed: it is due then; 0: it was good
	appeared  time.Duration // taken to be some days ago where that is unknown
	due       time.Duration // place in its queue
	rate      float64       // λ, a second
	seen      observed
	place     int32 // index in its queue
	queue     int8
	urgent    bool
	nudged    bool // and therefore urgent, too
	never     bool // polled, by any process
}

// queue is a heap by due time.
type queue []*item

func (q queue) Len() int           { return len(q) }
func (q queue) Less(a, b int) bool { return q[a].due < q[b].due }
func (q queue) Swap(a, b int) {
	q[a], q[b] = q[b], q[a]
	q[a].place, q[b].place = int32(a), int32(b)
}

func (q *queue) Push(x any) {
	i := x.(*item)
	i.place = int32(len(*q))
	*q = append(*q, i)
}

func (q *queue) Pop() any {
	last := len(*q) - 1
	i := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return i
}

// New returns an empty schedule.
func New(o Options, now time.Time) *Schedule {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Schedule{o: o, epoch: now, agencies: map[string]*agency{}}
}

// change locks the schedule. The returned function unlocks it, and says that there may be something
// to do.
func (s *Schedule) change() (done func()) {
	s.mu.Lock()
	return func() {
		s.mu.Unlock()
		s.o.Changed()
	}
}

func (s *Schedule) moment(t time.Time) time.Duration { return t.Sub(s.epoch) }

func (s *Schedule) agency(id string) *agency {
	g := s.agencies[id]
	if g == nil {
		g = &agency{id: id, items: map[string]*item{}}
		s.agencies[id] = g
	}
	return g
}

func (s *Schedule) item(agencyID, reference string) *item {
	return s.agency(agencyID).items[reference]
}

// Add puts an insertion into the schedule, unless it is there. appeared is when it was published,
// lastPoll when it was polled last; each is zero where that is unknown or was never.
func (s *Schedule) Add(agencyID, reference string, appeared, lastPoll, now time.Time) {
	defer s.change()()
	g := s.agency(agencyID)
	if g.items[reference] != nil {
		return
	}
	i := &item{agency: g, reference: reference, queue: flying, rate: g.mean()}
	i.last = s.moment(now) - s.o.Interval
	if i.never = lastPoll.IsZero(); !i.never {
		i.last = min(s.moment(lastPoll), s.moment(now))
	}
	if i.appeared = s.moment(now) - seconds(undated*86400); !appeared.IsZero() {
		i.appeared = s.moment(appeared)
	}
	g.items[reference] = i
	g.flying++
	if s.count++; s.count == 1 {
		s.price = math.Sqrt(i.rate) / s.o.Rate
	}
	s.enqueue(i)
}

// Remove takes an insertion out of the schedule; it may be in flight.
func (s *Schedule) Remove(agencyID, reference string) {
	defer s.change()()
	i := s.item(agencyID, reference)
	if i == nil {
		return
	}
	i.move(flying, 0)
	i.agency.flying--
	i.agency.seen.add(i.seen, -1)
	delete(i.agency.items, reference)
	s.count--
}

// Urge lets insertions be polled soon. One that is urgent already keeps its place, one that is in
// flight is polled once more, one that waits after a failure waits no longer.
func (s *Schedule) Urge(agencyID string, references ...string) {
	defer s.change()()
	for _, reference := range references {
		if i := s.item(agencyID, reference); i != nil && !i.urgent {
			i.urgent = true
			s.enqueueWaiting(i)
		}
	}
}

// Nudge lets one insertion be polled next. It is as Urge, but before all that is urgent; and it
// returns false if the insertion is not in the schedule.
func (s *Schedule) Nudge(agencyID, reference string) bool {
	defer s.change()()
	i := s.item(agencyID, reference)
	if i != nil && !i.nudged {
		i.urgent, i.nudged = true, true
		s.enqueueWaiting(i)
	}
	return i != nil
}

// Pause gives out nothing of an agency before until; the zero time ends a pause. oneByOne gives out
// one poll at a time afterwards.
func (s *Schedule) Pause(agencyID string, until time.Time, oneByOne bool) {
	defer s.change()()
	g := s.agency(agencyID)
	if g.oneByOne, g.paused = oneByOne, 0; !until.IsZero() {
		g.paused = s.moment(until)
	}
}

// Polled takes a good response: created are the creation times of the contact requests that were
// not known before, at the first poll by this process of all that are known; zero where unknown.
func (s *Schedule) Polled(agencyID, reference string, at time.Time, created []time.Time) {
	defer s.change()()
	if i := s.item(agencyID, reference); i != nil {
		s.learn(i, max(i.last, s.moment(at)), created)
		if i.until = 0; i.queue != urgent {
			s.enqueue(i)
		}
	}
}

// Put ends a poll without a good response: the insertion is asked again from a moment on.
func (s *Schedule) Put(agencyID, reference string, until time.Time) {
	defer s.change()()
	if i := s.item(agencyID, reference); i != nil && i.queue == flying {
		i.until = max(s.moment(until), 1)
		s.enqueue(i)
	}
}

// enqueueWaiting puts an insertion into another queue, unless it is in flight.
func (s *Schedule) enqueueWaiting(i *item) {
	if i.queue != flying {
		s.enqueue(i)
	}
}

// enqueue puts an insertion into the queue where it belongs.
func (s *Schedule) enqueue(i *item) {
	if !i.urgent {
		i.move(planned, s.after(i))
		return
	}
	s.order++
	due := s.order
	if i.nudged {
		due -= math.MaxInt64 / 2
	}
	i.move(urgent, due)
}

// move takes an item from its queue to another one.
func (i *item) move(to int8, due time.Duration) {
	if i.queue < flying {
		heap.Remove(&i.agency.queues[i.queue], int(i.place))
	} else {
		i.agency.flying--
	}
	i.queue, i.due = to, due
	if to < flying {
		heap.Push(&i.agency.queues[to], i)
	} else {
		i.agency.flying++
	}
}

// after is when an insertion is due. It notes whether another S would change that.
func (s *Schedule) after(i *item) time.Duration {
	if i.until > 0 {
		return i.until
	}
	wait, limit := s.price/math.Sqrt(i.rate), share*s.cap().Seconds()
	due := seconds(min(wait, limit))
	s.rises, s.falls = s.rises || wait < limit, s.falls || due > s.o.Interval
	return i.last + max(s.o.Interval, due)
}

// earliest is the moment before which an insertion is not polled unless it is urgent.
func (s *Schedule) earliest(i *item) time.Duration {
	if i.until > 0 {
		return i.until
	}
	return i.last + s.o.Interval
}

// share is that of the cap, after which an insertion is due at the latest.
const share = 0.8

func seconds(x float64) time.Duration { return time.Duration(x * float64(time.Second)) }

// cap is how long an insertion may wait. What comes every few intervals is never late.
func (s *Schedule) cap() time.Duration {
	if s.o.Staleness > 0 {
		return s.o.Staleness
	}
	return max(seconds(4*s.round()), 3*s.o.Interval)
}

// round is how long polling every insertion once takes, in seconds.
func (s *Schedule) round() float64 { return float64(s.count) / s.o.Rate }

// first is the item that comes first in a queue of the agencies that may be asked.
func (s *Schedule) first(queue int, now time.Duration) (first *item) {
	for _, g := range s.agencies {
		q := g.queues[queue]
		if len(q) == 0 || g.blocked(now) {
			continue
		}
		if first == nil || q[0].due < first.due || q[0].due == first.due && g.id < first.agency.id {
			first = q[0]
		}
	}
	return first
}

func (g *agency) blocked(now time.Duration) bool {
	return now < g.paused || g.oneByOne && g.flying > 0
}

// Next gives out what to poll now. With None it says how long there will be nothing; zero: until
// something is added, urged or resumed. The caller sends no more than the budget and asks only when
// it could send.
func (s *Schedule) Next(t time.Time) (Turn, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.moment(t)
	regular, pressed := s.regular(now)
	every := 2 // turns of which an urgent one gets one
	if pressed {
		every = 8
	}
	s.turns++
	if i := s.first(urgent, now); i != nil && (s.turns%every == 1 || regular == nil) {
		return give(i), 0
	}
	if regular != nil {
		return give(regular), 0
	}
	return None, s.wait(now)
}

// NextNudge gives out the insertion that was nudged first; None if there is none. The caller asks
// before it does anything else with a request, but not for two requests in a row, and the next turn
// of Next is not an urgent one: so urgent ones and nudges together have every second turn.
func (s *Schedule) NextNudge(t time.Time) Turn {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.first(urgent, s.moment(t))
	if i == nil || !i.nudged {
		return None
	}
	s.turns |= 1
	return give(i)
}

func give(i *item) Turn {
	i.urgent, i.nudged = false, false
	i.move(flying, 0)
	return Turn{i.agency.id, i.reference}
}

// regular is the insertion whose turn it is, nil if none may be polled now. S follows the head of
// the queue, which is about due where S is what the budget allows. pressed says that S cannot rise
// further, so that the cap is in danger.
func (s *Schedule) regular(now time.Duration) (i *item, pressed bool) {
	slack := seconds(s.round()/16) + time.Second
	for i = s.first(planned, now); i != nil && i.until == 0 &&
		i.due < now-slack; i = s.first(planned, now) {
		if !s.reprice(i, now, 1.03, 2) {
			return i, true
		}
	}
	tooSoon := func() bool { return s.earliest(i) > now }
	for i != nil && (i.due > now+slack || tooSoon()) && s.reprice(i, now, 0.5, 1/1.03) {
		i = s.first(planned, now)
	}
	if i != nil && tooSoon() {
		i = nil
	}
	return i, false
}

// reprice changes S by a factor between two, such that an insertion is due now if possible. It
// reports false, and changes nothing, where the cap or Options.Interval alone decides when each is
// due.
func (s *Schedule) reprice(i *item, now time.Duration, least, most float64) bool {
	if most > 1 && !s.rises || most < 1 && !s.falls {
		return false
	}
	s.price *= min(max(float64(now-i.last)/max(float64(i.due-i.last), 1), least), most)
	s.rises, s.falls = false, false
	for _, g := range s.agencies {
		for _, i := range g.queues[planned] {
			i.due = s.after(i)
		}
		heap.Init(&g.queues[planned])
	}
	return true
}

// wait is how long there will be nothing to do.
func (s *Schedule) wait(now time.Duration) time.Duration {
	var moments []time.Duration
	for _, g := range s.agencies {
		switch {
		case g.oneByOne && g.flying > 0 || len(g.items) == 0:
			continue
		case now < g.paused:
			moments = append(moments, g.paused)
			continue
		}
		if q := g.queues[planned]; len(q) > 0 {
			moments = append(moments, s.earliest(q[0]))
		}
	}
	if len(moments) == 0 {
		return 0
	}
	return max(slices.Min(moments)-now, time.Millisecond)
}

// Has reports whether an insertion is in the schedule, Len how many of an agency are.
func (s *Schedule) Has(agencyID, reference string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.item(agencyID, reference) != nil
}

func (s *Schedule) Len(agencyID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.agency(agencyID).items)
}

// Wait is how an insertion waits: since its last good poll, or since it was added.
type Wait struct {
	Reference string
	Since     time.Time
	Never     bool // polled, by any process
}

// Waits are how the insertions of an agency wait, in no order, and the cap: none should wait
// longer.
func (s *Schedule) Waits(agencyID string) (all []Wait, limit time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.agency(agencyID).items {
		since := i.last
		if i.never {
			since += s.o.Interval
		}
		all = append(all, Wait{i.reference, s.epoch.Add(since), i.never})
	}
	return all, s.cap()
}
