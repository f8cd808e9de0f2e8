package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"
	"testing"
	"time"

	"doorbell/schemas/skiptest"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"
)

var slowSync = flag.Duration("slow.sync", 250*time.Millisecond, "how long a sync of the store takes in TestASlowDisk; a commit makes two")

// A server whose disk takes a second for each sync is slow, and not stuck: it is not restarted, and events arrive.
func TestASlowDiskOfTheStreamIsNoReasonToRestartTheServer(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	var said bytes.Buffer
	slow := &tracer{below: filepath.Join(s.dir, daemon.StreamFolder), every: true}
	if err := slow.run(s.environ, &said, binary(t), "run"); untraceable(err) {
		skiptest.Skipf(t, "this machine lets no program be traced: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(slow.pid, syscall.SIGKILL)
		<-slow.gone
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100")
	slow.slow.Store(1000)
	for end := time.Now().Add(35 * time.Second); time.Now().Before(end); { // in which the server is checked twice
		sub.request(t, s.ring(t, "A100"))
	}
	var status ops.Status
	got := run(t, s.environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &status); err != nil || status.NATS.Server == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := status.NATS; n.Server.Restarts != 0 || n.Problem != "" || !n.Connected {
		t.Errorf("%+v, %+v", n, n.Server)
	}
}

// TestASlowDiskDelaysOnlyWhatIsStored: the budget holds, no agency starves, the daemon answers, a refused agency is not asked again
// while its halt waits to be stored, and after a kill nothing is lost. It runs beside no other test: when a request arrives counts.
// `go test ./cmd/doorbell -run TestASlowDisk -slow.sync 2s` is the long form.
func TestASlowDiskDelaysOnlyWhatIsStored(t *testing.T) {
	const perSecond = 10
	agencies := []string{"A100", "B200"}
	s := sceneOf(t, 5, agencies)
	s.model.KeepLog()
	began := time.Now().Truncate(time.Second)
	faster := regexp.MustCompile("^DOORBELL_(REQUESTS_PER_SECOND|POLL_INTERVAL|WALK_INTERVAL)=")
	s.environ = slices.DeleteFunc(s.environ, faster.MatchString) // the tracer hands over what it is given: the first of two would count
	s.environ = s.with("DOORBELL_REQUESTS_PER_SECOND=10", "DOORBELL_POLL_INTERVAL=1s", "DOORBELL_WALK_INTERVAL=15s")
	var said bytes.Buffer
	slow := &tracer{below: s.dir}
	if err := slow.run(s.environ, &said, binary(t), "run"); untraceable(err) {
		skiptest.Skipf(t, "this machine lets no program be traced: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = syscall.Kill(slow.pid, syscall.SIGKILL)
		<-slow.gone
		holdsNobody(t, said.String())
		if t.Failed() {
			t.Log(said.String())
		}
	}()
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, agencies...)
	slow.slow.Store(slowSync.Milliseconds())
	for _, a := range agencies {
		sub.request(t, s.ring(t, a))
	}

	// The refusal: what is read next of A100 is a 403, and its halt takes long to be stored. Once the list was refused, only what was
	// already under way may still arrive.
	if err := s.model.UnlinkKey(testKey, "A100"); err != nil {
		t.Fatal(err)
	}
	asked := func() (refused bool, after int) {
		for _, r := range s.model.Log(sandbox.Filter{AgencyID: "A100"}) {
			if refused {
				after++
			}
			refused = refused || r.Status == http.StatusForbidden && r.Operation == sandbox.OperationInsertions
		}
		return refused, after
	}
	eventually(t, "its list is refused", func() bool { refused, _ := asked(); return refused })
	for _, a := range agencies[1:] {
		s.goesOn(t, a, 20)
	}
	if _, after := asked(); after > 1 {
		t.Errorf("after its list was refused it was asked %d times", after)
	}
	if got := run(t, s.environ, "status"); got.code != exit.Done {
		t.Errorf("the daemon does not answer: %+v", got)
	}

	// What happens while the agency is halted is found when it is not any more, by a process that was killed in between.
	s.model.AddKey(testKey, "A100")
	for _, a := range agencies {
		s.ring(t, a)
	}
	s.goesOn(t, "B200", 5)
	_ = syscall.Kill(slow.pid, syscall.SIGKILL)
	<-slow.gone
	all := s.model.Log(sandbox.Filter{})
	for i, r := range all { // it is counted where it arrives: two may have been under way
		for j := i; j < len(all) && all[j].At.Sub(r.At) < 2*time.Second; j++ {
			if window := all[j].At.Sub(r.At); float64(j-i) > perSecond*window.Seconds()+2 {
				t.Fatalf("%d requests within %s at %d a second", j-i+1, window, perSecond)
			}
		}
	}
	d := launch(t, s.environ, "run")
	eventually(t, "the agency is resumed", func() bool { return run(t, s.environ, "resume", "A100").code == exit.Done })
	o := oracle{model: s.model, from: began, until: began}
	o.mustKeepItsPromises(t, natsURL(t, s.dir), patience)
	d.stop(t)
}
