package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

const testKey = "11111111-2222-4333-8444-555555555555"

func TestMain(m *testing.M) {
	natsdtest.Parallel(2, 6)
	os.Exit(m.Run())
}

// patience is how long a test waits before it calls something broken: it only ends a hang, on a machine however busy.
const patience = 2 * time.Minute

// open makes a daemon that watches an agency of a made-up API, with a server that has no port. Its Run is the test's.
func open(t *testing.T, agency string) (*Daemon, *sandbox.Model) {
	t.Helper()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: []string{"A100", "B200", "C300"}, Insertions: 4, History: 1}).Seed()
	model.AddKey(testKey, "A100", "B200", "C300")
	server := httptest.NewServer(sandbox.New(model, sandbox.Flat()))
	t.Cleanup(server.Close)
	dir, err := os.MkdirTemp("", "db") // the path of a socket may not be long
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	d, err := New(t.Context(), Options{
		Base: config.Base{
			DataDir: dir, NATSListen: "off", SubjectPrefix: "listings", Retention: time.Hour,
			StoreMax: 8 << 20, StreamMax: 1 << 30, Instance: "staging",
		},
		Version: "1.0",
		Log:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		Poller: poller.Options{
			API: listings.Options{BaseURL: server.URL}, RequestsPerSecond: 1000, PollInterval: 100 * time.Millisecond,
			WalkInterval: 150 * time.Millisecond, Agencies: listed(agency),
		},
	})
	must(t, err)
	t.Cleanup(d.Close)
	return d, model
}

func listed(ids ...string) (list []poller.AgencyKeys) {
	for _, id := range ids {
		list = append(list, poller.AgencyKeys{ID: id, Key: listings.NewKey(testKey)})
	}
	return list
}

// runUntilTheEnd runs a daemon until the test is over.
func runUntilTheEnd(t *testing.T, d *Daemon) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// eventually polls: what it waits for gives no signal.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("after %s still not: %s", patience, what)
		}
	}
}

// watching reports whether the poller watches exactly these agencies.
func (a *Daemon) watching(want ...string) func() bool {
	return func() bool {
		now := a.watched.Load().poller.Status()
		var ids []string
		for _, w := range now.Agencies {
			ids = append(ids, w.AgencyID)
		}
		slices.Sort(ids)
		return slices.Equal(ids, want)
	}
}

// broken is an event log whose commits may have happened.
type broken struct{ *store.Store }

func (broken) Cursor() (events.Cursor, error) {
	return events.Cursor{}, fmt.Errorf("%w: input/output error", store.ErrUnknownOutcome)
}

func TestACommitOfUnknownOutcomeEndsTheProcessEvenBeforeAnyAgencyIsWatched(t *testing.T) {
	a, _ := open(t, "A100")
	r, err := relay.New(relay.Options{
		Log: broken{a.store}, Conn: a.conn, Prefix: "listings", Stream: "LISTINGS", Embedded: true,
	})
	must(t, err)
	a.relay = r
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := a.Run(ctx); !errors.Is(err, store.ErrUnknownOutcome) {
		t.Errorf("it goes on: %v", err)
	}
	if a.Waiting() != 1 {
		t.Error("the watch begins")
	}
}

// TestAFailedCommitEndsTheDaemonWithTheCodeOfTheDisk makes a commit outside the poller find no space.
func TestAFailedCommitEndsTheDaemonWithTheCodeOfTheDisk(t *testing.T) {
	t.Parallel()
	a, model := open(t, "A100")
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	eventually(t, "it is polled", func() bool { return model.Requests(sandbox.Filter{AgencyID: "A100"}) > 20 })
	err := a.store.Update(func(tx *store.Tx) error { return tx.PutRecord("A100", "a#1##", make([]byte, 80<<20)) })
	if !errors.Is(err, store.ErrNoSpace) {
		t.Fatal(err)
	}
	err = <-ended
	if code, _, hint := exit.Outcome(err); code != exit.CodeIO || !errors.Is(err, store.ErrNoSpace) || hint == "" {
		t.Errorf("it ends with %d, %v (%s)", code, err, hint)
	}
	if ctx.Err() != nil {
		t.Error("it had to be stopped")
	}
}

func TestANearlyFullStoreIsLoggedAndAFullOneIsNotReady(t *testing.T) {
	t.Parallel()
	a, _ := open(t, "A100")
	var log bytes.Buffer
	a.o.Log = slog.New(slog.NewTextHandler(&log, nil))
	inUse, err := a.store.InUse()
	must(t, err)
	for _, most := range []int64{inUse + 1, 1} {
		a.housekeeping = store.NewHousekeeping(store.HousekeepingOptions{Store: a.store, Max: most, Changed: a.logSpace})
		must(t, a.housekeeping.Look())
	}
	if text := log.String(); !strings.Contains(text, "the store is nearly full") || !strings.Contains(text, "the store is full") {
		t.Errorf("the log is %s", text)
	}
	if s, err := a.status(); err != nil || !s.Store.Full || s.StoreID != a.store.ID() {
		t.Errorf("the status is %+v, %v", s, err)
	}
	for _, c := range a.Health().Checks {
		if full := strings.HasPrefix(c.Text, "the store holds 0 of 0 MiB"); full != (c.Name == "space") || full && (c.OK || c.Live) {
			t.Errorf("its health is %+v", c)
		}
	}
}

