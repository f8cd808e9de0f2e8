// Package people finds, shows and erases what doorbell holds about a person who wrote to an agency.
//
// A person's data is in events of contact requests and nowhere else: in the event log, in the
// stream, in what was replayed, and among the dead letters. These are the [Places]. [Wanted] says
// whose data is meant. A search turns that into contact requests, because a person may have changed
// the address since: a contact request is erased in all its events.
//
// An erasure begins with a [Receipt] in the data directory: the task until everything is done, and
// the proof afterwards. The log comes first: its events stay without the person, and the contact
// request is marked as erased. Then come the streams: their messages are overwritten. Every step
// may be repeated, so a later start finishes what was interrupted, and erases again what a restored
// backup brings back; see [Places.EraseAgain].
package people

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/store"
)

// Places are where people's data is. Store, Conn, Prefix, Stream and Dir are required.
type Places struct {
	Store          *store.Store
	Conn           stream.Conn
	Prefix, Stream string
	Embedded       bool   // the server is ours, and keeps its files in Dir
	Dir            string // the data directory
	Version        string // of doorbell, for receipts
	Progress       func() // is called for each message that is read; may be nil
}

// The places, as a Receipt names them.
const (
	inLog         = "log"
	inStream      = "stream"
	inReplays     = "replays"
	inDeadLetters = "deadLetters"
)

// messages are those of contact requests in one of the streams.
type messages struct {
	place, stream, filter string
}

// streams returns the messages of an agency; of all agencies if it is empty.
func (p *Places) streams(agencyID string) []messages {
	agency := "*"
	if agencyID != "" {
		agency = events.Token(agencyID)
	}
	kind := agency + ".contact_request.>"
	return []messages{
		{inStream, p.Stream, p.Prefix + ".v1." + kind},
		{inReplays, stream.Replays(p.Stream), p.Prefix + ".replay.*." + kind},
		{inDeadLetters, stream.DeadLetters(p.Stream), p.Prefix + ".dlq.*." + kind},
	}
}

func (p *Places) client(m messages) stream.Client {
	return stream.Client{Conn: p.Conn, Stream: m.stream, Wait: answerLimit}
}

// heldEvent is an event that holds a person, and where it is.
type heldEvent struct {
	place string
	event events.Event
}

// Bounds of what is read of the log at a time.
const (
	pageEvents = 256
	pageBytes  = 1 << 20
)

// held yields every event that holds a person, in the order of the places.
func (p *Places) held(ctx context.Context, agencyID string) iter.Seq2[heldEvent, error] {
	return func(yield func(heldEvent, error) bool) {
		for at, done := uint64(0), false; !done; {
			list, next, err := p.Store.EventsAfter(agencyID, at, pageEvents, pageBytes)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(heldEvent{}, fmt.Errorf("event log: %w", err))
				return
			}
			for _, e := range list {
				if e.HoldsPerson() && !yield(heldEvent{inLog, e}, nil) {
					return
				}
			}
			done, at = next == at, next
		}
		for _, m := range p.streams(agencyID) {
			for one, err := range p.client(m).Read(ctx, m.filter, 0) {
				if errors.Is(err, jetstream.ErrStreamNotFound) {
					break // nothing was ever replayed, or given up
				}
				if err != nil {
					yield(heldEvent{},
						fmt.Errorf("stream %s: %w", m.stream, stream.Explain(p.Conn, err)))
					return
				}
				e, err := events.Decode(one.Header, one.Data)
				if err == nil && e.HoldsPerson() && !yield(heldEvent{m.place, e}, nil) {
					return
				}
			}
		}
	}
}

// Request names a contact request.
type Request struct {
	AgencyID            string `json:"agencyId"`
	PropertyReferenceID string `json:"propertyReferenceId"`
	ContactRequestID    string `json:"contactRequestId"`
}

func compare(a, b Request) int {
	return cmp.Or(cmp.Compare(a.AgencyID, b.AgencyID),
		cmp.Compare(a.PropertyReferenceID, b.PropertyReferenceID),
		cmp.Compare(a.ContactRequestID, b.ContactRequestID))
}

// requestOf returns the contact request that an event is about.
func requestOf(e events.Event) Request {
	r := store.RequestOf(e)
	return Request{e.AgencyID, r.Reference, r.ID}
}

// ErrNothing: nothing is held of the person.
var ErrNothing = errors.New("nothing is held about this person")

// Found is what is held of a person, without the person.
type Found struct {
	Requests []Request `json:"requests"`
	// Events says for each place how many events of these requests hold the person.
	Events map[string]int `json:"events"`
	// Named are the requests that only name the address in a text: another person may have written
	// them.
	Named []Request `json:"named,omitempty"`
}

// Search finds what is held of a person: the contact requests of which any event is of the person,
// and how many events of them there are.
func (p *Places) Search(ctx context.Context, w Wanted) (Found, error) {
	f := Found{Requests: []Request{}, Events: map[string]int{}}
	if err := w.Check(); err != nil {
		return f, err
	}
	type request struct {
		best   match
		events map[string]int // by place
	}
	all := map[Request]*request{}
	for h, err := range p.held(ctx, w.AgencyID) {
		if err != nil {
			return Found{}, err
		}
		r := all[requestOf(h.event)]
		if r == nil {
			r = &request{events: map[string]int{}}
			all[requestOf(h.event)] = r
		}
		r.best = max(r.best, w.match(h.event))
		r.events[h.place]++
	}
	for name, r := range all {
		if r.best == none || r.best == names && w.NotNamed {
			continue
		}
		if f.Requests = append(f.Requests, name); r.best == names {
			f.Named = append(f.Named, name)
		}
		for place, n := range r.events {
			f.Events[place] += n
		}
	}
	slices.SortFunc(f.Requests, compare)
	slices.SortFunc(f.Named, compare)
	return f, nil
}

// Exported is one event of a person, and the places where it is.
type Exported struct {
	HeldIn []string     `json:"heldIn"`
	Event  events.Event `json:"event"`
}

// Export returns every event that is held of a person, in the order of the places.
func (p *Places) Export(ctx context.Context, w Wanted) (list []Exported, err error) {
	found, err := p.Search(ctx, w)
	if err != nil || len(found.Requests) == 0 {
		return nil, err
	}
	type name struct {
		id     string
		origin events.Origin
	}
	at := map[name]int{}
	for h, err := range p.held(ctx, w.AgencyID) {
		if err != nil {
			return nil, err
		}
		if _, wanted := slices.BinarySearchFunc(found.Requests, requestOf(h.event),
			compare); !wanted {
			continue
		}
		is := name{h.event.ID, h.event.Origin}
		n, known := at[is]
		if !known {
			n, at[is] = len(list), len(list)
			list = append(list, Exported{Event: h.event})
		}
		if !slices.Contains(list[n].HeldIn, h.place) {
			list[n].HeldIn = append(list[n].HeldIn, h.place)
		}
	}
	return list, nil
}
