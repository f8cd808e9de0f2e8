package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

// life runs a daemon on the scene's data directory while a test does something with its stream.
func life(s doorbelltest.Scene, t *testing.T, test func(a *daemon.Daemon, sub *doorbelltest.Subscriber), change ...func(*daemon.Options)) {
	t.Helper()
	lifeOf(s, t, s.Open(t, "127.0.0.1:0", change...), func(a *daemon.Daemon) { test(a, doorbelltest.SubscribeTo(t, a.Server().ClientURL())) })
}

// lifeOf runs a daemon while a test does something.
func lifeOf(s doorbelltest.Scene, t *testing.T, a *daemon.Daemon, test func(*daemon.Daemon)) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	test(a)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	a.Close()
}

// TestAMachineRestoredFromASnapshotLosesAndDoublesNothing rolls the data directory back to a
// snapshot, while the stream on another machine holds more.
func TestAMachineRestoredFromASnapshotLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"with NATS": false, "with NATS away at first": true} {
		t.Run(name, func(t *testing.T) {
			s, far := doorbelltest.NewScene(t, "A100"), doorbelltest.StartFar(t)
			live := func(test func(a *daemon.Daemon)) {
				t.Helper()
				lifeOf(s, t, s.Open(t, "off", func(o *daemon.Options) {
					o.NATS.URL, o.Poller.API.IgnoreInsertions = far.URL(), []string{"/views"}
				}), test)
			}
			told := func(id string) {
				t.Helper()
				doorbelltest.Eventually(t, "a contact request is in the stream", func() bool {
					all, err := doorbelltest.ReadStream(t.Context(), far.URL())
					return err == nil && slices.ContainsFunc(all, func(m doorbelltest.Message) bool { return m.Body.ContactRequestID == id })
				})
			}
			i := s.Model.Truth().Insertions[0]
			views := 0
			edit := func(do func(*sandbox.Insertion)) {
				t.Helper()
				views++
				err := s.Model.Edit(i.AgencyID, i.Reference, func(i *sandbox.Insertion) {
					i.Extra = map[string]json.RawMessage{"views": json.RawMessage(strconv.Itoa(views))}
					do(i)
				})
				must(t, err)
			}
			rents := func(amount int) {
				t.Helper()
				edit(func(i *sandbox.Insertion) { i.Prices.Rent.Gross = amount })
				s.GoesOn(t, "A100", 15)
			}
			var all []string
			ring := func() {
				t.Helper()
				all = append(all, s.Ring(t, "A100"))
			}
			live(func(*daemon.Daemon) {
				doorbelltest.SubscribeTo(t, far.URL()).Baselined(t, "A100")
				ring()
				told(all[0])
			})
			snapshot := filepath.Join(t.TempDir(), "snapshot")
			must(t, os.CopyFS(snapshot, os.DirFS(s.Dir)))
			live(func(*daemon.Daemon) {
				ring()
				rents(3001)
				rents(3002)
				ring()
				told(all[2])
			})
			text, err := os.ReadFile(filepath.Join(snapshot, daemon.StoreFile))
			if err == nil {
				err = os.WriteFile(filepath.Join(s.Dir, daemon.StoreFile), text, 0o600)
			}
			must(t, err)
			edit(func(*sandbox.Insertion) {}) // it was looked at, which is ignored
			if away {
				far.Stop()
			}
			live(func(a *daemon.Daemon) {
				ring()
				s.GoesOn(t, "A100", 30)
				rents(3003)
				if away {
					far.Start(t)
				}
				told(all[3])
				ring()
				told(all[4])
				doorbelltest.Eventually(t, "all is published", func() bool {
					progress, err := a.Store().Progress()
					return err == nil && progress["A100"].Pending == 0
				})
			})
			stream := doorbelltest.Oracle{SetBack: true}.MustBeWhole(t, far.URL(), all...)
			var changes []string
			for _, m := range stream {
				if m.Kind() == "insertion.changed" {
					changes = append(changes, string(m.Data))
				}
			}
			// The store finds the change to 3002 again, under another revision.
			for n, rent := range []string{"3001", "3002", "3002", "3003"} {
				if len(changes) != 4 || !strings.Contains(changes[n], `"after":`+rent) {
					t.Errorf("%d changes; number %d is not to %s: %s", len(changes), n, rent, changes)
				}
			}
		})
	}
}
