package store

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"doorbell/events"
)

// A person is in the log alone, in the events of a contact request. Erasing takes the person out of them and leaves the events where
// they are, with their ids, so that nothing is sent again and no number is missing.
//
// Erase first puts the contact request into the snapshot as erased, and then goes through the log from its end. A kill between two
// commits leaves the rest to the next call.

// eraseEvents and eraseBytes bound what one transaction erases: others wait for it.
const (
	eraseEvents = 300
	eraseBytes  = 1 << 20
)

// Request names a contact request of an agency.
type Request struct{ Reference, ID string }

// Erase takes the person out of every event of contact requests, published or not, and remembers the requests as erased, also those that
// the snapshot does not know: so a poll that still shows the person neither announces nor restores them. Of each one
// contact_request.redacted is appended, if the store knows the agency. What is erased already stays as it is. One whose reference or id
// is not Storable is in events alone: it is erased in them, but not remembered, and so not announced, for it would be again each time.
//
// It works in small transactions, after each of which others have as much time, also when the store holds all that it may. What
// somebody has read before, as the relay a batch, may reach the stream after it.
//
// After a failure of the store, see Failed, the process has to end; the same call, then or after any other error, goes on. It
// returns the events that held a person and were erased until then, as they are now, the newest first.
func (s *Store) Erase(agency string, requests []Request) (erased []events.Event, err error) {
	return s.eraseAll(agency, requests, true)
}

// EraseSilently is Erase of requests whose contact_request.redacted the stream holds already: none is appended.
func (s *Store) EraseSilently(agency string, requests []Request) error {
	_, err := s.eraseAll(agency, requests, false)
	return err
}

func (s *Store) eraseAll(agency string, requests []Request, announce bool) (erased []events.Event, err error) {
	people := map[Request]*person{}
	for _, r := range requests {
		people[r] = &person{fields: map[string]json.RawMessage{}}
	}
	asked := func(e events.Event) bool { return people[RequestOf(e)] != nil }
	var found []events.Event
	for from := uint64(endOfLog); from != 0; {
		if from, err = read(s, func(tx *Tx) (next uint64) {
			found, next = tx.people(agency, from, asked)
			return next
		}); err != nil {
			return nil, err
		}
		for _, e := range found {
			people[RequestOf(e)].note(e)
		}
	}
	if err := s.redact(agency, people, announce); err != nil {
		return nil, err
	}
	for from := uint64(endOfLog); from != 0; {
		var next uint64
		if err := s.erasing(func(tx *Tx) error {
			if found, next = tx.people(agency, from, asked); len(found) == 0 {
				return ErrUnchanged
			}
			return tx.erase(found)
		}); err != nil {
			return erased, err
		}
		for _, e := range found {
			erased = append(erased, e.Erase())
		}
		from = next
	}
	return erased, nil
}

// leastLeft and mostLeft bound the time that is left to others after a transaction.
const (
	leastLeft = 5 * time.Millisecond
	mostLeft  = 100 * time.Millisecond
)

// erasing is update, after which others have time to write: as much as it took, within bounds. What it overwrites stays in pages that
// are free then, so the next start compacts the file.
func (s *Store) erasing(write func(*Tx) error) error {
	began, wrote := time.Now(), false
	err := s.Update(func(tx *Tx) error {
		err := write(tx)
		if wrote = err == nil; wrote {
			err = tx.wantCompaction()
		}
		return err
	})
	if wrote {
		time.Sleep(min(max(time.Since(began), leastLeft), mostLeft))
	}
	return err
}

// people finds the events of an agency that hold a person and are wanted, in a bounded part of the log before a position, backwards,
// and where to go on; 0 at its end.
func (tx *Tx) people(agency string, before uint64, wanted func(events.Event) bool) (found []events.Event, next uint64) {
	var b bounds
	for k, v := range tx.descend(bucketLog, logKey(before)) {
		if b.reached() {
			return found, next
		}
		l := entry(k, v)
		e, holds := l.person()
		holds = holds && l.agency == agency && wanted(e)
		if b.visit(v, holds); holds {
			found = append(found, e)
		}
		next = l.position
	}
	return found, 0
}

// bounds are those of one transaction.
type bounds struct{ events, bytes, erased, erasedBytes int }

func (b *bounds) visit(v []byte, erased bool) {
	b.events, b.bytes = b.events+1, b.bytes+len(v)
	if erased {
		b.erased, b.erasedBytes = b.erased+1, b.erasedBytes+len(v)
	}
}

func (b *bounds) reached() bool {
	return b.events >= trimEvents || b.bytes >= trimBytes || b.erased >= eraseEvents || b.erasedBytes >= eraseBytes
}

// person decodes an entry of the log if it holds a person.
func (l logged) person() (e events.Event, holds bool) {
	if bytes.Contains(l.line, []byte(`"contact_request.c`)) { // most do not: they are not decoded
		e = l.event()
	}
	return e, e.HoldsPerson()
}

func (tx *Tx) erase(list []events.Event) (err error) {
	for _, e := range list {
		err = errors.Join(err, tx.putEvent(e.Erase()))
	}
	return err
}

// RequestOf is the contact request that an event is of.
func RequestOf(e events.Event) Request {
	var p struct{ ContactRequestID string }
	_ = json.Unmarshal(e.Data, &p) // of ours; else it is of nobody
	return Request{e.Reference, p.ContactRequestID}
}

