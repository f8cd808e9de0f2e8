package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/store"
)

// TestWhoStaysButIsNotDecidedYetIsNobodyWhoRetires is about keys that are read again while the stream is still compared.
func TestWhoStaysButIsNotDecidedYetIsNobodyWhoRetires(t *testing.T) {
	s := newScene(t, "A100", "B200", "C300")
	listed := func(ids ...string) []poller.AgencyKeys {
		var o Options
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

func TestADaemonWhoseLoopsHangIsNotAlive(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	a := s.open(t, "off")
	began := func(ago time.Duration) {
		at := time.Now().Add(-ago)
		a.ran.at.Store(&at)
	}
	began(2 * time.Minute) // nothing runs
	if h := a.Health(); h.Live || h.Ready {
		t.Errorf("the store has not answered for two minutes: %+v", h)
	}
	began(time.Hour)
	hang := map[string]bool{}
	for _, c := range a.Health().Checks {
		if c.Live && !c.OK {
			hang[c.Name] = true
		}
	}
	for _, name := range []string{"store", "polling", "watch for silence", "follower", "housekeeping", "heartbeat"} {
		if !hang[name] {
			t.Errorf("%s is said to be alive: %v", name, hang)
		}
	}
	runUntilTheEnd(t, a)
	eventually(t, "all of them turn", func() bool { return a.Health().Live })
}

func TestTheHeartbeatSaysTheStateThatTheStatusSays(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	a := s.open(t, "127.0.0.1:0")
	runUntilTheEnd(t, a)
	g := newGuest(t, a.natsURL())
	beats, err := g.nc.SubscribeSync("listings.heartbeat.A100")
	if err == nil {
		err = g.nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := s.model.UnlinkKey(testKey, "A100"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"halted", "watching"} {
		if want == "watching" {
			s.model.AddKey(testKey, "A100")
			if _, err := a.poller.Resume("A100", ""); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, want, func() bool {
			status, err := a.status()
			return err == nil && status.Watch.Agencies[0].State == want
		})
		for err := error(nil); err == nil; _, err = beats.NextMsg(10 * time.Millisecond) {
		}
		if err := a.beatOnce(); err != nil {
			t.Fatal(err)
		}
		m, err := beats.NextMsg(patience)
		if err != nil {
			t.Fatal(err)
		}
		var beat struct{ State string }
		if err := json.Unmarshal(m.Data, &beat); err != nil || beat.State != want {
			t.Errorf("the heartbeat says %s, the status %s", m.Data, want)
		}
	}
}
