package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
)

const kubernetesDir = deployDir + "/kubernetes"

// rendered are the objects of a kustomization.
func rendered(t *testing.T, name string) []node {
	t.Helper()
	folder := filepath.Join(kubernetesDir, name)
	if named := os.Getenv("DOORBELL_TEST_KUSTOMIZE"); named != "" {
		return built(t, named, "build", folder)
	}
	if kustomize, err := exec.LookPath("kustomize"); err == nil {
		return built(t, kustomize, "build", folder)
	}
	return built(t, foreignProgram(t, "", "kubectl", "nobody builds the kustomizations"), "kustomize", folder)
}

func built(t *testing.T, program string, args ...string) []node {
	t.Helper()
	cmd := exec.Command(program, args...)
	var complaints strings.Builder
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		t.Fatalf("%s %q: %v\n%s", program, args, err, complaints.String())
	}
	return documents(t, string(out))
}

func ofKind(objects []node, kind string) (found []node) {
	for _, o := range objects {
		if o.at("kind").text() == kind {
			found = append(found, o)
		}
	}
	return found
}

// kustomizations are those that can be applied as they are.
func kustomizations(t *testing.T) []string {
	t.Helper()
	folders, err := filepath.Glob(filepath.Join(kubernetesDir, "overlays", "*", "kustomization.yaml"))
	if err != nil || len(folders) < 3 {
		t.Fatalf("%d overlays: %v", len(folders), err)
	}
	all := []string{"base"}
	for _, f := range folders {
		all = append(all, filepath.Join("overlays", filepath.Base(filepath.Dir(f))))
	}
	return all
}

func TestEveryKustomizationKeepsTheRules(t *testing.T) {
	t.Parallel()
	for _, name := range kustomizations(t) {
		t.Run(name, func(t *testing.T) {
			objects := rendered(t, name)
			sets := ofKind(objects, "StatefulSet")
			if len(sets) != 1 {
				t.Fatalf("%d StatefulSets", len(sets))
			}
			for _, kind := range []string{"Deployment", "DaemonSet", "Secret"} { // a Secret is never in a manifest of ours
				if len(ofKind(objects, kind)) > 0 {
					t.Errorf("it has a %s", kind)
				}
			}
			replicas := "1"
			if strings.HasSuffix(name, "pair") {
				replicas = "2"
			}
			sets[0].wants(t, "the StatefulSet", "spec.replicas", replicas)
			keepsTheRules(t, objects, sets[0])
		})
	}
}

func keepsTheRules(t *testing.T, objects []node, set node) {
	t.Helper()
	set.wants(t, "the StatefulSet", "spec.persistentVolumeClaimRetentionPolicy.whenDeleted", "Retain")
	pod := set.at("spec.template.spec")
	for path, value := range map[string]string{
		"enableServiceLinks": "false", "automountServiceAccountToken": "false",
		"securityContext.runAsNonRoot": "true", "securityContext.runAsUser": "65532", "securityContext.fsGroup": "65532",
		"securityContext.seccompProfile.type": "RuntimeDefault",
	} {
		pod.wants(t, "the pod", path, value)
	}
	if grace, err := strconv.Atoi(pod.at("terminationGracePeriodSeconds").text()); err != nil || grace < 20 {
		t.Errorf("it has %d s to end", grace)
	}
	for _, c := range append(pod.at("containers").list(), pod.at("initContainers").list()...) {
		isConfined(t, c)
		if c.at("name").text() == "doorbell" {
			isWatched(t, c, set)
			isConfigured(t, c, objects)
			keepsItsData(t, c, pod, set)
		}
	}
}

func isConfined(t *testing.T, c node) {
	t.Helper()
	name := c.at("name").text()
	c.wants(t, name, "securityContext.allowPrivilegeEscalation", "false")
	c.wants(t, name, "securityContext.readOnlyRootFilesystem", "true")
	if got := c.at("securityContext.capabilities.drop").texts(); !slices.Equal(got, []string{"ALL"}) {
		t.Errorf("%s drops %q", name, got)
	}
	for _, path := range []string{"resources.requests.cpu", "resources.requests.memory", "resources.limits.memory"} {
		if c.at(path).text() == "" {
			t.Errorf("%s has no %s", name, path)
		}
	}
	if image := c.at("image").text(); !strings.Contains(image, ":") {
		t.Errorf("%s: the image %s has no tag", name, image)
	}
}

