package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/events/helptest"

	"github.com/nats-io/nats-server/v2/server/ats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

var must, eventually = helptest.Must, helptest.Eventually

func TestMain(m *testing.M) {
	ats.Register()
	code := m.Run()
	ats.Unregister()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func start(t *testing.T, change ...func(*Options)) *Server {
	t.Helper()
	o := Options{StoreDir: t.TempDir(), Stream: "LISTINGS", Listen: "127.0.0.1:0", Protected: []string{"listings.v1.>"}}
	for _, c := range change {
		c(&o)
	}
	s, err := Start(t.Context(), o)
	must(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

func connect(t *testing.T, s *Server) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	nc, err := s.Connect("relay")
	must(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	must(t, err)
	return nc, js
}

func makeStream(t *testing.T, js jetstream.JetStream, messages int) {
	t.Helper()
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}}); err != nil {
		t.Fatal(err)
	}
	for range messages {
		if _, err := js.Publish(t.Context(), "listings.v1.A100.test", []byte("hi")); err != nil {
			t.Fatal(err)
		}
	}
}

// guest connects without credentials; refusals arrive on the channel.
func guest(t *testing.T, s *Server) (*nats.Conn, chan error) {
	t.Helper()
	refused := make(chan error, 10)
	nc, err := nats.Connect(s.ClientURL(), nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	must(t, err)
	t.Cleanup(nc.Close)
	return nc, refused
}

func TestAGuestReadsEventsAndPublishesElsewhere(t *testing.T) {
	s := start(t)
	_, js := connect(t, s)
	nc, _ := guest(t, s)
	preview, err := nc.SubscribeSync("listings.>")
	must(t, err)
	must(t, nc.Publish("listings.other", []byte("hi")))
	must(t, nc.Flush())
	makeStream(t, js, 3)
	for range 4 {
		if _, err := preview.NextMsg(time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	g, err := jetstream.New(nc)
	must(t, err)
	c, err := g.CreateOrUpdateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{
		Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "listings.v1.*.test",
	})
	must(t, err)
	for range 3 {
		m, err := c.Next()
		must(t, err)
		must(t, m.DoubleAck(t.Context()))
	}
	stream, err := g.Stream(t.Context(), "LISTINGS")
	must(t, err)
	if m, err := stream.GetMsg(t.Context(), 2); err != nil || string(m.Data) != "hi" {
		t.Fatalf("message 2: %v", err)
	}
	must(t, g.DeleteConsumer(t.Context(), "LISTINGS", "crm"))
}

func TestAGuestCannotChangeTheStream(t *testing.T) {
	s := start(t)
	_, js := connect(t, s)
	makeStream(t, js, 3)
	nc, refused := guest(t, s)
	for _, subject := range []string{
		"listings.v1.A100.test", "listings.v1.A100.contact_request.created", "listings.v1.x",
		"$JS.API.STREAM.CREATE.LISTINGS", "$JS.API.STREAM.CREATE.MINE", "$JS.API.STREAM.UPDATE.LISTINGS",
		"$JS.API.STREAM.DELETE.LISTINGS", "$JS.API.STREAM.PURGE.LISTINGS", "$JS.API.STREAM.MSG.DELETE.LISTINGS",
		"$JS.API.STREAM.RESTORE.LISTINGS", "$JS.API.STREAM.SNAPSHOT.LISTINGS", "$JS.API.STREAM.LEADER.STEPDOWN.LISTINGS",
		"$JS.API.STREAM.PEER.REMOVE.LISTINGS", "$JS.API.STREAM.CANCEL_MOVE.LISTINGS", "$JS.API.SERVER.REMOVE",
		"$JS.API.META.LEADER.STEPDOWN", "$JS.API.ACCOUNT.PURGE.DOORBELL", "_RELAY.forged.ack",
	} {
		must(t, nc.Publish(subject, nil))
		select {
		case err := <-refused:
			if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), `"`+subject+`"`) {
				t.Fatalf("%s: %v", subject, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s is allowed", subject)
		}
	}
	stream, err := js.Stream(t.Context(), "LISTINGS")
	must(t, err)
	if n := stream.CachedInfo().State.Msgs; n != 3 {
		t.Fatalf("%d messages", n)
	}
}

func TestAGuestCannotListenToTheRelaysInbox(t *testing.T) {
	s := start(t)
	rc, js := connect(t, s)
	nc, refused := guest(t, s)
	all, err := nc.SubscribeSync(">")
	must(t, err)
	if _, err := nc.SubscribeSync("_RELAY.>"); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; !errors.Is(err, nats.ErrPermissionViolation) {
		t.Fatal(err)
	}
	if !strings.HasPrefix(rc.NewInbox(), "_RELAY.") {
		t.Fatalf("the relay's inbox is %s", rc.NewInbox())
	}
	makeStream(t, js, 2)
	must(t, nc.Flush())
	for {
		m, err := all.NextMsg(200 * time.Millisecond)
		if errors.Is(err, nats.ErrTimeout) {
			return
		}
		must(t, err)
		if strings.HasPrefix(m.Subject, "_RELAY.") {
			t.Fatalf("a guest reads %s", m.Subject)
		}
	}
}

func TestOnlyAClientWithTheCredentialsIsAdmitted(t *testing.T) {
	withUser := func(o *Options) { o.GuestUser, o.GuestPassword = "crm", "s3cret" }
	withToken := func(o *Options) { o.GuestToken = "t0ken" }
	for _, c := range []struct {
		name   string
		server func(*Options)
		client []nats.Option
		in     bool
	}{
		{"open", func(*Options) {}, nil, true},
		{"open, with a password", func(*Options) {}, []nats.Option{nats.UserInfo("crm", "x")}, false},
		{"user", withUser, []nats.Option{nats.UserInfo("crm", "s3cret")}, true},
		{"user, nothing shown", withUser, nil, false},
		{"user, wrong password", withUser, []nats.Option{nats.UserInfo("crm", "s3cre")}, false},
		{"user, no password", withUser, []nats.Option{nats.UserInfo("crm", "")}, false},
		{"user, a token", withUser, []nats.Option{nats.Token("s3cret")}, false},
		{"token", withToken, []nats.Option{nats.Token("t0ken")}, true},
		{"token, nothing shown", withToken, nil, false},
		{"token, wrong", withToken, []nats.Option{nats.Token("t0kem")}, false},
		{"relay without its password", withToken, []nats.Option{nats.UserInfo("relay", "")}, false},
		{"relay, open", func(*Options) {}, []nats.Option{nats.UserInfo("relay", "relay")}, false},
	} {
		s := start(t, c.server)
		nc, err := nats.Connect(s.ClientURL(), c.client...)
		if (err == nil) != c.in {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			nc.Close()
		}
		connect(t, s) // the relay always comes in
		s.Shutdown()
	}
}

func TestAStartThatCannotWorkSaysWhyImmediately(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer taken.Close()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	begin := time.Now()
	for name, c := range map[string]struct {
		ctx  context.Context
		o    Options
		want error
	}{
		"all interfaces":        {t.Context(), Options{Listen: "0.0.0.0:0"}, ErrNeedsCredentials},
		"all, without a host":   {t.Context(), Options{Listen: ":0"}, ErrNeedsCredentials},
		"all of IPv6":           {t.Context(), Options{Listen: "[::]:0"}, ErrNeedsCredentials},
		"a host name":           {t.Context(), Options{Listen: "example.org:4222"}, ErrNeedsCredentials},
		"no host":               {t.Context(), Options{Listen: "4222"}, ErrAddress},
		"no port":               {t.Context(), Options{Listen: "127.0.0.1"}, ErrAddress},
		"a named port":          {t.Context(), Options{Listen: "127.0.0.1:nats"}, ErrAddress},
		"an invalid port":       {t.Context(), Options{Listen: "127.0.0.1:70000"}, ErrAddress},
		"another machine":       {t.Context(), Options{Listen: "192.0.2.1:4222", GuestToken: "t0ken"}, ErrAddress},
		"a port in use":         {t.Context(), Options{Listen: taken.Addr().String()}, ErrPortInUse},
		"a file for the folder": {t.Context(), Options{StoreDir: file}, syscall.ENOTDIR},
		"a start called off":    {cancelled, Options{}, context.Canceled},
	} {
		c.o.StoreDir = cmp.Or(c.o.StoreDir, t.TempDir())
		if _, err := Start(c.ctx, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := time.Since(begin); d > 20*time.Second { // a start that waits takes thirty
		t.Errorf("reported after %s", d)
	}
	s := start(t, func(o *Options) { o.Listen, o.GuestToken = "0.0.0.0:0", "t0ken" })
	if !strings.HasPrefix(s.ClientURL(), "nats://127.0.0.1:") {
		t.Errorf("URL %s", s.ClientURL())
	}
	s = start(t, func(o *Options) { o.Listen = "off" })
	if s.ClientURL() != "" || s.running.Addr() != nil {
		t.Errorf("it listens on %s %v", s.ClientURL(), s.running.Addr())
	}
	connect(t, s)
	for name, d := range map[string]Dial{
		"unreadable URL":      {URL: "nats://a b"},
		"no creds file":       {URL: "nats://127.0.0.1", Creds: "/nowhere"},
		"no nkey file":        {URL: "nats://127.0.0.1", NKey: "/nowhere"},
		"no CA file":          {URL: "nats://127.0.0.1", CA: "/nowhere"},
		"certificate, no key": {URL: "nats://127.0.0.1", Cert: "/nowhere"},
	} {
		if _, err := Connect(d, nil); !errors.Is(err, ErrDial) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheServerWritesBeforeItAcknowledges(t *testing.T) {
	s := start(t, func(o *Options) { o.MaxStore = 123 << 20 })
	o, err := s.serverOptions()
	must(t, err)
	if !o.SyncAlways || !o.NoSigs || o.JetStreamMaxStore != 123<<20 || o.StoreDir != s.options.StoreDir {
		t.Fatalf("SyncAlways %v, NoSigs %v, max store %d", o.SyncAlways, o.NoSigs, o.JetStreamMaxStore)
	}
}

func TestNoSecretIsLoggedOrReported(t *testing.T) {
	var out helptest.Lines
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := start(t, func(o *Options) {
		o.Logger, o.GuestUser, o.GuestPassword = log, "crm", "SENTINEL-1"
	})
	address := strings.TrimPrefix(s.ClientURL(), "nats://")
	for _, d := range []Dial{
		{URL: "nats://crm:SENTINEL-1@" + address},
		{URL: s.ClientURL(), User: "crm", Password: "SENTINEL-2"},
		{URL: s.ClientURL(), Token: "SENTINEL-3"},
		{URL: "nats://SENTINEL-4@" + address},
		{URL: "nats://crm:SENTINEL-5@%zz" + address},
		{URL: "nats://crm:SENTINEL-6@host:port:port"},
		{URL: "tls://crm:SENTINEL-7@" + address, CA: "/nowhere"},
		{URL: "nats://crm:SENTINEL-8@" + address + "/\x7f"},
		{URL: s.ClientURL(), Cert: "/nowhere", Key: "/nowhere", Password: "SENTINEL-9"},
	} {
		nc, err := Connect(d, log)
		if err != nil {
			fmt.Fprintln(&out, err)
			continue
		}
		time.Sleep(50 * time.Millisecond) // nothing signals that its message was dropped
		nc.Close()
	}
	if text := out.String(); strings.Contains(text, "SENTINEL") || strings.Contains(text, s.password) {
		t.Fatalf("a secret in:\n%s", text)
	}
}

func TestAConnectionWaitsForItsServer(t *testing.T) {
	t.Parallel()
	s := start(t)
	url := s.ClientURL()
	s.Shutdown()
	nc, err := Connect(Dial{URL: url}, nil)
	must(t, err)
	defer nc.Close()
	if nc.IsConnected() || nc.Publish("x", nil) == nil {
		t.Fatal("there is a server, or a publish is kept for later")
	}
	must(t, s.Restart(t.Context()))
	helptest.Within(t, time.Minute, "connected", nc.IsConnected)
	host, err := os.Hostname()
	must(t, err)
	if nc.Opts.MaxReconnect != -1 || nc.Opts.ReconnectBufSize != -1 || nc.Opts.PingInterval != 20*time.Second || nc.Opts.Name != "doorbell@"+host {
		t.Fatalf("%+v", nc.Opts.Name)
	}
}

func TestRedactShowsWhereAndNotWho(t *testing.T) {
	for url, want := range map[string]string{
		"nats://user:pass@host:4222":           "nats://host:4222",
		"nats://token@a:1, tls://u:p@b:2?x=y#": "nats://a:1,tls://b:2",
		"nats://host":                          "nats://host",
		"nats://u:p@%zz":                       "[unreadable]",
		"user:hunter2@127.0.0.1:4222":          "nats://127.0.0.1:4222", // as the library reads it
		"tok3n@localhost":                      "nats://localhost",
	} {
		if got := Redact(url); got != want {
			t.Errorf("Redact(%q) = %q, want %q", url, got, want)
		}
	}
}
