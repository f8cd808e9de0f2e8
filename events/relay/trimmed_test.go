package relay

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

func TestWhatWasTrimmedFromTheLogIsNotSentAgain(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := newBell(t)
	b.o.Log, b.o.StoreID, b.o.Logger = s, s.ID(), slog.New(slog.NewTextHandler(logTo(t), nil))
	err = s.Update(func(tx *store.Tx) error {
		err := tx.PutAgency("A100", store.Agency{WatchStart: time.Now()})
		for n := range 10 {
			_, failed := tx.Append(lead(t, "A100", n))
			err = errors.Join(err, failed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.relay().RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	read, err := s.Read("A100", 7, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Trim(read[0].RecordedTime.Add(time.Millisecond), 6); n != 6 || err != nil {
		t.Fatalf("%d trimmed: %v", n, err)
	}
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // sends what is left, then the report of it
		eventually(t, "the server makes a stream, whose folder it removes", func() bool { err = b.relay().RunOnce(t.Context()); return err == nil })
	}
	var got []string
	for _, m := range held(t, b.js, events.AgencyFilter("listings", "A100")) {
		got = append(got, m.Header.Get("ce-sequence")[18:])
	}
	if want := []string{"07", "08", "09", "10", "11"}; !slices.Equal(got, want) {
		t.Errorf("the stream holds %v, want %v", got, want)
	}
	report, err := s.Read("A100", 10, 1, 1)
	if err != nil || len(report) != 1 {
		t.Fatalf("%d reports, %v", len(report), err)
	}
	if !bytes.Contains(report[0].Data, []byte(`"sentAgain":4`)) {
		t.Errorf("the report is %s %s", report[0].Type, report[0].Data)
	}
}
