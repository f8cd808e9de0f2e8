package ops

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// Follower reads the event log as it grows: it counts events by the hour, and passes new ones to
// subscribers. It reads in small pages and keeps no payload.
//
// Its methods may be called from any goroutine. Before and while Run looks back, there is what was
// counted so far.
type Follower struct {
	// Every is how often Run looks without subscribers; it may be set before Run is called.
	Every time.Duration

	store *store.Store
	poke  chan struct{} // capacity 1: there is a new subscriber

	liveness Liveness

	// Of Run alone.
	commits int64  // of the store, when it was looked at last
	looked  bool   // back, once
	at      uint64 // position up to which everything is counted

	mu          sync.Mutex
	hours       map[string]*agencyHours
	recent      []events.Event // the newest of all, by time of record; without payloads
	subscribers map[chan events.Event]struct{}
	ended       bool
}

const (
	followEvery   = 10 * time.Second
	followWatched = time.Second // with subscribers
	followPage    = 256         // events of one transaction
	followBytes   = 1 << 20
	followBreak   = time.Millisecond

	keptRecent      = 100
	keptLeads       = 40 // also where they are older than those
	mostSubscribers = 64
	subscriberRoom  = 256
	// mostShown bounds an event that is shown, in bytes.
	mostShown = 16 << 10
)

// NewFollower does nothing yet.
func NewFollower(s *store.Store) *Follower {
	return &Follower{
		Every: followEvery, store: s, poke: make(chan struct{}, 1), hours: map[string]*agencyHours{},
		subscribers: map[chan events.Event]struct{}{},
	}
}

// Run follows the log until ctx ends, and returns nil then; another end is that of the store. It
// must not be called twice.
func (f *Follower) Run(ctx context.Context) error {
	defer f.dismiss()
	for ctx.Err() == nil {
		f.liveness.Renew(time.Now())
		if err := f.RunOnce(ctx); err != nil {
			return err
		}
		wait := f.Every
		if f.watched() {
			wait = followWatched
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-f.poke:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

// Turned says when Run turned last, which it does every ten seconds, or after each of many small
// steps; zero before it.
func (f *Follower) Turned() time.Time { return f.liveness.Last() }

// RunOnce reads what has come since the last time; the first time it looks back over 24 hours. It
// returns early, and goes on the next time, when ctx ends.
func (f *Follower) RunOnce(ctx context.Context) error {
	commits := f.store.Commits()
	if f.looked && commits == f.commits {
		return nil
	}
	agencies, err := f.store.Agencies()
	if err != nil {
		return err
	}
	f.know(agencies)
	if err := f.read(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	f.commits = commits
	return nil
}

// read looks back, or follows the log to its newest event.
func (f *Follower) read(ctx context.Context) error {
	if !f.looked {
		return f.lookBack(ctx)
	}
	for {
		f.liveness.Renew(time.Now())
		began := time.Now()
		list, next, err := f.store.EventsAfter("", f.at, followPage, followBytes)
		if err != nil || ctx.Err() != nil || next == f.at {
			return err
		}
		f.at = next
		f.count(list)
		f.show(list)
		rest(ctx, began)
	}
}

// lookBack counts from the newest event back to where all are older than 24 hours. None of them is
// news.
func (f *Follower) lookBack(ctx context.Context) error {
	f.forget()
	newest, err := f.store.LastPosition()
	if err != nil {
		return err
	}
	for from := newest + 1; from != 0; {
		f.liveness.Renew(time.Now())
		began := time.Now()
		list, next, err := f.store.EventsBefore("", from, followPage, followBytes)
		if err != nil || ctx.Err() != nil {
			return err
		}
		since := began.Add(-24 * time.Hour)
		if !slices.ContainsFunc(list, func(e events.Event) bool { return !e.RecordedTime.Before(since) }) {
			break
		}
		from = next
		slices.Reverse(list)
		f.count(list)
		rest(ctx, began)
	}
	f.looked, f.at = true, newest
	return nil
}

// rest leaves half of the time to others.
func rest(ctx context.Context, began time.Time) {
	select {
	case <-ctx.Done():
	case <-time.After(max(followBreak, time.Since(began))):
	}
}

// know makes room for the hours of agencies.
func (f *Follower) know(agencies []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, agency := range agencies {
		if f.hours[agency] == nil {
			f.hours[agency] = &agencyHours{}
		}
	}
}

func (f *Follower) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent = nil
	for agency := range f.hours {
		f.hours[agency] = &agencyHours{}
	}
}

// count adds events in the order of the log.
func (f *Follower) count(list []events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	for _, e := range list {
		if f.hours[e.AgencyID] == nil {
			f.hours[e.AgencyID] = &agencyHours{}
		}
		f.hours[e.AgencyID].add(e, now)
		e.Data = nil
		f.recent = append(f.recent, e)
	}
	slices.SortStableFunc(f.recent, func(a, b events.Event) int { return a.RecordedTime.Compare(b.RecordedTime) })
	f.recent = slices.DeleteFunc(f.recent, func(e events.Event) bool { return e.RecordedTime.After(now.Add(time.Hour)) }) // the clock was wrong
	f.recent = kept(f.recent)
}

// kept leaves out what is not shown any more of events in their order.
func kept(list []events.Event) []events.Event {
	leads := 0
	for n := len(list) - 1; n >= 0; n-- {
		isLead := list[n].Type == events.TypeContactRequestCreated
		if isLead {
			leads++
		}
		if len(list)-n > keptRecent && (!isLead || leads > keptLeads) {
			list = slices.Delete(list, n, n+1)
		}
	}
	return list
}

// show passes new events to the subscribers.
func (f *Follower) show(fresh []events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range fresh {
		e = e.Fit(mostShown)
		for c := range f.subscribers {
			select {
			case c <- e:
			default:
				f.cut(c)
			}
		}
	}
}

// Hours are those of every agency that the store knows, in order of their ids; also of one that is
// not watched any more.
func (f *Follower) Hours() []AgencyHours {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]AgencyHours, 0, len(f.hours))
	for agency, h := range f.hours {
		all = append(all, AgencyHours{AgencyID: agency, Hours: h.list(now)})
	}
	slices.SortFunc(all, func(a, b AgencyHours) int { return strings.Compare(a.AgencyID, b.AgencyID) })
	return all
}

// Recent are the newest events of all agencies by time of record, the oldest of them first: 100,
// and before them as many contact requests that 40 of these are there. Large ones are shortened;
// see events.Event.Fit.
func (f *Follower) Recent() []events.Event {
	f.mu.Lock()
	places := slices.Clone(f.recent)
	f.mu.Unlock()
	all := make([]events.Event, 0, len(places))
	for _, was := range places {
		if e, there, err := f.store.Lookup(was.Sequence); there && err == nil { // of an error others say what it is
			all = append(all, e.Fit(mostShown))
		}
	}
	return all
}

// Subscribe returns what comes from now on, as Recent would show it, until the function is called,
// which may be done twice. A reader that is too slow is cut off: the channel is closed, as it is
// when Run ends, and at once for one too many.
func (f *Follower) Subscribe() (<-chan events.Event, func()) {
	c := make(chan events.Event, subscriberRoom)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended || len(f.subscribers) >= mostSubscribers {
		close(c)
		return c, func() {}
	}
	f.subscribers[c] = struct{}{}
	select {
	case f.poke <- struct{}{}:
	default:
	}
	return c, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.cut(c)
	}
}

