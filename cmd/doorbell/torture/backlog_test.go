package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/poller/sandbox"

	"github.com/nats-io/nats.go/jetstream"
)

// waitingInARound is how many events wait in the end.
const waitingInARound = 20_000

// Bounds of what is measured while NATS is away and when it comes.
const (
	mostResident = 300.0 // MB at any time, beside the pages of the store, which belong to the system
	mostGrowth   = 32.0  // MB of memory that is not a file's, from a hundredth of the events to all of them
	drainFirst   = 100_000
	drainWithin  = 2 * time.Minute
)

// TestEventsWaitForNATSWithoutHoldingUpAnything takes the external NATS away when the watch has begun and lets events of twenty
// agencies pile up in the log, while the API keeps moving. At a hundredth and all of them it is measured how polling,
// commits, status and memory are; then NATS comes, with fsync, and the stream must get all, in order and once. The long form:
// `go test ./cmd/doorbell/torture -run TestEventsWaitForNATS -rounds 50 -timeout 1h -v`.
func TestEventsWaitForNATSWithoutHoldingUpAnything(t *testing.T) {
	runsByName(t)
	w := newWaitingWorld(t)
	w.start(t)
	var marks []mark
	for _, part := range []int{100, 1} {
		begin := time.Now()
		w.fill(t, waitingInARound**rounds/part)
		m := w.measure(t)
		t.Logf("%s; filled in %s", m, time.Since(begin).Round(time.Millisecond))
		marks = append(marks, m)
	}
	if !natsdtest.Raced { // with the race detector neither time nor memory is what it is
		compare(t, marks[0], marks[1])
	}
	w.drain(t)
	w.judge(t)
}

// compare fails the test where waiting events hold something up.
func compare(t *testing.T, early, late mark) {
	t.Helper()
	if late.polls < early.polls/2 {
		t.Errorf("polling went down from %.0f to %.0f a second", early.polls, late.polls)
	}
	if grown := late.anon - early.anon; grown > mostGrowth {
		t.Errorf("memory grew by %.0f MB", grown)
	}
	if late.status > time.Second || late.found > 5*time.Second {
		t.Errorf("late, a status took %s, and finding a contact request %s", late.status, late.found)
	}
}

// waitingWorld is an API that keeps moving, a daemon, and a NATS server that goes away when the watch has begun.
type waitingWorld struct {
	oracle  doorbelltest.Oracle
	all     []sandbox.InsertionTruth
	far     *doorbelltest.FarServer
	dir     string
	environ []string
	cmd     *exec.Cmd
	in      io.Writer
	out     *bufio.Reader
	stderr  doorbelltest.Transcript
	client  *ops.Client

	rest func()

	mu     sync.Mutex // held while the API is to be at rest
	logged uint64     // events that must be in the log, at least
	filled int        // of them invented
}

func newWaitingWorld(t *testing.T) *waitingWorld {
	t.Helper()
	var agencies []string
	for n := range backlogAgencies {
		agencies = append(agencies, backlogAgency(n))
	}
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	g := sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: agencies, Insertions: 3, History: 2})
	g.Seed()
	model.AddKey(doorbelltest.TestKey, agencies...)
	api := httptest.NewServer(sandbox.New(model, sandbox.Flat()))
	t.Cleanup(api.Close)
	w := &waitingWorld{
		oracle: doorbelltest.Oracle{Model: model, From: time.Now().Truncate(time.Second)}, all: model.Truth().Insertions,
		far: doorbelltest.StartFar(t), dir: doorbelltest.ShortDir(t),
	}
	w.stderr.Grown = make(chan struct{}, 1)
	w.environ = append(doorbelltest.RunEnviron(w.dir, api.URL, doorbelltest.TestKey, agencies...), backlogDaemon+"=1", "NATS_URL="+w.far.URL(),
		"DOORBELL_POLL_INTERVAL=500ms", "DOORBELL_WALK_INTERVAL=2s", "DOORBELL_STREAM_MAX=16GiB", "DOORBELL_STORE_MAX=16GiB")
	return w
}

