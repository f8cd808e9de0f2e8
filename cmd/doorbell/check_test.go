package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
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

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// checked runs `doorbell check` twice, as text and as JSON, wants the exit code, and finds no secret, no person and
// nothing changed in the data directory.
func checked(t *testing.T, s scene, want int, environ []string, words ...string) (check.Report, string) {
	t.Helper()
	before := files(t, s.dir)
	text := run(t, environ, "check")
	object := run(t, environ, "check", "--json")
	for _, got := range []result{text, object} {
		if got.code != want {
			t.Errorf("exit code %d, want %d:\n%s%s", got.code, want, got.stdout, got.stderr)
		}
		holdsNobody(t, got.stdout+got.stderr)
		got.holdsNoSecret(t)
		for _, i := range s.model.Truth().Insertions {
			if strings.Contains(got.stdout+got.stderr, i.Reference) {
				t.Errorf("insertion %s is in:\n%s", i.Reference, got.stdout)
			}
		}
	}
	has(t, strings.Join(strings.Fields(text.stdout+text.stderr), " "), words...)
	var r check.Report
	if err := json.Unmarshal([]byte(object.stdout), &r); err != nil {
		t.Fatalf("no JSON object: %v\n%s", err, object.stdout)
	}
	if r.ExitCode != want || r.OK != (want == exit.Done) {
		t.Errorf("the object says %v, %d", r.OK, r.ExitCode)
	}
	if after := files(t, s.dir); !maps.Equal(before, after) {
		t.Errorf("the data directory was changed: %v", slices.Sorted(maps.Keys(after)))
	}
	return r, text.stdout
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
	return tree(t, dir)
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
	s := newScene(t, "A100", "B200")
	fresh := filepath.Join(s.dir, "data")
	r, text := checked(t, s, exit.Done, s.with("DOORBELL_DATA_DIR="+fresh), "doorbell run would work", "A100: access, 4 insertions",
		"insertions are at /results, with a total", "pages count from", "their id is /id", "date and time with an offset",
		"8 insertions at 1000 requests/s: `doorbell plan --insertions 8 --agencies 2`", "which is free", "is not there yet; run makes it")
	if n := s.asked("A100") + s.asked("B200"); n != 2*r.Requests || r.Requests > check.MostAsked+1 {
		t.Errorf("%d requests for two reports, told are %d each", n, r.Requests)
	}
	if n := s.asked("B200"); n > 2 {
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
	s := newScene(t, "A100")
	got := run(t, s.environ, "check", "--json")
	var o map[string]any
	if err := json.Unmarshal([]byte(got.stdout), &o); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(o))
	if want := strings.Fields("agencies answers daemonRunning exitCode learned lines ok requests"); !slices.Equal(names, want) {
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
	s := newScene(t, "A100", "B200")
	r, _ := checked(t, s, exit.CodeFailed, s.with("DOORBELL_API_KEY="+otherKey), "A100, B200: the API refuses the key; run would halt there", "Ask the provider's account manager for the valid key")
	if want := map[string]string{"A100": check.AccessRefused, "B200": check.AccessRefused}; !maps.Equal(accessOf(r), want) || r.Requests != 2 || r.Learned != nil {
		t.Errorf("%v after %d requests", accessOf(r), r.Requests)
	}
	failsOnlyIn(t, r, check.SectionAPI)
	for _, l := range r.Lines {
		if strings.Contains(l.Remedy, "doorbell resume") || l.Level == check.LevelFail && !strings.Contains(l.Remedy, "check again") {
			t.Errorf("what is not halted cannot be resumed: %s", l.Remedy)
		}
	}

	if err := s.model.UnlinkKey(testKey, "A100"); err != nil {
		t.Fatal(err)
	}
	r, _ = checked(t, s, exit.CodeFailed, s.environ, "A100: the key may not read this agency; run", "B200: access, 4 insertions", "insertions are at")
	if r.Learned == nil || r.Learned.AgencyID != "B200" || r.Agencies[0].ProbableReason != "agency_not_linked" {
		t.Errorf("learned of %+v; %+v", r.Learned, r.Agencies)
	}
	if n := s.asked("A100"); n != 4 {
		t.Errorf("A100 was asked %d times for four reports", n)
	}
}

func TestCheckStaysShortForManyAgencies(t *testing.T) {
	t.Parallel()
	var agencies []string
	for _, letter := range "ABCDEFGHIJKLMNOPQRSTUVWXYZ" {
		agencies = append(agencies, string(letter)+"100")
	}
	s := newScene(t, agencies...)
	if err := s.model.UnlinkKey(testKey, agencies[:10]...); err != nil {
		t.Fatal(err)
	}
	r, text := checked(t, s, exit.CodeFailed, s.environ, "A100, B100, C100, D100, E100, F100 and 4 more: the key may not read", "16 agencies: access, 64 insertions")
	if lines := strings.Count(text, "\n"); lines > 35 {
		t.Errorf("%d lines are too many to read", lines)
	}
	if most := len(agencies) + check.MostAsked - 1; r.Requests > most || len(r.Agencies) != len(agencies) {
		t.Errorf("%d requests for %d agencies", r.Requests, len(r.Agencies))
	}
}

// faced is a scene with a server of one's own before the API.
func faced(t *testing.T, s scene, h http.HandlerFunc) []string {
	t.Helper()
	l := httptest.NewServer(h)
	t.Cleanup(l.Close)
	return s.with("DOORBELL_BASE_URL=" + l.URL)
}

func TestCheckSaysWhatIsWrongWithTheBaseURL(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
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
	r, _ = checked(t, s, exit.CodeFailed, s.with("DOORBELL_BASE_URL=http://"+l.Addr().String()), "no answer (refused: connection refused)", "is DOORBELL_BASE_URL right, host, port", "B200: not checked")
	if r.Requests != 1 {
		t.Errorf("%d requests to where nobody is", r.Requests)
	}
}

func TestCheckObeysACallForPatience(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	s.model.SetFault(func(sandbox.Call) *sandbox.Fault {
		return &sandbox.Fault{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"60"}}}
	})
	r, _ := checked(t, s, exit.CodeFailed, s.environ, "status 429 Too Many Requests, to be asked again after 1m0s", "B200: not checked")
	if r.Requests != 1 {
		t.Errorf("%d requests", r.Requests)
	}
}

