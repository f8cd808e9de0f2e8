package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/schemas/skiptest"
)

func TestASecretComesFromAFileWithoutItsLineEnd(t *testing.T) {
	for _, text := range []string{doorbelltest.Sentinel, doorbelltest.Sentinel + "\n", doorbelltest.Sentinel + "\r\n", "\uFEFF" + doorbelltest.Sentinel + "\n\n"} {
		file := write(t, "key", text, 0o600)
		c := mustRead(t, doorbelltest.Fit("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+file))
		if c.Agencies[0].Key.Reveal() != doorbelltest.Sentinel {
			t.Errorf("%q was read as another key", text)
		}
		if sourceOf(c, "DOORBELL_API_KEY") != "file "+file || len(c.Warnings) > 0 {
			t.Errorf("source %q, warnings %q", sourceOf(c, "DOORBELL_API_KEY"), c.Warnings)
		}
	}
}

func TestAFileThatHoldsNoUsableSecretIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"": "is empty", " \n": "is empty", strings.Repeat("x", 1<<20+1): "larger than 1 MiB", doorbelltest.Sentinel + "\nsecond": "no header can carry",
	} {
		file := write(t, "key", text, 0o600)
		got := doorbelltest.Run(t, doorbelltest.Fit("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+file), "config")
		got.HoldsNoSecret(t)
		if got.Code != exit.CodeConfig || !strings.Contains(got.Stderr, says) {
			t.Errorf("%.20q: got %d\n%s", text, got.Code, got.Stderr)
		}
	}
}

func TestAKeyFileThatHoldsMoreThanTheKeyIsRefused(t *testing.T) {
	for _, text := range []string{
		"DOORBELL_API_KEY=" + doorbelltest.Sentinel + "\n", "export DOORBELL_API_KEY='" + doorbelltest.Sentinel + "'\n", "\uFEFFAPI_KEY = \"" + doorbelltest.Sentinel + "\"\r\n", "ApiKey " + doorbelltest.Sentinel,
		"Authorization: ApiKey " + doorbelltest.Sentinel + "\n", "{\"api_key\": \"" + doorbelltest.Sentinel + "\"}\n", "api-key: " + doorbelltest.Sentinel + "\n", "bearer\t" + doorbelltest.Sentinel,
	} {
		for _, name := range []string{"DOORBELL_API_KEY", "DOORBELL_API_KEYS"} {
			got := doorbelltest.Run(t, doorbelltest.Fit("DOORBELL_API_KEY=", name+"_FILE="+write(t, "key", text, 0o600)), "config")
			got.HoldsNoSecret(t)
			if got.Code != exit.CodeConfig || strings.Count(got.Stderr, "doorbell: "+name+" holds ") != 1 || !strings.Contains(got.Stderr, "; write ") {
				t.Errorf("%s: %.12q: got %d\n%s", name, text, got.Code, got.Stderr)
			}
		}
	}
}

func TestAFileThatMayNotBeReadIsRefused(t *testing.T) {
	if os.Getuid() == 0 {
		skiptest.Skipf(t, "root may read everything: run the tests as another user")
	}
	file := write(t, "key", doorbelltest.Sentinel, 0)
	got := doorbelltest.Run(t, doorbelltest.Fit("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+file), "config")
	if got.Code != exit.CodeConfig || !strings.Contains(got.Stderr, "may not read") {
		t.Errorf("got %+v", got)
	}
}

func TestACredentialOfTheServiceManagerIsFound(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"api_keys": "A100=a\nB200=b\n", "nats_token": "t\n", "unrelated": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o440); err != nil {
			t.Fatal(err)
		}
	}
	c := mustRead(t, []string{"DOORBELL_BASE_URL=https://api.example.com", "CREDENTIALS_DIRECTORY=" + dir})
	if len(c.Agencies) != 2 || c.Agencies[1].Key.Reveal() != "b" || c.NATS.Token.Reveal() != "t" {
		t.Errorf("got %+v and %+v", c.Agencies, c.NATS)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warned: %q", c.Warnings)
	}
}

func TestTheVariableWinsOverTheCredential(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "api_key"), []byte("other"), 0o400); err != nil {
		t.Fatal(err)
	}
	if c := mustRead(t, doorbelltest.Fit("CREDENTIALS_DIRECTORY="+dir)); c.Agencies[0].Key.Reveal() != doorbelltest.Sentinel {
		t.Error("the credential won")
	}
}

