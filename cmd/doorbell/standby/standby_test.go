package standby

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/natsd"
	"doorbell/events/stream"
	"doorbell/store"
)

const patience = 30 * time.Second

// natsAt is a separate server without any restriction.
func natsAt(t *testing.T) func(...nats.InProcessConnProvider) stream.Conn {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "off", MaxStore: 1 << 30})
	must(t, err)
	t.Cleanup(s.Shutdown)
	return func(way ...nats.InProcessConnProvider) stream.Conn {
		var options []nats.Option
		for _, w := range way {
			w.(*slowLine).server = s
			options = append(options, nats.InProcessServer(w))
		}
		nc, err := s.Connect("test", options...)
		must(t, err)
		t.Cleanup(nc.Close)
		for deadline := time.Now().Add(patience); !nc.IsConnected(); {
			if time.Now().After(deadline) {
				t.Fatal("no connection")
			}
			_ = nc.FlushTimeout(time.Second)
		}
		return stream.Conn{Conn: nc}
	}
}

func jetStream(t *testing.T, conn stream.Conn) jetstream.JetStream {
	t.Helper()
	js, err := conn.JetStream()
	must(t, err)
	return js
}

// doorbell is one of a pair, whose turns a test steers.
type doorbell struct {
	turn chan *Turn    // a turn has begun
	end  chan struct{} // ends the work
	stop context.CancelFunc
	done chan error
	dir  string
}

func start(t *testing.T, conn stream.Conn, name string) *doorbell {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	d := &doorbell{turn: make(chan *Turn), end: make(chan struct{}), stop: stop, done: make(chan error, 1), dir: t.TempDir()}
	o := Options{
		Conn: conn, Stream: "LISTINGS", Keep: time.Hour, Name: "pair", Holder: Holder{Name: name, ID: name}, Dir: d.dir,
		Work: func(ctx context.Context, turn *Turn) error {
			d.turn <- turn
			select {
			case <-ctx.Done():
				return nil
			case <-d.end:
				return errors.New("it failed")
			}
		},
		Wait: func(ctx context.Context, working func() Holder) error {
			<-ctx.Done()
			return nil
		},
	}
	go func() { d.done <- Run(ctx, o) }()
	t.Cleanup(stop)
	return d
}

func await[T any](t *testing.T, what string, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(patience):
		t.Fatal(what + " does not happen")
	}
	return v
}

func TestTheOtherWorksImmediatelyAfterACleanEndOrAFailure(t *testing.T) {
	t.Parallel()
	connect := natsAt(t)
	one := start(t, connect(), "one")
	await(t, "the turn of one", one.turn)
	two := start(t, connect(), "two")
	select {
	case <-two.turn:
		t.Fatal("both work")
	case <-time.After(2 * tryEvery):
	}
	began := time.Now()
	one.stop()
	if err := await(t, "the end of one", one.done); err != nil {
		t.Error(err)
	}
	await(t, "the turn of two", two.turn)
	if took := time.Since(began); took > 5*time.Second { // the lease would take 20 s to expire
		t.Errorf("the turn began %s after the clean end", took)
	}
	three := start(t, connect(), "three")
	close(two.end)
	if err := await(t, "the end of two", two.done); err == nil {
		t.Error("the failure is not reported")
	}
	await(t, "the turn of three", three.turn)
}

// taken is a turn that renews its lease only when the test says so.
func taken(t *testing.T, conn stream.Conn) *Turn {
	t.Helper()
	turn, _, err := take(t.Context(), Options{Conn: conn, Stream: "LISTINGS", Name: "pair", Holder: Holder{Name: "one", ID: "one"}})
	must(t, err)
	return turn
}

func TestALeaseThatAnotherProcessTookIsLost(t *testing.T) {
	t.Parallel()
	connect := natsAt(t)
	turn := taken(t, connect())
	kv := turn.kv
	if _, err := kv.PutString(t.Context(), "pair", `{"name":"other","id":"other"}`); err != nil {
		t.Fatal(err)
	}
	turn.renew(t.Context())
	if turn.Valid() {
		t.Error("the lease of another process is relied on")
	}
	if err := turn.release(); err != nil {
		t.Error(err)
	}
	if e, err := kv.Get(t.Context(), "pair"); err != nil || string(e.Value()) != `{"name":"other","id":"other"}` {
		t.Error("the lease of another process was given back")
	}
}

// TestARenewalWhoseReplyWasLostCounts is about a revision that this process wrote without receiving the reply.
func TestARenewalWhoseReplyWasLostCounts(t *testing.T) {
	turn := taken(t, natsAt(t)())
	if _, err := turn.kv.Update(t.Context(), "pair", turn.value, turn.revision); err != nil {
		t.Fatal(err)
	}
	turn.renew(t.Context())
	if !turn.Valid() {
		t.Fatal("its own renewal ended the lease")
	}
	before := turn.revision
	turn.renew(t.Context())
	if turn.revision == before {
		t.Error("it is no longer renewed")
	}
}