func TestCheckSaysWhenContactRequestsAreRefused(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	s.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation == sandbox.OperationContactRequests {
			return &sandbox.Fault{Status: http.StatusForbidden}
		}
		return nil
	})
	r, _ := checked(t, s, exit.CodeFailed, s.environ, "contact requests of an insertion that the list shows are refused: status 403 Forbidden")
	failsOnlyIn(t, r, check.SectionAnswers)
	if r.Requests != 2 {
		t.Errorf("%d requests", r.Requests)
	}
}

func TestCheckSeesPagesThatAreIgnoredAndSizesThatAreRefused(t *testing.T) {
	t.Parallel()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: []string{"A100"}, Insertions: 70, History: 8}).Seed()
	model.AddKey(testKey, "A100")
	behind := sandbox.New(model, sandbox.Nested())
	s := newScene(t, "A100")
	s.model = model
	deaf := faced(t, s, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		q.Del("page")
		r.URL.RawQuery = q.Encode()
		behind.ServeHTTP(w, r)
	})
	r, _ := checked(t, s, exit.CodeFailed, deaf, "page=2 repeats the first page: the rest of the list cannot be read", "set DOORBELL_PAGE_SIZE to more than")
	failsOnlyIn(t, r, check.SectionAnswers)
	if r.Requests > check.MostAsked || r.Learned.Insertions.PageHeeded != check.No {
		t.Errorf("%d requests, %+v", r.Requests, r.Learned.Insertions)
	}

	refusing := faced(t, s, func(w http.ResponseWriter, r *http.Request) {
		if size := r.URL.Query().Get("pageSize"); size != "" && size != "20" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		behind.ServeHTTP(w, r)
	})
	r, _ = checked(t, s, exit.Done, refusing, "page sizes that the API refuses: 50", "set DOORBELL_PAGE_SIZE=20", "70 insertions", "1 warning")
	if i := r.Learned.Insertions; i.Asked != 20 || r.Requests > check.MostAsked {
		t.Errorf("%d requests, %+v", r.Requests, i)
	}
}

