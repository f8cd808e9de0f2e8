package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

const hook = "https://hooks.example.com/services/" + doorbelltest.Sentinel

// write makes a file in a directory of the test.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestEveryProblemOfTheConfigurationIsReportedAndNothingIsWritten also names what only a receiver
// finds.
func TestEveryProblemOfTheConfigurationIsReportedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for about, environ := range map[string][]string{
		"POLL_INTERVAL, HTTP_TOKEN": {"DOORBELL_POLL_INTERVAL=" + doorbelltest.Sentinel, "DOORBELL_HTTP_TOKEN=" + doorbelltest.Sentinel + " x"},
		"API_KEY":                   {"DOORBELL_API_KEY=ApiKey " + doorbelltest.Sentinel},
		"ROUTES_FILE":               {"DOORBELL_ROUTES_FILE=/none/routes.csv"},
		"EMAIL_TO and its like can": {"DOORBELL_EMAIL_SMTP=smtp://h", "DOORBELL_EMAIL_FROM=a@x.example", "DOORBELL_EMAIL_TO=nora@agentur.zürich"},
	} {
		for _, command := range []string{"config", "config --json", "run", "check", "check --json"} {
			got := doorbelltest.Run(t, doorbelltest.Fit(append(environ, "DOORBELL_DATA_DIR="+dir)...), strings.Fields(command)...)
			got.HoldsNoSecret(t)
			said := got.Stderr
			if strings.HasPrefix(command, "check") {
				said += got.Stdout
			}
			if got.Code != exit.CodeConfig || command == "run" && got.Stdout != "" {
				t.Errorf("%s: exit code %d:\n%s%s", command, got.Code, got.Stdout, got.Stderr)
			}
			for name := range strings.SplitSeq(about, ", ") {
				if !strings.Contains(strings.Join(strings.Fields(said), " "), "DOORBELL_"+name) {
					t.Errorf("%s: nothing about %s:\n%s", command, name, said)
				}
			}
		}
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("a data directory was made")
	}
}

// TestTheRecipeForHubSpotWorksFromTheCommandLine sends a test with a recipe whose token is filled in.
func TestTheRecipeForHubSpotWorksFromTheCommandLine(t *testing.T) {
	recipe := readText(t, "../../../events/forward/webhook/recipes/hubspot.json")
	path := write(t, "template.json", strings.Replace(recipe, "THE_TOKEN_OF_YOUR_PRIVATE_APP", doorbelltest.Sentinel, 1), 0o600)
	var bodies []string
	status := http.StatusConflict // for a contact that is known
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+doorbelltest.Sentinel {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.WriteHeader(status)
	}))
	defer crm.Close()
	environ := []string{
		"DOORBELL_DATA_DIR=" + doorbelltest.ShortDir(t), "DOORBELL_NATS_LISTEN=127.0.0.1:1",
		"DOORBELL_WEBHOOK_URL=" + crm.URL + "/crm/v3/objects/contacts", "DOORBELL_WEBHOOK_TEMPLATE_FILE=" + path,
	}
	got := doorbelltest.Run(t, environ, "forward", "webhook", "--test")
	if got.Code != exit.Done || len(bodies) != 1 || !strings.HasPrefix(bodies[0], `{"properties":{"email":"nora.beispiel@example.org"`) {
		t.Errorf("%+v %q", got, bodies)
	}
	got.HoldsNoSecret(t)
	status = http.StatusUnprocessableEntity
	got = doorbelltest.Run(t, environ, "forward", "webhook", "--test")
	if got.Code != exit.CodeFailed || !strings.Contains(got.Stdout, "status 422") {
		t.Errorf("%+v", got)
	}
	got.HoldsNoSecret(t)
}
