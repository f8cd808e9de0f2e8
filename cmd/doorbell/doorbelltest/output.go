package doorbelltest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"doorbell/poller/sandbox"
)

// The promise is that keys and people stand in payloads and nowhere else. Whatever the program
// writes in a test of this package passes through here: what it prints, in a process of its own
// (start, launch) or in this one (run), its log, its status, and subjects and headers of its
// messages (oracle). `.ci/run` looks through what the tests themselves print.

// secrets are the keys, and what every made-up surname ends in.
var secrets = []string{sandbox.Marker, TestKey, OtherKey, SandboxKey, Sentinel, PageToken}

// SandboxKey is the key of `doorbell sandbox`.
const SandboxKey = "00000000-5a4d-4b0b-8a11-d00fbe110000"

// Tells lists the secrets that a command prints on purpose, to its standard output alone.
func Tells(args []string) []string {
	line := strings.Join(args, " ") + " "
	command, _, _ := strings.Cut(line, " ")
	switch {
	case command == "sandbox": // the line to type
		return []string{SandboxKey}
	case command == "demo", command == "export", command == "events" && (strings.Contains(line, " --json ") || strings.Contains(line, " --csv ")),
		command == "replay" && (strings.Contains(line, " --to - ") || strings.Contains(line, " --to=- ")):
		return []string{sandbox.Marker}
	}
	return nil
}

// tellsNobody fails the test if a command has printed a person or a key without being meant to.
func tellsNobody(t testing.TB, args []string, stdout, stderr string) {
	t.Helper()
	HoldsNobody(t, stderr)
	HoldsNobody(t, stdout, Tells(args)...)
}

// HoldsNobody fails the test if a person or a key is in the text. It does not repeat the text: that
// would be output, too.
func HoldsNobody(t testing.TB, text string, but ...string) {
	t.Helper()
	for _, found := range Leaks(text, but...) {
		t.Error(found)
	}
}

// receipts are the names of receipts, whose drawn letters may be those of a marker.
var receipts = regexp.MustCompile(`\d{8}T\d{6}Z-[a-z0-9]{6}`)

// Leaks reports where secrets are, and shows the beginnings of these lines.
func Leaks(text string, but ...string) (found []string) {
	text = receipts.ReplaceAllString(text, "")
	for n, secret := range secrets {
		if slices.Contains(but, secret) {
			continue
		}
		for line := range strings.Lines(text) {
			if before, _, leaked := strings.Cut(line, secret); leaked {
				found = append(found, fmt.Sprintf("secret %d is printed, behind %q", n, before[:min(len(before), 60)]))
			}
		}
	}
	return found[:min(len(found), 5)]
}

// LeaksOfMessage are those of what surrounds a payload, and keys in it.
func LeaksOfMessage(m Message) []string {
	return append(Leaks(fmt.Sprint(m.Subject, m.Header)), Leaks(string(m.Data), sandbox.Marker)...)
}

// statusHoldsNobody fails the test if the response at the socket holds a person or a key.
func statusHoldsNobody(t testing.TB, status any) {
	t.Helper()
	text, err := json.Marshal(status)
	must(t, err)
	HoldsNobody(t, string(text))
}

// PageToken is the token of the page, a secret like others.
const PageToken = "sentinel-token-of-the-page"

// Sentinel is a key that must never come out. A test that hands it in searches all output for it.
const Sentinel = "5ecre7-sentinel-0000-do-not-print"