func TestCheckRefusesAsRunWouldAndSaysThatItWould(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, _ := checked(t, s, exit.CodeConfig, s.with("DOORBELL_NATS_LISTEN="+l.Addr().String()), "is in use by another program", "A100: access")
	failsOnlyIn(t, r, check.SectionNATS)
	r, _ = checked(t, s, exit.CodeConfig, s.with("DOORBELL_HTTP_LISTEN="+l.Addr().String()), "set DOORBELL_HTTP_LISTEN to a free address", "A100: access")
	failsOnlyIn(t, r, check.SectionPage)
	r, _ = checked(t, s, exit.CodeConfig, s.with("DOORBELL_DATA_DIR="+write(t, "file", "none", 0o600)), "DOORBELL_DATA_DIR", "choose another directory")
	failsOnlyIn(t, r, check.SectionDisk)
	r, _ = checked(t, s, exit.CodeConfig, s.with("DOORBELL_DATA_DIR="+s.dir+strings.Repeat("/deep", 30)), "choose a shorter data directory")
	failsOnlyIn(t, r, check.SectionDisk)

	before := s.asked("A100")
	bad := s.with("DOORBELL_POLL_INTERVAL=often")
	got, object := run(t, bad, "check"), run(t, bad, "check", "--json")
	has(t, got.stderr, "DOORBELL_POLL_INTERVAL", "write it like 30s")
	has(t, object.stdout, "DOORBELL_POLL_INTERVAL", `"exitCode": 78`)
	if got.code != exit.CodeConfig || object.code != exit.CodeConfig || s.asked("A100") != before {
		t.Errorf("exit codes %d and %d", got.code, object.code)
	}
}

