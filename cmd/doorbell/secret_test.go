package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// sentinel is a key that must never come out. A test that hands it in searches all output for it.
const sentinel = "5ecre7-sentinel-0000-do-not-print"

func TestASecretNeverPrintsItself(t *testing.T) {
	s := newSecret(sentinel)
	a := Agency{ID: "A100", Key: s, Next: s}
	hidden := struct{ agency Agency }{a} // fmt reaches into unexported fields without asking methods
	var out bytes.Buffer
	for _, v := range []any{s, &s, a, &a, hidden, []Secret{s}, map[string]Secret{"k": s}, fmt.Errorf("x: %v", s)} {
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
	if !strings.Contains(out.String(), redacted) {
		t.Error("nothing was printed in its place")
	}
}

func TestAFingerprintTellsKeysApartAndHidesThem(t *testing.T) {
	a, b := newSecret("key-one").Fingerprint(), newSecret("key-two").Fingerprint()
	if a == b || !strings.HasPrefix(a, "sha256:") || len(a) != len("sha256:")+8 {
		t.Errorf("fingerprints %q and %q", a, b)
	}
	if (Secret{}).Fingerprint() != "" || !(Secret{}).IsZero() || newSecret("").Reveal() != "" {
		t.Error("no secret has a fingerprint or a text")
	}
}
