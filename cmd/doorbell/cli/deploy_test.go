package cli

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/schemas/skiptest"

	"gopkg.in/yaml.v3"
)

const deployDir = "../../../deploy"

// deployed are the texts of all files in deploy, by their path below it.
func deployed(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(deployDir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(deployDir, path)
			files[filepath.ToSlash(name)] = readText(t, path)
		}
		return err
	})
	if err != nil || len(files) < 20 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	return files
}

// foreignProgram is the path of a third-party program, or the test is skipped with a reason. A
// variable names one that is elsewhere.
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

// parsed reads a YAML document.
func parsed[V any](t *testing.T, text string) (v V) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(text), &v))
	return v
}

func TestEverySettingInDeployExists(t *testing.T) {
	known := []string{"DOORBELL_NATS_URL", "NATS_MSG_ID", "DOORBELL_STANDBY_COPY"} // the last two are not settings
	for _, s := range config.All() {
		known = append(known, s.Name, s.Name+config.FileSuffix)
	}
	setting := regexp.MustCompile(`\b(?:DOORBELL|NATS)_[A-Z][A-Z0-9_]*\b`)
	for file, text := range deployed(t) {
		for _, name := range setting.FindAllString(text, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("deploy/%s: there is no setting %s", file, name)
			}
		}
	}
}

// secretNames are the names that secrets have as credentials, and in folders like /run/secrets.
func secretNames() (names []string) {
	for _, s := range config.All() {
		if s.Secret {
			names = append(names, strings.ToLower(strings.TrimPrefix(s.Name, "DOORBELL_")))
		}
	}
	slices.Sort(names)
	return names
}

// wantTaken fails the test if run would refuse the environment, and secrets in a folder like
// /run/secrets, or warn about them.
func wantTaken(t *testing.T, what string, environ []string, secrets map[string]string) *config.Config {
	t.Helper()
	dir := t.TempDir()
	for name, text := range secrets {
		if !slices.Contains(secretNames(), name) {
			t.Errorf("doorbell reads no secret %s", name)
		}
		rewrite(t, filepath.Join(dir, name), text)
	}
	c, err := config.Read(append(environ, "CREDENTIALS_DIRECTORY="+dir), config.GroupPoll, config.GroupForward)
	if err != nil || len(c.Warnings) > 0 {
		t.Errorf("%s: %v, %q", what, err, c.Warnings)
	}
	return c
}

type composed struct {
	Services map[string]struct {
		Environment map[string]string
		Secrets     []any // a name, or how it is mounted
		Ports       []string
		ReadOnly    bool     `yaml:"read_only"`
		CapDrop     []string `yaml:"cap_drop"`
	}
	Secrets map[string]struct{ File string }
}

func TestComposeIsConfinedAndItsConfigurationIsAccepted(t *testing.T) {
	files := deployed(t)
	for _, file := range []string{"compose.yaml", "alone.compose.yaml"} {
		c := parsed[composed](t, files[file])
		for name, s := range c.Services {
			open := slices.ContainsFunc(s.Ports, func(port string) bool { return !strings.HasPrefix(port, "127.0.0.1:") })
			if open || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
				t.Errorf("%s: %s is not confined: %+v", file, name, s)
			}
		}
		values := map[string]string{
			"api_keys": "A100=key", "http_token": "5ac1b2e3d4f5a6b7c8d9e0f1", "nats_password": "secret",
			"DOORBELL_BASE_URL": "https://api.example.com", "DOORBELL_API_KEYS": "A100=key",
		}
		secrets, environ := map[string]string{}, []string{}
		for _, secret := range c.Services["doorbell"].Secrets {
			name := fmt.Sprint(secret)
			if secrets[name] = values[name]; c.Secrets[name].File != "./secrets/"+name {
				t.Errorf("%s: %s is in %s", file, name, c.Secrets[name].File)
			}
		}
		for name, value := range c.Services["doorbell"].Environment {
			if strings.Contains(value, "${") { // the user's
				value = values[name]
			}
			environ = append(environ, name+"="+value)
		}
		if got := wantTaken(t, file, environ, secrets); len(got.Agencies) != 1 || got.Poll.BaseURL == "" {
			t.Errorf("%s watches %v", file, got.Agencies)
		}
	}
	pair := parsed[composed](t, files["pair.compose.yaml"]).Services["doorbell"].Environment
	if pair["DOORBELL_STANDBY"] == "" || pair["NATS_URL"] == "" {
		t.Errorf("the pair has %v", pair)
	}
}

// dockerfile returns what follows the instructions of each name: in the last stage alone, but for RUN
// and FROM.
func dockerfile(t *testing.T) map[string][]string {
	t.Helper()
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(readText(t, deployDir+"/Dockerfile"), "")
	all := map[string][]string{}
	for line := range strings.Lines(regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "FROM" {
			all = map[string][]string{"FROM": all["FROM"], "RUN": all["RUN"]}
		}
		all[name] = append(all[name], rest)
	}
	return all
}

