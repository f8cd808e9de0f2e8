package cli

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
)

const composeFile = deployDir + "/compose.yaml"

func compose(t *testing.T, file string) node {
	t.Helper()
	all := documents(t, readText(t, file))
	if len(all) != 1 || len(all[0].at("services").fields()) < 3 {
		t.Fatalf("%s has not the services that it should have", file)
	}
	return all[0]
}

// alone is the file that has doorbell and nothing else.
func alone(t *testing.T) node { return documents(t, readText(t, deployDir+"/alone.compose.yaml"))[0] }

func TestEveryContainerOfComposeIsConfined(t *testing.T) {
	services := maps.Clone(compose(t, composeFile).at("services").fields())
	services["doorbell alone"] = alone(t).at("services.doorbell")
	for name, s := range services {
		s.wants(t, name, "read_only", "true")
		s.wants(t, name, "restart", "unless-stopped")
		if got := s.at("cap_drop").texts(); !slices.Equal(got, []string{"ALL"}) {
			t.Errorf("%s drops %q", name, got)
		}
		if got := s.at("security_opt").texts(); !slices.Equal(got, []string{"no-new-privileges:true"}) {
			t.Errorf("%s: %q", name, got)
		}
		for _, port := range s.at("ports").texts() {
			if !strings.HasPrefix(port, "127.0.0.1:") {
				t.Errorf("%s: %s is open to other machines", name, port)
			}
		}
		if s.at("image").text() == "doorbell" || name == "doorbell alone" {
			continue // it has the check of its image, and that image
		}
		if !regexp.MustCompile(`:v?\d+\.\d+\.\d+(-\w+)?$`).MatchString(s.at("image").text()) {
			t.Errorf("%s: the image %s is not pinned", name, s.at("image").text())
		}
		if len(s.at("healthcheck.test").texts()) < 2 {
			t.Errorf("%s is not checked", name)
		}
	}
}

func TestEveryFileThatComposeNamesIsThere(t *testing.T) {
	c := compose(t, composeFile)
	for name, s := range c.at("services").fields() {
		for _, v := range s.at("volumes").texts() {
			from, _, _ := strings.Cut(v, ":")
			if _, err := os.Stat(filepath.Join(deployDir, from)); strings.HasPrefix(from, ".") && err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if !strings.HasPrefix(from, ".") {
				if _, declared := c.at("volumes").fields()[from]; !declared {
					t.Errorf("%s: there is no volume %s", name, from)
				}
			}
		}
		for _, secret := range s.at("secrets").list() {
			source := secret.text()
			if source == "" {
				source = secret.at("source").text()
			}
			if got := c.at("secrets").fields()[source].at("file").text(); got != "./secrets/"+source {
				t.Errorf("secret %s comes from %q", source, got)
			}
			if target := secret.at("target").text(); target == "" && strings.HasPrefix(name, "doorbell") && !slices.Contains(secretNames(), source) {
				t.Errorf("doorbell reads no secret %s", source)
			}
		}
	}
	build := c.at("services.doorbell.build")
	if _, err := os.Stat(filepath.Join(deployDir, build.at("context").text(), build.at("dockerfile").text())); err != nil {
		t.Error(err)
	}
}

func TestTheConfigurationOfDoorbellAloneIsTaken(t *testing.T) {
	values := map[string]string{"${DOORBELL_BASE_URL:?}": "https://api.example.com", "${DOORBELL_API_KEYS:?}": "A100=key", "${DOORBELL_SLACK_URL:-}": "", "${DOORBELL_HTTP_TOKEN:-}": ""}
	c := alone(t)
	environ := []string{}
	for name, v := range c.at("services.doorbell.environment").fields() {
		value, known := values[v.text()]
		if !known {
			t.Errorf("%s is %s", name, v.text())
		}
		environ = append(environ, name+"="+value)
	}
	wantTaken(t, environ)
	if volumes := c.at("services.doorbell.volumes").texts(); !slices.Equal(volumes, []string{"doorbell:/data"}) || len(c.at("volumes").fields()) != 1 {
		t.Errorf("what it remembers is kept in %q", volumes)
	}
	build := c.at("services.doorbell.build")
	if _, err := os.Stat(filepath.Join(deployDir, build.at("context").text(), build.at("dockerfile").text())); err != nil {
		t.Error(err)
	}
}

