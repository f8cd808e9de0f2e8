package relay

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/events/natsd"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var (
	rounds     = flag.Int("rounds", 1, "how many times 12 damaged folders, 10 happenings, 4 kills of a server and one of a leader are tried")
	damageSeed = flag.Uint64("damage-seed", 0, "the seed of one damage that failed; 0: all")
)

const delivered = 60 // events of each agency in a folder that is damaged

// damageable are two folders of a server that has taken all of a log: one as it is when the power fails, and one as it is
// left by a server that was shut down.
func damageable(t *testing.T) (b *bell, folders [2]string) {
	t.Helper()
	folders = [2]string{t.TempDir(), t.TempDir()}
	b = newBell(t, func(o *natsd.Options) { o.StoreDir = filepath.Join(folders[1], "jetstream") })
	b.o.MaxBytes = 125_000 // makes several blocks
	for range 3 {
		b.log.ring(t, "A100", delivered/3)
		b.log.ring(t, "B200", delivered/3)
		b.deliver()
	}
	if _, err := b.stream().CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy}); err != nil {
		t.Fatal(err)
	}
	must(t, os.CopyFS(filepath.Join(folders[0], "jetstream"), os.DirFS(filepath.Join(folders[1], "jetstream"))))
	b.nc.Close()
	b.server.Shutdown()
	return b, folders
}

// damage changes one place of one file, and returns which.
func damage(t *testing.T, r *rand.Rand, dir string) string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(filepath.Join(dir, "jetstream/jetstream/DOORBELL"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
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
	data, err := os.ReadFile(path)
	must(t, err)
	what := "empty"
	if len(data) > 0 {
		at := r.IntN(len(data))
		switch r.IntN(5) {
		case 0, 1, 2:
			data[at] ^= 1 << r.IntN(8)
			what = fmt.Sprint("flip at ", at)
		case 3:
			data = data[:at/64*64]
			what = fmt.Sprint("cut at ", at/64*64)
		case 4:
			clear(data[at:min(len(data), at+64)])
			what = fmt.Sprint("zeros at ", at)
		}
	}
	if err = os.WriteFile(path, data, 0o600); r.IntN(20) == 0 {
		err, what = os.Remove(path), "removed"
	}
	must(t, err)
	return filepath.Base(filepath.Dir(path)) + "/" + filepath.Base(path) + ": " + what
}

// TestNoDamageOfTheStreamsFolderLosesAnEvent damages a folder in one place, as it was left in peace or by a crash, and looks
// whether the stream holds all of the log again. `go test ./events/relay -run TestNoDamage -rounds 80` is the long form.
func TestNoDamageOfTheStreamsFolderLosesAnEvent(t *testing.T) {
	t.Parallel()
	b, folders := damageable(t)
	log := b.log.backup()
	t.Run("seeds", func(t *testing.T) { // each mostly waits for servers
		for seed := uint64(1); seed <= uint64(12**rounds); seed++ {
			if *damageSeed != 0 && seed != *damageSeed {
				continue
			}
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				r := rand.New(rand.NewPCG(seed, 0))
				dir := filepath.Join(t.TempDir(), "data")
				must(t, os.CopyFS(dir, os.DirFS(folders[r.IntN(2)])))
				what := damage(t, r, dir)
				if err := afterDamage(t, b, log, dir); err != nil {
					t.Errorf("-damage-seed %d: %s: %v", seed, what, err)
				}
			})
		}
	})
}

// afterDamage starts a server on a damaged folder, as often as it takes, and a relay at it.
func afterDamage(t *testing.T, template *bell, log []byte, dir string) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for n := 1; ; n++ { // damage may be the end of the process that starts it first
		c := exec.CommandContext(ctx, os.Args[0])
		c.Env = append(os.Environ(), startedFolder+"="+filepath.Join(dir, "jetstream"))
		out, err := c.CombinedOutput()
		if err == nil {
			break
		}
		if n == 8 {
			return fmt.Errorf("%w: %.2000s", err, out)
		}
		if strings.Contains(string(out), helptest.TooMuchMemory) { // a person moves the folder away
			if err := os.Rename(filepath.Join(dir, "jetstream"), filepath.Join(dir, "jetstream.damaged-by-memory")); err != nil {
				return err
			}
		}
	}
	s, err := natsd.Start(ctx, embedded(filepath.Join(dir, "jetstream"), logTo(t)))
	if err != nil {
		return err
	}
	defer s.Shutdown()
	b := *template
	b.t, b.server, b.log = t, s, newLog(t)
	b.log.setBack(log)
	b.nc = b.connect()
	defer b.nc.Close()
	if b.js, err = jetstream.New(b.nc); err != nil {
		return err
	}
	b.o.Conn.Conn, b.o.Log, b.o.StoreID, b.o.Restart = b.nc, b.log, b.log.ID(), s.Restart
	r := b.relay()
	eventually(t, "a connection", func() bool { // the server may be restarted
		err = r.RunOnce(ctx)
		return !errors.Is(err, stream.ErrNotConnected)
	})
	return errors.Join(err, b.consumed(ctx))
}

