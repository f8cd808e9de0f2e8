package ops

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// Follower reads the event log as it grows: it counts events by the hour, and remembers which were
// the newest. It reads in small pages and keeps no payload.
//
// Its methods may be called from any goroutine. Before and while Run looks back, there is what was
// counted so far.
type Follower struct {
	// Every is how often Run looks; it may be set before Run is called.
	Every time.Duration

	store *store.Store

	// Of Run alone.
	commits int64  // of the store, when it was looked at last
	looked  bool   // back, once
	at      uint64 // position up to which everything is counted

	mu       sync.Mutex
	hours    map[string]*agencyHours
	recent   []uint64 // positions of the newest events
	lastLead uint64
}

const (
	followEvery = 10 * time.Second
	followPage  = 256 // events of one transaction
	followBytes = 1 << 20
	followBreak = time.Millisecond

	keptRecent = 60
	// mostShown bounds an event that is shown, in bytes.
	mostShown = 16 << 10
)

// NewFollower notes when the agencies of a store were watched last; the caller has not begun to.
func NewFollower(s *store.Store) *Follower {
	f := &Follower{Every: followEvery, store: s, hours: map[string]*agencyHours{}}
	agencies, _ := s.Agencies() // Run reports what keeps it from reading
	_ = s.View(func(tx *store.Tx) error {
		for _, id := range agencies {
			state, _ := tx.Agency(id)
			hours := &agencyHours{map[int64]Hour{}, state.LastCompleteWalk, time.Now()}
			for _, op := range state.Operations {
				if op.LastGood.After(hours.left) {
					hours.left = op.LastGood
				}
			}
			f.hours[id] = hours
		}
		return nil
	})
	return f
}

// Run follows the log until ctx ends, and returns nil then; another end is that of the store. It
// must not be called twice.
func (f *Follower) Run(ctx context.Context) error {
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	for ctx.Err() == nil {
		if err := f.RunOnce(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}

// RunOnce reads what has come since the last time; the first time also that of 24 hours. It returns
// early, and goes on the next time, when ctx ends.
func (f *Follower) RunOnce(ctx context.Context) error {
	commits := f.store.Commits()
	if f.looked && commits == f.commits {
		return nil
	}
	agencies, err := f.store.Agencies()
	if err == nil && !f.looked {
		err = f.lookBack()
	}
	if err != nil {
		return err
	}
	f.count(agencies, nil)
	for ctx.Err() == nil {
		began := time.Now()
		list, next, err := f.store.EventsAfter("", f.at, followPage, followBytes)
		if err != nil {
			return err
		}
		if next == f.at {
			f.commits = commits
			return nil
		}
		f.at = next
		f.count(nil, list)
		select { // half of the time is that of others
		case <-ctx.Done():
		case <-time.After(max(followBreak, time.Since(began))):
		}
	}
	return nil
}

// lookBack finds the position behind which events are younger than 24 hours, or the newest ones.
func (f *Follower) lookBack() error {
	last, err := f.store.LastPosition()
	since := time.Now().Add(-24 * time.Hour)
	young := sort.Search(int(last), func(position int) bool {
		next, _, failed := f.store.EventsAfter("", uint64(position), 1, 1)
		err = cmp.Or(err, failed)
		return len(next) == 0 || !next[0].RecordedTime.Before(since)
	})
	f.at, f.looked = min(uint64(young), last-min(last, keptRecent)), err == nil
	return err
}

// count makes room for the hours of agencies, and adds events in the order of the log.
func (f *Follower) count(agencies []string, list []events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range list {
		agencies = append(agencies, e.AgencyID)
	}
	for _, agency := range agencies {
		if f.hours[agency] == nil {
			f.hours[agency] = &agencyHours{counts: map[int64]Hour{}}
		}
	}
	for _, e := range list {
		f.hours[e.AgencyID].add(e)
		f.recent = append(f.recent, e.Sequence)
		if isNews(e) {
			f.lastLead = e.Sequence
		}
	}
	f.recent = slices.Clone(f.recent[max(0, len(f.recent)-keptRecent):])
}

// isNews reports whether an event is a new contact request that was not there before the watch.
func isNews(e events.Event) bool {
	return e.Type == events.TypeContactRequestCreated && e.Origin == events.OriginLive
}

// Hours are those of every agency that the store knows, in order of their ids; also of one that is
// not watched any more.
func (f *Follower) Hours() []AgencyHours {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]AgencyHours, 0, len(f.hours))
	for _, agency := range slices.Sorted(maps.Keys(f.hours)) {
		all = append(all, AgencyHours{AgencyID: agency, Hours: f.hours[agency].list(time.Now())})
	}
	return all
}

// Recent are the newest events of all agencies in the order of the log, and before them the last new
// contact request, if it is older. Large ones are shortened; see events.Event.Fit.
func (f *Follower) Recent() (all []events.Event) {
	f.mu.Lock()
	positions := append([]uint64{f.lastLead}, f.recent...)
	f.mu.Unlock()
	for _, position := range positions[1:] {
		if position == positions[0] {
			positions = positions[1:]
			break
		}
	}
	for _, position := range positions {
		if e, there, err := f.store.Lookup(position); there && err == nil { // of an error others say what it is
			all = append(all, e.Fit(mostShown))
		}
	}
	return all
}

// After returns events that follow a position, in order, and the position to ask with for the next
// ones.
func (f *Follower) After(position uint64) (list []events.Event, next uint64, err error) {
	list, next, err = f.store.EventsAfter("", position, followPage, followBytes)
	for n := range list {
		list[n] = list[n].Fit(mostShown)
	}
	return list, next, err
}

const keptHours = 24

// agencyHours counts by the hour.
type agencyHours struct {
	counts map[int64]Hour // by the hours since 1970
	// Between its last good answer that the store has and the start of this follower the agency was
	// not watched.
	left, back time.Time
}

func (a *agencyHours) add(e events.Event) {
	number := e.RecordedTime.Unix() / 3600
	hour := a.counts[number]
	hour.Events++
	if isNews(e) {
		hour.Leads++
	}
	a.counts[number] = hour
}

// list are the last 24 hours, the one that runs being the last. Older ones are forgotten.
func (a *agencyHours) list(now time.Time) []Hour {
	last, list := now.Unix()/3600, make([]Hour, 0, keptHours)
	maps.DeleteFunc(a.counts, func(number int64, _ Hour) bool { return number <= last-keptHours || number > last })
	for number := last - keptHours + 1; number <= last; number++ {
		hour := a.counts[number]
		hour.At = time.Unix(number*3600, 0).UTC()
		hour.Away = !a.left.IsZero() && !hour.At.Before(a.left) && !hour.At.Add(time.Hour).After(a.back)
		list = append(list, hour)
	}
	return list
}
