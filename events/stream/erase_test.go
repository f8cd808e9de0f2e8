package stream

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/events/natsd"
	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// found returns how often a text is in the files below a folder.
func found(t *testing.T, dir, text string) (n int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		var data []byte
		if err == nil {
			data, err = os.ReadFile(path)
		}
		n += bytes.Count(data, []byte(text))
		if errors.Is(err, syscall.EISDIR) || errors.Is(err, fs.ErrNotExist) { // a temporary file of the server
			return nil
		}
		return err
	}))
	return n
}

// TestNothingOfAnErasedMessageIsLeftInTheFiles erases messages at every place in the files of the server: while it runs, after it
// was stopped, and after it was started again. Of a subject that has no message any more the server's index keeps the
// text for a while: none holds a person.
func TestNothingOfAnErasedMessageIsLeftInTheFiles(t *testing.T) {
	const person, other = "SENTINELPERSON", "SENTINELOTHER"
	dir := t.TempDir()
	s, c := onDisk(t, dir)
	config := wanted()
	config.MaxBytes = 127_000 // files of 32 kB
	js, _ := c.Conn.JetStream()
	exists(t, js, config)
	restart := func() {
		s.Shutdown() // what the caches held is read from the files again
		s, c = onDisk(t, dir)
	}
	want, others := 0, 0
	fill := func() { // a person is at the beginning and the end of each file, and between
		js, _ := c.Conn.JetStream()
		for i := range 75 {
			who := []string{person, other, person}[i%3]
			m := &nats.Msg{Subject: "listings.dlq.a", Data: []byte(who + strings.Repeat("x", 1<<10)), Header: nats.Header{"Who": {who}}}
			if _, err := js.PublishMsg(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		want, others = 50, others+25
	}
	erase := func() {
		n, err := c.Erase(t.Context(), "listings.dlq.>", func(m *Message) bool { return m.Header.Get("Who") == person })
		if err != nil || n != want {
			t.Fatalf("%d of %d erased: %v", n, want, err)
		}
	}
	search := func(when string) {
		t.Helper()
		if n := found(t, dir, person); n > 0 {
			t.Errorf("%s: the person occurs %d times", when, n)
		}
		if n := found(t, dir, other); n < 2*others { // in the header and in the data
			t.Errorf("%s: of %d others only %d traces are found", when, others, n)
		}
	}
	fill()
	if files := blocks(t, dir); len(files) < 3 {
		t.Fatalf("%d files of messages", len(files))
	}
	erase()
	search("running")
	restart()
	search("started again")
	fill()
	restart()
	erase()
	search("of an earlier run")
	s.Shutdown()
	search("stopped")
}

// onDisk starts a server on a folder, and returns a client of the stream LETTERS.
func onDisk(t *testing.T, dir string) (*natsd.Server, Client) {
	t.Helper()
	s := start(t, natsd.Options{StoreDir: dir, Listen: "off"})
	return s, Client{Conn: Conn{Conn: ownUser(t, s)}, Stream: "LETTERS", Wait: 5 * time.Second}
}

// ownUser is a connection of the server's own user.
func ownUser(t *testing.T, s *natsd.Server) *nats.Conn {
	t.Helper()
	conn, err := s.Connect("test")
	must(t, err)
	t.Cleanup(conn.Close)
	return conn
}

// blocks are the files of the stream's messages.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream/*/streams/LETTERS/msgs/*.blk"))
	must(t, err)
	return files
}

func TestErasingWhatIsAlreadyErasedIsNoError(t *testing.T) {
	js := natsdtest.Embedded(t)
	c := Client{Conn: Conn{Conn: js.Conn()}, Stream: "LETTERS", Wait: 5 * time.Second}
	all := func(*Message) bool { return true }
	if n, err := c.Erase(t.Context(), "listings.dlq.>", all); n != 0 || err != nil {
		t.Fatalf("without a stream: %d, %v", n, err)
	}
	exists(t, js, wanted())
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
		must(t, err)
		left = append(left, m.Sequence)
	}
	if !slices.Equal(left, []uint64{1, 2}) {
		t.Errorf("%v are left", left)
	}
}

func TestAServerThatCouldNotOverwriteAMessageHasNotErasedIt(t *testing.T) {
	dir := t.TempDir()
	_, c := onDisk(t, dir)
	js, _ := c.Conn.JetStream()
	exists(t, js, wanted())
	for range 2 {
		if _, err := js.Publish(t.Context(), "listings.dlq.a", nil); err != nil {
			t.Fatal(err)
		}
	}
	files := blocks(t, dir)
	if err := os.Mkdir(files[0]+".tmp", 0o700); err != nil { // where the server would write
		t.Fatal(err)
	}
	if erased, err := c.EraseAt(t.Context(), 2); erased || err == nil {
		t.Errorf("%t, %v", erased, err)
	}
	if m, err := c.Get(t.Context(), Query{Sequence: 2}); m != nil || err != nil {
		t.Errorf("the server shows it (%t, %v): looking in the files is no longer needed", m != nil, err)
	}
	if n, err := c.Erase(t.Context(), "listings.dlq.>", func(m *Message) bool { return m.Sequence == 2 }); n != 0 || err == nil {
		t.Errorf("once more: %d, %v", n, err)
	}
}

func TestAStreamThatForbidsErasureIsReportedBeforehand(t *testing.T) {
	s := start(t, natsd.Options{})
	own := ownUser(t, s)
	guest, err := nats.Connect(s.ClientURL())
	must(t, err)
	t.Cleanup(guest.Close)
	js, err := jetstream.New(own)
	must(t, err)
	for name, c := range map[string]struct {
		conn *nats.Conn
		made func(*jetstream.StreamConfig) // nil: the stream is missing
		want string                        // empty: it may
	}{
		"by the server's own user":     {own, func(*jetstream.StreamConfig) {}, ""},
		"by a guest":                   {guest, func(*jetstream.StreamConfig) {}, "this NATS user is not allowed to publish to $JS.API.STREAM.MSG.DELETE."},
		"by a guest, without a stream": {guest, nil, ""},
		"where it is denied":           {own, func(c *jetstream.StreamConfig) { c.DenyDelete = true }, "deny_delete"},
	} {
		t.Run(name, func(t *testing.T) {
			stream := strings.NewReplacer(" ", "_", ",", "", "'", "").Replace(name)
			if c.made != nil {
				config := wanted()
				config.Name, config.Subjects = stream, []string{stream + ".>"}
				c.made(&config)
				exists(t, js, config)
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
