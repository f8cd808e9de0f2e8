package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

// write makes a file in a directory of the test.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), mode))
	return path
}

// TestEveryProblemOfTheConfigurationIsReportedAndNothingIsWritten also names what only a receiver
// finds.
func TestEveryProblemOfTheConfigurationIsReportedAndNothingIsWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	for about, environ := range map[string][]string{
		"POLL_INTERVAL, HTTP_TOKEN":         {"DOORBELL_POLL_INTERVAL=" + doorbelltest.Sentinel, "DOORBELL_HTTP_TOKEN=" + doorbelltest.Sentinel + " x"},
		"API_KEY":                           {"DOORBELL_API_KEY=ApiKey " + doorbelltest.Sentinel},
		"ROUTES_FILE":                       {"DOORBELL_ROUTES_FILE=/none/routes.csv"},
		"EMAIL_TO and related settings can": {"DOORBELL_EMAIL_SMTP=smtp://h", "DOORBELL_EMAIL_FROM=a@x.example", "DOORBELL_EMAIL_TO=nora@agentur.zürich"},
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
