package stream

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/synadia-io/orbit.go/jetstreamext"
)

// found says how often a text stands in the files below a folder.
func found(t *testing.T, dir, text string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // a temporary file of the server
			return nil
		}
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		n += bytes.Count(data, []byte(text))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestNothingOfAnErasedMessageIsLeftInTheFiles erases what stands in every place that a file of messages has, of what was published singly and
// in batches: while the server runs, after it was stopped, and after it was started again.
// Of a subject that has no message any more the server's index keeps the text for a while: none holds a person.
func TestNothingOfAnErasedMessageIsLeftInTheFiles(t *testing.T) {
	const person, other = "SENTINELPERSON", "SENTINELOTHER"
	dir := t.TempDir()
	open := func() (*natsd.Server, jetstream.JetStream) {
		s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: dir, Listen: "off"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		conn, err := s.Connect("test")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(conn.Close)
		js, err := jetstream.New(conn)
		if err != nil {
			t.Fatal(err)
		}
		return s, js
	}
	s, js := open()
	config := wanted()
	config.MaxBytes, config.AllowAtomicPublish = 127_000, true // files of 32 kB
	if _, err := js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	want, others := 0, 0
	fill := func() { // more than one file of the server: a person stands at the begin and the end of each, and between
		filler := strings.Repeat("x", 1<<10)
		for range 25 {
			batch, err := jetstreamext.NewBatchPublisher(js, jetstreamext.BatchFlowControl{})
			if err != nil {
				t.Fatal(err)
			}
			message := func(who string) *nats.Msg {
				return &nats.Msg{Subject: "listings.dlq.a", Data: []byte(who + filler), Header: nats.Header{"Who": {who}}}
			}
			if err := errors.Join(batch.AddMsg(message(person)), batch.AddMsg(message(other))); err != nil {
				t.Fatal(err)
			}
			if _, err := batch.CommitMsg(t.Context(), message(person)); err != nil {
				t.Fatal(err)
			}
			want, others = want+2, others+1
		}
	}
	c := Client{Conn: Conn{Conn: js.Conn()}, Stream: "LETTERS", Wait: 5 * time.Second}
	erase := func() {
		n, err := c.Erase(t.Context(), "listings.dlq.>", func(m *Message) bool { return m.Header.Get("Who") == person })
		if err != nil || n != want {
			t.Fatalf("%d of %d erased: %v", n, want, err)
		}
		want = 0
	}
	search := func(when string) {
		t.Helper()
		if n := found(t, dir, person); n > 0 {
			t.Errorf("%s: the person stands there %d times", when, n)
		}
		if n := found(t, dir, other); n < 2*others { // in the header and in the data
			t.Errorf("%s: of %d others only %d traces are found", when, others, n)
		}
	}
	fill()
	if files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", "LETTERS", "msgs", "*.blk")); err != nil || len(files) < 3 {
		t.Fatalf("%d files of messages, %v", len(files), err)
	}
	erase()
	search("running")
	s.Shutdown()
	search("stopped")
	s, js = open()
	c.Conn = Conn{Conn: js.Conn()}
	search("started again")
	fill()
	s.Shutdown() // what the caches held is read from the files again
	s, js = open()
	c.Conn = Conn{Conn: js.Conn()}
	erase()
	search("of an earlier run")
	s.Shutdown()
	search("stopped once more")
}