func TestTheConfigurationOfComposeIsTaken(t *testing.T) {
	takesConfiguration(t, compose(t, composeFile).at("services.doorbell"))
}

func takesConfiguration(t *testing.T, s node) {
	t.Helper()
	_, last := instructions(t)
	environ := strings.Fields(rest(t, last, "ENV"))
	secrets := t.TempDir()
	for name, v := range s.at("environment").fields() {
		value := v.text()
		switch name {
		case "DOORBELL_BASE_URL":
			if !strings.HasPrefix(value, "${DOORBELL_BASE_URL:?") {
				t.Errorf("the base URL is %s: nobody is asked for it", value)
			}
			value = "https://api.example.com"
		case "DOORBELL_ALLOW_PLAINTEXT":
			value = ""
		case "CREDENTIALS_DIRECTORY":
			if value != "/run/secrets" {
				t.Errorf("secrets are looked for in %s", value)
			}
			value = secrets
		}
		environ = append(environ, name+"="+value)
	}
	texts := map[string]string{"api_keys": "A100=key\n", "http_token": "5ac1b2e3d4f5a6b7c8d9e0f1\n", "nats_password": "secret\n"}
	for _, name := range s.at("secrets").texts() {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(texts[name]), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	wantTaken(t, environ)
	c, _ := config.Read(environ, config.GroupPoll, config.GroupForward)
	if c.NATS.Password.IsZero() || c.Base.HTTPToken.IsZero() || len(c.Agencies) != 1 {
		t.Error("a secret is not read")
	}
}

// wantTaken fails the test if run would refuse the environment or warn about it.
func wantTaken(t *testing.T, environ []string) {
	t.Helper()
	c, err := config.Read(environ, config.GroupPoll, config.GroupForward)
	if err != nil {
		t.Error(err)
	}
	for _, w := range c.Warnings {
		if !strings.HasSuffix(w, "no effect yet") {
			t.Error(w)
		}
	}
}

// TestTheComposeOfAPairAddsToThatOfOne looks at what it has of its own; the rest is that of compose.yaml.
func TestTheComposeOfAPairAddsToThatOfOne(t *testing.T) {
	pair, one := documents(t, readText(t, deployDir+"/pair.compose.yaml"))[0], compose(t, composeFile)
	for _, name := range []string{"doorbell", "nats"} {
		s := pair.at("services." + name)
		s.wants(t, name, "extends.file", "compose.yaml")
		s.wants(t, name, "extends.service", name)
		for _, secret := range one.at("services." + name + ".secrets").list() {
			source := secret.text()
			if source == "" {
				source = secret.at("source").text()
			}
			if pair.at("secrets").fields()[source].at("file").text() != "./secrets/"+source {
				t.Errorf("%s has no secret %s", name, source)
			}
		}
		for _, port := range s.at("ports").texts() {
			if !strings.HasPrefix(port, "${MACHINE:?}:") {
				t.Errorf("%s: %s is open to other networks", name, port)
			}
		}
	}
	pair.at("services.doorbell").wants(t, "doorbell", "environment.DOORBELL_STANDBY", "leads")
	pair.at("services.doorbell").wants(t, "doorbell", "environment.NATS_URL", "${NATS_URL:?}")
	for name := range one.at("volumes").fields() {
		if _, declared := pair.at("volumes").fields()[name]; !declared && name != "prometheus" {
			t.Errorf("there is no volume %s", name)
		}
	}
}