func TestALeaseWhoseReplyWasLostIsTakenWithTheNextAttempt(t *testing.T) {
	conn := natsAt(t)()
	first, again := taken(t, conn), taken(t, conn)
	if again == nil || again.revision == first.revision || again.release() != nil {
		t.Error("the process waits for itself")
	}
}

func TestALeaseIsOverForItsHolderBeforeTheServerDropsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, good := range map[string]time.Time{
			"after 15 s":         time.Now().Add(-validFor),
			"as the server says": {},
		} {
			if l := (&Turn{good: good}); l.Valid() {
				t.Errorf("it is relied on though it is over %s", name)
			}
		}
		if l := (&Turn{good: time.Now().Add(-validFor + 1)}); !l.Valid() {
			t.Error("it is over too early")
		}
	})
	if validFor >= ttl {
		t.Error("the server drops it first")
	}
}

const api = "https://api.example.org"

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: api})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

func TestTheOtherStartsFromTheCopy(t *testing.T) {
	connect := natsAt(t)
	one := start(t, connect(), "one")
	turn := await(t, "the turn of one", one.turn)
	s := openStore(t, one.dir)
	must(t, s.Update(func(tx *store.Tx) error { return tx.PutAgency("A100", store.Agency{CompleteWalks: 7}) }))
	put := func(dir, name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	put(one.dir, "forward/slack.json", "of one")
	put(one.dir, "erasures/receipt.json", "of one")
	put(one.dir, "doorbell.sock", "is not copied")
	two := start(t, connect(), "two")
	put(two.dir, "forward/slack.json", "of two")
	put(two.dir, "forward/slack.removed.leads.json", "of a receiver that one does not have any more")
	put(two.dir, "erasures/earlier.json", "of two")
	openStore(t, two.dir).Close()
	must(t, turn.CopyNow(t.Context(), s))
	id := s.ID()
	s.Close()
	one.stop()
	await(t, "the turn of two", two.turn)
	taken := openStore(t, two.dir)
	if err := taken.View(func(tx *store.Tx) error {
		if a, _ := tx.Agency("A100"); a.CompleteWalks != 7 || !a.AwaitsStream {
			t.Errorf("the agency is %+v", a)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if taken.ID() == id {
		t.Error("both stores have one identity")
	}
	for _, name := range []string{"forward/slack.json", "erasures/receipt.json"} {
		if text, err := os.ReadFile(filepath.Join(two.dir, name)); err != nil || string(text) != "of one" {
			t.Errorf("%s holds %q, %v", name, text, err)
		}
	}
	for folder, want := range map[string]int{"": 3, "forward": 1, "erasures": 2} {
		if left, err := os.ReadDir(filepath.Join(two.dir, folder)); err != nil || len(left) != want {
			t.Errorf("the folder %q of the data directory holds %v, %v", folder, left, err)
		}
	}
}

// TestADoorbellKeepsItsOwnStoreOverItsOwnCopy is about a restart: what it did after the copy is in its store.
func TestADoorbellKeepsItsOwnStoreOverItsOwnCopy(t *testing.T) {
	connect := natsAt(t)
	one := start(t, connect(), "one")
	turn := await(t, "the turn", one.turn)
	s := openStore(t, one.dir)
	must(t, turn.CopyNow(t.Context(), s))
	must(t, s.Update(func(tx *store.Tx) error { return tx.PutAgency("A100", store.Agency{}) }))
	s.Close()
	must(t, turn.takeOver(t.Context()))
	if again := openStore(t, one.dir); again.ID() != s.ID() {
		t.Error("it was replaced")
	} else if list, err := again.Agencies(); err != nil || len(list) != 1 {
		t.Errorf("it knows %v, %v", list, err)
	}
}

func TestACopyIsWrittenAtTheStartAndAfterAHalt(t *testing.T) {
	connect := natsAt(t)
	one := start(t, connect(), "one")
	turn := await(t, "the turn", one.turn)
	js := jetStream(t, connect())
	copies, err := js.ObjectStore(t.Context(), CopyBucket)
	must(t, err)
	written, err := copies.Watch(t.Context(), jetstream.UpdatesOnly())
	must(t, err)
	defer written.Stop() //nolint:errcheck // the connection ends with the test
	s := openStore(t, one.dir)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- turn.Copy(ctx, s) }()
	await(t, "the first copy", written.Updates())
	must(t, s.Update(func(tx *store.Tx) error { return tx.PutHalt("A100", store.Halt{Scope: "agency", Status: 403}) }))
	await(t, "the copy after a halt", written.Updates())
	stop()
	if err := await(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

// TestADeletedBucketIsMadeAgain is about buckets without which no doorbell of the pair could work.
func TestADeletedBucketIsMadeAgain(t *testing.T) {
	t.Parallel()
	connect := natsAt(t)
	one := start(t, connect(), "one")
	turn := await(t, "the turn of one", one.turn)
	js := jetStream(t, connect())
	must(t, js.DeleteObjectStore(t.Context(), CopyBucket))
	s := openStore(t, one.dir)
	if err := turn.CopyNow(t.Context(), s); err != nil {
		t.Errorf("the copy is not written: %v", err)
	}
	s.Close()
	must(t, js.DeleteObjectStore(t.Context(), CopyBucket))
	must(t, js.DeleteKeyValue(t.Context(), Bucket))
	turn.mu.Lock()
	turn.good = time.Time{} // as 15 s later
	turn.mu.Unlock()
	await(t, "the next turn", one.turn)
}

// TestAStartRemovesWhatAKilledProcessLeftOfACopy is about people: the next turn may be far away.
func TestAStartRemovesWhatAKilledProcessLeftOfACopy(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{parts + "/" + storeFile, parts + "/" + incoming} {
		path := filepath.Join(dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("Nora-zq7"), 0o600)))
	}
	ended, stop := context.WithCancel(t.Context())
	stop()
	must(t, Run(ended, Options{Dir: dir}))
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// slowLine limits the bytes a second that reach the client.
type slowLine struct {
	server nats.InProcessConnProvider
	rate   int
}

func (l *slowLine) InProcessConn() (net.Conn, error) {
	c, err := l.server.InProcessConn()
	return slowConn{c, l.rate}, err
}

type slowConn struct {
	net.Conn
	rate int
}

func (c slowConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p[:min(len(p), 4<<10)])
	<-time.After(time.Duration(n) * time.Second / time.Duration(c.rate))
	return n, err
}

// TestACopyMayTakeLongToArrive is about a large store, or a slow line.
func TestACopyMayTakeLongToArrive(t *testing.T) {
	t.Parallel()
	connect := natsAt(t)
	one := start(t, connect(), "one")
	turn := await(t, "the turn of one", one.turn)
	large := make([]byte, 7<<18)
	rand.Read(large)
	path := filepath.Join(one.dir, "forward", "large.json")
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, large, 0o600)))
	s := openStore(t, one.dir)
	must(t, turn.CopyNow(t.Context(), s))
	s.Close()
	two := start(t, connect(&slowLine{rate: 1 << 18}), "two")
	one.stop()
	await(t, "the turn of two", two.turn)
	if got, err := os.ReadFile(filepath.Join(two.dir, "forward", "large.json")); err != nil || !bytes.Equal(got, large) {
		t.Errorf("%d bytes arrived, %v", len(got), err)
	}
}