// person is what the events of a contact request say that its contact_request.redacted says too.
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

// redactRows bounds how many contact requests one transaction makes erased ones in the snapshot, and redactReads how many it reads for
// it: all of an insertion stand together.
const (
	redactRows  = 100
	redactReads = 5000
)

// redact makes contact requests erased ones in the snapshot, and says so by events, once for each.
func (s *Store) redact(agency string, people map[Request]*person, announce bool) error {
	for left := toRemember(slices.Collect(maps.Keys(people))); len(left) > 0; {
		passed := 0
		if err := s.erasing(func(tx *Tx) error {
			var rows map[Request][]ContactRequest
			if rows, passed = tx.notErased(agency, left); len(rows) == 0 {
				return ErrUnchanged
			}
			_, known := tx.Agency(agency)
			return tx.redact(agency, rows, people, known && announce)
		}); err != nil {
			return err
		}
		left = left[passed:]
	}
	return nil
}

// toRemember are those of contact requests that the snapshot can remember, by reference.
func toRemember(requests []Request) []Request {
	requests = slices.DeleteFunc(requests, func(r Request) bool { return !Storable(r.Reference) || !Storable(r.ID) })
	slices.SortFunc(requests, func(a, b Request) int { return cmp.Or(cmp.Compare(a.Reference, b.Reference), cmp.Compare(a.ID, b.ID)) })
	return requests
}

// notErased finds the first contact requests of a list of toRemember that are not remembered as erased, with what is
// remembered of them, the zero value where nothing is; and how many of the list it has passed, as far as one transaction goes. Of an
// id that was given again there are several, whose events cannot be told apart.
func (tx *Tx) notErased(agency string, list []Request) (rows map[Request][]ContactRequest, passed int) {
	rows = map[Request][]ContactRequest{}
	for read := 0; passed < len(list) && read < redactReads; {
		reference, known := list[passed].Reference, map[string][]ContactRequest{}
		all := tx.ContactRequests(agency, reference)
		for _, c := range all {
			known[c.Given()] = append(known[c.Given()], c)
		}
		read += 1 + len(all)
		for ; passed < len(list) && list[passed].Reference == reference; passed++ {
			if len(rows) == redactRows {
				return rows, passed
			}
			all, is := known[list[passed].ID]
			if all = slices.DeleteFunc(all, ContactRequest.erased); len(all) > 0 {
				rows[list[passed]] = all
			} else if !is {
				rows[list[passed]] = []ContactRequest{{}}
			}
		}
	}
	return rows, passed
}

// erased says whether Erase has made it so. One of which the API has emptied fields keeps their names.
func (c ContactRequest) erased() bool { return c.Redacted && len(c.Fields) == 0 }

// erase is what is remembered of it when it is erased.
func (c ContactRequest) erase() ContactRequest {
	c.Redacted, c.Fields, c.Emptied = true, nil, time.Time{}
	return c
}

// HasErased says whether contact requests are all remembered as erased, but those that cannot be: see Erase. Where one is not, the store
// is from before its Erase. After ErrDamaged the process has to end.
func (s *Store) HasErased(agency string, requests []Request) (all bool, err error) {
	for left := toRemember(slices.Clone(requests)); len(left) > 0; {
		passed := 0
		if all, err = read(s, func(tx *Tx) bool {
			var rows map[Request][]ContactRequest
			rows, passed = tx.notErased(agency, left)
			return len(rows) == 0
		}); err != nil || !all {
			return false, err
		}
		left = left[passed:]
	}
	return true, nil
}

// erasedDigest stands for the record in the id of the event.
var erasedDigest = sha256.Sum256([]byte("erased on request"))

func (tx *Tx) redact(agency string, rows map[Request][]ContactRequest, people map[Request]*person, announce bool) error {
	puts := map[string][]ContactRequest{}
	for r, list := range rows {
		p, row := *people[r], list[0]
		if row.ID == "" { // of a restored backup: it is learned now, and so is no overlap with what was seen before
			i, _ := tx.Insertion(agency, r.Reference)
			row = ContactRequest{ID: r.ID, Epoch: i.Epoch, CreatedAt: p.createdAt}
		}
		if p.identity == "" && row.Nameless {
			p.identity = events.IdentityFingerprint
		}
		row.Revision++
		puts[r.Reference] = append(puts[r.Reference], row.erase())
		for _, other := range list[1:] {
			puts[r.Reference] = append(puts[r.Reference], other.erase())
		}
		if !announce {
			continue
		}
		e, err := events.New(&events.ContactRequestRedacted{
			Common: events.Common{AgencyID: agency, ObservedAt: tx.store.now()}, PropertyReferenceID: r.Reference, ContactRequestID: r.ID,
			Identity: cmp.Or(p.identity, events.IdentityID), RedactedFields: slices.Sorted(maps.Keys(p.fields)),
			CreatedAt: cmp.Or(p.createdAt, row.CreatedAt), Revision: row.Revision, Digest: erasedDigest,
		})
		if err == nil {
			_, err = tx.Append(e)
		}
		if err != nil {
			return err
		}
	}
	for reference, rows := range puts {
		if err := tx.PutContactRequests(agency, reference, rows...); err != nil {
			return err
		}
	}
	return nil
}
