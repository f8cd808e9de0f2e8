package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// watching are the agencies of a scene, all with the one key.
func watching(agencies []string) func(*appOptions) {
	return func(o *appOptions) {
		o.Poller.Agencies = nil
		for _, id := range agencies {
			o.Poller.Agencies = append(o.Poller.Agencies, poller.AgencyKeys{ID: id, Key: listings.NewKey(testKey)})
		}
	}
}

// lostStore leaves a stream behind that has heard of agencies three hours ago, and no store. It returns contact requests that
// were written since.
func (s scene) lostStore(t *testing.T, agencies []string) (rung map[string]bool) {
	t.Helper()
	before := func() time.Time { return time.Now().Add(-3 * time.Hour) }
	lost := filepath.Join(s.dir, "lost")
	kept, err := store.Open(store.Options{Dir: lost, BaseURL: s.url, Now: before})
	if err != nil {
		t.Fatal(err)
	}
	err = kept.Update(func(tx *store.Tx) error {
		for _, id := range agencies {
			e, err := events.New(&events.WatchBaselined{
				Common: events.Common{AgencyID: id, ObservedAt: before()}, Reason: "first", StartedAt: before(), Complete: true,
			})
			if err != nil {
				return err
			}
			if _, err := tx.Append(e); err != nil {
				return err
			}
			if err := tx.PutAgency(id, store.Agency{WatchStart: before()}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	config, err := readConfig(s.environ)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := openStream(t.Context(), config, kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.relay.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	stream.close()
	if err := errors.Join(kept.Close(), os.RemoveAll(lost)); err != nil {
		t.Fatal(err)
	}
	rung = map[string]bool{}
	for _, i := range s.model.Truth().Insertions {
		id, err := s.model.AddContactRequest(i.AgencyID, i.Reference, sandbox.ContactRequest{CreatedAt: time.Now().Add(-time.Hour), LastName: "Muster"})
		if err != nil {
			t.Fatal(err)
		}
		rung[id] = true
	}
	return rung
}

// hears waits until all of the contact requests were told, each once.
func (sub *subscriber) hears(t *testing.T, rung map[string]bool) {
	t.Helper()
	missing := len(rung)
	sub.await(t, "what was written while nobody watched", func(a arrival) bool {
		untold, ours := rung[a.body.ContactRequestID]
		if a.kind() == "contact_request.created" && ours {
			if !untold {
				t.Errorf("a contact request of %s is told twice", a.body.AgencyID)
			}
			rung[a.body.ContactRequestID] = false
			missing--
		}
		return missing == 0
	})
}

func TestOfTwoHundredAgenciesNoneBeginsBeforeTheStreamHasToldWhatTheLostStoreKnew(t *testing.T) {
	var agencies []string
	for n := range 200 {
		agencies = append(agencies, fmt.Sprintf("A%03d", n))
	}
	s := sceneOf(t, 1, agencies)
	rung := s.lostStore(t, agencies)
	s.life(t, func(_ *app, sub *subscriber) { sub.hears(t, rung) }, watching(agencies), func(o *appOptions) {
		o.Poller.PollInterval, o.Poller.WalkInterval = 2*time.Second, 2*time.Second
		o.Patience = time.Nanosecond // as if the stream held millions of events
	})
}

func TestWithNATSAwayAtTheStartPollingBegins(t *testing.T) {
	s := newScene(t, "A100", "B200")
	said := &transcript{grown: make(chan struct{}, 1)}
	a := s.open(t, "off", watching([]string{"A100", "B200"}), func(o *appOptions) {
		o.NATS.URL = Address(fmt.Sprintf("nats://127.0.0.1:%d", freePort(t)))
		o.Log = slog.New(slog.NewTextHandler(said, nil))
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.poller.Run(ctx) }() // without the drain, which waits for NATS
	s.goesOn(t, "A100", 5)
	s.goesOn(t, "B200", 5)
	said.await(t, "level=ERROR msg=\"the watch begins before the stream was compared[^\n]* agencies=2")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAnAgencyThatComesLaterIsComparedFirst(t *testing.T) {
	s := sceneOf(t, 1, []string{"A100", "B200"})
	rung := s.lostStore(t, []string{"A100", "B200"})
	more := make(chan struct{})
	s.life(t, func(_ *app, sub *subscriber) {
		close(more)
		sub.hears(t, rung)
	}, watching([]string{"A100"}), func(o *appOptions) {
		o.Keys = func(ctx context.Context, set func([]poller.AgencyKeys) error) error {
			var all appOptions
			watching([]string{"A100", "B200"})(&all)
			select {
			case <-more:
				if err := set(all.Poller.Agencies); err != nil {
					return err
				}
				<-ctx.Done()
			case <-ctx.Done():
			}
			return nil
		}
	})
}

// TestWhoStaysButIsNotDecidedYetIsNobodyWhoRetires is about keys that are read again while the stream is still compared.
func TestWhoStaysButIsNotDecidedYetIsNobodyWhoRetires(t *testing.T) {
	s := newScene(t, "A100", "B200", "C300")
	listed := func(ids ...string) []poller.AgencyKeys {
		var o appOptions
		watching(ids)(&o)
		return o.Poller.Agencies
	}
	a := s.open(t, "off", watching([]string{"B200"}))
	d := &a.admission
	d.wanted = listed("A100", "B200")
	d.decided["A100"], d.decided["C300"] = false, false
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.admitOthers(ctx) }()
	reader := &keyReader{told: d.wanted, log: slog.New(slog.DiscardHandler), loud: slog.New(slog.DiscardHandler)}
	if err := reader.tell(listed("A100", "C300"), a.setAgencies); err != nil || !reader.again {
		t.Errorf("it is not told again when A100 is decided: %v", err)
	}
	d.admit("A100")
	watched := func(want ...string) func() bool {
		return func() bool {
			now, err := a.poller.Status()
			var ids []string
			for _, w := range now.Agencies {
				ids = append(ids, w.AgencyID)
			}
			slices.Sort(ids)
			return err == nil && slices.Equal(ids, want)
		}
	}
	eventually(t, "both are watched", watched("A100", "B200"))
	if err := reader.tell(listed("A100", "C300"), a.setAgencies); err != nil || reader.again {
		t.Errorf("the second time: %v", err)
	}
	d.admit("C300")
	eventually(t, "the change has come", watched("A100", "C300"))
	if err := a.setAgencies(listed("B200")); !errors.Is(err, poller.ErrRetiresAll) {
		t.Errorf("nobody stays: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// broken is an event log whose commits may have happened.
type broken struct{ *store.Store }

func (broken) CloseUp(string) error {
	return fmt.Errorf("%w: input/output error", store.ErrUnknownOutcome)
}

func TestACommitOfUnknownOutcomeEndsTheProcessAlsoWhileTheStreamIsCompared(t *testing.T) {
	s := newScene(t, "A100")
	a := s.open(t, "off", watching([]string{"A100"}))
	r, err := relay.New(relay.Options{Log: broken{a.store}, Conn: a.conn, Prefix: "listings", Stream: "LISTINGS"})
	if err != nil {
		t.Fatal(err)
	}
	a.decide(t.Context(), r, []string{"B200"})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := a.admitOthers(ctx); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("it goes on: %v", err)
	}
	if a.admission.decided["B200"] {
		t.Error("the watch begins")
	}
}