// isWatched wants probes and scraping where doorbell listens.
func isWatched(t *testing.T, c, set node) {
	t.Helper()
	open := map[string]string{}
	for _, p := range c.at("ports").list() {
		open[p.at("name").text()] = p.at("containerPort").text()
	}
	sidecar := c.at("restartPolicy").text() == "Always"
	for probe, path := range map[string]string{"startupProbe": "/livez", "livenessProbe": "/livez", "readinessProbe": "/readyz"} {
		if probe == "readinessProbe" && sidecar {
			if c.at(probe).v != nil {
				t.Error("a readinessProbe of a sidecar counts for the whole pod")
			}
			continue
		}
		c.wants(t, probe, probe+".httpGet.path", path)
		if port := open[c.at(probe+".httpGet.port").text()]; port != "3667" {
			t.Errorf("%s asks port %q", probe, port)
		}
	}
	every, _ := strconv.Atoi(c.at("startupProbe.periodSeconds").text())
	times, _ := strconv.Atoi(c.at("startupProbe.failureThreshold").text())
	if every*times < 600 {
		t.Errorf("after a crash it has %d s to start", every*times)
	}
	scrape := set.at("spec.template.metadata.annotations").fields()
	for name, value := range map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "3667", "prometheus.io/path": "/metrics"} {
		if scrape[name].text() != value {
			t.Errorf("%s is %q", name, scrape[name].text())
		}
	}
}