// cut closes a channel, once. The caller holds f.mu.
func (f *Follower) cut(c chan events.Event) {
	if _, there := f.subscribers[c]; there {
		delete(f.subscribers, c)
		close(c)
	}
}

func (f *Follower) watched() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.subscribers) > 0
}

// dismiss ends all subscriptions.
func (f *Follower) dismiss() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	for c := range f.subscribers {
		f.cut(c)
	}
}

const keptHours = 24

// agencyHours counts by the hour. The zero value has counted nothing.
type agencyHours [keptHours]hourCount

type hourCount struct {
	number        int64 // since 1970
	leads, events int
}

func (a *agencyHours) add(e events.Event, now time.Time) {
	number := e.RecordedTime.Unix() / 3600
	if number < 0 || number > now.Unix()/3600+1 {
		return // it has no time that can be read, or the clock was wrong
	}
	at := &a[number%keptHours]
	if number > at.number || at.number > now.Unix()/3600+1 { // it was counted while the clock was wrong
		*at = hourCount{number: number}
	}
	if number < at.number {
		return // older than a day
	}
	at.events++
	if e.Type == events.TypeContactRequestCreated && e.Origin == events.OriginLive {
		at.leads++
	}
}

// list are the last 24 hours, the one that runs being the last.
func (a *agencyHours) list(now time.Time) []Hour {
	last := now.Unix() / 3600
	list := make([]Hour, 0, keptHours)
	for number := last - keptHours + 1; number <= last; number++ {
		hour := Hour{At: time.Unix(number*3600, 0).UTC()}
		if at := a[number%keptHours]; at.number == number {
			hour.Leads, hour.Events = at.leads, at.events
		}
		list = append(list, hour)
	}
	return list
}