// start returns when the watch of all agencies has begun, and the API moves.
func (w *waitingWorld) start(t *testing.T) {
	t.Helper()
	w.cmd = exec.Command(os.Args[0])
	w.cmd.Env, w.cmd.Stderr = w.environ, &w.stderr
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	w.in, w.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill() // mostly it has ended already
		_ = w.cmd.Wait()
	})
	w.client = ops.NewClient(filepath.Join(w.dir, daemon.SocketFile))
	doorbelltest.Eventually(t, "an answer at the socket", func() bool {
		_, err := w.client.Status(t.Context())
		return err == nil
	})
	doorbelltest.Eventually(t, "the baselines are published", func() bool { // a watch begins when the stream was asked
		s, err := w.client.Status(t.Context())
		return err == nil && pending(s) == 0 && len(s.Relay) == backlogAgencies &&
			!slices.ContainsFunc(s.Relay, func(r ops.RelayStatus) bool { return r.Acknowledged == 0 })
	})
	w.far.Stop()
	w.far.Sync = true
	w.oracle.Until = time.Now()
	moving, rest := context.WithCancel(t.Context())
	var world sync.WaitGroup
	world.Go(func() {
		for moving.Err() == nil {
			w.mu.Lock()
			w.ring()
			w.mu.Unlock()
			time.Sleep(200 * time.Millisecond) // it is the API that moves
		}
	})
	w.rest = func() {
		rest()
		world.Wait()
	}
	t.Cleanup(w.rest)
}

// ring makes a contact request somewhere.
func (w *waitingWorld) ring() {
	i := w.all[rand.IntN(len(w.all))]
	_, _ = w.oracle.Model.AddContactRequest(i.AgencyID, i.Reference, sandbox.ContactRequest{FirstName: "Nora", LastName: "Muster" + sandbox.Marker})
	w.logged++
}

func pending(s ops.Status) (n uint64) {
	for _, r := range s.Relay {
		n += r.Pending
	}
	return n
}

// tell gives the daemon's companion a command and returns its answer.
func (w *waitingWorld) tell(t *testing.T, format string, args ...any) string {
	t.Helper()
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		t.Fatalf("%v\n%s", err, w.stderr.String())
	}
	line, err := w.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v\n%s", err, w.stderr.String())
	}
	return strings.TrimSpace(line)
}

// mark is how things are with so many events waiting.
type mark struct {
	waiting                    uint64
	polls                      float64 // a second
	found                      time.Duration
	commit, slowest            time.Duration
	status                     time.Duration
	resident, anon, heap, peak float64 // MB
}

func (m mark) String() string {
	return fmt.Sprintf("%7d wait: %.0f polls/s, a contact request is in the log after %s (interval 500ms), a commit takes %s (slowest of 100: %s), status %s; "+
		"%.0f MB resident, %.0f MB of it memory, %.0f MB heap, peak %.0f MB", m.waiting, m.polls, m.found.Round(time.Millisecond), m.commit.Round(10*time.Microsecond),
		m.slowest.Round(10*time.Microsecond), m.status.Round(100*time.Microsecond), m.resident, m.anon, m.heap, m.peak)
}

// fill lets so many invented events be in the log, while the API moves.
func (w *waitingWorld) fill(t *testing.T, upTo int) {
	t.Helper()
	w.tell(t, "fill %d", upTo)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.logged += uint64(upTo - w.filled)
	w.filled = upTo
}