func TestTheImageRunsTheProgramAsANumericUser(t *testing.T) {
	image := dockerfile(t)
	if from := image["FROM"]; from[len(from)-1] != "scratch" || image["USER"][0] != "65532:65532" {
		t.Errorf("FROM %q, USER %q", from, image["USER"])
	}
	_, healthy, _ := strings.Cut(image["HEALTHCHECK"][0], " CMD ")
	for _, text := range append(image["CMD"], healthy) {
		var args []string
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Errorf("%s: %v: there is no shell in the image", text, err)
		}
		if args = slices.DeleteFunc(args, func(a string) bool { return a == "/doorbell" }); parses(t, args) != nil {
			t.Errorf("doorbell %q: %v", args, parses(t, args))
		}
	}
	c, err := config.Read(strings.Fields(image["ENV"][0]))
	if err != nil || c.Base.DataDir != "/data" || c.Base.HTTPListen != "0.0.0.0:3667" {
		t.Errorf("%v %v", err, c.Base)
	}
}

// manifest is the part of a Kubernetes object that these tests read.
type manifest struct {
	Kind string
	Data map[string]string
	Spec struct {
		Replicas int
		Template struct {
			Spec struct {
				SecurityContext struct {
					RunAsNonRoot bool `yaml:"runAsNonRoot"`
				} `yaml:"securityContext"`
				Containers     []container
				InitContainers []container `yaml:"initContainers"`
			}
		}
	}
}