// TestCheckAndRunRefuseADataDirectoryThatTheyMayNotWrite runs as somebody without rights, as root cannot be stopped otherwise.
func TestCheckAndRunRefuseADataDirectoryThatTheyMayNotWrite(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	var nobody *syscall.Credential
	if os.Getuid() == 0 {
		nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
		for _, dir := range []string{os.TempDir(), filepath.Dir(binary(t))} {
			if err := os.Chmod(dir, 0o711); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chmod(s.dir, 0o555); err != nil {
		t.Fatal(err)
	}
	mode := s.dir + " has mode 0555, and doorbell runs as user"
	below := filepath.Join(s.dir, "below")
	for dir, remedies := range map[string][]string{s.dir: {mode, "chmod -R u+rwX " + s.dir}, below: {"install -d -m 700 -o ", below + ", or choose another directory"}} {
		c := launchAs(t, nobody, s.with("DOORBELL_DATA_DIR="+dir), "check")
		if code := c.exit(t); code != exit.CodeConfig {
			t.Errorf("exit code %d", code)
		}
		report := strings.Join(strings.Fields(c.stdout.String()), " ")
		has(t, report, append(remedies, s.dir+" may not be written")...)
		if dir == below && strings.Contains(report, " -R ") {
			t.Errorf("a directory that is not ours would be given away: %s", report)
		}
		r := launchAs(t, nobody, s.with("DOORBELL_DATA_DIR="+dir), "run")
		mustSay(t, r.exit(t), r.stderr.String(), append(remedies, "DOORBELL_DATA_DIR")...)
	}
	if left := tree(t, s.dir); len(left) != 1 {
		t.Errorf("something was written: %v", left)
	}
	if err := os.Chmod(s.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(s.dir, daemon.StoreFile)
	if err := os.WriteFile(path, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	c := launchAs(t, nobody, s.environ, "run")
	if code := c.exit(t); code != exit.CodeConfig {
		t.Errorf("run: exit code %d", code)
	}
	has(t, c.stderr.String(), path+" has mode 0400, and doorbell runs as user")
}

func TestCheckSeesWhatTheStoreOfAStoppedDaemonSays(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	wrong := s.with("DOORBELL_API_KEY=" + otherKey)
	d := launch(t, wrong, "run")
	subscribeTo(t, natsURL(t, s.dir)).event(t, "access.halted", "A100")
	d.stop(t)
	asked := s.asked("A100")
	r, _ := checked(t, s, exit.CodeFailed, wrong, "A100: polling stopped for everything of the agency, because the API refuses access; no request was sent", "run: doorbell resume A100")
	if accessOf(r)["A100"] != check.AccessHalted || s.asked("A100") != asked {
		t.Errorf("%v; it was asked %d times", accessOf(r), s.asked("A100")-asked)
	}
	checked(t, s, exit.Done, s.environ, "A100: access") // another key would end the halt
	checked(t, s, exit.CodeConfig, s.with("DOORBELL_BASE_URL=http://127.0.0.1:1"), "remembers the API at")
}

func TestCheckSaysThatTheDaemonHoldsTheStoreAndDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.dir, BaseURL: s.url})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	r, _ := checked(t, s, exit.CodeUnavailable, s.environ, "the daemon holds the store and does not answer")
	if r.Requests != 0 || s.asked("A100") != 0 {
		t.Error("the API was asked")
	}
}

// TestCheckAsksNothingBesideADaemon shows another key, so that its requests could be told from those of the daemon.
func TestCheckAsksNothingBesideADaemon(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	label := s.model.AddKey(otherKey, "A100", "B200")
	d := launch(t, s.environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100", "B200")
	r, _ := checked(t, s, exit.Done, s.with("DOORBELL_API_KEY="+otherKey, "DOORBELL_AGENCIES=A100,B200,C300"), "the daemon works", "A100: access, 4 insertions",
		"C300: not watched by the daemon", "insertions are at /results", "8 insertions at 1000 requests/s: `doorbell plan` says")
	if want := map[string]string{"A100": check.AccessOK, "B200": check.AccessOK, "C300": check.AccessNotAsked}; !maps.Equal(accessOf(r), want) || r.Requests != 0 || !r.DaemonRunning {
		t.Errorf("%v after %d requests", accessOf(r), r.Requests)
	}
	if n := s.model.Requests(sandbox.Filter{Key: label}); n != 0 {
		t.Errorf("%d requests beside a daemon", n)
	}
	d.stop(t)
}

func TestCheckBesideADaemonTellsAFailureFromAnAPIThatIsDown(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	api := httptest.NewServer(sandbox.New(s.model, sandbox.Flat()))
	t.Cleanup(api.Close)
	environ := s.with("DOORBELL_BASE_URL=" + api.URL)
	d := launch(t, environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100", "B200")
	says := func(what string) func() bool {
		return func() bool { return strings.Contains(run(t, environ, "check").stdout, what) }
	}
	s.model.SetFault(func(sandbox.Call) *sandbox.Fault { f := sandbox.Refuse(http.StatusBadGateway); return &f })
	failing := "A100, B200: the last walk or poll failed or was incomplete"
	within(t, patience, "both fail", says(failing))
	checked(t, s, exit.Done, environ, failing, "A100: access, 4 insertions", "the daemon works; 1 warning")
	api.Close()
	down := "A100, B200: the daemon has no connection to the API"
	within(t, patience, "the API is down", says(down))
	r, _ := checked(t, s, exit.CodeFailed, environ, down, "the daemon does not work as it should: one thing fails")
	if want := map[string]string{"A100": "failed", "B200": "failed"}; !maps.Equal(accessOf(r), want) || r.Agencies[0].Insertions != 4 || r.Requests != 0 {
		t.Errorf("%+v after %d requests", r.Agencies, r.Requests)
	}
	d.stop(t)
}

// natsServer is a server as somebody else may run it.
func natsServer(t *testing.T, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: shortDir(t), JetStreamMaxStore: maxFar}
	for _, c := range change {
		c(o)
	}
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return s
}

func TestCheckComparesTheStreamOfAnExternalNATSAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	far := natsServer(t)
	environ := s.with("NATS_URL=" + far.ClientURL())
	r, text := checked(t, s, exit.Done, environ, "external, "+far.ClientURL()+" answers: version "+server.VERSION, "stream LISTINGS is missing; run makes it")
	failsOnlyIn(t, r)
	if strings.Contains(text, "erase") {
		t.Errorf("a stream that is missing denies nothing:\n%s", text)
	}
	checked(t, s, exit.CodeFailed, append(environ, "DOORBELL_STREAM_MANAGE=off"), "stream LISTINGS is missing, and DOORBELL_STREAM_MANAGE=off forbids doorbell to make it")

	_, js := connected(t, far.ClientURL())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := js.Stream(ctx, "LISTINGS"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Fatalf("a stream was made: %v", err)
	}
	foreign := jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, MaxMsgs: 7, Discard: jetstream.DiscardOld, AllowAtomicPublish: true, DenyDelete: true}
	if _, err := js.CreateStream(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	checked(t, s, exit.Done, environ, "warn", "can be used, but differs", "max messages is 7, should be -1", "discard is DiscardOld, should be DiscardNew",
		"stream LISTINGS: messages may not be erased: it was made with deny_delete", "`doorbell forget` and DOORBELL_PEOPLE_RETENTION need it")
	foreign.AllowAtomicPublish = false
	if _, err := js.UpdateStream(ctx, foreign); err == nil { // usable, and slower
		checked(t, s, exit.Done, environ, "events are published one by one")
	}
	foreign.MaxMsgSize = 1000
	if _, err := js.UpdateStream(ctx, foreign); err == nil {
		r, _ = checked(t, s, exit.CodeFailed, environ, "it takes only small messages", "doorbell changes no stream of an external server")
		failsOnlyIn(t, r, check.SectionNATS)
	}
	if have, err := js.Stream(ctx, "LISTINGS"); err != nil || have.CachedInfo().Config.MaxMsgs != 7 {
		t.Errorf("the stream was changed: %v", err)
	}
	checked(t, s, exit.CodeFailed, append(environ, "DOORBELL_STREAM=MORE"), "stream LISTINGS holds listings.v1.> already")
}

func TestCheckSaysWhyAnExternalNATSIsNotReached(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	locked := natsServer(t, func(o *server.Options) { o.Authorization = "another-" + sentinel })
	r, _ := checked(t, s, exit.CodeFailed, s.with("NATS_URL="+locked.ClientURL(), "NATS_TOKEN="+sentinel), "refuses our credentials", "NATS_TOKEN")
	failsOnlyIn(t, r, check.SectionNATS)
	bare := natsServer(t, func(o *server.Options) { o.JetStream = false })
	checked(t, s, exit.CodeFailed, s.with("NATS_URL="+bare.ClientURL()), "enable JetStream for this account")
	r, _ = checked(t, s, exit.CodeFailed, s.with("NATS_URL=nats://guest:"+sentinel+"@127.0.0.1:1"), "nats://127.0.0.1:1 does not answer within")
	failsOnlyIn(t, r, check.SectionNATS)
}

func TestCheckShowsTheSecondKeyWhereRunWould(t *testing.T) {
	t.Parallel()
	s, _ := rotation(t, "A100="+testKey+"|"+otherKey+"\n")
	s.model.AddKey(otherKey, "A100")
	if err := s.model.DeactivateKey(testKey); err != nil {
		t.Fatal(err)
	}
	checked(t, s, exit.Done, s.environ, "doorbell run would work", "A100: access", "the other one works")
	d := launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.event(t, "access.key_switched", "A100")
	sub.baselined(t, "A100")
	d.stop(t)
	before := s.model.Requests(sandbox.Filter{Status: 403})
	checked(t, s, exit.Done, s.environ, "doorbell run would work", "A100: access")
	if n := s.model.Requests(sandbox.Filter{Status: 403}) - before; n > 0 {
		t.Errorf("%d requests with a key that is known to be refused", n)
	}
	if err := s.model.DeactivateKey(otherKey); err != nil {
		t.Fatal(err)
	}
	d = launch(t, s.environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).event(t, "access.halted", "A100")
	d.stop(t)
	asked := s.asked("A100")
	checked(t, s, exit.CodeFailed, s.environ, "A100: polling stopped for everything of the agency", "doorbell resume A100")
	if n := s.asked("A100") - asked; n > 0 {
		t.Errorf("a halted agency was asked for %d times", n)
	}
}