func TestWhatIsErasedTwiceOrByOthersIsNoError(t *testing.T) {
	js := natsdtest.Embedded(t)
	c := Client{Conn: Conn{Conn: js.Conn()}, Stream: "LETTERS", Wait: 5 * time.Second}
	all := func(*Message) bool { return true }
	if n, err := c.Erase(t.Context(), "listings.dlq.>", all); n != 0 || err != nil {
		t.Fatalf("without a stream: %d, %v", n, err)
	}
	if _, err := js.CreateStream(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"a.1", "b.1", "a.2", "a.3"} {
		if _, err := js.Publish(t.Context(), "listings.dlq."+subject, nil); err != nil {
			t.Fatal(err)
		}
	}
	meanwhile := func(m *Message) bool {
		if m.Sequence == 3 {
			if erased, err := c.EraseAt(t.Context(), 3); !erased || err != nil {
				t.Errorf("%t, %v", erased, err)
			}
		}
		return m.Sequence > 1
	}
	if n, err := c.Erase(t.Context(), "listings.dlq.a.*", meanwhile); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := c.Erase(t.Context(), "listings.dlq.a.*", meanwhile); n != 0 || err != nil {
		t.Errorf("once more: %d, %v", n, err)
	}
	var left []uint64
	for m, err := range c.Read(t.Context(), ">", 0) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, m.Sequence)
	}
	if !slices.Equal(left, []uint64{1, 2}) {
		t.Errorf("%v are left", left)
	}
}

func TestAServerThatCouldNotOverwriteAMessageHasNotErasedIt(t *testing.T) {
	dir := t.TempDir()
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	c := Client{Conn: Conn{Conn: conn}, Stream: "LETTERS", Wait: 5 * time.Second}
	if _, err := js.CreateStream(t.Context(), wanted()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := js.Publish(t.Context(), "listings.dlq.a", nil); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "jetstream/*/streams/LETTERS/msgs/*.blk"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Mkdir(files[0]+".tmp", 0o700); err != nil { // where the server would write
		t.Fatal(err)
	}
	if erased, err := c.EraseAt(t.Context(), 2); erased || err == nil {
		t.Errorf("%t, %v", erased, err)
	}
	if m, err := c.Get(t.Context(), Query{Sequence: 2}); m != nil || err != nil {
		t.Errorf("the server shows it (%t, %v): then no other look is needed", m != nil, err)
	}
	if n, err := c.Erase(t.Context(), "listings.dlq.>", func(m *Message) bool { return m.Sequence == 2 }); n != 0 || err == nil {
		t.Errorf("once more: %d, %v", n, err)
	}
}

func TestItIsSaidBeforehandWhereNothingMayBeErased(t *testing.T) {
	s := start(t, natsd.Options{})
	own, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Close)
	guest, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guest.Close)
	js, err := jetstream.New(own)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		conn *nats.Conn
		made func(*jetstream.StreamConfig) // nil: the stream is missing
		want string                        // empty: it may
	}{
		"by the server's own user": {own, func(*jetstream.StreamConfig) {}, ""},
		"by a guest":               {guest, func(*jetstream.StreamConfig) {}, "this user of NATS may not publish to $JS.API.STREAM.MSG.DELETE."},
		"by a guest, from nothing": {guest, nil, ""},
		"from nothing":             {own, nil, ""},
		"where it is denied":       {own, func(c *jetstream.StreamConfig) { c.DenyDelete = true }, "deny_delete"},
	} {
		t.Run(name, func(t *testing.T) {
			stream := strings.NewReplacer(" ", "_", ",", "", "'", "").Replace(name)
			if c.made != nil {
				config := wanted()
				config.Name, config.Subjects = stream, []string{stream + ".>"}
				c.made(&config)
				if _, err := js.CreateStream(t.Context(), config); err != nil {
					t.Fatal(err)
				}
			}
			client := Client{Conn: Conn{Conn: c.conn}, Stream: stream, Wait: 300 * time.Millisecond}
			err := client.MayErase(t.Context())
			if errors.Is(err, ErrMayNotErase) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) || c.want == "" && err != nil {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.conn != guest || c.made == nil {
				return
			}
			if _, err := js.Publish(t.Context(), stream+".a", nil); err != nil {
				t.Fatal(err)
			}
			if n, err := client.Erase(t.Context(), ">", func(*Message) bool { return true }); n != 0 || !errors.Is(err, ErrMayNotErase) {
				t.Errorf("%d, %v", n, err)
			}
		})
	}
}
