package ops

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// EventQuery says which events of the log are meant. The zero value means all of them.
type EventQuery struct {
	AgencyID            string        `json:"agencyId,omitempty"`
	Type                string        `json:"type,omitempty"` // a type, or several as access.>
	PropertyReferenceID string        `json:"propertyReferenceId,omitempty"`
	Origin              events.Origin `json:"origin,omitempty"`
	ID                  string        `json:"id,omitempty"`
	// Since and Until are times of record: not before the one, and before the other.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Published are only those that the stream has taken: the others have no sequence yet.
	Published bool `json:"published,omitempty"`
	// FromSequence and ToSequence are the first and the last sequence, of every agency. 0: no bound. What has none yet comes after
	// all that have one.
	FromSequence uint64 `json:"fromSequence,omitempty"`
	ToSequence   uint64 `json:"toSequence,omitempty"`
	// UpTo are the last sequences by agency, where it is not nil: what was published since they were read is not meant.
	UpTo map[string]uint64 `json:"upTo,omitempty"`
	// Newest bounds how many are meant: the last ones. 0: no bound.
	Newest int `json:"newest,omitempty"`
}

// matches says whether an event is meant, bounds of sequence apart.
func (q EventQuery) matches(e events.Event) bool {
	switch {
	case q.ID != "" && e.ID != q.ID,
		q.Type != "" && !ofType(e.Type, q.Type),
		q.PropertyReferenceID != "" && e.Reference != q.PropertyReferenceID,
		q.Origin != "" && e.Origin != q.Origin,
		!q.Since.IsZero() && e.RecordedTime.Before(q.Since),
		!q.Until.IsZero() && !e.RecordedTime.Before(q.Until):
		return false
	}
	return true
}

// ofType says whether a type is the one that is wanted, or one of several as access.>.
func ofType(t events.Type, wanted string) bool {
	if group, several := strings.CutSuffix(wanted, ">"); several {
		return strings.HasPrefix(string(t), group)
	}
	return string(t) == wanted
}

// LoggedEvent is an event of the log.
type LoggedEvent struct {
	Event        events.Event
	Acknowledged bool // the stream has confirmed it
}

// EventCounts says how many events a query means.
type EventCounts struct {
	Total    int                 `json:"total"`
	Agencies []AgencyEventCounts `json:"agencies"` // those with any, in order
	// UpTo are the last sequences of all agencies that were looked at: with it a query means the same events again.
	UpTo map[string]uint64 `json:"upTo"`
}

// AgencyEventCounts are those of one agency.
type AgencyEventCounts struct {
	AgencyID      string              `json:"agencyId"`
	Total         int                 `json:"total"`
	FirstSequence uint64              `json:"firstSequence"` // of those that have one
	LastSequence  uint64              `json:"lastSequence"`
	Types         map[events.Type]int `json:"types"`
}

// Log reads the event log of an open store. Nothing assumes that it begins with 1. It holds at most some megabytes at a time,
// and no transaction while its caller works.
type Log struct{ Store *store.Store }

// Events yields the events that a query means: by time of record over the agencies, in the order of the log within one. An error is the
// last thing that is yielded.
func (l Log) Events(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error] {
	return func(yield func(LoggedEvent, error) bool) {
		s, err := l.selected(ctx, q)
		for err == nil {
			var next *stretch
			if next, err = s.next(ctx); err != nil || next == nil {
				break
			}
			e := next.page[0]
			next.page = next.page[1:]
			if !yield(LoggedEvent{Event: e, Acknowledged: e.Sequence != 0}, nil) {
				return
			}
		}
		if err != nil {
			yield(LoggedEvent{}, err)
		}
	}
}

// CountEvents counts the events that a query means.
func (l Log) CountEvents(ctx context.Context, q EventQuery) (EventCounts, error) {
	c := EventCounts{Agencies: []AgencyEventCounts{}, UpTo: map[string]uint64{}}
	s, err := l.selected(ctx, q)
	if err != nil {
		return c, err
	}
	for _, a := range s.stretches {
		c.UpTo[a.agency] = a.end.Sequence
		of := AgencyEventCounts{AgencyID: a.agency, Types: map[events.Type]int{}}
		for {
			if err := s.fill(ctx, a); err != nil {
				return c, err
			}
			if len(a.page) == 0 {
				break
			}
			of.add(a.page)
			a.page = nil
		}
		if of.Total > 0 {
			c.Total += of.Total
			c.Agencies = append(c.Agencies, of)
		}
	}
	return c, nil
}

func (c *AgencyEventCounts) add(page []events.Event) {
	for _, e := range page {
		c.Types[e.Type]++
		c.Total++
		if c.FirstSequence == 0 {
			c.FirstSequence = e.Sequence
		}
		c.LastSequence = max(c.LastSequence, e.Sequence)
	}
}

// selection is a query at work.
type selection struct {
	log       *store.Store
	q         EventQuery
	pageBytes int
	stretches []*stretch
}

// stretch is what is read of one agency's log.
type stretch struct {
	agency string
	at     store.Place // all up to here is done
	end    store.Place // nothing behind this is meant; no position: nothing that is unsent
	done   bool
	page   []events.Event // read, and meant; not yielded yet
}

// means says whether an event is within the bounds. It may have been published since they were set.
func (a *stretch) means(e events.Event) bool {
	return e.Sequence != 0 && e.Sequence <= a.end.Sequence || e.Position != 0 && e.Position <= a.end.Position
}

// Pages bound what is held: this many events, and this many bytes over all agencies.
const (
	pageEvents = 256
	pagesBytes = 8 << 20
	leastPage  = 32 << 10
)

