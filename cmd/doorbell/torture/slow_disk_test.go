package torture

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

// slowSync is how long a sync of the store takes in a round; a commit makes two.
const slowSync = 250 * time.Millisecond

// A server whose disk takes a second for each sync is slow, and not stuck: it is not restarted, and events arrive.
func TestASlowDiskOfTheStreamIsNoReasonToRestartTheServer(t *testing.T) {
	runsByName(t)
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	var said bytes.Buffer
	slow := &tracer{below: filepath.Join(s.Dir, daemon.StreamFolder), every: true}
	slow.mustRun(t, s.Environ, &said, "run")
	defer func() {
		slow.end()
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100")
	slow.slow.Store(1000)
	for end := time.Now().Add(35 * time.Second); time.Now().Before(end); { // in which the server is checked twice
		sub.Request(t, s.Ring(t, "A100"))
	}
	var status ops.Status
	got := doorbelltest.Run(t, s.Environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.Stdout), &status); err != nil || !status.NATS.Embedded {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := status.NATS; n.Restarts != 0 || n.Problem != "" || !n.Connected {
		t.Errorf("%+v", n)
	}
}

// TestASlowDiskDelaysOnlyWhatIsStored: the budget holds, no agency starves, the daemon answers, a refused agency is not asked again
// while its halt waits to be stored, and after a kill nothing is lost. It runs beside no other test: when a request arrives counts.
// `go test ./cmd/doorbell/torture -run TestASlowDisk -rounds 8 -v` is the long form.
func TestASlowDiskDelaysOnlyWhatIsStored(t *testing.T) {
	runsByName(t)
	const perSecond = 10
	agencies := []string{"A100", "B200"}
	s := doorbelltest.SceneOf(t, 5, agencies)
	s.Model.KeepLog()
	began := time.Now().Truncate(time.Second)
	faster := regexp.MustCompile("^DOORBELL_(REQUESTS_PER_SECOND|POLL_INTERVAL|WALK_INTERVAL)=")
	s.Environ = slices.DeleteFunc(s.Environ, faster.MatchString) // the tracer hands over what it is given: the first of two would count
	s.Environ = s.With("DOORBELL_REQUESTS_PER_SECOND=10", "DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=15s")
	var said bytes.Buffer
	slow := &tracer{below: s.Dir}
	slow.mustRun(t, s.Environ, &said, "run")
	defer func() {
		slow.end()
		doorbelltest.HoldsNobody(t, said.String())
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, agencies...)
	slow.slow.Store(slowSync.Milliseconds())
	for _, a := range agencies {
		sub.Request(t, s.Ring(t, a))
	}

	// The refusal: what is read next of A100 is a 403, and its halt takes long to be stored. Once the list was refused, only what was
	// already under way may still arrive.
	must(t, s.Model.UnlinkKey(doorbelltest.TestKey, "A100"))
	asked := func() (refused bool, after int) {
		for _, r := range s.Model.Log(sandbox.Filter{AgencyID: "A100"}) {
			if refused {
				after++
			}
			refused = refused || r.Status == http.StatusForbidden && r.Operation == sandbox.OperationInsertions
		}
		return refused, after
	}
	doorbelltest.Eventually(t, "its list is refused", func() bool { refused, _ := asked(); return refused })
	s.GoesOn(t, "B200", 20)
	if _, after := asked(); after > 1 {
		t.Errorf("after its list was refused it got %d requests", after)
	}
	if got := doorbelltest.Run(t, s.Environ, "status"); got.Code != exit.Done {
		t.Errorf("the daemon does not respond: %+v", got)
	}

	// What happens while the agency is halted is found when the halt has ended, by a process that was killed in between.
	s.Model.AddKey(doorbelltest.TestKey, "A100")
	for _, a := range agencies {
		s.Ring(t, a)
	}
	s.GoesOn(t, "B200", 5)
	slow.end()
	all := s.Model.Log(sandbox.Filter{})
	for i, r := range all { // it is counted where it arrives: two may have been under way
		for j := i; j < len(all) && all[j].At.Sub(r.At) < 2*time.Second; j++ {
			if window := all[j].At.Sub(r.At); float64(j-i) > perSecond*window.Seconds()+2 {
				t.Fatalf("%d requests within %s at %d a second", j-i+1, window, perSecond)
			}
		}
	}
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.Eventually(t, "the agency is resumed", func() bool { return doorbelltest.Run(t, s.Environ, "resume", "A100").Code == exit.Done })
	o := doorbelltest.Oracle{Model: s.Model, From: began, Until: began}
	o.MustKeepItsPromises(t, doorbelltest.NatsURL(t, s.Dir), doorbelltest.Patience)
	d.Stop(t)
}