type container struct {
	Name            string
	Ports           []struct{ Name string }
	Env             []struct{ Name, Value string }
	StartupProbe    probe  `yaml:"startupProbe"`
	LivenessProbe   probe  `yaml:"livenessProbe"`
	ReadinessProbe  *probe `yaml:"readinessProbe"`
	SecurityContext struct {
		ReadOnlyRootFilesystem bool `yaml:"readOnlyRootFilesystem"`
	} `yaml:"securityContext"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

// rendered are the objects of a kustomization, by kind.
func rendered(t *testing.T, name string) map[string]manifest {
	t.Helper()
	cmd := exec.Command(foreignProgram(t, "DOORBELL_TEST_KUSTOMIZE", "kubectl", "no kustomization is built"), "kustomize")
	if os.Getenv("DOORBELL_TEST_KUSTOMIZE") != "" {
		cmd.Args[1] = "build"
	}
	cmd.Args = append(cmd.Args, filepath.Join(deployDir, "kubernetes", name))
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%s: %v\n%s", name, err, complaints.String())
	}
	objects := map[string]manifest{}
	for text := range strings.SplitSeq(string(out), "\n---\n") {
		o := parsed[manifest](t, text)
		objects[o.Kind] = o
	}
	return objects
}

// TestEveryKustomizationIsConfinedAndItsConfigurationIsAccepted lets doorbell read what the pod
// would give it.
func TestEveryKustomizationIsConfinedAndItsConfigurationIsAccepted(t *testing.T) {
	t.Parallel()
	example := parsed[struct {
		StringData map[string]string `yaml:"stringData"`
	}](t, readText(t, deployDir+"/kubernetes/secret.example.yaml"))
	for name, replicas := range map[string]int{
		"base": 1, "overlays/external-nats": 1, "overlays/monitored": 1, "overlays/pair": 2, "overlays/sidecar": 1,
	} {
		objects := rendered(t, name)
		set := objects["StatefulSet"].Spec
		pod := set.Template.Spec
		if _, secret := objects["Secret"]; secret || set.Replicas != replicas || !pod.SecurityContext.RunAsNonRoot {
			t.Errorf("%s: %d replicas, or a secret of ours", name, set.Replicas)
		}
		found := 0
		for _, c := range append(pod.Containers, pod.InitContainers...) {
			if !c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s: %s is not confined", name, c.Name)
			}
			if c.Name != "doorbell" {
				continue
			}
			found++
			live, start, ready := c.LivenessProbe.HTTPGet, c.StartupProbe.HTTPGet, c.ReadinessProbe
			if live.Path != "/livez" || live.Port != c.Ports[0].Name || start.Path != "/livez" ||
				ready != nil && ready.HTTPGet.Path != "/readyz" { // that of a native sidecar counts for the whole pod
				t.Errorf("%s: it is probed at %+v, %+v", name, live, ready)
			}
			secrets, environ := maps.Clone(example.StringData), strings.Fields(dockerfile(t)["ENV"][0])
			for setting, value := range objects["ConfigMap"].Data {
				environ = append(environ, setting+"="+value)
				if setting == "NATS_USER" {
					secrets["nats_password"] = "secret"
					delete(secrets, "nats_token")
				}
			}
			for _, e := range c.Env {
				environ = append(environ, e.Name+"="+e.Value)
			}
			got := wantTaken(t, name, environ, secrets)
			if got.Base.HTTPListen != "0.0.0.0:3667" || got.Base.DataDir != "/data/doorbell" || got.Base.HTTPToken.IsZero() {
				t.Errorf("%s: it listens on %s, keeps its data in %s", name, got.Base.HTTPListen, got.Base.DataDir)
			}
		}
		if found != 1 {
			t.Errorf("%s has %d doorbells", name, found)
		}
	}
}

// TestTheUnitIsStrictAndHandsOverEverySecret has systemd verify it, as itself and as an instance.
func TestTheUnitIsStrictAndHandsOverEverySecret(t *testing.T) {
	t.Parallel()
	unit := readText(t, deployDir+"/doorbell.service")
	doorbelltest.Has(t, unit, fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exit.CodeConfig), "\nRestart=on-failure\n", "\nType=notify\n")
	var loaded []string
	for _, m := range regexp.MustCompile(`(?m)^LoadCredential=(\S+?):doorbell%i\.(\S+)$`).FindAllStringSubmatch(unit, -1) {
		if loaded = append(loaded, m[1]); m[1] != m[2] {
			t.Errorf("%s comes from %s", m[1], m[2])
		}
	}
	if slices.Sort(loaded); !slices.Equal(loaded, secretNames()) {
		t.Errorf("the unit loads %q; the secrets are %q", loaded, secretNames())
	}
	analyze := foreignProgram(t, "", "systemd-analyze", "systemd does not verify the unit")
	dir := t.TempDir()
	for _, name := range []string{"doorbell.service", "doorbell@-staging.service"} {
		file := filepath.Join(dir, name)
		rewrite(t, file, strings.ReplaceAll(unit, "/usr/local/bin/doorbell", doorbelltest.Binary(t))) // it has to be there
		if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=15", filepath.Join(dir, "doorbell.service")).CombinedOutput()
	if err != nil {
		t.Errorf("it is exposed to more than 1.5: %v\n%s", err, out)
	}
}

// TestEveryFileOfAReleaseExists compares .goreleaser.yaml with the repository.
func TestEveryFileOfAReleaseExists(t *testing.T) {
	text := readText(t, filepath.Join(top, ".goreleaser.yaml"))
	g := parsed[struct {
		Builds   []struct{ Main, Binary string }
		Archives []struct{ Files []string }
		Nfpms    []struct {
			Bindir   string
			Scripts  struct{ Postinstall, Preremove string }
			Contents []struct{ Src string }
		}
	}](t, text)
	deb := g.Nfpms[0]
	files := append(g.Archives[0].Files, g.Builds[0].Main, deb.Scripts.Postinstall, deb.Scripts.Preremove)
	for _, c := range deb.Contents {
		files = append(files, c.Src) // empty for a folder that is made
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(top, f)); err != nil || len(files) < 10 {
			t.Errorf("%q: %v", f, err)
		}
	}
	doorbelltest.Has(t, readText(t, deployDir+"/deb/package.conf"), "\nExecStart=\nExecStart="+deb.Bindir+"/"+g.Builds[0].Binary+" run\n")
	for _, text := range []string{text, readText(t, deployDir+"/Dockerfile"), readText(t, filepath.Join(top, ".github/SECURITY.md"))} {
		// A wrong name is no error of the linker. The image has no libraries.
		doorbelltest.Has(t, text, "-X doorbell/cmd/doorbell/cli.release=", "CGO_ENABLED=0")
	}
}

func TestTheRunbookHasEveryAlertAndNoOther(t *testing.T) {
	files := deployed(t)
	rules := parsed[struct {
		Groups []struct {
			Rules []struct {
				Alert       string
				Annotations struct {
					RunbookURL string `yaml:"runbook_url"`
				}
			}
		}
	}](t, files["prometheus/alerts.yml"]).Groups[0].Rules
	var alerts, told []string
	for _, rule := range rules {
		alerts = append(alerts, rule.Alert)
		if !strings.HasSuffix(rule.Annotations.RunbookURL, "deploy/runbook.md#"+strings.ToLower(rule.Alert)) {
			t.Errorf("%s leads to %q", rule.Alert, rule.Annotations.RunbookURL)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(files["runbook.md"], -1) {
		told = append(told, m[1])
	}
	slices.Sort(alerts)
	if slices.Sort(told); len(alerts) == 0 || !slices.Equal(alerts, told) {
		t.Errorf("the alerts are %q, the runbook has %q", alerts, told)
	}
}
