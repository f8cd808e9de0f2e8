package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"doorbell/poller/sandbox"
)

// The promise is that keys and people stand in payloads and nowhere else. Whatever the program writes in a test of this
// package passes through here: what it prints, in a process of its own (start, launch) or in this one (run), its log, its
// status, and subjects and headers of its messages (oracle). `.ci/run` looks through what the tests themselves print.

// secrets are the keys, and what every made-up surname ends in.
var secrets = []string{sandbox.Marker, testKey, otherKey, madeUpKey, sentinel, pageToken}

// tells says which of the secrets a command prints on purpose, to its standard output alone.
func tells(args []string) []string {
	line := strings.Join(args, " ") + " "
	command, _, _ := strings.Cut(line, " ")
	switch {
	case command == "sandbox": // the line to type
		return []string{madeUpKey}
	case command == "demo", command == "export", command == "events" && strings.Contains(line, " --json "),
		command == "replay" && (strings.Contains(line, " --to - ") || strings.Contains(line, " --to=- ")):
		return []string{sandbox.Marker}
	}
	return nil
}

// tellsNobody fails the test if a command has printed a person or a key, but what it is for.
func tellsNobody(t testing.TB, args []string, stdout, stderr string) {
	t.Helper()
	holdsNobody(t, stderr)
	holdsNobody(t, stdout, tells(args)...)
}

// holdsNobody fails the test if a person or a key is in the text. It does not repeat the text: that would be output, too.
func holdsNobody(t testing.TB, text string, but ...string) {
	t.Helper()
	for _, found := range leaks(text, but...) {
		t.Error(found)
	}
}

// leaks says where secrets are, and shows the beginnings of these lines.
func leaks(text string, but ...string) (found []string) {
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

// leaksOfMessage are those of what surrounds a payload, and keys in it.
func leaksOfMessage(m message) []string {
	return append(leaks(fmt.Sprint(m.subject, m.header)), leaks(string(m.data), sandbox.Marker)...)
}

// statusHoldsNobody fails the test if a person or a key is in what the socket tells.
func statusHoldsNobody(t testing.TB, status any) {
	t.Helper()
	text, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	holdsNobody(t, string(text))
}

func TestLeaksAreFoundWhereverTheyAre(t *testing.T) {
	for _, secret := range secrets {
		if len(leaks("one\nand "+secret+"\n")) == 0 || len(leaks("and "+secret, secret)) > 0 {
			t.Error("it passes, or what is allowed does not")
		}
		for _, found := range leaks("and " + secret) {
			if strings.Contains(found, secret) {
				t.Error("it is told on")
			}
		}
		m := message{subject: "listings.v1.A100." + secret}
		if len(leaksOfMessage(m)) == 0 {
			t.Error("it passes in a subject")
		}
		m = message{header: map[string][]string{"ce-subject": {secret}}}
		if len(leaksOfMessage(m)) == 0 {
			t.Error("it passes in a header")
		}
		m = message{data: []byte(secret)}
		if found := len(leaksOfMessage(m)) > 0; found != (secret != sandbox.Marker) {
			t.Error("people may stand in a payload, and no key")
		}
	}
	for _, args := range [][]string{{}, {"run"}, {"status", "--json"}, {"events", "tail"}, {"replay", "--to", "x"}} {
		if len(tells(args)) > 0 {
			t.Errorf("%q may tell", args)
		}
	}
}