// measure brings the API to rest for a moment.
func (w *waitingWorld) measure(t *testing.T) (m mark) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.found(t, w.logged)
	const window = time.Second
	before := w.oracle.Model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests})
	time.Sleep(window)
	m.polls = float64(w.oracle.Model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests})-before) / window.Seconds()
	m.found = typically(5, func() {
		w.ring()
		w.found(t, w.logged)
	})
	m.status = typically(5, func() { w.found(t, 0) })
	var typical, slowest int64
	if _, err := fmt.Sscan(w.tell(t, "commit 100"), &typical, &slowest); err != nil {
		t.Fatal(err)
	}
	w.logged, w.filled = w.logged+100, w.filled+100
	m.commit, m.slowest = time.Duration(typical), time.Duration(slowest)
	var heap float64
	if _, err := fmt.Sscan(w.tell(t, "heap 0"), &heap); err != nil {
		t.Fatal(err)
	}
	memory := w.memory(t)
	m.resident, m.anon, m.peak, m.heap = memory["VmRSS"], memory["RssAnon"], memory["VmHWM"], heap/1e6
	m.waiting = w.found(t, w.logged)
	return m
}

func typically(times int, do func()) time.Duration {
	took := make([]time.Duration, times)
	for n := range took {
		begin := time.Now()
		do()
		took[n] = time.Since(begin)
	}
	slices.Sort(took)
	return took[times/2]
}

// found waits until so many events are waiting in the log.
func (w *waitingWorld) found(t *testing.T, want uint64) (have uint64) {
	t.Helper()
	for deadline := time.Now().Add(3 * doorbelltest.Patience); ; time.Sleep(2 * time.Millisecond) {
		s, err := w.client.Status(t.Context())
		if have = pending(s); err == nil && have >= want {
			return have
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d events are in the log and not %d (%v)\n%s", have, want, err, w.stderr.String())
		}
	}
}

// memory is what /proc tells of the daemon, in MB; nothing where there is none.
func (w *waitingWorld) memory(t *testing.T) map[string]float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", w.cmd.Process.Pid))
	if err != nil {
		t.Log("there is no /proc here")
	}
	return megabytes(string(text))
}

// drain lets NATS come and waits until it has what waited, while the API moves on.
func (w *waitingWorld) drain(t *testing.T) {
	t.Helper()
	begin, anon := time.Now(), 0.0
	w.far.Start(t)
	all, quick := uint64(w.filled), uint64(min(w.filled, drainFirst))
	var last uint64
	var firstTook time.Duration
	for deadline := begin.Add(30 * time.Minute); last < all; time.Sleep(50 * time.Millisecond) {
		anon = max(anon, w.memory(t)["RssAnon"])
		last = w.held(t)
		if last >= quick && firstTook == 0 {
			firstTook = time.Since(begin)
		}
		if time.Now().After(deadline) {
			t.Fatalf("the stream holds %d of %d\n%s", last, all, w.stderr.String())
		}
	}
	took := time.Since(begin)
	t.Logf("after NATS has come: %d events in %s, %d in %s (%.0f a second, with fsync); up to %.0f MB of memory", quick,
		firstTook.Round(10*time.Millisecond), last, took.Round(10*time.Millisecond), float64(last)/took.Seconds(), anon)
	if firstTook > drainWithin {
		t.Errorf("the first %d took %s", quick, firstTook)
	}
}

// held is how many messages the stream has; 0 also if there is none yet.
func (w *waitingWorld) held(t *testing.T) uint64 {
	t.Helper()
	nc, js := doorbelltest.Connected(t, w.far.URL())
	defer nc.Close()
	s, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		return 0
	}
	return s.CachedInfo().State.Msgs
}