// ErrNotLogged is returned for an agency of which there is no log.
var ErrNotLogged = errors.New("the event log knows no such agency")

func (l Log) selected(ctx context.Context, q EventQuery) (*selection, error) {
	agencies, err := l.Store.Agencies()
	if err != nil {
		return nil, err
	}
	places, err := l.Store.Places()
	if err != nil {
		return nil, err
	}
	if q.AgencyID != "" {
		if !slices.Contains(agencies, q.AgencyID) {
			return nil, WithHint(fmt.Errorf("%w: %s", ErrNotLogged, q.AgencyID), "doorbell status lists the agencies")
		}
		agencies = []string{q.AgencyID}
	}
	s := &selection{log: l.Store, q: q, pageBytes: max(leastPage, pagesBytes/max(1, len(agencies)))}
	for _, id := range agencies {
		s.stretches = append(s.stretches, s.stretch(id, places[id]))
	}
	if q.Newest > 0 {
		return s, s.narrow(ctx)
	}
	return s, nil
}

func (s *selection) stretch(agency string, end store.Place) *stretch {
	a := &stretch{agency: agency, at: store.Place{Sequence: max(s.q.FromSequence, 1) - 1}, end: end}
	if s.q.UpTo != nil {
		a.end.Sequence = min(a.end.Sequence, s.q.UpTo[agency])
	}
	if s.q.ToSequence > 0 {
		a.end.Sequence = min(a.end.Sequence, s.q.ToSequence)
	}
	if s.q.Published || s.q.UpTo != nil || s.q.ToSequence > 0 {
		a.end.Position = 0
	}
	return a
}

// next is the stretch whose first event comes next; nil if nothing is left.
func (s *selection) next(ctx context.Context) (*stretch, error) {
	var first *stretch
	for _, a := range s.stretches {
		if err := s.fill(ctx, a); err != nil {
			return nil, err
		}
		if len(a.page) > 0 && (first == nil || a.page[0].RecordedTime.Before(first.page[0].RecordedTime)) {
			first = a
		}
	}
	return first, nil
}

// fill reads on until the stretch has an event that is meant, or has none any more.
func (s *selection) fill(ctx context.Context, a *stretch) error {
	for len(a.page) == 0 && !a.done {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, next, err := s.log.EventsAfter(a.agency, a.at, pageEvents, s.pageBytes)
		if err != nil {
			return fmt.Errorf("event log of %s: %w", a.agency, err)
		}
		a.done = next == a.at || next.Sequence >= a.end.Sequence && next.Position >= a.end.Position
		a.at = next
		a.page = slices.DeleteFunc(list, func(e events.Event) bool { return !a.means(e) || !s.q.matches(e) })
	}
	return nil
}

// narrow moves the beginnings of the stretches to the newest events that are meant. It reads backwards and keeps places only.
func (s *selection) narrow(ctx context.Context) error {
	tails := make([]*tail, len(s.stretches))
	for i, a := range s.stretches {
		tails[i] = &tail{stretch: a, begin: a.end, lowest: ^uint64(0), done: a.end == store.Place{}}
	}
	for range s.q.Newest {
		t, err := s.newest(ctx, tails)
		if err != nil {
			return err
		}
		if t == nil {
			break
		}
		last := len(t.places) - 1
		t.begin = t.places[last].before
		t.places = t.places[:last]
	}
	for _, t := range tails {
		t.stretch.at, t.stretch.done = t.begin, t.begin == t.stretch.end
	}
	return nil
}

// tail is the end of a stretch, as far as it was read backwards.
type tail struct {
	stretch *stretch
	from    uint64      // where to read on; see store.HeadsBefore
	lowest  uint64      // position that was met
	begin   store.Place // the chosen ones stand behind this one
	places  []place
	done    bool
}

// place is when a meant event was recorded, and where it follows on.
type place struct {
	before store.Place
	at     time.Time
}

// newest is the tail that ends with the newest event that was not chosen yet; nil if there is none. Of equal times the one of
// the last agency is the newest, as in next.
func (s *selection) newest(ctx context.Context, tails []*tail) (*tail, error) {
	var best *tail
	for _, t := range tails {
		if err := s.fillBack(ctx, t); err != nil {
			return nil, err
		}
		if n := len(t.places); n > 0 && (best == nil || !t.places[n-1].at.Before(best.places[len(best.places)-1].at)) {
			best = t
		}
	}
	return best, nil
}

func (s *selection) fillBack(ctx context.Context, t *tail) error {
	a := t.stretch
	for len(t.places) == 0 && !t.done {
		if err := ctx.Err(); err != nil {
			return err
		}
		list, next, err := s.log.EventsBefore(a.agency, t.from, pageEvents, s.pageBytes)
		if err != nil {
			return fmt.Errorf("event log of %s: %w", a.agency, err)
		}
		t.from, t.done = next, len(list) == 0
		for _, e := range list {
			met := e.Position >= t.lowest // and was published meanwhile
			if e.Position != 0 {
				t.lowest = min(t.lowest, e.Position)
			}
			if e.Sequence != 0 && e.Sequence <= a.at.Sequence {
				t.done = true
				break
			}
			if met || !a.means(e) || !s.q.matches(e) {
				continue
			}
			before := store.Place{Sequence: e.Sequence - 1}
			if e.Sequence == 0 || e.Sequence > a.end.Sequence {
				before = store.Place{Sequence: a.end.Sequence, Position: e.Position - 1}
			}
			t.places = append(t.places, place{before, e.RecordedTime})
		}
		slices.Reverse(t.places)
	}
	return nil
}