// startedFolder names the folder on which this program, instead of testing, starts a server, reads the stream and ends it.
const startedFolder = "RELAY_TEST_STARTED_FOLDER"

func embedded(folder string, log io.Writer) natsd.Options {
	return natsd.Options{StoreDir: folder, Stream: "LISTINGS", Logger: slog.New(slog.NewTextHandler(log, nil))}
}

func startOnce(folder string) {
	helptest.LimitMemory() // one flipped bit in the sequence of a message makes the server take memory when it reads that block
	s, err := natsd.Start(context.Background(), embedded(folder, os.Stderr))
	if err == nil {
		err = readAll(s)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s.Shutdown()
}

// readAll reads the stream as far as it can be read. What is missing is for the parent.
func readAll(s *natsd.Server) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	nc, err := s.Connect("relay")
	if err != nil {
		return err
	}
	defer nc.Close()
	c := stream.Client{Conn: stream.Conn{Conn: nc}, Stream: "LISTINGS", Wait: 10 * time.Second}
	for _, a := range []string{"A100", "B200"} {
		_, _ = c.ReadToEnd(ctx, events.AgencyFilter("listings", a), 0, func(*stream.Message) error { return nil })
	}
	return nil
}

// consumed reads the stream as a consumer does, until it has all of the log.
func (b *bell) consumed(ctx context.Context) error {
	want := map[string]bool{}
	for _, a := range []string{"A100", "B200"} {
		for _, e := range b.log.list(a) {
			want[e.ID] = true
		}
	}
	c, err := b.js.CreateOrUpdateConsumer(ctx, "LISTINGS", jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		return err
	}
	for len(want) > 0 {
		m, err := c.Next(jetstream.FetchMaxWait(20 * time.Second))
		if err != nil {
			return fmt.Errorf("a consumer lacks %d events: %w", len(want), err)
		}
		if err := m.Ack(); err != nil {
			return err
		}
		delete(want, m.Headers().Get("ce-id"))
	}
	return nil
}

// TestADamagedMessageIsReplaced has one without headers under the id of an event, which the server
// knows until it is restarted; also where the reply to its erasure is lost.
func TestADamagedMessageIsReplaced(t *testing.T) {
	t.Parallel()
	for _, interrupted := range []bool{false, true} {
		b := newBell(t)
		b.o.Restart = b.server.Restart
		b.log.ring(t, "A100", 3)
		if _, err := b.js.CreateStream(t.Context(), b.o.StreamConfig()); err != nil {
			t.Fatal(err)
		}
		damaged := b.log.list("A100")[1]
		subject := events.Subject("listings", "A100", damaged.Type)
		if _, err := b.js.Publish(t.Context(), subject, nil, jetstream.WithMsgID(damaged.ID)); err != nil {
			t.Fatal(err)
		}
		r := b.relay()
		if interrupted {
			ctx, cancel := context.WithCancel(t.Context())
			spy := b.connect()
			if _, err := spy.Subscribe("$JS.API.STREAM.MSG.DELETE.LISTINGS", func(*nats.Msg) { cancel() }); err != nil {
				t.Fatal(err)
			}
			must(t, spy.Flush())
			if err := r.RunOnce(ctx); err == nil {
				t.Fatal("it was not interrupted")
			}
			spy.Close()
		}
		eventually(t, "published", func() bool { return r.RunOnce(t.Context()) == nil })
		eventually(t, "a connection", b.nc.IsConnected)
		exactlyOnce(t, b.js, b.log, "A100", 0)
	}
}
