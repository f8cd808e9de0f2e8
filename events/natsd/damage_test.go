package natsd

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	damages    = flag.Int("damages", 120, "how many damaged folders are tried")
	damageSeed = flag.Uint64("damage-seed", 0, "the seed of one damage that failed; 0: all")
)

const written = 100 // messages in a folder that is damaged, in several blocks

// folders are made once: one as a server leaves it that was shut down, one as it stands when the power fails.
func folders(t *testing.T) (clean, crashed string) {
	t.Helper()
	clean, crashed = t.TempDir(), t.TempDir()
	s := start(t, func(o *Options) { o.StoreDir = filepath.Join(clean, "jetstream") })
	_, js := connect(t, s)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, MaxBytes: 125_000, Discard: jetstream.DiscardNew, MaxAge: time.Hour,
		AllowAtomicPublish: true, AllowDirect: true,
	}); err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	for n := range written {
		if _, err := js.PublishMsg(t.Context(), message(n+1)); err != nil {
			t.Fatal(err)
		}
		if n == 20 {
			acknowledge(t, c, 10)
		}
	}
	if err := os.CopyFS(filepath.Join(crashed, "jetstream"), os.DirFS(filepath.Join(clean, "jetstream"))); err != nil {
		t.Fatal(err)
	}
	s.Shutdown()
	blocks, err := filepath.Glob(filepath.Join(clean, "jetstream/jetstream/DOORBELL/streams/LISTINGS/msgs/*.blk"))
	if err != nil || len(blocks) < 2 {
		t.Fatalf("%d blocks, %v", len(blocks), err)
	}
	return clean, crashed
}

func acknowledge(t *testing.T, c jetstream.Consumer, n int) {
	t.Helper()
	batch, err := c.Fetch(n)
	if err != nil {
		t.Fatal(err)
	}
	for m := range batch.Messages() {
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func message(n int) *nats.Msg {
	m := nats.NewMsg(fmt.Sprintf("listings.v1.A%d.test", n%3))
	m.Header.Set("ce-id", fmt.Sprint("id-", n))
	m.Data = bytes.Repeat([]byte{byte('a' + n%26)}, 900+n)
	return m
}

// damage changes one place of one file, and says which.
func damage(t *testing.T, r *rand.Rand, dir string) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "jetstream"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.Contains(path, "PULSE") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) < 6 {
		t.Fatal(err, files)
	}
	slices.Sort(files)
	if r.IntN(2) == 0 { // most of the bytes are in blocks
		files = slices.DeleteFunc(files, func(f string) bool { return !strings.HasSuffix(f, ".blk") })
	}
	path := files[r.IntN(len(files))]
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	what := "empty"
	if len(b) > 0 {
		at := r.IntN(len(b))
		switch r.IntN(5) {
		case 0, 1, 2:
			b[at] ^= 1 << r.IntN(8)
			what = fmt.Sprint("flip at ", at)
		case 3:
			b = b[:at/64*64]
			what = fmt.Sprint("cut at ", at/64*64)
		case 4:
			clear(b[at:min(len(b), at+64)])
			what = fmt.Sprint("zeros at ", at)
		}
	}
	if r.IntN(20) == 0 {
		b, what = nil, "removed"
	}
	if b == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path) + ": " + what
}