// judge waits until the stream tells all of an API at rest, ends the daemon and holds the stream against the truth.
func (w *waitingWorld) judge(t *testing.T) {
	t.Helper()
	w.rest()
	read := readSoFar{ids: map[string]struct{}{}}
	read.on(t, w.far.URL())
	missing := w.oracle.Settled(read.own)
	for deadline := time.Now().Add(60 * time.Second); len(missing) > 0; time.Sleep(100 * time.Millisecond) {
		read.on(t, w.far.URL())
		missing = w.oracle.Settled(read.own)
		if time.Now().After(deadline) {
			t.Fatalf("the stream misses %d things, first: %v\n%s", len(missing), doorbelltest.First(missing, 3), w.stderr.String())
		}
	}
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	peak := w.memory(t)["VmHWM"]
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM: %v\n%s", err, w.stderr.String())
	}
	read.on(t, w.far.URL())
	truth := w.oracle.Model.Truth()
	say := func(format string, args ...any) { read.wrong = append(read.wrong, fmt.Sprintf(format, args...)) }
	w.oracle.JudgeContactRequests(read.own, truth, say)
	w.oracle.JudgeInsertions(read.own, truth, say)
	if read.invented != w.filled {
		say("%d of %d invented events", read.invented, w.filled)
	}
	for _, wrong := range doorbelltest.First(read.wrong, 20) {
		t.Error(wrong)
	}
	store, err := os.Stat(filepath.Join(w.dir, daemon.StoreFile))
	if err != nil {
		t.Fatal(err)
	}
	if held := peak - float64(store.Size())/1e6; held > mostResident && !natsdtest.Raced {
		t.Errorf("up to %.0f MB were resident, and %.0f without the store", peak, held)
	}
	t.Logf("%d events in the stream, %d of them found by polling and of the watch; up to %.0f MB resident", len(read.ids), len(read.own), peak)
	doorbelltest.HoldsNobody(t, w.stderr.String())
}

// readSoFar is what was read of the stream so far; of the invented events only what it takes to judge their order.
type readSoFar struct {
	after    uint64 // place in the stream
	ids      map[string]struct{}
	last     string // sequence
	own      []doorbelltest.Message
	invented int
	wrong    []string
}

// on reads what has come since the last time.
func (r *readSoFar) on(t *testing.T, url string) {
	t.Helper()
	nc, js := doorbelltest.Connected(t, url)
	defer nc.Close()
	stream, err := js.Stream(t.Context(), "LISTINGS")
	if err != nil {
		t.Fatal(err)
	}
	last := stream.CachedInfo().State.LastSeq
	if last <= r.after {
		return
	}
	c, err := stream.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.after + 1})
	if err != nil {
		t.Fatal(err)
	}
	for r.after < last {
		batch, err := c.Fetch(min(2000, int(last-r.after)), jetstream.FetchMaxWait(2*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for m := range batch.Messages() {
			r.take(t, m)
		}
		if batch.Error() != nil {
			t.Fatal(batch.Error())
		}
	}
}

// take judges the place of a message, and keeps it if it is not invented.
func (r *readSoFar) take(t *testing.T, msg jetstream.Msg) {
	t.Helper()
	meta, err := msg.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	m := doorbelltest.Message{Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data(), Stream: meta.Sequence.Stream}
	if err := json.Unmarshal(m.Data, &m.Body); err != nil {
		t.Fatalf("message %d is no JSON object", m.Stream)
	}
	id, agency := m.Header.Get("ce-id"), m.Body.AgencyID
	if _, twice := r.ids[id]; twice || id != m.Header.Get("Nats-Msg-Id") || m.Stream != r.after+1 {
		r.wrong = append(r.wrong, fmt.Sprintf("id %s stands twice, or not in both headers, or not behind the last", id))
	}
	if got := m.Header.Get("ce-sequence"); m.Header.Get(events.ResentHeader) == "" {
		if got <= r.last {
			r.wrong = append(r.wrong, fmt.Sprintf("%s: sequence %s comes after %s", agency, got, r.last))
		}
		r.last = got
	}
	for _, leak := range doorbelltest.LeaksOfMessage(m) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s %s: %s", agency, m.Kind(), leak))
	}
	r.after, r.ids[id] = m.Stream, struct{}{}
	if strings.HasPrefix(m.Body.ContactRequestID, inventedID) {
		r.invented++
	} else {
		r.own = append(r.own, m)
	}
}
