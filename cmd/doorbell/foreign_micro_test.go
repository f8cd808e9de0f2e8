package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/ops"
)

func init() { judges["the nats command, asking how it is"] = judgedByMicro }

// judgedByMicro finds the micro service as anybody would, and asks it.
func judgedByMicro(t *testing.T, b *talker) {
	program, home := natsCommand(t), t.TempDir()
	nats := func(args ...string) ([]byte, error) {
		c := exec.Command(program, args...)
		c.Env = append(os.Environ(), "NATS_URL="+b.url, "HOME="+home, "XDG_CONFIG_HOME="+home)
		return c.Output()
	}
	if listed, err := nats("micro", "ls"); err != nil || !bytes.Contains(listed, []byte("doorbell")) {
		t.Errorf("nats micro ls: %v\n%s", err, listed)
	}
	mustHaveReadVerbsOnly(t, nats)

	answer, err := nats("req", "listings.admin.status", "", "--raw")
	if err != nil {
		t.Fatalf("nats req: %v", err)
	}
	var s ops.Status
	if err := json.Unmarshal(answer, &s); err != nil {
		t.Fatalf("the answer is no status: %v", err)
	}
	storeID, err := os.ReadFile(filepath.Join(b.dir, "store-id"))
	if err != nil {
		t.Fatal(err)
	}
	if !s.Running || s.Version == "" || s.StoreID != strings.TrimSpace(string(storeID)) || len(s.Watch.Agencies) != 4 || s.NATS.Stream != "LISTINGS" {
		t.Errorf("the answer is of another daemon: version %q, store %q, %d agencies", s.Version, s.StoreID, len(s.Watch.Agencies))
	}
	statusHoldsNobody(t, s)
	holdsNobody(t, string(answer))
}

// mustHaveReadVerbsOnly: whoever reaches NATS may look and change nothing.
func mustHaveReadVerbsOnly(t *testing.T, nats func(...string) ([]byte, error)) {
	t.Helper()
	text, err := nats("micro", "info", "doorbell", "--json")
	if err != nil {
		t.Fatalf("nats micro info: %v", err)
	}
	var service struct {
		Info struct {
			Name, Version string
			Endpoints     []struct{ Name, Subject string }
		}
	}
	if err := json.Unmarshal(text, &service); err != nil {
		t.Fatal(err)
	}
	status := false
	for _, e := range service.Info.Endpoints {
		status = status || e.Subject == "listings.admin.status"
		if !strings.HasPrefix(e.Subject, "listings.admin.") {
			t.Errorf("endpoint %s is on %s", e.Name, e.Subject)
		}
	}
	if service.Info.Name != "doorbell" || !status {
		t.Errorf("the service is %+v", service.Info)
	}
	for _, verb := range []string{"resume", "approve", "poll", "backup", "replay", "compact"} {
		if answer, err := nats("req", "listings.admin."+verb, "A100", "--raw", "--timeout", "2s"); err == nil && len(bytes.TrimSpace(answer)) > 0 {
			t.Errorf("%s is answered", verb)
		}
	}
}