// TestAnAgencyIsAddedWhileTheStoreIsFull wants it to wait for room, and nothing to end.
func TestAnAgencyIsAddedWhileTheStoreIsFull(t *testing.T) {
	t.Parallel()
	a, model := open(t, "A100")
	full := store.NewHousekeeping(store.HousekeepingOptions{Store: a.store, Max: 1})
	if err := full.Look(); err != nil || !a.store.Full() {
		t.Fatalf("it is not full: %v", err)
	}
	for _, waiting := range []int{2, 0} {
		if err := a.replacePoller(listed("A100", "B200")); err != nil || a.Waiting() != waiting {
			t.Errorf("added: %v, and %d wait for the stream", err, a.Waiting())
		}
		if _, err := a.admit(t.Context(), a.watched.Load()); err != nil {
			t.Error(err)
		}
	}
	if n := model.Requests(sandbox.Filter{}); n > 0 || a.store.Failure() != nil {
		t.Errorf("%d requests, %v", n, a.store.Failure())
	}
}

func TestADaemonWhoseLoopsHangIsNotAlive(t *testing.T) {
	t.Parallel()
	a, _ := open(t, "A100")
	a.o.Receivers, a.o.ForwarderNames = changing{}, []string{"slack"}
	a.watched.Load().made = time.Now().Add(-time.Hour) // nothing runs
	var all, hang []string
	for _, c := range a.Health().Checks {
		if all = append(all, c.Name); c.Live && !c.OK {
			hang = append(hang, c.Name)
		}
	}
	if got := strings.Join(all, " "); got != "store polling staleness relay forwarders space NATS watch" {
		t.Errorf("checked are %s", got)
	}
	if got := strings.Join(hang, " "); got != "store polling staleness" {
		t.Errorf("%s are reported as hanging", got)
	}
	runUntilTheEnd(t, a)
	eventually(t, "all of them turn", func() bool { return a.Health().Live })
}

func TestTheHeartbeatAndTheStatusReportTheSameState(t *testing.T) {
	t.Parallel()
	a, model := open(t, "A100")
	must(t, model.UnlinkKey(testKey, "A100"))
	runUntilTheEnd(t, a)
	nc, err := a.Server().Connect("test")
	must(t, err)
	defer nc.Close()
	beats, err := nc.SubscribeSync("listings.heartbeat.A100")
	must(t, errors.Join(err, nc.Flush()))
	eventually(t, "halted", func() bool {
		status, err := a.status()
		return err == nil && status.Watch.Agencies[0].State == "halted"
	})
	a.beatOnce()
	for beat := (struct{ State string }{}); beat.State != "halted"; { // after that of the start
		m, err := beats.NextMsg(patience)
		if err != nil {
			t.Fatalf("the status is halted, that of the last heartbeat is %q: %v", beat.State, err)
		}
		must(t, json.Unmarshal(m.Data, &beat))
	}
	eventually(t, "it is ready all the same", func() bool { return a.Health().Ready })
}

// TestAStoreThatWasSetBackTreatsAsOldWhatTheStreamNoLongerHolds adds two contact requests, of which
// one is older than the stream keeps its events.
func TestAStoreThatWasSetBackTreatsAsOldWhatTheStreamNoLongerHolds(t *testing.T) {
	for _, setBack := range []bool{false, true} {
		a, model := open(t, "A100")
		err := a.store.Update(func(tx *store.Tx) error {
			state, _ := tx.Agency("A100")
			state.WatchStart = time.Now().Add(-10 * time.Hour)
			return tx.PutAgency("A100", state)
		})
		if setBack {
			err = errors.Join(err, a.setBack("A100"))
		}
		must(t, err)
		reference := model.Truth().Insertions[0].Reference
		add := func(age time.Duration) string {
			id, err := model.AddContactRequest("A100", reference, sandbox.ContactRequest{CreatedAt: time.Now().Add(-age), Message: "Guten Tag"})
			must(t, err)
			return id
		}
		old, live := add(2*time.Hour), add(0)
		runUntilTheEnd(t, a)
		created := map[string]bool{}
		eventually(t, "the live one is announced", func() bool {
			all, _, err := a.store.EventsAfter("A100", 0, 1000, 1<<20)
			for _, e := range all {
				var body struct{ ContactRequestID string }
				if e.Type == events.TypeContactRequestCreated && json.Unmarshal(e.Data, &body) == nil {
					created[body.ContactRequestID] = true
				}
			}
			return err == nil && created[live]
		})
		if created[old] == setBack {
			t.Errorf("set back: %t, announced: %v", setBack, created)
		}
	}
}

