package cli

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
	"doorbell/store"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// checked runs `doorbell check` twice, as text and as JSON, wants the exit code, and finds no secret, no person and
// nothing changed in the data directory.
func checked(t *testing.T, s doorbelltest.Scene, want int, environ []string, words ...string) (check.Report, string) {
	t.Helper()
	before := files(t, s.Dir)
	text := doorbelltest.Run(t, environ, "check")
	object := doorbelltest.Run(t, environ, "check", "--json")
	for _, got := range []doorbelltest.Result{text, object} {
		if got.Code != want {
			t.Errorf("exit code %d, want %d:\n%s%s", got.Code, want, got.Stdout, got.Stderr)
		}
		doorbelltest.HoldsNobody(t, got.Stdout+got.Stderr)
		got.HoldsNoSecret(t)
		for _, i := range s.Model.Truth().Insertions {
			if strings.Contains(got.Stdout+got.Stderr, i.Reference) {
				t.Errorf("insertion %s is in:\n%s", i.Reference, got.Stdout)
			}
		}
	}
	doorbelltest.Has(t, strings.Join(strings.Fields(text.Stdout+text.Stderr), " "), words...)
	var r check.Report
	if err := json.Unmarshal([]byte(object.Stdout), &r); err != nil {
		t.Fatalf("no JSON object: %v\n%s", err, object.Stdout)
	}
	if r.ExitCode != want || r.OK != (want == exit.Done) {
		t.Errorf("the object says %v, %d", r.OK, r.ExitCode)
	}
	if after := files(t, s.Dir); !maps.Equal(before, after) {
		t.Errorf("the data directory was changed: %v", slices.Sorted(maps.Keys(after)))
	}
	return r, text.Stdout
}

// files is a directory as it can be seen without reading sockets; that of a running daemon changes by itself.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, daemon.SocketFile)); err == nil {
		return nil
	}
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return doorbelltest.Tree(t, dir)
}

func accessOf(r check.Report) map[string]string {
	found := map[string]string{}
	for _, a := range r.Agencies {
		found[a.AgencyID] = a.Access
	}
	return found
}

// failsOnlyIn wants the failures of a report to be of these sections.
func failsOnlyIn(t *testing.T, r check.Report, sections ...string) {
	t.Helper()
	for _, l := range r.Lines {
		if l.Level == check.LevelFail && !slices.Contains(sections, l.Section) {
			t.Errorf("%s: %s", l.Section, l.Text)
		}
		if l.Level == check.LevelFail && l.Remedy == "" {
			t.Errorf("nobody says what to do about: %s", l.Text)
		}
	}
}

func TestCheckSaysThatRunWouldWorkAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	fresh := filepath.Join(s.Dir, "data")
	r, text := checked(t, s, exit.Done, s.With("DOORBELL_DATA_DIR="+fresh), "doorbell run would work", "A100: access, 4 insertions",
		"insertions are at /results, with a total", "their id is /id", "date and time with an offset",
		"8 insertions at 1000 requests/s: a round of polls takes 100ms", "after 50ms on average", "which is free", "is not there yet; run makes it")
	if n := s.Asked("A100") + s.Asked("B200"); n != 2*r.Requests || r.Requests > 2+check.MaxFurther {
		t.Errorf("%d requests for two reports, told are %d each", n, r.Requests)
	}
	if n := s.Asked("B200"); n > 2 {
		t.Errorf("the second agency was asked %d times for two reports", n)
	}
	if lines := strings.Count(text, "\n"); lines > 35 {
		t.Errorf("%d lines are too many to read", lines)
	}
	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s was made", fresh)
	}
	for _, l := range r.Lines {
		if l.Level != check.LevelOK {
			t.Errorf("%s: %s", l.Level, l.Text)
		}
	}
}