// TestTheRemainsOfAnInterruptedCopyAreRemoved: a part that stayed would hold people until it
// expires, even if they are erased meanwhile. Over its slow line the copy takes seconds.
func TestTheRemainsOfAnInterruptedCopyAreRemoved(t *testing.T) {
	connect := natsAt(t)
	one := start(t, connect(&slowLine{rate: 1 << 14}), "one")
	turn := await(t, "the turn", one.turn)
	path := filepath.Join(one.dir, "forward", "large.json")
	large := make([]byte, 64<<20)
	rand.Read(large)
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, large, 0o600)))
	s := openStore(t, one.dir)
	defer s.Close()
	js := jetStream(t, connect())
	stored := func() uint64 {
		t.Helper()
		objects, err := js.Stream(t.Context(), "OBJ_"+CopyBucket)
		if err != nil {
			return 0 // not made yet
		}
		return objects.CachedInfo().State.Msgs
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- turn.CopyNow(ctx, s) }()
	for deadline := time.Now().Add(patience); stored() == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is written")
		}
	}
	stop()
	if err := await(t, "the end of the copy", ended); err == nil {
		t.Fatal("it was not interrupted")
	}
	if n := stored(); n > 0 {
		t.Errorf("%d parts are left", n)
	}
}

func TestAnArchiveWritesNothingOutsideItsFolder(t *testing.T) {
	var b bytes.Buffer
	archive := zip.NewWriter(&b)
	if _, err := archive.Create("../outside"); err != nil {
		t.Fatal(err)
	}
	must(t, archive.Close())
	dir := t.TempDir()
	into := filepath.Join(dir, "into")
	must(t, os.Mkdir(into, 0o700))
	_ = unpack(&b, into)
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("a file outside the folder was written: %v, %v", left, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
