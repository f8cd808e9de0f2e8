package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"doorbell/events"
)

// A person is in the log alone, in the events of a contact request. Erasing takes the person out of
// them and leaves the events in their place, with their ids: nothing is sent again, and no number
// is missing. The contact request itself is marked in the snapshot, so that no later response
// announces or restores the person.

// Request names a contact request of an agency.
type Request struct{ Reference, ID string }

// RequestOf returns the contact request that an event is about.
func RequestOf(e events.Event) Request {
	var p struct{ ContactRequestID string }
	_ = json.Unmarshal(e.Data, &p) // an event of another kind has no id
	return Request{e.Reference, p.ContactRequestID}
}

// Erase marks contact requests as erased, also those that the snapshot does not know, appends one
// contact_request.redacted for each if the store knows the agency, and takes the person out of
// every event of them, published or not. It returns the number of these events. What is erased
// already stays as it is. A request whose reference or id is not Storable is in events alone: it is
// neither marked nor announced, which would be repeated by every call.
//
// Erase works in small transactions, also when the store is full. What was read before, as a batch
// of the relay, may reach the stream after it. After a failure of the store, see Failed, the
// process has to end; the same call, then or after any other error, continues.
func (s *Store) Erase(agency string, requests []Request) (erased int, err error) {
	return s.eraseAll(agency, requests, true)
}

// EraseSilently is Erase of requests whose contact_request.redacted is in the stream: none is
// appended.
func (s *Store) EraseSilently(agency string, requests []Request) error {
	_, err := s.eraseAll(agency, requests, false)
	return err
}

func (s *Store) eraseAll(agency string, requests []Request, announce bool) (erased int, err error) {
	people := map[Request]*person{}
	for _, r := range requests {
		people[r] = &person{fields: map[string]json.RawMessage{}}
	}
	err = s.eachOf(agency, people, func(list []events.Event) error {
		for _, e := range list {
			people[RequestOf(e)].note(e)
		}
		return nil
	})
	if err == nil {
		err = s.mark(agency, people, announce) // first: no poll appends the person again
	}
	if err != nil {
		return 0, err
	}
	err = s.eachOf(agency, people, func(list []events.Event) error {
		return s.Update(func(tx *Tx) error {
			for _, e := range list {
				if tx.get(bucketLog, logKey(e.Sequence)) == nil { // trimmed meanwhile
					continue
				}
				if err := tx.putEvent(e.Erase()); err != nil {
					return err
				}
				erased++
			}
			return tx.wantCompaction()
		})
	})
	return erased, err
}

// eraseEvents and eraseBytes bound what one transaction erases: others wait for it.
const (
	eraseEvents = 250
	eraseBytes  = 1 << 20
)

// eachOf goes through the log once, in bounded steps, and passes on the events of contact requests
// that hold a person.
func (s *Store) eachOf(agency string, people map[Request]*person, do func([]events.Event) error) error {
	for at := uint64(0); ; {
		list, next, err := s.EventsAfter(agency, at, eraseEvents, eraseBytes)
		if err != nil || next == at {
			return err
		}
		list = slices.DeleteFunc(list, func(e events.Event) bool { return !e.HoldsPerson() || people[RequestOf(e)] == nil })
		if len(list) > 0 {
			if err := do(list); err != nil {
				return err
			}
		}
		at = next
	}
}

// person is what the events of a contact request contribute to its contact_request.redacted.
type person struct {
	identity  events.Identity
	createdAt time.Time
	fields    map[string]json.RawMessage
}

func (p *person) note(e events.Event) {
	var data struct {
		Identity  events.Identity
		CreatedAt time.Time
		Contact   map[string]json.RawMessage
	}
	_ = json.Unmarshal(e.Data, &data) // what cannot be read is left out
	p.identity, p.createdAt = cmp.Or(p.identity, data.Identity), cmp.Or(p.createdAt, data.CreatedAt)
	maps.Copy(p.fields, data.Contact)
}

