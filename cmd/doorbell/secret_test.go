package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
)

// sentinel is a key that must never come out. A test that hands it in searches all output for it.
const sentinel = "5ecre7-sentinel-0000-do-not-print"

func TestASecretNeverPrintsItself(t *testing.T) {
	s := config.NewSecret(sentinel)
	a := config.Agency{ID: "A100", Key: s, Next: s}
	hidden := struct{ agency config.Agency }{a} // fmt reaches into unexported fields without asking methods
	var out bytes.Buffer
	for _, v := range []any{s, &s, a, &a, hidden, []config.Secret{s}, map[string]config.Secret{"k": s}, fmt.Errorf("x: %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
			fmt.Fprintf(&out, verb, v)
		}
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "agency", a, "hidden", hidden)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "agency", a)
	if err := json.NewEncoder(&out).Encode([]any{s, a}); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{sentinel, fmt.Sprintf("%x", sentinel), fmt.Sprintf("%X", sentinel)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the secret is in the output: %s", out.String())
		}
	}
	if !strings.Contains(out.String(), config.Redacted) {
		t.Error("nothing was printed in its place")
	}
}

func TestAFingerprintTellsKeysApartAndHidesThem(t *testing.T) {
	a, b := config.NewSecret("key-one").Fingerprint(), config.NewSecret("key-two").Fingerprint()
	if a == b || !strings.HasPrefix(a, "sha256:") || len(a) != len("sha256:")+8 {
		t.Errorf("fingerprints %q and %q", a, b)
	}
	if (config.Secret{}).Fingerprint() != "" || !(config.Secret{}).IsZero() || config.NewSecret("").Reveal() != "" {
		t.Error("no secret has a fingerprint or a text")
	}
}