// isConfigured wants an environment that run takes, with the Secret of the example.
func isConfigured(t *testing.T, c node, objects []node) {
	t.Helper()
	secrets := t.TempDir()
	for name, text := range documents(t, readText(t, filepath.Join(kubernetesDir, "secret.example.yaml")))[0].at("stringData").fields() {
		if !slices.Contains(secretNames(), name) {
			t.Errorf("doorbell reads no secret %s", name)
		}
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(text.text()), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	_, last := instructions(t)
	environ := strings.Fields(rest(t, last, "ENV"))
	for _, from := range c.at("envFrom").list() {
		found := false
		for _, m := range ofKind(objects, "ConfigMap") {
			if m.at("metadata.name").text() == from.at("configMapRef.name").text() {
				found = true
				for name, value := range m.at("data").fields() {
					environ = append(environ, name+"="+value.text())
				}
			}
		}
		if !found {
			t.Errorf("there is no ConfigMap %s", from.at("configMapRef.name").text())
		}
	}
	for _, e := range c.at("env").list() {
		value := e.at("value").text()
		if e.at("name").text() == "CREDENTIALS_DIRECTORY" {
			value = secrets
		}
		environ = append(environ, e.at("name").text()+"="+value)
	}
	if slices.ContainsFunc(environ, func(e string) bool { return strings.HasPrefix(e, "NATS_USER=") }) {
		if err := os.WriteFile(filepath.Join(secrets, "nats_password"), []byte("secret"), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(secrets, "nats_token")); err != nil {
			t.Fatal(err)
		}
	}
	wantTaken(t, environ)
	cfg, _ := config.Read(environ, config.GroupPoll, config.GroupForward)
	if cfg.Base.HTTPListen != "0.0.0.0:3667" || cfg.Base.DataDir != "/data/doorbell" || cfg.Base.HTTPToken.IsZero() {
		t.Errorf("it listens on %s, keeps its data in %s", cfg.Base.HTTPListen, cfg.Base.DataDir)
	}
}

// keepsItsData wants a claim for /data: an emptyDir goes with its pod.
func keepsItsData(t *testing.T, c, pod, set node) {
	t.Helper()
	volume := ""
	for _, m := range c.at("volumeMounts").list() {
		if m.at("mountPath").text() == "/data" {
			volume = m.at("name").text()
		}
	}
	claimed := slices.ContainsFunc(set.at("spec.volumeClaimTemplates").list(), func(claim node) bool {
		return claim.at("metadata.name").text() == volume
	})
	if volume == "" || !claimed {
		t.Errorf("/data is the volume %q, which no claim makes", volume)
	}
	for _, v := range pod.at("volumes").list() {
		if v.at("name").text() == volume {
			t.Errorf("/data is %v", v.v)
		}
	}
}

func TestServiceAndPoliciesMeanThePod(t *testing.T) {
	t.Parallel()
	for _, name := range kustomizations(t) {
		objects := rendered(t, name)
		pod := ofKind(objects, "StatefulSet")[0].at("spec.template")
		open := map[string]bool{}
		for _, p := range pod.at("spec.containers.0.ports").list() {
			open[p.at("name").text()] = true
		}
		for _, s := range ofKind(objects, "Service") {
			for label, value := range s.at("spec.selector").fields() {
				if pod.at("metadata.labels").fields()[label].text() != value.text() {
					t.Errorf("%s: the service selects %s=%s", name, label, value.text())
				}
			}
			for _, p := range s.at("spec.ports").list() {
				if !open[p.at("targetPort").text()] {
					t.Errorf("%s: the service leads to %s", name, p.at("targetPort").text())
				}
			}
		}
		for _, p := range ofKind(objects, "NetworkPolicy") {
			if chosen := p.at("spec.podSelector.matchLabels").fields(); len(chosen) == 0 || chosen["app.kubernetes.io/name"].text() != "doorbell" {
				t.Errorf("%s: the policy is for %v: without labels, for every pod of the namespace", name, chosen)
			}
		}
		for _, m := range ofKind(objects, "ServiceMonitor") {
			for label, value := range m.at("spec.selector.matchLabels").fields() {
				if got := ofKind(objects, "Service")[0].at("metadata.labels").fields()[label]; got.text() != value.text() {
					t.Errorf("%s: the service has %s=%q", name, label, got.text())
				}
			}
			m.wants(t, name, "spec.endpoints.0.port", "http")
		}
	}
}

func TestTheSidecarIsANativeOne(t *testing.T) {
	pod := ofKind(rendered(t, "overlays/sidecar"), "StatefulSet")[0].at("spec.template.spec")
	pod.wants(t, "the pod", "initContainers.0.name", "doorbell")
	pod.wants(t, "the pod", "initContainers.0.restartPolicy", "Always")
	if len(pod.at("containers").list()) != 1 {
		t.Error("there is no application beside it")
	}
}

// TestThePodForBackupsReachesTheStore: as the user of doorbell, and on the claim of its only pod.
func TestThePodForBackupsReachesTheStore(t *testing.T) {
	pod := documents(t, readText(t, filepath.Join(kubernetesDir, "files.yaml")))[0]
	set := documents(t, readText(t, filepath.Join(kubernetesDir, "base", "statefulset.yaml")))[0]
	claim := set.at("spec.volumeClaimTemplates").list()[0].at("metadata.name").text() + "-" + set.at("metadata.name").text() + "-0"
	volume := pod.at("spec.volumes").list()[0]
	volume.wants(t, "the pod's volume", "persistentVolumeClaim.claimName", claim)
	for _, path := range []string{"runAsUser", "runAsGroup", "fsGroup", "runAsNonRoot"} {
		pod.wants(t, "the pod", "spec.securityContext."+path, set.at("spec.template.spec.securityContext."+path).text())
	}
	mount := pod.at("spec.containers").list()[0].at("volumeMounts").list()[0]
	mount.wants(t, "the pod's mount", "mountPath", "/data")
	operating := readText(t, filepath.Join(deployDir, "operate.md"))
	for _, text := range []string{"files:/data/doorbell/doorbell.db", "deploy/kubernetes/files.yaml", "wait --for=delete pod/doorbell-0"} {
		if !strings.Contains(operating, text) {
			t.Errorf("operate.md has no %q", text)
		}
	}
}