func TestCheckNamesTheMembersOfItsObjectAsDocumented(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	got := doorbelltest.Run(t, s.Environ, "check", "--json")
	var o map[string]any
	if err := json.Unmarshal([]byte(got.Stdout), &o); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(o))
	if want := strings.Fields("agencies daemonRunning exitCode lines ok requests"); !slices.Equal(names, want) {
		t.Errorf("members are %v", names)
	}
	for _, name := range names {
		if !strings.Contains(readText(t, commandsPage), "`"+name+"`") {
			t.Errorf("the page of commands does not know %s", name)
		}
	}
}

func TestCheckTellsAWrongKeyFromAnAgencyThatIsNotLinked(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	r, _ := checked(t, s, exit.CodeFailed, s.With("DOORBELL_API_KEY="+doorbelltest.OtherKey), "A100, B200: the API refuses the key; run would halt there", "Ask the provider's account manager for the valid key")
	if want := map[string]string{"A100": check.AccessRefused, "B200": check.AccessRefused}; !maps.Equal(accessOf(r), want) || r.Requests != 2 {
		t.Errorf("%v after %d requests", accessOf(r), r.Requests)
	}
	failsOnlyIn(t, r, check.SectionAPI)
	for _, l := range r.Lines {
		if strings.Contains(l.Remedy, "doorbell resume") || l.Level == check.LevelFail && !strings.Contains(l.Remedy, "check again") {
			t.Errorf("what is not halted cannot be resumed: %s", l.Remedy)
		}
	}

	if err := s.Model.UnlinkKey(doorbelltest.TestKey, "A100"); err != nil {
		t.Fatal(err)
	}
	r, _ = checked(t, s, exit.CodeFailed, s.Environ, "A100: the key may not read this agency; run", "B200: access, 4 insertions", "insertions are at")
	if r.Agencies[0].ProbableReason != "agency_not_linked" {
		t.Errorf("%+v", r.Agencies)
	}
	if n := s.Asked("A100"); n != 4 {
		t.Errorf("A100 was asked %d times for four reports", n)
	}
}

// faced is a scene with a server of one's own before the API.
func faced(t *testing.T, s doorbelltest.Scene, h http.HandlerFunc) []string {
	t.Helper()
	l := httptest.NewServer(h)
	t.Cleanup(l.Close)
	return s.With("DOORBELL_BASE_URL=" + l.URL)
}

func TestCheckSaysWhatIsWrongWithTheBaseURL(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	html := faced(t, s, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<html><title>Login " + sandbox.Marker + "</title></html>"))
	})
	r, _ := checked(t, s, exit.CodeFailed, html, "found HTML", "is DOORBELL_BASE_URL the API's own?")
	failsOnlyIn(t, r, check.SectionAPI)

	none := faced(t, s, http.NotFound)
	checked(t, s, exit.CodeFailed, none, "status 404 Not Found", "is DOORBELL_BASE_URL the API's own?")

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	r, _ = checked(t, s, exit.CodeFailed, s.With("DOORBELL_BASE_URL=http://"+l.Addr().String()), "no response (refused: connection refused)", "is DOORBELL_BASE_URL right, host, port", "B200: not checked")
	if r.Requests != 1 {
		t.Errorf("%d requests to where nobody is", r.Requests)
	}
}

func TestCheckObeysACallForPatience(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	s.Model.SetFault(func(sandbox.Call) *sandbox.Fault {
		return &sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}}
	})
	r, _ := checked(t, s, exit.CodeFailed, s.Environ, "status 429 Too Many Requests, to be tried again after 1m0s", "B200: not checked")
	if r.Requests != 1 {
		t.Errorf("%d requests", r.Requests)
	}
}

