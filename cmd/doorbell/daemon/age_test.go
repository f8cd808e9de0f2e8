package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/store"
)

func TestAStreamThatLetsNobodyBeErasedIsToldOnceADay(t *testing.T) {
	d, _ := open(t, "A100")
	var log bytes.Buffer
	d.o.Log, d.o.PeopleRetention = slog.New(slog.NewTextHandler(&log, nil)), time.Nanosecond
	js, err := d.conn.JetStream()
	if err == nil {
		_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, DenyDelete: true})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := d.store.Update(func(tx *store.Tx) error { return tx.PutAgency("A100", store.Agency{}) }); err != nil {
		t.Fatal(err)
	}
	var s aging
	told := func(want int) {
		t.Helper()
		if err := d.age(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "people who are held too long stay in the stream"); n != want || n > 0 && !strings.Contains(log.String(), "deny_delete") {
			t.Fatalf("told %d times, want %d", n, want)
		}
	}
	told(0)
	e, err := events.New(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "r", ContactRequestID: "1"})
	if err != nil {
		t.Fatal(err)
	}
	e = e.Stamp(1, time.Now(), "store")
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: events.Subject("listings", "A100", e.Type), Header: e.Header(), Data: e.Data}); err != nil {
		t.Fatal(err)
	}
	told(1)
	told(1)
	s.denied = s.denied.Add(-deniedEvery)
	told(2)
}
