package store_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/store"
)

// replica is a store whose rows go into a stream, a stream of one agency, and what was committed.
type replica struct {
	t        *testing.T
	dirs     string
	s        *store.Store
	place    uint64
	rows     map[[2]string][]byte
	list     []events.Event // by sequence, from 1
	complete events.Cursor  // how far the events had come when the rows were complete
	epoch    uint64
	ids      int
}

const shared = "A100"

func openReplica(t *rapid.T, dirs string) *store.Store {
	dir, err := os.MkdirTemp(dirs, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL, Replicated: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write commits what a poll or a walk would: a contact request with its event, an insertion with its record, what belongs to the
// agency, or what ends.
func (r *replica) write(rt *rapid.T) {
	err := r.s.Update(func(tx *store.Tx) error {
		for range rapid.IntRange(1, 4).Draw(rt, "changes") {
			if err := r.change(rt, tx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
}

func (r *replica) change(rt *rapid.T, tx *store.Tx) error {
	reference := rapid.SampledFrom(references).Draw(rt, "reference")
	number := rapid.IntRange(1, 99).Draw(rt, "number")
	failure := store.Failure{Scope: "insertion", Name: reference, Failures: number}
	halt := store.Halt{Scope: events.ScopeInsertion, Reference: reference, Status: 403}
	switch rapid.IntRange(0, 6).Draw(rt, "kind") {
	case 0, 1:
		r.ids++
		e, err := events.New(&events.ContactRequestCreated{
			Common:              events.Common{AgencyID: shared, ObservedAt: newer},
			PropertyReferenceID: reference, ContactRequestID: fmt.Sprint("c", r.ids), Identity: events.IdentityID, Record: []byte(`{}`),
		})
		if err != nil {
			return err
		}
		if _, err = tx.Append(e); err != nil {
			return err
		}
		field := store.Field{Name: fmt.Sprint("f", number%5), Digest: store.FieldDigest{byte(number), 1}}
		return tx.PutContactRequests(shared, reference, store.ContactRequest{ID: fmt.Sprint("c", r.ids), Fields: []store.Field{field}})
	case 2:
		if err := tx.PutRecord(shared, reference, fmt.Appendf(nil, `{"n":%d}`, number)); err != nil {
			return err
		}
		return tx.PutInsertion(shared, store.Insertion{Reference: reference, Episode: number, Polled: number%2 == 0})
	case 3:
		return tx.PutAgency(shared, store.Agency{WatchStart: newer, CompleteWalks: number})
	case 4:
		return tx.PutFailure(shared, failure)
	case 5:
		return tx.DeleteFailure(shared, failure)
	default:
		if number%2 == 0 {
			return tx.DeleteHalt(shared, halt)
		}
		return tx.PutHalt(shared, halt)
	}
}

// send lets the stream take a batch of a few; whether the store hears of it is drawn.
func (r *replica) send(rt *rapid.T) {
	b, err := r.s.Batch(shared, rapid.IntRange(1, 5).Draw(rt, "most"), rapid.SampledFrom([]int{500, 1 << 20}).Draw(rt, "bytes"))
	if err != nil {
		rt.Fatal(err)
	}
	c, err := r.s.Cursor(shared)
	if err != nil {
		rt.Fatal(err)
	}
	if len(b.Events)+len(b.Rows) == 0 {
		if !b.All {
			rt.Fatal("nothing is left, but not all is sent")
		}
		return
	}
	if meanwhile := rapid.Bool().Draw(rt, "a commit meanwhile"); meanwhile {
		r.write(rt)
	}
	for i := range b.Events {
		b.Events[i].Sequence = c.Sequence + uint64(i) + 1
		if n := int(b.Events[i].Sequence); n > len(r.list)+1 {
			rt.Fatalf("%s has the sequence %d behind %d", b.Events[i].ID, n, len(r.list))
		} else if n > len(r.list) {
			r.list = append(r.list, b.Events[i])
		} else if r.list[n-1].ID != b.Events[i].ID { // it was not heard of, and comes again, maybe without those that came with it
			rt.Fatalf("%s comes in the place of %s", b.Events[i].ID, r.list[n-1].ID)
		}
		r.place++
		c = events.Cursor{Sequence: c.Sequence, StreamCreated: newer, Position: b.Events[i].Position}
	}
	if n := len(b.Events); n > 0 {
		c.Sequence, c.ID, c.StreamSequence = b.Events[n-1].Sequence, b.Events[n-1].ID, r.place
	}
	for _, row := range b.Rows {
		k := [2]string{row.Bucket, row.Key}
		if r.rows[k] = row.Value; row.Value == nil {
			delete(r.rows, k)
		}
		r.place++
	}
	if b.All {
		r.complete = c
	}
	if rapid.IntRange(0, 4).Draw(rt, "heard") > 0 {
		if err := r.s.Sent(shared, b, c, events.Claim{Epoch: r.epoch, Place: r.place, StreamCreated: newer}); err != nil {
			rt.Fatal(err)
		}
	}
}

// takeOver loads another store from the stream, which goes on; the first one is as good as dead.
func (r *replica) takeOver(rt *rapid.T) {
	next := openReplica(rt, r.dirs)
	r.epoch++
	var rows []events.Row
	for k, v := range r.rows {
		rows = append(rows, events.Row{Bucket: k[0], Key: k[1], Value: v})
	}
	claim := events.Claim{Epoch: r.epoch, Place: r.place, StreamCreated: newer}
	if rapid.Bool().Draw(rt, "something was there before") {
		stale := &replica{s: next}
		stale.write(rt)
	}
	if err := next.Load(shared, rows, r.complete, claim); err != nil {
		rt.Fatal(err)
	}
	if found, exists, err := next.Claim(shared); err != nil || !exists || found != claim {
		rt.Fatalf("claim %+v, %v, %v", found, exists, err)
	}
	if b, err := next.Batch(shared, 9, 1<<20); err != nil || len(b.Events)+len(b.Rows) > 0 {
		rt.Fatalf("what was loaded is sent again: %+v, %v", b, err)
	}
	r.neverAhead(rt, next)
	if behind := r.list[r.complete.Sequence:]; len(behind) > 0 {
		last := behind[len(behind)-1]
		c := events.Cursor{Sequence: last.Sequence, ID: last.ID, StreamSequence: r.place, StreamCreated: newer}
		if err := next.Import(shared, behind, c); err != nil {
			rt.Fatal(err)
		}
	}
	r.s.Close()
	check(r.t, r.s.Path())
	r.s = next
}

// neverAhead fails if the rows know a contact request whose event the stream does not have.
func (r *replica) neverAhead(rt *rapid.T, s *store.Store) {
	err := s.View(func(tx *store.Tx) error {
		for _, reference := range references {
			for _, c := range tx.ContactRequests(shared, reference) {
				if !slices.ContainsFunc(r.list, func(e events.Event) bool { return bytes.Contains(e.Data, []byte(`"`+c.ID+`"`)) }) {
					rt.Errorf("contact request %s is known, and nobody was told", c.ID)
				}
				for _, f := range c.Fields {
					if !strings.HasPrefix(f.Name, "f") {
						rt.Errorf("contact request %s has lost the name of a field", c.ID)
					}
				}
				if len(c.Fields) != 1 {
					rt.Errorf("contact request %s has %d fields", c.ID, len(c.Fields))
				}
			}
		}
		return nil
	})
	if err != nil {
		rt.Error(err)
	}
}

type view struct {
	agency     store.Agency
	insertions []store.Insertion
	records    []string
	requests   [][]store.ContactRequest
	halts      []store.Halt
	failures   []store.Failure
}

func look(rt *rapid.T, s *store.Store) (v view) {
	err := s.View(func(tx *store.Tx) error {
		v.agency, _ = tx.Agency(shared)
		v.insertions = slices.Collect(tx.Insertions(shared))
		for _, reference := range references {
			v.records = append(v.records, string(tx.Record(shared, reference)))
			v.requests = append(v.requests, tx.ContactRequests(shared, reference))
		}
		v.halts, v.failures = tx.Halts(shared), tx.Failures(shared)
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	return v
}

// TestAnotherStoreGoesOnWithWhatTheStreamHolds draws commits, batches and takeovers: what was loaded never knows a contact request that
// nobody was told of, and once all was sent, it is what the store before it held.
func TestAnotherStoreGoesOnWithWhatTheStreamHolds(t *testing.T) {
	dirs := t.TempDir()
	few(t)
	rapid.Check(t, func(rt *rapid.T) {
		empty := openReplica(rt, dirs)
		defer empty.Close()
		r := &replica{t: t, dirs: dirs, s: openReplica(rt, dirs), rows: map[[2]string][]byte{}}
		defer func() { r.s.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"write": r.write, "send": r.send, "send more": r.send, "take over": r.takeOver,
			"lose": func(rt *rapid.T) { // as another doorbell goes on
				if err := r.s.Drop(shared); err != nil {
					rt.Fatal(err)
				}
				if v := look(rt, r.s); !reflect.DeepEqual(v, look(rt, empty)) {
					rt.Fatalf("something is left: %+v", v)
				}
				r.takeOver(rt)
			},
		})
		for {
			b, err := r.s.Batch(shared, 5, 1<<20)
			if err != nil {
				rt.Fatal(err)
			}
			if b.All && len(b.Events)+len(b.Rows) == 0 {
				break
			}
			r.send(rt)
		}
		before := look(rt, r.s)
		r.takeOver(rt)
		if after := look(rt, r.s); !reflect.DeepEqual(before, after) {
			rt.Errorf("before %+v\nafter  %+v", before, after)
		}
	})
}

// TestAStoreThatIsUsedAloneForAWhileNotesWhatItChanges: when it shares agencies again, the stream is to have that.
func TestAStoreThatIsUsedAloneForAWhileNotesWhatItChanges(t *testing.T) {
	dir := t.TempDir()
	alone := store.Options{Dir: dir, BaseURL: baseURL}
	shares := alone
	shares.Replicated = "shared"
	rows := func(o store.Options, insertions int) int {
		s, err := store.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Update(func(tx *store.Tx) error {
			if err := tx.PutAgency(shared, store.Agency{WatchStart: newer}); err != nil {
				return err
			}
			for n := range insertions {
				if err := tx.PutInsertion(shared, store.Insertion{Reference: fmt.Sprint("r", n), FirstSeen: newer}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if o.Replicated == "" {
			return 0
		}
		b, err := s.Batch(shared, 100, 1<<20)
		if err == nil {
			err = s.Sent(shared, b, events.Cursor{}, events.Claim{Epoch: 1, Place: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(b.Rows, func(r events.Row) bool { return r.Bucket != "insertions" }))
	}
	rows(alone, 1) // of which the stream has nothing
	if got := rows(shares, 0); got != 1 {
		t.Errorf("the stream gets %d rows of what was there", got)
	}
	if got := rows(shares, 0); got != 0 {
		t.Errorf("the stream gets %d rows that it has", got)
	}
	rows(alone, 2)
	if got := rows(shares, 0); got != 2 {
		t.Errorf("the stream gets %d rows of what was changed meanwhile", got)
	}
}
