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

// checked runs `doorbell check` twice, as text and as JSON. It wants the exit code, failures in one
// section alone, each with a remedy, and no secret, no person and nothing changed in the data
// directory.
func checked(t *testing.T, s doorbelltest.Scene, want int, section string, environ []string, words ...string) check.Report {
	t.Helper()
	before := unchanging(t, s.Dir)
	text := doorbelltest.Run(t, environ, "check")
	object := doorbelltest.Run(t, environ, "check", "--json")
	for _, got := range []doorbelltest.Result{text, object} {
		said := got.Stdout + got.Stderr
		if got.Code != want {
			t.Errorf("exit code %d, want %d:\n%s", got.Code, want, said)
		}
		doorbelltest.HoldsNobody(t, said)
		got.HoldsNoSecret(t)
		for _, i := range s.Model.Truth().Insertions {
			if strings.Contains(said, i.Reference) {
				t.Errorf("insertion %s is in:\n%s", i.Reference, said)
			}
		}
		for _, value := range []string{sandbox.Marker, "geheim", "2025-", "17600000", "heute"} {
			if strings.Contains(said, value) {
				t.Errorf("%q is in:\n%s", value, said)
			}
		}
	}
	doorbelltest.Has(t, strings.Join(strings.Fields(text.Stdout+text.Stderr), " "), words...)
	var r check.Report
	if err := json.Unmarshal([]byte(object.Stdout), &r); err != nil || r.ExitCode != want {
		t.Errorf("%v\n%s", err, object.Stdout)
	}
	for _, l := range r.Lines {
		if l.Level == check.LevelFail && (l.Section != section || l.Remedy == "" && !strings.Contains(l.Text, "; ")) {
			t.Errorf("%s: %s → %q", l.Section, l.Text, l.Remedy)
		}
	}
	if after := unchanging(t, s.Dir); !maps.Equal(before, after) {
		t.Errorf("the data directory was changed: %v", after)
	}
	return r
}

// unchanging is the content of a directory; that of a running daemon changes by itself.
func unchanging(t *testing.T, dir string) map[string]string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(dir, daemon.SocketFile)); err == nil {
		return nil
	}
	return doorbelltest.Tree(t, dir)
}

// answers is an API that responds to lists with three elements, of which one is unreadable, and to
// contact requests with a status and a body.
func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/insertions") {
			_, _ = io.WriteString(w, `{"results":[{"propertyReferenceId":"geheim#1##"},{"propertyReferenceId":"geheim#2##"},{}],"total":3}`)
			return
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// aLead is a response with one contact request of a creation time.
func aLead(createdAt string) string {
	return `{"leads":[{"id":"7","createdAt":` + createdAt + `,"name":"` + sandbox.Marker + `"}],"total":1}`
}

func TestCheckReportsWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { taken.Close() })
	address, file := taken.Addr().String(), write(t, "file", "none", 0o600)
	api, responses, done, failed := check.SectionAPI, check.SectionResponses, exit.Done, exit.CodeFailed
	for _, tt := range []struct {
		setting        string
		api            http.HandlerFunc // instead of the sandbox
		section        string           // in which something fails
		code, requests int
		words          []string
	}{
		{"", nil, "", done, 3, []string{
			"Nothing stands in the way. 3 requests to the API.", "A100: access, 4 insertions", "insertions are at /results",
			"their id is /id", "the creation time of the first is rfc3339", "is free", "is writable",
			"8 insertions at 1000 requests/s: a round of polls takes 100ms", "after 50ms on average",
		}},
		{"NATS_LISTEN=" + address, nil, check.SectionNATS, exit.CodeConfig, 3, []string{"is in use by another program", "A100: access"}},
		{"HTTP_LISTEN=" + address, nil, check.SectionPage, exit.CodeConfig, 3, []string{"set DOORBELL_HTTP_LISTEN to a free address"}},
		{"DATA_DIR=" + file, nil, check.SectionDisk, exit.CodeConfig, 3, []string{"DOORBELL_DATA_DIR", "choose another directory"}},
		{"DATA_DIR=/" + strings.Repeat("deep/", 30), nil, check.SectionDisk, exit.CodeConfig, 3, []string{"choose a shorter data directory"}},
		{"API_KEY=" + doorbelltest.OtherKey, nil, api, failed, 2, []string{
			"A100: the API refuses the key; run would halt there → The API refuses this key for every agency",
			"B200: the API refuses the key", "check again", "2 checks failed",
		}},
		{"", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, "<html><title>Login "+sandbox.Marker+"</title></html>")
		}, api, failed, 2, []string{"found HTML", "is DOORBELL_BASE_URL the API's own address?"}},
		{"", http.NotFound, api, failed, 2, []string{"status 404 Not Found", "is DOORBELL_BASE_URL the API's own address?"}},
		{"", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
		}, api, failed, 1, []string{"B200: not checked"}},
		{"BASE_URL=http://127.0.0.1:1", nil, api, failed, 1, []string{"B200: not checked"}},

		{"", answers(200, aLead(`"2025-10-09 10:00:00"`)), "", done, 3, []string{
			"insertions are at /results", "list elements without a propertyReferenceId: 1", "contact requests are at /leads",
			"their id is /id", "it is read as Europe/Zurich (DOORBELL_TIMEZONE)",
		}},
		{"", answers(200, aLead(`1760000000`)), "", done, 3, []string{"the creation time of the first is seconds"}},
		{"", answers(200, aLead(`"heute"`)), "", done, 3, []string{"is unreadable", "ask the provider for createdAt as RFC 3339"}},
		{"", answers(200, `[{"createdAt":null,"name":"`+sandbox.Marker+`"}]`), "", done, 3, []string{
			"are at the top of the response; no known member tells them apart", "name one in DOORBELL_CONTACT_ID_FIELDS", "is absent",
		}},
		{"CONTACT_ID_FIELDS=beleg", answers(200, `{"a":[{"beleg":"1"}],"b":[{"x":1}]}`), "", done, 3, []string{
			"contact requests are at /a; their id is /beleg",
		}},
		{"", answers(204, ""), "", done, 4, []string{"no contact request was seen"}},
		{"", answers(404, ""), "", done, 4, []string{"no contact request was seen"}},
		{"", answers(403, ""), responses, failed, 3, []string{"contact requests: status 403 Forbidden"}},
		{"", answers(429, ""), responses, failed, 3, []string{"contact requests: status 429 Too Many Requests"}},
	} {
		t.Run(tt.words[0], func(t *testing.T) {
			t.Parallel()
			s := doorbelltest.NewScene(t, "A100", "B200")
			fresh := filepath.Join(s.Dir, "data")
			environ := s.With("DOORBELL_DATA_DIR="+fresh, "DOORBELL_"+tt.setting)
			if tt.api != nil {
				behind := httptest.NewServer(tt.api)
				t.Cleanup(behind.Close)
				environ = append(environ, "DOORBELL_BASE_URL="+behind.URL)
			}
			r := checked(t, s, tt.code, tt.section, environ, tt.words...)
			if r.Requests != tt.requests {
				t.Errorf("%d requests", r.Requests)
			}
			if n := s.Asked("A100") + s.Asked("B200"); n != 0 && n != 2*r.Requests {
				t.Errorf("%d requests for two reports, %d reported", n, r.Requests)
			}
			if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s was made", fresh)
			}
		})
	}
}

// TestCheckExitsAsRunWould has two problems: NATS, for which run would wait, and an address.
func TestCheckExitsAsRunWould(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	both := s.With("DOORBELL_NATS_URL=nats://127.0.0.1:1", "DOORBELL_HTTP_LISTEN="+strings.TrimPrefix(s.URL, "http://"))
	if got := doorbelltest.Run(t, both, "check"); got.Code != exit.CodeConfig {
		t.Errorf("exit code %d", got.Code)
	}
}

