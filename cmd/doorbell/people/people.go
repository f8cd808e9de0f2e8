// Package people finds, shows and erases what doorbell holds of a person who wrote to an agency.
//
// A person's data stand in events of contact requests and nowhere else: in the event log, in the stream, in what was replayed, and
// among the dead letters. These are the [Places]. [Wanted] says who is meant; a search turns that into contact requests, because a
// person may have changed the address that is searched for since: what is erased of a request is erased of all its events.
//
// An erasure begins with a [Receipt] in the data directory, which is the proof for later, and the job until it is done: a receipt that
// is not finished is finished by whoever opens the places next. The events of the log stay and lose the person, the request is
// remembered as redacted, messages are overwritten on the disk. What the file of the store has free goes when it is compacted, at the next start. Every step
// may be repeated.
//
// The receipts also say what a restored backup must not bring back; see [Places.Overdue].
package people

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/store"
)

// Places are where people's data stand. Store, Conn, Prefix, Stream and Dir are required.
type Places struct {
	Store          *store.Store
	Conn           stream.Conn
	Prefix, Stream string
	Embedded       bool   // the server is ours, and keeps its files in Dir
	Dir            string // the data directory
	Version        string // of doorbell, for receipts
	// EraseLive removes an agency's messages that are wanted from the stream, with nothing of it on its way there meanwhile; nil where
	// nothing is published.
	EraseLive func(ctx context.Context, agencyID string, wanted func(events.Event) bool) (int, error)
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

// streams are those of an agency; of all if it is empty.
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

// held yields every event that may hold a person, and in which place; and what is no event there.
func (p *Places) held(ctx context.Context, agencyID string) iter.Seq2[heldEvent, error] {
	return func(yield func(heldEvent, error) bool) {
		for e, err := range p.logged(ctx, agencyID) {
			if err != nil || e.HoldsPerson() {
				if !yield(heldEvent{inLog, e, false}, err) || err != nil {
					return
				}
			}
		}
		for _, m := range p.streams(agencyID) {
			for one, err := range p.client(m).Read(ctx, m.filter, 0) {
				if errors.Is(err, jetstream.ErrStreamNotFound) {
					break // nothing was ever replayed, or given up
				}
				if err != nil {
					yield(heldEvent{}, fmt.Errorf("stream %s: %w", m.stream, stream.Explain(p.Conn, err)))
					return
				}
				e, err := events.Decode(one.Header, one.Data)
				if (err != nil || e.HoldsPerson()) && !yield(heldEvent{m.place, e, err != nil}, nil) {
					return
				}
			}
		}
	}
}

type heldEvent struct {
	place      string
	event      events.Event
	unreadable bool // it is no event
}

// Bounds of what is held of the log at a time.
const (
	pageEvents = 256
	pageBytes  = 1 << 20
)

// logged yields the events of the log.
func (p *Places) logged(ctx context.Context, agencyID string) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for at, done := uint64(0), false; !done; {
			list, next, err := p.Store.EventsAfter(agencyID, at, pageEvents, pageBytes)
			if err = cmp.Or(err, ctx.Err()); err != nil {
				yield(events.Event{}, fmt.Errorf("event log: %w", err))
				return
			}
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
			done, at = next == at, next
		}
	}
}

// Request names a contact request.
type Request struct {
	AgencyID            string `json:"agencyId"`
	PropertyReferenceID string `json:"propertyReferenceId"`
	ContactRequestID    string `json:"contactRequestId"`
}

// ErrNothing: nothing is held of the person who is wanted.
var ErrNothing = errors.New("nothing is held of this person")

// Found is what is held of the person that is wanted, without the person.
type Found struct {
	Requests []Request `json:"requests"`
	// Events says for each place how many events of these requests hold the person.
	Events map[string]int `json:"events"`
	// Named are those of the requests that only name the address in a text: somebody else may have written them.
	Named []Request `json:"named,omitempty"`
	// Unreadable is how many messages stand where contact requests do and are no events: nobody knows whom they hold.
	Unreadable int `json:"unreadable,omitempty"`
}

// sorted are the requests in order, each once.
func sorted(all []Request) []Request {
	slices.SortFunc(all, compare)
	return slices.Compact(all)
}

func compare(a, b Request) int {
	return cmp.Or(cmp.Compare(a.AgencyID, b.AgencyID), cmp.Compare(a.PropertyReferenceID, b.PropertyReferenceID), cmp.Compare(a.ContactRequestID, b.ContactRequestID))
}

// requestOf is the contact request that an event is of.
func requestOf(e events.Event) Request {
	var p struct {
		ContactRequestID string `json:"contactRequestId"`
	}
	_ = json.Unmarshal(e.Data, &p) // what is no payload has none
	return Request{e.AgencyID, e.Reference, p.ContactRequestID}
}

// Search finds what is held of a person. It reads everything twice: first to find the requests, then what else is of them.
func (p *Places) Search(ctx context.Context, w Wanted) (Found, error) {
	if err := w.Check(); err != nil {
		return Found{}, err
	}
	best, unreadable := map[Request]match{}, 0
	for h, err := range p.held(ctx, w.AgencyID) {
		switch {
		case err != nil:
			return Found{}, err
		case h.unreadable:
			unreadable++
		default:
			if m := w.match(h.event); m == own || m == names && !w.NotNamed {
				best[requestOf(h.event)] = max(m, best[requestOf(h.event)])
			}
		}
	}
	f := Found{Requests: []Request{}, Events: map[string]int{}, Unreadable: unreadable}
	for r, how := range best {
		if f.Requests = append(f.Requests, r); how == names {
			f.Named = append(f.Named, r)
		}
	}
	f.Requests, f.Named = sorted(f.Requests), sorted(f.Named)
	if len(best) == 0 {
		return f, nil
	}
	for h, err := range p.held(ctx, w.AgencyID) {
		if err != nil {
			return Found{}, err
		}
		if !h.unreadable && best[requestOf(h.event)] != none {
			f.Events[h.place]++
		}
	}
	return f, nil
}

// Exported is one event of a person, and the places where it stands.
type Exported struct {
	HeldIn []string     `json:"heldIn"`
	Event  events.Event `json:"event"`
}

// Export is every event that is held of a person, in the order of the places.
func (p *Places) Export(ctx context.Context, w Wanted) ([]Exported, error) {
	found, err := p.Search(ctx, w)
	if err != nil || len(found.Requests) == 0 {
		return nil, err
	}
	var list []Exported
	for h, err := range p.held(ctx, w.AgencyID) {
		if err != nil {
			return nil, err
		}
		if _, of := slices.BinarySearchFunc(found.Requests, requestOf(h.event), compare); !of {
			continue
		}
		list = Merge(list, Exported{[]string{h.place}, h.event})
	}
	return list, nil
}

// Merge adds events to a list of them, or the places to an event that is in it.
func Merge(list []Exported, more ...Exported) []Exported {
	for _, e := range more {
		n := slices.IndexFunc(list, func(x Exported) bool { return x.Event.ID == e.Event.ID && x.Event.Origin == e.Event.Origin })
		if n < 0 {
			list = append(list, e)
			continue
		}
		for _, place := range e.HeldIn {
			if !slices.Contains(list[n].HeldIn, place) {
				list[n].HeldIn = append(list[n].HeldIn, place)
			}
		}
	}
	return list
}