func TestCheckRefusesAsRunWouldAndSaysThatItWould(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, _ := checked(t, s, exit.CodeConfig, s.With("DOORBELL_NATS_LISTEN="+l.Addr().String()), "is in use by another program", "A100: access")
	failsOnlyIn(t, r, check.SectionNATS)
	r, _ = checked(t, s, exit.CodeConfig, s.With("DOORBELL_HTTP_LISTEN="+l.Addr().String()), "set DOORBELL_HTTP_LISTEN to a free address", "A100: access")
	failsOnlyIn(t, r, check.SectionPage)
	r, _ = checked(t, s, exit.CodeConfig, s.With("DOORBELL_DATA_DIR="+write(t, "file", "none", 0o600)), "DOORBELL_DATA_DIR", "choose another directory")
	failsOnlyIn(t, r, check.SectionDisk)
	r, _ = checked(t, s, exit.CodeConfig, s.With("DOORBELL_DATA_DIR="+s.Dir+strings.Repeat("/deep", 30)), "choose a shorter data directory")
	failsOnlyIn(t, r, check.SectionDisk)

	before := s.Asked("A100")
	bad := s.With("DOORBELL_POLL_INTERVAL=often")
	got, object := doorbelltest.Run(t, bad, "check"), doorbelltest.Run(t, bad, "check", "--json")
	doorbelltest.Has(t, got.Stderr, "DOORBELL_POLL_INTERVAL", "write it like 30s")
	doorbelltest.Has(t, object.Stdout, "DOORBELL_POLL_INTERVAL", `"exitCode": 78`)
	if got.Code != exit.CodeConfig || object.Code != exit.CodeConfig || s.Asked("A100") != before {
		t.Errorf("exit codes %d and %d", got.Code, object.Code)
	}
}

