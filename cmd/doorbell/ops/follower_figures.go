package ops

import (
	"maps"
	"slices"
	"strings"
	"time"

	"doorbell/events"
)

// Hours are those of every agency that the store knows, in order of their ids; also of one that is not watched any more.
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

// Appended counts the events by type that the log has gained since Run began; those of a type that this version does not know
// stand under the empty one. What the stream has told before does not count.
func (f *Follower) Appended() map[events.Type]uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.appended)
}

// Recent are the newest events of all agencies by time of record, at most n and never more than 100, the oldest of them first.
// Large ones are shortened; see events.Event.Fit.
func (f *Follower) Recent(n int) []events.Event {
	f.mu.Lock()
	places := slices.Clone(f.recent[max(0, len(f.recent)-max(0, n)):])
	f.mu.Unlock()
	all := make([]events.Event, 0, len(places))
	for _, p := range places {
		if e, ok, err := f.load(p); ok && err == nil {
			all = append(all, e)
		}
	}
	return all
}

// Subscribe returns what comes from now on, as Recent would show it, until the function is called, which may be done twice. A
// reader who is too slow is cut off: the channel is closed, as it is when Run ends, and at once for one too many.
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

// show hands an event to all subscribers, and waits for none.
func (f *Follower) show(e events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.subscribers {
		select {
		case c <- e:
		default:
			f.cut(c)
		}
	}
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

func (a *agencyHours) add(h events.Head, now time.Time) {
	number := h.RecordedTime.Unix() / 3600
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
	if h.Type == events.TypeContactRequestCreated && h.Origin == events.OriginLive {
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
