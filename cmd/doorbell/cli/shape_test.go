package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/shape"
	"doorbell/poller/sandbox"
)

// shapeOf runs check --shape, and wants a file that only its owner can read and that holds nothing of
// the model.
func shapeOf(t *testing.T, s doorbelltest.Scene, environ []string) (path string, f shape.File) {
	t.Helper()
	path = filepath.Join(doorbelltest.ShortDir(t), "shape.json")
	got := doorbelltest.Run(t, environ, "check", "--shape", path)
	if got.Code != exit.Done {
		t.Fatalf("%+v", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	text := readText(t, path)
	secrets, truth := []string{doorbelltest.TestKey, sandbox.Marker}, s.Model.Truth()
	for _, i := range truth.Insertions {
		secrets = append(secrets, i.Reference, strings.ReplaceAll(i.Reference, "#", "%23"))
	}
	for _, c := range truth.ContactRequests {
		secrets = append(secrets, c.ID)
	}
	for _, secret := range secrets {
		if len(secret) >= 4 && strings.Contains(text+got.Stdout+got.Stderr, secret) {
			t.Errorf("%q is in the file or printed", secret)
		}
	}
	f, err := shape.Read(strings.NewReader(text))
	must(t, err)
	return path, f
}

func TestTheFormOfEveryRenderingHoldsNoneOfItsValues(t *testing.T) {
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

// TestAHaltedAgencyIsNotAskedForItsShape wants at most one request a second beside a daemon, too.
func TestAHaltedAgencyIsNotAskedForItsShape(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	must(t, s.Model.UnlinkKey(doorbelltest.TestKey, "A100"))
	d := doorbelltest.Launch(t, s.Environ, "run")
	s.GoesOn(t, "B200", 3)
	doorbelltest.Eventually(t, "A100 is halted", func() bool {
		return strings.Contains(doorbelltest.Run(t, s.Environ, "status").Stdout, "halted")
	})
	before, began := s.Asked("A100"), time.Now()
	_, f := shapeOf(t, s, s.Environ)
	if took := time.Since(began); took < time.Duration(len(f.Responses)-1)*time.Second {
		t.Errorf("%d requests while a daemon runs took %s", len(f.Responses), took)
	}
	if after := s.Asked("A100"); after != before {
		t.Errorf("the halted agency was requested %d times", after-before)
	}
	if len(f.Responses) < 3 || f.Responses[0].Status != http.StatusOK {
		t.Errorf("%+v", f.Responses)
	}
	d.Stop(t)
}
