package slack_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/slack"
)

var update = flag.Bool("update", false, "write the payloads in testdata anew")

// kind is a delivery of which a payload is pinned in testdata.
type kind struct {
	name   string
	people slack.People
	forward.Delivery
}

// kinds is one delivery of every kind.
func kinds(t testing.TB) (all []kind) {
	for _, one := range forwardtest.Samples(t) {
		people := slack.Short
		if one.Full {
			people = slack.Full
		}
		all = append(all, kind{one.Name, people, one.Delivery})
	}
	return all
}

// indented is a payload as people read it.
func indented(t testing.TB, body []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), '\n')
}

func TestEveryKindOfMessageLooksAsItIsPinned(t *testing.T) {
	var names []string
	for _, k := range kinds(t) {
		names = append(names, k.name+".json")
		file := filepath.Join("testdata", k.name+".json")
		got := indented(t, render(t, k))
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not %s (%v); look at the difference, then run: go test ./events/forward/slack -update", k.name, file, err)
		}
	}
	entries, err := os.ReadDir("testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() && !slices.Contains(names, e.Name()) {
			t.Errorf("testdata/%s is of no kind", e.Name())
		}
	}
}

func render(t testing.TB, k kind) []byte {
	t.Helper()
	body, err := slack.Render(k.people, k.Delivery)
	if err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	return body
}
