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
	// Unerased are only those whose person was not erased.
	Unerased bool `json:"unerased,omitempty"`
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
		!q.Until.IsZero() && !e.RecordedTime.Before(q.Until),
		q.Unerased && e.Erased():
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
		spans, err := l.spans(ctx, q)
		if err != nil {
			yield(LoggedEvent{}, err)
			return
		}
		all := make([]iter.Seq2[LoggedEvent, error], len(spans))
		for n, s := range spans {
			all[n] = s.events(ctx)
		}
		merged(all, func(a, b LoggedEvent) bool { return a.Event.RecordedTime.Before(b.Event.RecordedTime) })(yield)
	}
}

// CountEvents counts the events that a query means.
func (l Log) CountEvents(ctx context.Context, q EventQuery) (EventCounts, error) {
	c := EventCounts{Agencies: []AgencyEventCounts{}, UpTo: map[string]uint64{}}
	spans, err := l.spans(ctx, q)
	if err != nil {
		return c, err
	}
	for _, s := range spans {
		c.UpTo[s.agency] = s.end.Sequence
		of := AgencyEventCounts{AgencyID: s.agency, Types: map[events.Type]int{}}
		for e, err := range s.events(ctx) {
			if err != nil {
				return c, err
			}
			of.add(e.Event)
		}
		if of.Total > 0 {
			c.Total += of.Total
			c.Agencies = append(c.Agencies, of)
		}
	}
	return c, nil
}

func (c *AgencyEventCounts) add(e events.Event) {
	c.Types[e.Type]++
	c.Total++
	if c.FirstSequence == 0 {
		c.FirstSequence = e.Sequence
	}
	c.LastSequence = max(c.LastSequence, e.Sequence)
}

// span is what is meant of one agency's log.
type span struct {
	log       *store.Store
	q         EventQuery
	agency    string
	pageBytes int
	at        store.Place // all up to here is left out
	end       store.Place // nothing behind this is meant; no position: nothing that is unsent
}

// means says whether an event is meant. It may have been published since the bounds were set.
func (s *span) means(e events.Event) bool {
	return (e.Sequence != 0 && e.Sequence <= s.end.Sequence || e.Position != 0 && e.Position <= s.end.Position) && s.q.matches(e)
}

// Pages bound what is held: this many events, and this many bytes over all agencies.
const (
	pageEvents = 256
	pagesBytes = 8 << 20
	leastPage  = 32 << 10
)

// ErrNotLogged is returned for an agency of which there is no log.
var ErrNotLogged = errors.New("the event log knows no such agency")

// spans are those of a query, an agency each.
func (l Log) spans(ctx context.Context, q EventQuery) ([]*span, error) {
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
	all := make([]*span, len(agencies))
	for n, id := range agencies {
		s := &span{log: l.Store, q: q, agency: id, pageBytes: max(leastPage, pagesBytes/len(agencies)), end: places[id]}
		s.at.Sequence = max(q.FromSequence, 1) - 1
		if q.UpTo != nil {
			s.end.Sequence = min(s.end.Sequence, q.UpTo[id])
		}
		if q.ToSequence > 0 {
			s.end.Sequence = min(s.end.Sequence, q.ToSequence)
		}
		if q.Published || q.UpTo != nil || q.ToSequence > 0 {
			s.end.Position = 0
		}
		all[n] = s
	}
	if q.Newest > 0 {
		return all, narrow(ctx, all, q.Newest)
	}
	return all, nil
}

// events yields what is meant, the oldest first.
func (s *span) events(ctx context.Context) iter.Seq2[LoggedEvent, error] {
	return func(yield func(LoggedEvent, error) bool) {
		for at, done := s.at, s.at == s.end; !done; {
			most := pageEvents
			if s.end.Position == 0 && s.end.Sequence > at.Sequence { // else a question for one event would decode a page of them
				most = int(min(pageEvents, s.end.Sequence-at.Sequence))
			}
			list, next, err := s.log.EventsAfter(s.agency, at, most, s.pageBytes)
			if err = s.failed(ctx, err); err != nil {
				yield(LoggedEvent{}, err)
				return
			}
			for _, e := range list {
				if s.means(e) && !yield(LoggedEvent{Event: e, Acknowledged: e.Sequence != 0}, nil) {
					return
				}
			}
			done = next == at || next.Sequence >= s.end.Sequence && next.Position >= s.end.Position
			at = next
		}
	}
}

func (s *span) failed(ctx context.Context, err error) error {
	if err != nil {
		return fmt.Errorf("event log of %s: %w", s.agency, err)
	}
	return ctx.Err()
}

// place is when a meant event was recorded, and where it follows on.
type place struct {
	span   *span
	before store.Place
	at     time.Time
}

// places yields those of what is meant, the newest first.
func (s *span) places(ctx context.Context) iter.Seq2[place, error] {
	return func(yield func(place, error) bool) {
		from, lowest := uint64(0), ^uint64(0) // position that was met
		for s.end != (store.Place{}) {
			list, next, err := s.log.EventsBefore(s.agency, from, pageEvents, s.pageBytes)
			if err = s.failed(ctx, err); err != nil {
				yield(place{}, err)
				return
			}
			if from = next; len(list) == 0 {
				return
			}
			for _, e := range list {
				met := e.Position >= lowest // and was published meanwhile
				if e.Position != 0 {
					lowest = min(lowest, e.Position)
				}
				if e.Sequence != 0 && e.Sequence <= s.at.Sequence {
					return
				}
				before := store.Place{Sequence: e.Sequence - 1}
				if e.Sequence == 0 || e.Sequence > s.end.Sequence {
					before = store.Place{Sequence: s.end.Sequence, Position: e.Position - 1}
				}
				if !met && s.means(e) && !yield(place{s, before, e.RecordedTime}, nil) {
					return
				}
			}
		}
	}
}

// narrow moves the beginnings of spans to the newest events that are meant. It reads backwards and keeps places only.
func narrow(ctx context.Context, spans []*span, newest int) error {
	begins, all := map[*span]store.Place{}, make([]iter.Seq2[place, error], len(spans))
	for n, s := range spans {
		begins[s], all[n] = s.end, s.places(ctx)
	}
	// Of equal times the one of the last agency is the newest, as in Events.
	for p, err := range merged(all, func(a, b place) bool { return !a.at.Before(b.at) }) {
		if err != nil {
			return err
		}
		begins[p.span] = p.before
		if newest--; newest == 0 {
			break
		}
	}
	for s, begin := range begins {
		s.at = begin
	}
	return nil
}

// merged yields the values of several iterators in one order. An error is the last thing that it yields.
func merged[T any](all []iter.Seq2[T, error], first func(a, b T) bool) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		type head struct {
			value T
			err   error
			ok    bool
			next  func() (T, error, bool)
		}
		heads := make([]head, len(all))
		for n, one := range all {
			next, stop := iter.Pull2(one)
			defer stop()
			heads[n].next = next
			heads[n].value, heads[n].err, heads[n].ok = next()
		}
		for {
			var best *head
			for n := range heads {
				h := &heads[n]
				if h.err != nil {
					yield(h.value, h.err)
					return
				}
				if h.ok && (best == nil || first(h.value, best.value)) {
					best = h
				}
			}
			if best == nil || !yield(best.value, nil) {
				return
			}
			best.value, best.err, best.ok = best.next()
		}
	}
}
