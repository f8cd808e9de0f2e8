package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
)

func TestASecretNeverPrintsItself(t *testing.T) {
	s := config.NewSecret(doorbelltest.Sentinel)
	a := config.Agency{ID: "A100", Key: s}
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
	for _, form := range []string{doorbelltest.Sentinel, fmt.Sprintf("%x", doorbelltest.Sentinel), fmt.Sprintf("%X", doorbelltest.Sentinel)} {
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