func TestUnknownNamesAreWarnedAboutWithTheNearestRightOne(t *testing.T) {
	for name, want := range map[string]string{
		"DOORBELL_POLL_INTERVALL": "DOORBELL_POLL_INTERVAL", "DOORBELL_APIKEY": "DOORBELL_API_KEY", "DOORBELL_URL": "DOORBELL_BASE_URL",
		"DOORBELL_AGENCY": "DOORBELL_AGENCIES", "DOORBELL_API_KEY_FIL": "DOORBELL_API_KEY_FILE", "DOORBELL_SLAK_URL": "DOORBELL_SLACK_URL",
		"DOORBELL_TOKEN": "DOORBELL_HTTP_TOKEN", "DOORBELL_LISTEN": "DOORBELL_NATS_LISTEN", "DOORBELL_DATA": "DOORBELL_DATA_DIR", "DOORBELL_NATS_USER": "NATS_USER",
		"DOORBELL_BASE_URL_FILE": "DOORBELL_BASE_URL", "DOORBELL_NATSURL": "DOORBELL_NATS_URL",
	} {
		c := mustRead(t, doorbelltest.Fit(name+"="+doorbelltest.Sentinel))
		if len(c.Warnings) != 1 || !strings.HasPrefix(c.Warnings[0], name+" is not a setting") || !strings.HasSuffix(c.Warnings[0], "did you mean "+want+"?") {
			t.Errorf("%s: warned %q, want %s", name, c.Warnings, want)
		}
	}
}

func TestAnUnknownNameThatIsNearNoneIsWarnedAboutAlone(t *testing.T) {
	if c := mustRead(t, doorbelltest.Fit("DOORBELL_FOO="+doorbelltest.Sentinel)); !slices.Equal(c.Warnings, []string{"DOORBELL_FOO is not a setting and is ignored"}) {
		t.Errorf("warned %q", c.Warnings)
	}
}

func TestNamesOfOthersAreLeftAlone(t *testing.T) {
	c := mustRead(t, doorbelltest.Fit(
		"DOORBELL_PORT=tcp://10.0.0.1:3667", "DOORBELL_PORT_3667_TCP_ADDR=10.0.0.1", "DOORBELL_SERVICE_HOST=10.0.0.1", "DOORBELL_SERVICE_PORT_HTTP=80",
		"DOORBELL_NATS_SERVICE_HOST=10.0.0.2", "DOORBELL_NATS_SERVICE_PORT=4222", "DOORBELL_NATS_PORT_4222_TCP=tcp://10.0.0.2:4222",
		"DOORBELL_SLACK_URL=https://hooks.example/x", "DOORBELL_WEBHOOK_SECRET_FILE=/x",
		"DOORBELLISH=1", "PATH=/bin", "NATS_CONTEXT=x",
	))
	if len(c.Warnings) > 0 {
		t.Errorf("warned: %q", c.Warnings)
	}
	if c := mustRead(t, doorbelltest.Fit("DOORBELL_HTTP_PORT=80")); len(c.Warnings) != 1 {
		t.Error("a port that is no service's is not warned about")
	}
}

func TestAProxyThatIsNoneIsRefused(t *testing.T) {
	for _, proxy := range []string{"HTTPS_PROXY=::bad", "https_proxy=http://", "HTTPS_PROXY=ftp://proxy.example:21", "HTTPS_PROXY=http://u:" + doorbelltest.Sentinel + "@:8080"} {
		got := doorbelltest.Run(t, doorbelltest.Fit(proxy), "config")
		got.HoldsNoSecret(t)
		name, _, _ := strings.Cut(proxy, "=")
		if got.Code != exit.CodeConfig || !strings.Contains(got.Stderr, name+" is not the address of a proxy; write it like http://") {
			t.Errorf("%s: %d\n%s", proxy, got.Code, got.Stderr)
		}
	}
	for _, proxy := range []string{"HTTPS_PROXY=http://proxy.example:3128", "https_proxy=proxy.example:3128", "HTTPS_PROXY=socks5://u:p@[::1]:1080", "HTTPS_PROXY="} {
		mustRead(t, doorbelltest.Fit(proxy))
	}
}