// TestCheckAndRunRefuseADataDirectoryThatTheyMayNotWrite runs as somebody without rights, as root cannot be stopped otherwise.
func TestCheckAndRunRefuseADataDirectoryThatTheyMayNotWrite(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	var nobody *syscall.Credential
	if os.Getuid() == 0 {
		nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
		if err := os.Chmod(os.TempDir(), 0o711); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(s.Dir, 0o555); err != nil {
		t.Fatal(err)
	}
	mode := s.Dir + " has mode 0555, and doorbell runs as user"
	below := filepath.Join(s.Dir, "below")
	for dir, remedies := range map[string][]string{s.Dir: {mode, "chmod -R u+rwX " + s.Dir}, below: {"install -d -m 700 -o ", below + ", or choose another directory"}} {
		c := doorbelltest.LaunchAs(t, nobody, s.With("DOORBELL_DATA_DIR="+dir), "check")
		if code := c.Exit(t); code != exit.CodeConfig {
			t.Errorf("exit code %d", code)
		}
		report := strings.Join(strings.Fields(c.Stdout.String()), " ")
		doorbelltest.Has(t, report, append(remedies, s.Dir+" may not be written")...)
		if dir == below && strings.Contains(report, " -R ") {
			t.Errorf("a directory that is not ours would be given away: %s", report)
		}
		r := doorbelltest.LaunchAs(t, nobody, s.With("DOORBELL_DATA_DIR="+dir), "run")
		mustSay(t, r.Exit(t), r.Stderr.String(), append(remedies, "DOORBELL_DATA_DIR")...)
	}
	if left := doorbelltest.Tree(t, s.Dir); len(left) != 1 {
		t.Errorf("something was written: %v", left)
	}
	if err := os.Chmod(s.Dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.Dir, daemon.StoreFile)
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	c := doorbelltest.LaunchAs(t, nobody, s.Environ, "run")
	if code := c.Exit(t); code != exit.CodeConfig {
		t.Errorf("run: exit code %d", code)
	}
	doorbelltest.Has(t, c.Stderr.String(), path+" has mode 0400, and doorbell runs as user")
}

func TestCheckSeesWhatTheStoreOfAStoppedDaemonSays(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	wrong := s.With("DOORBELL_API_KEY=" + doorbelltest.OtherKey)
	d := doorbelltest.Launch(t, wrong, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Event(t, "access.halted", "A100")
	d.Stop(t)
	asked := s.Asked("A100")
	r, _ := checked(t, s, exit.CodeFailed, wrong, "A100: polling stopped for everything of the agency, because the API refuses access; no request was sent", "run: doorbell resume A100")
	if accessOf(r)["A100"] != check.AccessHalted || s.Asked("A100") != asked {
		t.Errorf("%v; it was asked %d times", accessOf(r), s.Asked("A100")-asked)
	}
	checked(t, s, exit.Done, s.Environ, "A100: access") // another key would end the halt
	checked(t, s, exit.CodeConfig, s.With("DOORBELL_BASE_URL=http://127.0.0.1:1"), "remembers the API at")
}

func TestCheckSaysThatTheDaemonHoldsTheStoreAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	r, _ := checked(t, s, exit.CodeUnavailable, s.Environ, "the daemon holds the store and does not answer")
	if r.Requests != 0 || s.Asked("A100") != 0 {
		t.Error("the API was asked")
	}
}

func TestCheckAndRunTrustTheAuthorityThatCAFileNames(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	api := httptest.NewUnstartedServer(sandbox.New(s.Model, sandbox.Flat()))
	api.Config.ErrorLog = log.New(io.Discard, "", 0) // a handshake that is refused
	api.StartTLS()
	t.Cleanup(api.Close)
	environ := s.With("DOORBELL_BASE_URL=" + api.URL)
	r, _ := checked(t, s, exit.CodeFailed, environ, "the certificate is signed by an unknown authority", "DOORBELL_CA_FILE")
	failsOnlyIn(t, r, check.SectionAPI)
	environ = append(environ, "DOORBELL_CA_FILE="+authorityOf(t, api))
	checked(t, s, exit.Done, environ, "A100: access, 4 insertions")
	d := doorbelltest.Launch(t, environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
}

// authorityOf is a file with the certificate of a server, which signs itself.
func authorityOf(t *testing.T, api *httptest.Server) string {
	t.Helper()
	return write(t, "ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})), 0o644)
}

func TestCheckBesideADaemonReportsAnAPIThatIsDown(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	api := httptest.NewServer(sandbox.New(s.Model, sandbox.Flat()))
	t.Cleanup(api.Close)
	environ := s.With("DOORBELL_BASE_URL=" + api.URL)
	d := doorbelltest.Launch(t, environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100", "B200")
	api.Close()
	r, _ := checked(t, s, exit.CodeFailed, environ, "no response (refused", "B200: not checked", "the daemon does not work as it should: 1 check failed")
	if r.Requests != 1 {
		t.Errorf("%d requests", r.Requests)
	}
	d.Stop(t)
}

func TestCheckComparesTheStreamOfAnExternalNATSAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	far := doorbelltest.NatsServer(t)
	environ := s.With("NATS_URL=" + far.ClientURL())
	r, _ := checked(t, s, exit.Done, environ, "external, "+far.ClientURL()+" answers: version "+server.VERSION, "stream LISTINGS is missing; run makes it")
	failsOnlyIn(t, r)
	checked(t, s, exit.CodeFailed, append(environ, "DOORBELL_STREAM_MANAGE=off"), "stream LISTINGS is missing, and DOORBELL_STREAM_MANAGE=off forbids doorbell to make it")

	_, js := doorbelltest.Connected(t, far.ClientURL())
	ctx, cancel := context.WithTimeout(t.Context(), doorbelltest.Patience)
	defer cancel()
	if _, err := js.Stream(ctx, "LISTINGS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("a stream was made: %v", err)
	}
	foreign := jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, MaxMsgs: 7, Discard: jetstream.DiscardOld, DenyDelete: true}
	if _, err := js.CreateStream(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	checked(t, s, exit.CodeFailed, environ, "its duplicate window is 2m", "nats stream edit LISTINGS --dupe-window=720h", "restart its servers", "nats stream edit LISTINGS --discard=new")
	foreign.Discard, foreign.Duplicates = jetstream.DiscardNew, 72*time.Hour
	if _, err := js.UpdateStream(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	checked(t, s, exit.Done, environ, "warn", "can be used, but differs", "max messages is 7, should be -1", "duplicate window is 72h0m0s, should be 720h0m0s")
	foreign.MaxMsgSize = 1000
	if _, err := js.UpdateStream(ctx, foreign); err == nil {
		r, _ = checked(t, s, exit.CodeFailed, environ, "it takes only small messages", "doorbell changes no stream of an external server")
		failsOnlyIn(t, r, check.SectionNATS)
	}
	if have, err := js.Stream(ctx, "LISTINGS"); err != nil || have.CachedInfo().Config.MaxMsgs != 7 {
		t.Errorf("the stream was changed: %v", err)
	}
	if err := js.DeleteStream(ctx, "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MORE", Subjects: []string{"listings.v1.>"}}); err != nil {
		t.Fatal(err)
	}
	checked(t, s, exit.CodeFailed, environ, "stream MORE holds listings.v1.> already")
}

func TestCheckSaysWhyAnExternalNATSIsNotReached(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	locked := doorbelltest.NatsServer(t, func(o *server.Options) { o.Authorization = "another-" + doorbelltest.Sentinel })
	r, _ := checked(t, s, exit.CodeFailed, s.With("NATS_URL="+locked.ClientURL(), "NATS_TOKEN="+doorbelltest.Sentinel), "refuses our credentials", "NATS_TOKEN")
	failsOnlyIn(t, r, check.SectionNATS)
	bare := doorbelltest.NatsServer(t, func(o *server.Options) { o.JetStream = false })
	checked(t, s, exit.CodeFailed, s.With("NATS_URL="+bare.ClientURL()), "JetStream is off for this account", "set NATS_JS_DOMAIN if it is behind a leaf node")
	r, _ = checked(t, s, exit.CodeFailed, s.With("NATS_URL=nats://guest:"+doorbelltest.Sentinel+"@127.0.0.1:1"), "nats://127.0.0.1:1 does not answer within")
	failsOnlyIn(t, r, check.SectionNATS)
}

func TestAKeyIsTestedOnEveryAgencyBesideTheDaemonBeforeItReplacesAnother(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	label := s.Model.AddKey(doorbelltest.OtherKey, "A100")
	d := doorbelltest.Launch(t, s.Environ, "run")
	events := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	events.Baselined(t, "A100", "B200")
	test := func(text string) doorbelltest.Result {
		r := doorbelltest.Run(t, s.Environ, "check", "--api-key-file", write(t, "new", text, 0o600))
		r.HoldsNoSecret(t)
		return r
	}
	r := test(doorbelltest.OtherKey + "\n")
	if want := "A100: access, 4 insertions\nB200: status 403"; r.Code != exit.CodeFailed || !strings.HasPrefix(r.Stdout, want) {
		t.Errorf("%d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if n := s.Model.Requests(sandbox.Filter{Key: label}); n != 2 {
		t.Errorf("%d requests for two agencies", n)
	}
	if r := test("DOORBELL_API_KEY=" + doorbelltest.OtherKey); r.Code != exit.CodeConfig || !strings.Contains(r.Stderr, "write the key alone") {
		t.Errorf("a key with a name: %d: %s", r.Code, r.Stderr)
	}
	if r := test(doorbelltest.TestKey); r.Code != exit.Done || strings.Count(r.Stdout, "access, 4 insertions\n") != 2 {
		t.Errorf("a good one: %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	if out := doorbelltest.Run(t, s.Environ, "status", "--check"); strings.Contains(out.Stdout, "halted") {
		t.Errorf("the daemon was halted:\n%s", out.Stdout)
	}
	d.Stop(t)
}

func TestATestedKeyThatIsThrottledIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	s.Model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Status: http.StatusTooManyRequests} })
	r := doorbelltest.Run(t, s.Environ, "check", "--api-key-file", write(t, "new", doorbelltest.OtherKey, 0o600))
	if n := s.Asked("A100") + s.Asked("B200"); n != 1 || r.Code != exit.CodeFailed {
		t.Errorf("%d requests, exit code %d", n, r.Code)
	}
	doorbelltest.Has(t, r.Stdout, "A100: status 429", "B200: not checked, because the API throttles the key")
}
