package stream

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestJetStreamIsReachedWhereTheConnectionSaysItIs makes, fills, consumes and erases a stream behind a leaf node without a JetStream
// of its own, and from an account that imports the API of another.
func TestJetStreamIsReachedWhereTheConnectionSaysItIs(t *testing.T) {
	leaf, account := behindALeaf(t), imported(t)
	for name, c := range map[string]struct {
		conn, wrong Conn
	}{
		"behind a leaf node": {Conn{Conn: leaf, Domain: "hub"}, Conn{Conn: leaf, Domain: "hup"}},
		"of another account": {Conn{Conn: account, APIPrefix: "JS.leads.API"}, Conn{Conn: account, APIPrefix: "JS.lead.API."}},
	} {
		t.Run(name, func(t *testing.T) {
			js, err := c.conn.JetStream()
			must(t, err)
			want := Complete(jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, MaxAge: 100 * time.Hour, Duplicates: 100 * time.Hour})
			awaitInterest(t, js)
			if _, err := Ensure(t.Context(), js, want, Rights{Manage: true}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := js.Publish(t.Context(), "listings.v1.A100.x", []byte("one"), jetstream.WithMsgID("1")); err != nil {
					t.Fatal(err)
				}
			}
			consumer, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy})
			must(t, err)
			m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
			if err != nil || string(m.Data()) != "one" {
				t.Fatalf("consumed: %v", err)
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Errorf("acknowledged: %v", err)
			}
			client := Client{Conn: c.conn, Stream: "LISTINGS", Wait: 5 * time.Second}
			if m, err := client.Get(t.Context(), Query{Last: "listings.v1.>"}); err != nil || m == nil || m.Sequence != 1 {
				t.Errorf("got %+v, %v", m, err)
			}
			if err := client.MayErase(t.Context()); err != nil {
				t.Error(err)
			}
			if n, err := client.Erase(t.Context(), "listings.v1.>", func(*Message) bool { return true }); n != 1 || err != nil {
				t.Errorf("%d erased: %v", n, err)
			}
			for _, wrong := range []Conn{c.wrong, {Conn: c.conn.Conn}} {
				if js, err = wrong.JetStream(); err != nil {
					t.Fatal(err)
				}
				_, err = js.AccountInfo(t.Context())
				said, advice := Explain(wrong, err), "at "+c.conn.ConnectedUrl()+": enable it there, or set NATS_JS_DOMAIN"
				if said == nil || !strings.Contains(said.Error(), advice) || errors.Is(said, ErrNotConnected) {
					t.Errorf("%v is explained as %v, which should say %s", err, said, advice)
				}
			}
		})
	}
}

// awaitInterest waits until a server knows where JetStream is.
func awaitInterest(t *testing.T, js jetstream.JetStream) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		_, err := js.AccountInfo(ctx)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// behindALeaf is a connection to a leaf node without JetStream, whose hub has it in the domain hub.
func behindALeaf(t *testing.T) *nats.Conn {
	t.Helper()
	hub := &server.Options{JetStream: true, JetStreamDomain: "hub", StoreDir: t.TempDir(), LeafNode: server.LeafNodeOpts{Host: "127.0.0.1", Port: -1}}
	serve(t, hub) // and it writes down which port it took
	at := &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", hub.LeafNode.Port)}
	leaf := serve(t, &server.Options{LeafNode: server.LeafNodeOpts{Remotes: []*server.RemoteLeafOpts{{URLs: []*url.URL{at}}}}})
	return dial(t, leaf)
}

// imported is a connection of an account without JetStream, which imports the API of another one.
func imported(t *testing.T) *nats.Conn {
	t.Helper()
	file := filepath.Join(t.TempDir(), "nats.conf")
	text := `jetstream { store_dir: "` + t.TempDir() + `" }
accounts {
  LEADS { jetstream: enabled, users: [ { user: leads, password: leads } ]
    exports: [ { service: "$JS.API.>", response_type: stream }, { service: "$JS.ACK.>" }, { service: "listings.v1.>" } ] }
  APP { users: [ { user: app, password: app } ]
    imports: [ { service: { account: LEADS, subject: "$JS.API.>" }, to: "JS.leads.API.>" }
      { service: { account: LEADS, subject: "$JS.ACK.>" } }, { service: { account: LEADS, subject: "listings.v1.>" } } ] }
}`
	must(t, os.WriteFile(file, []byte(text), 0o600))
	o, err := server.ProcessConfigFile(file)
	must(t, err)
	return dial(t, serve(t, o), nats.UserInfo("app", "app"))
}

func serve(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	o.Host, o.Port, o.NoSigs, o.NoLog = "127.0.0.1", -1, true, true
	s, err := server.NewServer(o)
	must(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(20 * time.Second) {
		t.Fatal("the server does not start")
	}
	return s
}

func dial(t *testing.T, s *server.Server, o ...nats.Option) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), o...)
	must(t, err)
	t.Cleanup(nc.Close)
	return nc
}
