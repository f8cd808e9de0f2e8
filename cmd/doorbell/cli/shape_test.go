package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/shape"
	"doorbell/poller/sandbox"
)

// shapeOf runs check --shape, and wants a file that only its owner can read and that holds nothing of the model.
func shapeOf(t *testing.T, s doorbelltest.Scene, environ []string) (path string, f shape.File) {
	t.Helper()
	path = filepath.Join(doorbelltest.ShortDir(t), "shape.json")
	got := doorbelltest.Run(t, environ, "check", "--shape", path)
	if got.Code != exit.Done {
		t.Fatalf("%+v", got)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v", info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	got.HoldsNoSecret(t)
	for _, secret := range secretsOf(s) {
		if strings.Contains(string(text), secret) || strings.Contains(got.Stdout+got.Stderr, secret) {
			t.Errorf("%q is in the file or said", secret)
		}
	}
	if f, err = shape.Read(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return path, f
}

// secretsOf are the texts of everything in a model.
func secretsOf(s doorbelltest.Scene) []string {
	list := []string{doorbelltest.TestKey, sandbox.Marker}
	truth := s.Model.Truth()
	for _, i := range truth.Insertions {
		list = append(list, i.Reference, strings.ReplaceAll(i.Reference, "#", "%23"))
	}
	for _, c := range truth.ContactRequests {
		list = append(list, c.ID)
	}
	return slices.DeleteFunc(list, func(s string) bool { return len(s) < 4 })
}

func TestTheFormOfEveryRenderingHoldsNothingOfIt(t *testing.T) {
	t.Parallel()
	for _, r := range sandbox.Renderings() {
		s := doorbelltest.SceneOf(t, 30, []string{"A100"})
		api := httptest.NewServer(sandbox.New(s.Model, r))
		t.Cleanup(api.Close)
		shapeOf(t, s, doorbelltest.RunEnviron(s.Dir, api.URL, doorbelltest.TestKey, "A100"))
	}
}

func TestTheFormOfARefusalIsWritten(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200", "C300")
	asked := 0
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"message":"Nora` + sandbox.Marker + ` may not","trace":"7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11"}`))
	}))
	defer refusing.Close()
	_, f := shapeOf(t, s, doorbelltest.RunEnviron(s.Dir, refusing.URL, doorbelltest.TestKey, "A100", "B200", "C300"))
	if asked != 2 || len(f.Responses) != 2 || f.Responses[0].Status != http.StatusForbidden {
		t.Errorf("%d requests: %+v", asked, f.Responses)
	}
	if body := string(f.Responses[0].Body); body != `{"message":"{1 text}","trace":"{1 uuid}"}` {
		t.Errorf("%s", body)
	}
}

func TestAShapeIsNotWrittenWithoutAResponse(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	path := filepath.Join(s.Dir, "shape.json")
	got := doorbelltest.Run(t, doorbelltest.RunEnviron(s.Dir, "http://127.0.0.1:1", doorbelltest.TestKey, "A100"), "check", "--shape", path)
	if _, err := os.Stat(path); got.Code != exit.CodeFailed || err == nil || !strings.Contains(got.Stderr, "no response") {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestAHaltedAgencyIsNotAskedForItsShape wants at most one request a second beside a daemon, too.
func TestAHaltedAgencyIsNotAskedForItsShape(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	if err := s.Model.UnlinkKey(doorbelltest.TestKey, "A100"); err != nil {
		t.Fatal(err)
	}
	d := doorbelltest.Launch(t, s.Environ, "run")
	s.GoesOn(t, "B200", 3)
	doorbelltest.Eventually(t, "A100 is halted", func() bool {
		return strings.Contains(doorbelltest.Run(t, s.Environ, "status").Stdout, "halted")
	})
	before, began := s.Asked("A100"), time.Now()
	_, f := shapeOf(t, s, s.Environ)
	if took := time.Since(began); took < time.Duration(len(f.Responses)-1)*time.Second {
		t.Errorf("%d requests beside a daemon took %s", len(f.Responses), took)
	}
	if after := s.Asked("A100"); after != before {
		t.Errorf("the halted agency was requested %d times", after-before)
	}
	if len(f.Responses) < 3 || f.Responses[0].Status != http.StatusOK {
		t.Errorf("%+v", f.Responses)
	}
	d.Stop(t)
}

// TestRunWatchesTheFormOfAnAPI gives the real program the form of an odd API.
func TestRunWatchesTheFormOfAnAPI(t *testing.T) {
	t.Parallel()
	s := doorbelltest.SceneOf(t, 12, []string{"A100"})
	r, _ := sandbox.RenderingNamed("data-nested")
	original := httptest.NewServer(sandbox.New(s.Model, r))
	defer original.Close()
	path, _ := shapeOf(t, s, doorbelltest.RunEnviron(s.Dir, original.URL, doorbelltest.TestKey, "A100"))
	served := doorbelltest.Launch(t, nil, "sandbox", "--shape", path, "--listen", "127.0.0.1:0", "--agencies", "A100")
	url := served.Stdout.Await(t, `API is at (http://\S+), for agencies A100`)[1]
	dir := doorbelltest.ShortDir(t)
	environ := append(doorbelltest.RunEnviron(dir, url, madeUpKey, "A100"), "DOORBELL_BASELINE=emit")
	d := doorbelltest.Launch(t, environ, "run")
	doorbelltest.Eventually(t, "the agency is learned", func() bool {
		return strings.Contains(doorbelltest.Run(t, environ, "events", "ls", "--type", "watch.baselined", "--json").Stdout, "watch.baselined")
	})
	appeared := doorbelltest.Run(t, environ, "events", "ls", "--type", "insertion.appeared", "--json").Stdout
	if n := strings.Count(appeared, "\n"); n != 12 {
		t.Errorf("%d insertions appeared", n)
	}
	for _, bad := range []string{"watch.schema_drifted", "watch.gap_detected", "access.halted", "watch.stale"} {
		if got := doorbelltest.Run(t, environ, "events", "ls", "--type", bad, "--json").Stdout; got != "" {
			t.Error(got)
		}
	}
	d.Stop(t)
	served.Stop(t)
}

func TestTheSandboxRefusesAFileThatIsNoShape(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		"":               "not a file of check --shape",
		`{"version":99}`: "version 99 is unknown",
		`{"version":2}`:  "it describes no response",
		`{"version":2,"responses":[{"operation":"insertions","status":200,"kind":"json"}]}`:          "response 1: its body is missing or no JSON",
		`{"version":2,"responses":[{"operation":"elsewhere","status":200,"kind":"json","body":{}}]}`: "response 1: unknown operation",
	} {
		got := doorbelltest.Run(t, nil, "sandbox", "--shape", write(t, "shape", text, 0o600), "--listen", "127.0.0.1:0")
		if got.Code != exit.CodeFailed || !strings.Contains(strings.Join(strings.Fields(got.Stderr), " "), words) {
			t.Errorf("%s: %+v", text, got)
		}
	}
}