// markRequests bounds how many contact requests one transaction marks.
const markRequests = 100

// mark marks contact requests as erased, and announces each.
func (s *Store) mark(agency string, people map[Request]*person, announce bool) error {
	for some := range slices.Chunk(markable(slices.Collect(maps.Keys(people))), markRequests) {
		if err := s.Update(func(tx *Tx) error {
			_, known := tx.Agency(agency)
			marked := false
			for _, r := range some {
				rows, found := tx.unmarked(agency, r)
				if !found {
					continue
				}
				if err := tx.mark(agency, r, rows, *people[r], known && announce); err != nil {
					return err
				}
				marked = true
			}
			if !marked {
				return ErrUnchanged
			}
			return tx.wantCompaction()
		}); err != nil {
			return err
		}
	}
	return nil
}

// markable returns the contact requests that the snapshot can remember.
func markable(requests []Request) []Request {
	return slices.DeleteFunc(requests, func(r Request) bool { return !Storable(r.Reference) || !Storable(r.ID) })
}

// unmarked returns what is remembered of a contact request that is not marked as erased, which may
// be nothing, and whether there is anything to mark. Of an id that was given again there are
// several rows, whose events cannot be distinguished.
func (tx *Tx) unmarked(agency string, r Request) (rows []ContactRequest, found bool) {
	known := false
	for _, c := range tx.ContactRequests(agency, r.Reference) {
		if c.Given() == r.ID {
			known = true
			if !c.erased() {
				rows = append(rows, c)
			}
		}
	}
	return rows, len(rows) > 0 || !known
}

// erased reports whether Erase has marked it. One of which the API has emptied fields keeps their
// names.
func (c ContactRequest) erased() bool { return c.Redacted && len(c.Fields) == 0 }

// HasErased reports whether all contact requests that can be marked as erased are. If not, the
// store is older than their erasure. After ErrDamaged the process has to end.
func (s *Store) HasErased(agency string, requests []Request) (bool, error) {
	for _, r := range markable(slices.Clone(requests)) {
		left, err := read(s, func(tx *Tx) bool {
			_, found := tx.unmarked(agency, r)
			return found
		})
		if err != nil || left {
			return false, err
		}
	}
	return true, nil
}

// erasedDigest takes the place of the record in the id of the event.
var erasedDigest = sha256.Sum256([]byte("erased on request"))

// mark marks the rows of a contact request as erased, and appends its event if it is announced.
func (tx *Tx) mark(agency string, r Request, rows []ContactRequest, p person, announce bool) error {
	// it is learned now, in the present catch-up: it is no overlap with an earlier one
	if len(rows) == 0 {
		i, _ := tx.Insertion(agency, r.Reference)
		rows = []ContactRequest{{ID: r.ID, Epoch: i.Epoch, CreatedAt: p.createdAt}}
	}
	if p.identity == "" && rows[0].Nameless {
		p.identity = events.IdentityFingerprint
	}
	tx.urgent = true
	rows[0].Revision++
	for n := range rows {
		rows[n].Redacted, rows[n].Fields, rows[n].Emptied = true, nil, time.Time{}
	}
	if err := tx.PutContactRequests(agency, r.Reference, rows...); err != nil || !announce {
		return err
	}
	e, err := events.New(&events.ContactRequestRedacted{
		Common:              events.Common{AgencyID: agency, ObservedAt: tx.store.now()},
		PropertyReferenceID: r.Reference, ContactRequestID: r.ID,
		Identity:       cmp.Or(p.identity, events.IdentityID),
		RedactedFields: slices.Sorted(maps.Keys(p.fields)),
		CreatedAt:      cmp.Or(p.createdAt, rows[0].CreatedAt), Revision: rows[0].Revision,
		Digest: erasedDigest,
	})
	if err == nil {
		_, err = tx.Append(e)
	}
	return err
}
