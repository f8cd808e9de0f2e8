package cli

import (
	"debug/elf"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
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

// foreignProgram is the path of a program of others, or the test is skipped with a sentence. A
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

// node is a part of a YAML document; one that is missing is nil.
type node struct{ v any }

func document(t *testing.T, text string) node {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return node{v}
}

// at follows names and, in lists, numbers: "spec.containers.0.image".
func (n node) at(path string) node {
	for name := range strings.SplitSeq(path, ".") {
		list, _ := n.v.([]any)
		if i, err := strconv.Atoi(name); err == nil && i < len(list) {
			n = node{list[i]}
		} else {
			n = n.fields()[name]
		}
	}
	return n
}

func (n node) fields() map[string]node {
	all := map[string]node{}
	values, _ := n.v.(map[string]any)
	for name, v := range values {
		all[name] = node{v}
	}
	return all
}

func (n node) list() (all []node) {
	values, _ := n.v.([]any)
	for _, v := range values {
		all = append(all, node{v})
	}
	return all
}

// String is a value as it is written; lists have brackets.
func (n node) String() string {
	if n.v == nil {
		return ""
	}
	return fmt.Sprint(n.v)
}

// wants fails the test unless these paths have these values.
func (n node) wants(t *testing.T, what string, values map[string]string) {
	t.Helper()
	for path, value := range values {
		if got := n.at(path).String(); got != value {
			t.Errorf("%s: %s is %q, not %q", what, path, got, value)
		}
	}
}

func TestEverySettingInDeployExists(t *testing.T) {
	known := []string{"DOORBELL_NATS_URL", "NATS_MSG_ID", "DOORBELL_STANDBY_COPY"} // the last two are none
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

func TestDeployHasTheVersionsThatAreTested(t *testing.T) {
	files, module := deployed(t), readText(t, filepath.Join(top, "go.mod"))
	for file, versions := range map[string][2]string{
		"compose.yaml": {`nats-server/v2 v(\S+)`, "image: nats:%s-"}, "Dockerfile": {`(?m)^go (\d+\.\d+)`, "golang:%s."},
	} {
		found := regexp.MustCompile(versions[0]).FindStringSubmatch(module)
		doorbelltest.Has(t, files[file], fmt.Sprintf(versions[1], found[1]))
	}
	for _, file := range []string{".goreleaser.yaml", "deploy/Dockerfile", ".github/SECURITY.md"} {
		// A wrong name is no error of the linker.
		doorbelltest.Has(t, readText(t, filepath.Join(top, file)), "-X doorbell/cmd/doorbell/cli.release=")
	}
}

// wantTaken fails the test if run would refuse the environment or warn about it.
func wantTaken(t *testing.T, what string, environ []string) *config.Config {
	t.Helper()
	c, err := config.Read(environ, config.GroupPoll, config.GroupForward)
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
	for _, w := range c.Warnings {
		if !strings.HasSuffix(w, "no effect yet") {
			t.Errorf("%s: %s", what, w)
		}
	}
	return c
}

// writeSecrets makes a folder like /run/secrets.
func writeSecrets(t *testing.T, texts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range texts {
		if !slices.Contains(secretNames(), name) {
			t.Errorf("doorbell reads no secret %s", name)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestComposeIsConfinedAndItsConfigurationIsTaken(t *testing.T) {
	files := deployed(t)
	for _, file := range []string{"compose.yaml", "alone.compose.yaml"} {
		c := document(t, files[file])
		for name, s := range c.at("services").fields() {
			s.wants(t, file+" "+name, map[string]string{
				"read_only": "true", "restart": "unless-stopped", "cap_drop": "[ALL]", "security_opt": "[no-new-privileges:true]",
			})
			for _, port := range s.at("ports").list() {
				if !strings.HasPrefix(port.String(), "127.0.0.1:") {
					t.Errorf("%s: %s is open to other machines", name, port)
				}
			}
			for _, v := range s.at("volumes").list() {
				from, _, _ := strings.Cut(v.String(), ":")
				_, err := os.Stat(filepath.Join(deployDir, from))
				if _, declared := c.at("volumes").fields()[from]; !declared && err != nil {
					t.Errorf("%s %s: there is no %s", file, name, from)
				}
			}
		}
		s := c.at("services.doorbell")
		s.wants(t, file, map[string]string{"build.context": "..", "build.dockerfile": "deploy/Dockerfile"})
		texts := map[string]string{}
		for _, secret := range s.at("secrets").list() {
			texts[secret.String()] = map[string]string{"api_keys": "A100=key", "http_token": "5ac1b2e3d4f5a6b7c8d9e0f1"}[secret.String()] + "\n"
			c.wants(t, file, map[string]string{"secrets." + secret.String() + ".file": "./secrets/" + secret.String()})
		}
		if _, has := texts["nats_password"]; has {
			texts["nats_password"] = "secret"
		}
		environ := []string{"CREDENTIALS_DIRECTORY=" + writeSecrets(t, texts)}
		for name, v := range s.at("environment").fields() {
			value := v.String()
			if strings.Contains(value, "${") { // the user's
				value = map[string]string{"DOORBELL_BASE_URL": "https://api.example.com", "DOORBELL_API_KEYS": "A100=key"}[name]
			}
			if name != "CREDENTIALS_DIRECTORY" {
				environ = append(environ, name+"="+value)
			}
		}
		if got := wantTaken(t, file, environ); len(got.Agencies) != 1 || got.Poll.BaseURL == "" {
			t.Errorf("%s watches %v", file, got.Agencies)
		}
	}
	pair := document(t, files["pair.compose.yaml"])
	pair.wants(t, "pair.compose.yaml", map[string]string{
		"services.doorbell.extends.file": "compose.yaml", "services.doorbell.environment.DOORBELL_STANDBY": "leads",
		"services.doorbell.environment.NATS_URL": "${NATS_URL:?}", "services.nats.extends.service": "nats",
		"services.nats.ports": "[${MACHINE:?}:4222:4222 ${MACHINE:?}:6222:6222]",
	})
}

// dockerfile returns what follows the instructions of each name, in the whole file and in its last
// stage.
func dockerfile(t *testing.T) (all, last map[string][]string) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(readText(t, deployDir+"/Dockerfile"), "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	all, last = map[string][]string{}, map[string][]string{}
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "FROM" {
			last = map[string][]string{}
		}
		all[name], last[name] = append(all[name], rest), append(last[name], rest)
	}
	return all, last
}

func TestTheImageHoldsTheProgramAloneAndRunsIt(t *testing.T) {
	all, last := dockerfile(t)
	if got := all["FROM"]; len(got) != 2 || !regexp.MustCompile(`:\d+\.\d+\.\d+-\w+ AS build$`).MatchString(got[0]) || got[1] != "scratch" {
		t.Errorf("FROM %q", got)
	}
	want := map[string][]string{ // a number, so that runAsNonRoot can be verified
		"FROM": {"scratch"}, "USER": {"65532:65532"}, "VOLUME": {"/data"}, "EXPOSE": {"3667 4222"}, "ENTRYPOINT": {`["/doorbell"]`},
		"COPY": {
			"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt",
			"--from=build /out/doorbell /doorbell", "--from=build --chown=65532:65532 /out/data /data",
		},
	}
	_, healthy, _ := strings.Cut(last["HEALTHCHECK"][0], " CMD ")
	for _, text := range append(last["CMD"], healthy) {
		var args []string
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			t.Errorf("%s: %v: there is no shell in the image", text, err)
		}
		if args = slices.DeleteFunc(args, func(a string) bool { return a == "/doorbell" }); parses(t, args) != nil {
			t.Errorf("doorbell %q: %v", args, parses(t, args))
		}
	}
	c, err := config.Read(strings.Fields(last["ENV"][0]))
	if err != nil || c.Base.DataDir != "/data" || c.Base.HTTPListen != "0.0.0.0:3667" {
		t.Errorf("%v %v", err, c.Base)
	}
	for _, name := range []string{"LABEL", "HEALTHCHECK", "CMD", "ENV", ""} {
		delete(last, name)
	}
	if !maps.EqualFunc(last, want, slices.Equal) {
		t.Errorf("the last stage is %q", last)
	}
}

// TestTheProgramOfTheImageIsStatic builds it by the line of the Dockerfile.
func TestTheProgramOfTheImageIsStatic(t *testing.T) {
	t.Parallel()
	if os.Getenv("DOORBELL_TEST_IMAGE") == "" {
		skiptest.Skipf(t, "DOORBELL_TEST_IMAGE is not set, so the program is not built as the image has it")
	}
	all, _ := dockerfile(t)
	program := filepath.Join(t.TempDir(), "doorbell")
	at := slices.IndexFunc(all["RUN"], func(line string) bool { return strings.Contains(line, "go build") })
	line := regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(all["RUN"][at], "")
	build := exec.Command("sh", "-ec", strings.ReplaceAll(line, "/out/doorbell", "'"+program+"'"))
	build.Dir = top
	build.Env = append(os.Environ(), "GOFLAGS=", "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH, "VERSION=9.8.7")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
		t.Error("it needs libraries, which the image does not have")
	}
	if out, err := exec.Command(program, "version").Output(); err != nil || !strings.HasPrefix(string(out), "doorbell 9.8.7 (") {
		t.Errorf("%v: %s", err, out)
	}
}

// rendered are the objects of a kustomization, by kind.
func rendered(t *testing.T, name string) map[string]node {
	t.Helper()
	program, args := foreignProgram(t, "DOORBELL_TEST_KUSTOMIZE", "kubectl", "no kustomization is built"), []string{"kustomize"}
	if os.Getenv("DOORBELL_TEST_KUSTOMIZE") != "" {
		args = []string{"build"}
	}
	var complaints strings.Builder
	cmd := exec.Command(program, append(args, filepath.Join(deployDir, "kubernetes", name))...)
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%s: %v\n%s", name, err, complaints.String())
	}
	objects := map[string]node{}
	for text := range strings.SplitSeq(string(out), "\n---\n") {
		o := document(t, text)
		objects[o.at("kind").String()] = o
	}
	return objects
}

func TestEveryKustomizationIsConfinedAndItsConfigurationIsTaken(t *testing.T) {
	t.Parallel()
	for name, replicas := range map[string]string{
		"base": "1", "overlays/external-nats": "1", "overlays/monitored": "1", "overlays/pair": "2", "overlays/sidecar": "1",
	} {
		objects := rendered(t, name)
		for kind := range objects { // a Secret is in no manifest of ours
			if slices.Contains([]string{"Deployment", "DaemonSet", "Secret"}, kind) {
				t.Errorf("%s has a %s", name, kind)
			}
		}
		set := objects["StatefulSet"]
		set.wants(t, name, map[string]string{
			"spec.replicas": replicas, "spec.persistentVolumeClaimRetentionPolicy.whenDeleted": "Retain",
		})
		pod := set.at("spec.template.spec")
		pod.wants(t, name, map[string]string{
			"enableServiceLinks": "false", "automountServiceAccountToken": "false",
			"securityContext.runAsNonRoot": "true", "securityContext.runAsUser": "65532", "securityContext.fsGroup": "65532",
			"securityContext.seccompProfile.type": "RuntimeDefault",
		})
		for label, value := range objects["Service"].at("spec.selector").fields() {
			if got := set.at("spec.template.metadata.labels").fields()[label]; got != value {
				t.Errorf("%s: the service selects %s=%s, the pod has %s", name, label, value, got)
			}
		}
		for _, c := range append(pod.at("containers").list(), pod.at("initContainers").list()...) {
			c.wants(t, name+" "+c.at("name").String(), map[string]string{
				"securityContext.allowPrivilegeEscalation": "false", "securityContext.readOnlyRootFilesystem": "true",
				"securityContext.capabilities.drop": "[ALL]",
			})
			if c.at("resources.limits.memory").v == nil {
				t.Errorf("%s: %s has no limit of memory", name, c.at("name"))
			}
			if c.at("name").String() == "doorbell" {
				doorbellInPod(t, name, c, objects)
			}
		}
	}
}

// doorbellInPod wants probes where doorbell listens, a claim for its data, and an environment that
// run takes with the example's Secret.
func doorbellInPod(t *testing.T, name string, c node, objects map[string]node) {
	t.Helper()
	probes := map[string]string{"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
	if c.at("restartPolicy").String() == "Always" {
		delete(probes, "readinessProbe") // that of a native sidecar counts for the whole pod
	}
	for probe, path := range probes {
		c.wants(t, name, map[string]string{probe + ".httpGet.path": path, probe + ".httpGet.port": c.at("ports.0.name").String()})
	}
	c.wants(t, name, map[string]string{"ports.0.containerPort": "3667", "volumeMounts.0.mountPath": "/data"})
	claim := objects["StatefulSet"].at("spec.volumeClaimTemplates.0.metadata.name").String()
	c.wants(t, name, map[string]string{"volumeMounts.0.name": claim})

	texts := map[string]string{}
	for secret, text := range document(t, readText(t, deployDir+"/kubernetes/secret.example.yaml")).at("stringData").fields() {
		texts[secret] = text.String()
	}
	_, last := dockerfile(t)
	environ := strings.Fields(last["ENV"][0])
	for setting, value := range objects["ConfigMap"].at("data").fields() {
		environ = append(environ, setting+"="+value.String())
		if setting == "NATS_USER" {
			texts["nats_password"] = "secret"
			delete(texts, "nats_token")
		}
	}
	for _, e := range c.at("env").list() {
		if e.at("name").String() != "CREDENTIALS_DIRECTORY" {
			environ = append(environ, e.at("name").String()+"="+e.at("value").String())
		}
	}
	got := wantTaken(t, name, append(environ, "CREDENTIALS_DIRECTORY="+writeSecrets(t, texts)))
	if got.Base.HTTPListen != "0.0.0.0:3667" || got.Base.DataDir != "/data/doorbell" || got.Base.HTTPToken.IsZero() {
		t.Errorf("%s: it listens on %s, keeps its data in %s", name, got.Base.HTTPListen, got.Base.DataDir)
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
		text := strings.ReplaceAll(unit, "/usr/local/bin/doorbell", doorbelltest.Binary(t)) // it has to be there
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command(analyze, "verify", "--man=no", file).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold=15", filepath.Join(dir, "doorbell.service")).CombinedOutput()
	if err != nil {
		t.Errorf("it is exposed to more than 1.5: %v\n%s", err, out)
	}
}

// TestWhatAReleaseIsMadeOfIsThere compares .goreleaser.yaml with the repository.
func TestWhatAReleaseIsMadeOfIsThere(t *testing.T) {
	g := document(t, readText(t, filepath.Join(top, ".goreleaser.yaml")))
	deb := g.at("nfpms.0")
	files := []string{g.at("builds.0.main").String(), deb.at("scripts.postinstall").String(), deb.at("scripts.preremove").String()}
	for _, f := range g.at("archives.0.files").list() {
		files = append(files, f.String())
	}
	target := map[string]string{}
	for _, c := range deb.at("contents").list() {
		if src := c.at("src").String(); src != "" {
			files, target[src] = append(files, src), c.at("dst").String()
		}
	}
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(top, f)); err != nil || len(files) < 10 {
			t.Errorf("%q: %v", f, err)
		}
	}
	for _, script := range files[1:3] {
		if out, err := exec.Command("sh", "-n", filepath.Join(top, script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", script, err, out)
		}
	}
	unit := strings.ReplaceAll(readText(t, deployDir+"/doorbell.service"), "%i", "")
	if dst := target["deploy/doorbell.service"]; target["deploy/deb/package.conf"] != dst+".d/package.conf" {
		t.Errorf("the unit is at %s, what changes it at %s", dst, target["deploy/deb/package.conf"])
	}
	doorbelltest.Has(t, unit, "EnvironmentFile=-"+target["deploy/doorbell.env.example"]+"\n", "\nExecStart=/usr/local/bin/doorbell run\n")
	start := "\nExecStart=\nExecStart=" + deb.at("bindir").String() + "/" + g.at("builds.0.binary").String() + " run\n"
	doorbelltest.Has(t, readText(t, deployDir+"/deb/package.conf"), start)
}

func TestTheRunbookHasEveryAlertAndNoOther(t *testing.T) {
	var alerts, told []string
	files := deployed(t)
	for _, rule := range document(t, files["prometheus/alerts.yml"]).at("groups.0.rules").list() {
		name := rule.at("alert").String()
		if alerts = append(alerts, name); !strings.HasSuffix(rule.at("annotations.runbook_url").String(), "deploy/runbook.md#"+strings.ToLower(name)) {
			t.Errorf("%s leads to %q", name, rule.at("annotations.runbook_url"))
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
