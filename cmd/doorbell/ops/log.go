package ops

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/store"
)

// EventQuery says which events of the log are meant. The zero value means all of them.
type EventQuery struct {
	AgencyID            string `json:"agencyId,omitempty"`
	Type                string `json:"type,omitempty"` // a type, or several as access.>
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"`
	ID                  string `json:"id,omitempty"`
	// Since and Until are times of record: not before the one, and before the other.
	Since time.Time `json:"since,omitzero"`
	Until time.Time `json:"until,omitzero"`
	// Published are only those that the stream has acknowledged.
	Published bool `json:"published,omitempty"`
	// Unerased are only those whose person was not erased.
	Unerased bool `json:"unerased,omitempty"`
	// FromSequence and ToSequence are the first and the last position. 0: no bound.
	FromSequence uint64 `json:"fromSequence,omitempty"`
	ToSequence   uint64 `json:"toSequence,omitempty"`
	// Newest bounds how many are meant: the last ones. 0: no bound.
	Newest int `json:"newest,omitempty"`
}

// matches says whether an event is meant, bounds of sequence apart.
func (q EventQuery) matches(e events.Event) bool {
	switch {
	case q.ID != "" && e.ID != q.ID,
		q.Type != "" && !e.Type.Fits(q.Type),
		q.PropertyReferenceID != "" && e.Reference != q.PropertyReferenceID,
		!q.Since.IsZero() && e.RecordedTime.Before(q.Since),
		!q.Until.IsZero() && !e.RecordedTime.Before(q.Until),
		q.Unerased && e.Erased():
		return false
	}
	return true
}

// LoggedEvent is an event of the log.
type LoggedEvent struct {
	Event        events.Event `json:"event"`
	Acknowledged bool         `json:"acknowledged,omitempty"` // the stream has confirmed it
}

// EventCounts says how many events a query means.
type EventCounts struct {
	Total int `json:"total"`
	// UpTo is the last position that was looked at: a query with it as ToSequence means the same
	// events again.
	UpTo uint64 `json:"upTo"`
}

// Log reads the event log of an open store. Nothing assumes that it begins with 1. It holds at most
// some megabytes at a time, and no transaction while its caller works.
type Log struct{ Store *store.Store }

// Pages bound what is held of the log at a time.
const (
	pageEvents = 256
	pageBytes  = 8 << 20
)

// Events yields the events that a query means, in the order of the log. An error is the last thing
// that is yielded.
func (l Log) Events(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error] {
	return func(yield func(LoggedEvent, error) bool) {
		s, err := l.span(ctx, q)
		for at := s.after; err == nil && at < s.upTo; {
			// or a question for one event would decode a page of them
			limit := int(min(pageEvents, s.upTo-at))
			var list []events.Event
			was := at
			if list, at, err = l.Store.EventsAfter(q.AgencyID, at, limit, pageBytes); err == nil {
				err = ctx.Err()
			}
			if err != nil || at == was {
				break
			}
			for _, e := range list {
				if e.Sequence > s.upTo {
					return
				}
				if q.matches(e) &&
					!yield(LoggedEvent{Event: e, Acknowledged: e.Sequence <= s.acknowledged}, nil) {
					return
				}
			}
		}
		if err != nil {
			yield(LoggedEvent{}, err)
		}
	}
}

// CountEvents counts the events that a query means.
func (l Log) CountEvents(ctx context.Context, q EventQuery) (c EventCounts, err error) {
	s, err := l.span(ctx, q)
	c.UpTo = s.upTo
	if q.ToSequence = s.upTo; err != nil || s.upTo == 0 {
		return c, err
	}
	for _, err := range l.Events(ctx, q) {
		if err != nil {
			return c, err
		}
		c.Total++
	}
	return c, nil
}

// span is the part of the log in which a query looks: behind one position, up to another.
type span struct{ after, upTo, acknowledged uint64 }

// span is that of a query.
func (l Log) span(ctx context.Context, q EventQuery) (s span, err error) {
	agencies, err := l.Store.Agencies()
	if err != nil {
		return s, err
	}
	if q.AgencyID != "" && !slices.Contains(agencies, q.AgencyID) {
		return s, exit.Failed(errors.New("the event log has no such agency: "+q.AgencyID),
			"doorbell status lists the agencies")
	}
	c, err := l.Store.Cursor()
	if err != nil {
		return s, err
	}
	last, err := l.Store.LastPosition()
	s = span{max(q.FromSequence, 1) - 1, last, c.Highest}
	if q.Published {
		s.upTo = min(s.upTo, s.acknowledged)
	}
	if q.ToSequence > 0 {
		s.upTo = min(s.upTo, q.ToSequence)
	}
	if err == nil && q.Newest > 0 {
		s.after, err = l.newest(ctx, q, s)
	}
	return s, err
}

// newest is the position behind which the newest events of a span are that a query means. It reads
// backwards.
func (l Log) newest(ctx context.Context, q EventQuery, s span) (after uint64, err error) {
	left := q.Newest
	for before := s.upTo + 1; before > s.after+1; {
		list, next, err := l.Store.EventsBefore(q.AgencyID, before, pageEvents, pageBytes)
		if err != nil || ctx.Err() != nil {
			return s.after, cmp.Or(err, ctx.Err())
		}
		for _, e := range list {
			if e.Sequence <= s.after {
				return s.after, nil
			}
			if !q.matches(e) {
				continue
			}
			if left--; left == 0 {
				return e.Sequence - 1, nil
			}
		}
		before = next
	}
	return s.after, nil
}