// TestDamagedFilesAreMendedOrSetAsideAndNothingIsMissingInSilence damages a folder in one place, as it was left in peace or
// by a crash, and looks what a start makes of it. `go test ./events/natsd -run TestDamaged -damages 2000` is the long form.
func TestDamagedFilesAreMendedOrSetAsideAndNothingIsMissingInSilence(t *testing.T) {
	clean, crashed := folders(t)
	outcomes := map[string]int{}
	for seed := range uint64(*damages) {
		if *damageSeed != 0 && seed+1 != *damageSeed {
			continue
		}
		r := rand.New(rand.NewPCG(seed+1, 0))
		template := clean
		if r.IntN(2) == 0 {
			template = crashed
		}
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.CopyFS(dir, os.DirFS(template)); err != nil {
			t.Fatal(err)
		}
		what := damage(t, r, dir)
		outcome, err := afterStart(t, dir, template == crashed)
		if err != nil {
			t.Errorf("-damage-seed %d: %s: %v", seed+1, what, err)
		}
		outcomes[outcome]++
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(outcomes)
}

// afterStart starts a server on a damaged folder and says how it ended; an error if something is missing and nobody knows.
func afterStart(t *testing.T, dir string, crashed bool) (string, error) {
	t.Helper()
	var out buffer
	begin := time.Now()
	s, err := Start(t.Context(), Options{
		StoreDir: filepath.Join(dir, "jetstream"), Logger: slog.New(slog.NewTextHandler(&out, nil)), StartTimeout: 20 * time.Second,
	})
	if err != nil {
		return "refused", fmt.Errorf("refused: %w", err)
	}
	defer s.Shutdown()
	if took := time.Since(begin); took > 10*time.Second {
		return "slow", fmt.Errorf("it took %s", took)
	}
	aside, said := len(s.asides()), strings.Count(out.String(), "are set aside")
	if aside != said {
		return "silent", fmt.Errorf("%d set aside, said %d times", aside, said)
	}
	nc, err := s.Connect("relay")
	if err != nil {
		return "", err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return "", err
	}
	stream, err := js.Stream(t.Context(), "LISTINGS")
	if errors.Is(err, jetstream.ErrStreamNotFound) && aside == 1 {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}})
		if err == nil {
			_, err = js.PublishMsg(t.Context(), message(1))
		}
		return "stream set aside", err
	}
	if err != nil {
		return "", fmt.Errorf("the stream: %w", err)
	}
	last := stream.CachedInfo().State.LastSeq
	if last < written && !crashed { // else the relay sees a last sequence below its cursor
		return "", fmt.Errorf("the last message is %d", last)
	}
	for n := uint64(1); n <= last; n++ {
		m, err := stream.GetMsg(t.Context(), n)
		if err != nil {
			return "", fmt.Errorf("message %d: %w", n, err)
		}
		if want := message(int(n)); m.Subject != want.Subject || m.Header.Get("ce-id") != want.Header.Get("ce-id") || !bytes.Equal(m.Data, want.Data) {
			return "", fmt.Errorf("message %d is another", n)
		}
	}
	if err := s.Healthy(); err != nil {
		return "", err
	}
	_, err = stream.Consumer(t.Context(), "crm")
	switch {
	case aside == 1 && errors.Is(err, jetstream.ErrConsumerNotFound):
		return "consumer set aside", nil
	case err != nil:
		return "", fmt.Errorf("the consumer: %w", err)
	case last < written:
		return "tail cut, as the relay will see", nil
	}
	return "as before", nil
}

func TestWhatWasNotDamagedIsLeftAlone(t *testing.T) {
	clean, crashed := folders(t)
	for _, dir := range []string{clean, crashed} {
		if outcome, err := afterStart(t, dir, false); outcome != "as before" || err != nil {
			t.Errorf("%s, %v", outcome, err)
		}
	}
}

func TestAFolderThatKeepsTheServerFromStartingIsSetAsideAfterThreeStarts(t *testing.T) {
	_, dir := folders(t)
	o := Options{StoreDir: filepath.Join(dir, "jetstream"), StartTimeout: time.Nanosecond}
	for range mostSlowStarts {
		if _, err := Start(t.Context(), o); !errors.Is(err, errNotReady) {
			t.Fatalf("started, or: %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := Start(cancelled, o); err == nil { // one that is called off does not count
			t.Fatal("started")
		}
	}
	var out buffer
	o.StartTimeout, o.Logger = 0, slog.New(slog.NewTextHandler(&out, nil))
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	_, js := connect(t, s)
	makeStream(t, js, 1)
	kept, err := filepath.Glob(filepath.Join(dir, corruptPrefix+"*", "DOORBELL/streams/LISTINGS/msgs/1.blk"))
	if err != nil || len(kept) != 1 || len(s.asides()) != 1 || !strings.Contains(out.String(), "are set aside") {
		t.Fatalf("%v %v\n%s", kept, err, out.String())
	}
	s.Shutdown()
	if s, err = Start(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	if len(s.asides()) != 1 {
		t.Fatal("set aside again")
	}
}