func TestRequestsToTheAPINameTheInstallation(t *testing.T) {
	t.Parallel()
	a, _ := open(t, "A100")
	if got := a.o.Poller.API.Version; got != "1.0 (staging)" {
		t.Errorf("User-Agent: doorbell/%s", got)
	}
}

// TestDeadLettersAreCountedWithoutReceivers, as beside a forwarder that runs alone.
func TestDeadLettersAreCountedWithoutReceivers(t *testing.T) {
	t.Parallel()
	a, _ := open(t, "A100")
	c := forward.DeadLetterConfig("listings", "LISTINGS", time.Hour, 1<<20)
	must(t, forward.EnsureDeadLetters(t.Context(), a.conn, c, true))
	_, err := a.conn.Request("listings.dlq.slack.A100.x", nil, patience)
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.keepDeadLetters(ctx) }()
	eventually(t, "it is counted", func() bool { return a.deadLetters.Load() == 1 })
	stop()
	must(t, <-ended)
}

func TestNewAgenciesAndKeysReplaceTheFormerOnes(t *testing.T) {
	t.Parallel()
	a, model := open(t, "A100")
	const otherKey = "22222222-2222-4333-8444-555555555555"
	model.AddKey(otherKey, "A100", "B200")
	asked := func(label string) int { return model.Requests(sandbox.Filter{Key: label}) }
	runUntilTheEnd(t, a)
	eventually(t, "the first key is in use", func() bool { return asked("key-1") > 10 })
	next := listed("A100", "B200")
	for n := range next {
		next[n].Key = listings.NewKey(otherKey)
	}
	must(t, a.setAgencies(t.Context(), next))
	eventually(t, "both agencies are watched", a.watching("A100", "B200"))
	before := asked("key-1")
	eventually(t, "the other key is in use", func() bool { return asked("key-2") > 20 })
	if n := asked("key-1") - before; n > 0 {
		t.Errorf("%d requests with the key before: its poller had not ended", n)
	}
	must(t, a.setAgencies(t.Context(), next[1:]))
	eventually(t, "one agency is left", a.watching("B200"))
}

// TestATakeoverForgetsNoEarlierGap is about a store that was lost, and a takeover before all that arrived
// meanwhile was found: the other doorbell looks for it from the same moment on.
func TestATakeoverForgetsNoEarlierGap(t *testing.T) {
	d, _ := open(t, "A100")
	runUntilTheEnd(t, d)
	eventually(t, "the baseline is published", func() bool {
		n, err := d.store.Last("A100")
		return err == nil && n > 0
	})
	gap := time.Now().Add(-10 * 24 * time.Hour).UTC().Truncate(time.Second)
	err := d.store.Update(func(tx *store.Tx) error {
		state, _ := tx.Agency("A100")
		state.HeardUntil, state.AwaitsStream = gap, true
		return tx.PutAgency("A100", state)
	})
	must(t, err)
	if _, err := d.admit(t.Context(), &watched{agencies: listed("A100"), waiting: map[string]time.Time{"A100": {}}}); err != nil {
		t.Fatal(err)
	}
	if err := d.store.View(func(tx *store.Tx) error {
		if state, _ := tx.Agency("A100"); !state.HeardUntil.Equal(gap) || state.AwaitsStream {
			t.Errorf("the gap begins at %s instead of %s, awaits the stream: %t", state.HeardUntil, gap, state.AwaitsStream)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// named is a receiver that is never sent anything.
type named string

func (named) Send(context.Context, forward.Delivery) error { return nil }
func (n named) Traits() forward.Traits                     { return forward.Traits{Destination: string(n)} }

// changing is a table that is changed while the forwarder begins, and then is written with a mistake.
type changing struct{}

func to(n named) []forward.Route { return []forward.Route{{Receiver: n, Forwarder: "slack"}} }

func (changing) Routes() []forward.Route { return to("a") }
func (changing) Close()                  {}

func (changing) Watch(ctx context.Context, _ *slog.Logger, changed func([]forward.Route, string)) {
	changed(to("b"), "")
	changed(nil, "line 3")
	<-ctx.Done()
}

func TestAChangedTableTakesEffectAndOneWithAMistakeDoesNot(t *testing.T) {
	t.Parallel()
	a, _ := open(t, "A100")
	a.o.Receivers, a.o.ForwarderNames = changing{}, []string{"slack"}
	runUntilTheEnd(t, a)
	eventually(t, "the second table is in force, the third refused", func() bool {
		s, err := a.status()
		second := func(w forward.WorkerStatus) bool { return w.Destination == "b" }
		return err == nil && s.RoutesProblem == "line 3" && slices.ContainsFunc(s.Forwarders, second)
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
