package people

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/stream"
	"doorbell/store"
)

// world is a store that watches A100, and a stream in which another doorbell publishes B200.
func world(t *testing.T) *Places {
	t.Helper()
	dir := t.TempDir()
	kept, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.org"})
	must(t, err)
	t.Cleanup(func() { kept.Close() })
	js := natsdtest.Embedded(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}}); err != nil {
		t.Fatal(err)
	}
	for n, agency := range []string{"A100", "B200"} {
		e, err := events.New(&events.ContactRequestCreated{
			Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}, PropertyReferenceID: "house#1", ContactRequestID: "id-1", Identity: events.IdentityID,
			Contact: events.Contact{Email: "nora@example.org"},
		})
		must(t, err)
		e = e.Stamp(1, time.Now(), "store")
		if n == 0 {
			err = kept.Update(func(tx *store.Tx) error {
				if err := tx.PutAgency(agency, store.Agency{}); err != nil {
					return err
				}
				e, err = tx.Append(e)
				return err
			})
			err = errors.Join(err, kept.Acknowledge(events.Cursor{Position: 1, ID: e.ID, StreamSequence: 1}, nil))
		}
		if err == nil {
			_, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: events.Subject("listings", agency, e.Type), Header: e.Header(), Data: e.Data})
		}
		must(t, err)
	}
	return &Places{Store: kept, Conn: stream.Conn{Conn: js.Conn()}, Prefix: "listings", Stream: "LISTINGS", Embedded: true, Dir: dir}
}

// begun is an erasure of the person that has begun.
func begun(t *testing.T, p *Places) Receipt {
	t.Helper()
	w := Wanted{Email: "nora@example.org"}
	found, err := p.Search(t.Context(), w)
	if err != nil || len(found.Requests) != 2 {
		t.Fatalf("%d contact requests, %v", len(found.Requests), err)
	}
	r, err := p.Begin(w, found.Requests)
	must(t, err)
	return r
}

func TestAnAgencyOfAnotherDoorbellIsErasedInTheStreamAndNamedInTheReceipt(t *testing.T) {
	p := world(t)
	r := begun(t, p)
	if !slices.ContainsFunc(r.OutOfReach, func(s string) bool { return strings.Contains(s, "B200") }) {
		t.Errorf("out of reach: %q", r.OutOfReach)
	}
	must(t, p.Finish(t.Context(), &r))
	if r.Erased[inLog] != 1 || r.Erased[inStream] != 2 {
		t.Errorf("erased: %v", r.Erased)
	}
	if found, err := p.Search(t.Context(), Wanted{Email: "nora@example.org"}); err != nil || len(found.Requests) != 0 {
		t.Errorf("%d contact requests are left, %v", len(found.Requests), err)
	}
}

func TestAnInterruptedErasureIsFinishedDespiteAnInvalidReceipt(t *testing.T) {
	p := world(t)
	r := begun(t, p)
	must(t, os.WriteFile(filepath.Join(p.Dir, Folder, "note.json"), []byte("{"), 0o600))
	if restored, err := p.EraseAgain(); restored != 0 || !errors.Is(err, ErrNoReceipt) {
		t.Fatalf("%d restored, %v", restored, err)
	}
	if has, err := p.Store.HasErased("A100", []store.Request{{Reference: "house#1", ID: "id-1"}}); err != nil || !has {
		t.Errorf("the log is not erased before it is read: %v", err)
	}
	for attempt := range 2 { // the first is cut short as well
		r.Finished = time.Time{}
		must(t, p.Save(r))
		finished, err := p.FinishAll(t.Context())
		if err != nil || len(finished) != 1 {
			t.Fatalf("%d are finished, %v", len(finished), err)
		}
		r = finished[0]
		if told := slices.Contains(r.OutOfReach, cutShort); told != (attempt > 0) {
			t.Errorf("attempt %d: that the server was interrupted is reported: %t", attempt+1, told)
		}
	}
	if finished, err := p.FinishAll(t.Context()); err != nil || len(finished) != 0 {
		t.Errorf("%d are finished again, %v", len(finished), err)
	}
}