// TestCheckAndRunRefuseAnUnwritableDataDirectory runs as an ordinary user, because nothing else
// stops root.
func TestCheckAndRunRefuseAnUnwritableDataDirectory(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	var nobody *syscall.Credential
	if os.Getuid() == 0 {
		nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
		must(t, os.Chmod(os.TempDir(), 0o711))
	}
	must(t, os.Chmod(s.Dir, 0o555))
	mode := s.Dir + " has mode 0555, and doorbell runs as user"
	below := filepath.Join(s.Dir, "below")
	for dir, remedies := range map[string][]string{
		s.Dir: {mode, "chmod -R u+rwX " + s.Dir}, below: {"install -d -m 700 -o ", below + ", or choose another directory"},
	} {
		c := doorbelltest.LaunchAs(t, nobody, s.With("DOORBELL_DATA_DIR="+dir), "check")
		if code := c.Exit(t); code != exit.CodeConfig {
			t.Errorf("exit code %d", code)
		}
		doorbelltest.Has(t, strings.Join(strings.Fields(c.Stdout.String()), " "), append(remedies, s.Dir+" is not writable")...)
		r := doorbelltest.LaunchAs(t, nobody, s.With("DOORBELL_DATA_DIR="+dir), "run")
		mustSay(t, r.Exit(t), r.Stderr.String(), append(remedies, "DOORBELL_DATA_DIR")...)
	}
	if left := doorbelltest.Tree(t, s.Dir); len(left) != 1 {
		t.Errorf("something was written: %v", left)
	}
	must(t, os.Chmod(s.Dir, 0o777))
	path := filepath.Join(s.Dir, daemon.StoreFile)
	must(t, os.WriteFile(path, nil, 0o400))
	c := doorbelltest.LaunchAs(t, nobody, s.Environ, "run")
	mustSay(t, c.Exit(t), c.Stderr.String(), path+" has mode 0400, and doorbell runs as user")
}

