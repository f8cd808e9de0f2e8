package cli

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/schemas/skiptest"
)

const deployDir = "../../../deploy"

// deployed are the texts of all files in deploy, by their path below it.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(deployDir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(deployDir, path)
		files[filepath.ToSlash(name)] = readText(t, path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 2 {
		t.Fatalf("only %d files found: looked in the wrong place", len(files))
	}
	return files
}

// foreignProgram is the path of a program of others, or the test is skipped with a sentence. A variable names one that stands elsewhere.
func foreignProgram(t *testing.T, variable, name, whatIsNotTested string) string {
	t.Helper()
	if named := os.Getenv(variable); named != "" {
		name = named
	}
	path, err := exec.LookPath(name)
	if err != nil {
		skiptest.Skipf(t, "%s is not here, so %s", name, whatIsNotTested)
	}
	return path
}

var settingName = regexp.MustCompile(`\b(?:DOORBELL|NATS)_[A-Z][A-Z0-9_]*\b`)

// notSettings are names in deploy that look like settings and are none.
var notSettings = []string{"NATS_MSG_ID", "DOORBELL_STANDBY_COPY"}

func TestEverySettingInDeployExists(t *testing.T) {
	known := append([]string{"DOORBELL_NATS_URL"}, notSettings...)
	for _, s := range config.All() {
		known = append(known, s.Name)
		if s.Secret {
			known = append(known, s.Name+config.FileSuffix)
		}
	}
	found := 0
	for file, text := range deployed(t) {
		for _, name := range settingName.FindAllString(text, -1) {
			found++
			if !slices.Contains(known, name) {
				t.Errorf("deploy/%s: there is not a setting %s; did you mean %s?", file, name, config.Nearest(name, known))
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d names found", found)
	}
}

// secretNames are the names of all settings that can come from a file, as a credential is named.
func secretNames() (names []string) {
	for _, s := range config.All() {
		if s.Secret {
			names = append(names, credentialName(s.Name))
		}
	}
	slices.Sort(names)
	return names
}

func credentialName(setting string) string {
	return strings.ToLower(strings.TrimPrefix(setting, "DOORBELL_"))
}

// TestDeployHasTheVersionsThatAreTested: the server beside us is the one that the tests embed, and the compiler takes go.mod.
func TestDeployHasTheVersionsThatAreTested(t *testing.T) {
	module := readText(t, filepath.Join(top, "go.mod"))
	server := regexp.MustCompile(`nats-server/v2 v(\S+)`).FindStringSubmatch(module)
	if server == nil {
		t.Fatal("go.mod has no NATS server")
	}
	doorbelltest.Has(t, readText(t, composeFile), "image: nats:"+server[1]+"-")
	language := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(module)
	if language == nil {
		t.Fatal("go.mod names no version of Go")
	}
	doorbelltest.Has(t, readText(t, dockerfile), "golang:"+language[1]+".")
}