func TestCheckReadsTheStoreOfAStoppedDaemon(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	wrong := s.With("DOORBELL_API_KEY=" + doorbelltest.OtherKey)
	d := doorbelltest.Launch(t, wrong, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Event(t, "access.halted", "A100")
	d.Stop(t)
	asked := s.Asked("A100")
	checked(t, s, exit.CodeFailed, check.SectionAPI, wrong, "A100: polling stopped for the whole agency, "+
		"because the API refuses access; no request was sent", "run: doorbell resume A100")
	if s.Asked("A100") != asked {
		t.Errorf("it was asked %d times", s.Asked("A100")-asked)
	}
	checked(t, s, exit.Done, "", s.Environ, "A100: access") // another key would end the halt
	moved := httptest.NewServer(sandbox.New(s.Model, sandbox.Flat()))
	t.Cleanup(moved.Close)
	environ := s.With("DOORBELL_BASE_URL=" + moved.URL)
	if r := checked(t, s, exit.CodeConfig, check.SectionDisk, environ, "remembers the API at"); r.Requests == 0 {
		t.Error("nothing else was checked")
	}
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	must(t, err)
	defer kept.Close()
	if r := checked(t, s, exit.CodeUnavailable, check.SectionDisk, s.Environ, "the daemon holds the store and does not answer"); r.Requests != 0 {
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
	checked(t, s, exit.CodeFailed, check.SectionAPI, environ, "the certificate is signed by an unknown authority", "DOORBELL_CA_FILE")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
	environ = append(environ, "DOORBELL_CA_FILE="+write(t, "ca.pem", string(authority), 0o644))
	checked(t, s, exit.Done, "", environ, "A100: access, 4 insertions")
	d := doorbelltest.Launch(t, environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
}

func TestCheckBesideADaemonSendsOneRequestASecond(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	label := s.Model.AddKey(doorbelltest.OtherKey, "A100")
	d, _, _ := running(t, s)
	for _, args := range [][]string{{"--api-key-file", write(t, "new", doorbelltest.OtherKey, 0o600)}, {}} {
		s.Model.KeepLog()
		began := time.Now()
		got := doorbelltest.Run(t, s.With("DOORBELL_API_KEY="+doorbelltest.OtherKey), append([]string{"check", "--json"}, args...)...)
		var r check.Report
		if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || got.Code != exit.CodeFailed || !r.DaemonRunning || r.Requests < 2 {
			t.Errorf("%v: %s%s", err, got.Stdout, got.Stderr)
		}
		calls := s.Model.Log(sandbox.Filter{Key: label})
		for n, call := range calls { // a busy machine delays requests, but sends none too early
			if after := call.At.Sub(began); after < time.Duration(n)*time.Second {
				t.Errorf("%q: request %d after %s", args, n, after)
			}
		}
		if len(calls) != r.Requests {
			t.Errorf("%q: %d requests, reported %d", args, len(calls), r.Requests)
		}
	}
	if out := doorbelltest.Run(t, s.Environ, "status", "--check"); strings.Contains(out.Stdout, "halted") {
		t.Errorf("the daemon was halted:\n%s", out.Stdout)
	}
	d.Stop(t)
}

func TestCheckComparesTheStreamOfAnExternalNATSAndChangesNothing(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	far := doorbelltest.NatsServer(t)
	environ := s.With("NATS_URL=" + far.ClientURL())
	checked(t, s, exit.Done, "", environ, "external, "+far.ClientURL()+" answers: version "+server.VERSION, "stream LISTINGS is missing; run creates it")
	checked(t, s, exit.CodeFailed, check.SectionNATS, append(environ, "DOORBELL_STREAM_MANAGE=off"),
		"stream LISTINGS is missing, and DOORBELL_STREAM_MANAGE=off forbids doorbell to create it")

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
	checked(t, s, exit.CodeFailed, check.SectionNATS, environ, "its duplicate window is 2m", "nats stream edit LISTINGS --dupe-window=720h",
		"restart its servers", "nats stream edit LISTINGS --discard=new", "doorbell never changes a stream on an external server")
	foreign.Discard, foreign.Duplicates = jetstream.DiscardNew, 72*time.Hour
	if _, err := js.UpdateStream(ctx, foreign); err != nil {
		t.Fatal(err)
	}
	checked(t, s, exit.Done, "", environ, "warn", "can be used, but differs", "max messages is 7, should be -1", "duplicate window is 72h0m0s, should be 720h0m0s")
	if have, err := js.Stream(ctx, "LISTINGS"); err != nil || have.CachedInfo().Config.MaxMsgs != 7 {
		t.Errorf("the stream was changed: %v", err)
	}
	must(t, js.DeleteStream(ctx, "LISTINGS"))
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "MORE", Subjects: []string{"listings.>"}})
	must(t, err)
	checked(t, s, exit.CodeFailed, check.SectionNATS, environ, "stream LISTINGS is missing: stream MORE already holds listings.v1.>",
		"choose another DOORBELL_SUBJECT_PREFIX")
}

func TestCheckReportsWhyAnExternalNATSIsUnreachable(t *testing.T) {
	t.Parallel()
	locked := doorbelltest.NatsServer(t, func(o *server.Options) { o.Authorization = "another-" + doorbelltest.Sentinel })
	bare := doorbelltest.NatsServer(t, func(o *server.Options) { o.JetStream = false })
	for url, words := range map[string][]string{
		locked.ClientURL(): {"refuses our credentials", "NATS_"},
		bare.ClientURL():   {"JetStream is off for this NATS account", "set NATS_JS_DOMAIN if it is behind a leaf node"},
		"nats://guest:" + doorbelltest.Sentinel + "@127.0.0.1:1": {"nats://127.0.0.1:1 does not answer within"},
	} {
		t.Run(words[0], func(t *testing.T) {
			t.Parallel()
			s := doorbelltest.NewScene(t, "A100")
			checked(t, s, exit.CodeFailed, check.SectionNATS, s.With("NATS_URL="+url, "NATS_TOKEN="+doorbelltest.Sentinel), words...)
		})
	}
}

// TestCheckRecognisesAListThatBecameEmpty has an API whose list has an unusual name and becomes
// empty.
func TestCheckRecognisesAListThatBecameEmpty(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	body := func(text string) {
		s.Model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Body: []byte(text)}
			}
			return nil
		})
	}
	body(`{"elsewhere":[{"propertyReferenceId":"` + s.Model.Truth().Insertions[0].Reference + `"}],"meta":[],"total":1}`)
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
	body(`{"elsewhere":[],"meta":[]}`)
	checked(t, s, exit.Done, "", s.Environ, "A100: access, but no insertions", "correct if none is published")
	if got := doorbelltest.Run(t, s.With("DOORBELL_DATA_DIR="+t.TempDir()), "check"); got.Code != exit.CodeFailed {
		t.Errorf("an empty list under an unknown name is accepted:\n%s", got.Stdout)
	}
}
