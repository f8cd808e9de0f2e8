package cli

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/schemas"
)

// understood is what the CloudEvents library made of a message, and what Ajv says against it.
type understood struct {
	Example    string
	Stream     string
	Place      uint64
	Subject    string
	Attributes map[string]any
	Reference  string
	Problems   []string

	AgencyID, PropertyReferenceID, ContactRequestID, Origin string // of the data
}

// brought are the types that happen in the talker. What else there is, Ajv sees in the examples.
var brought = []string{
	"access.halted", "access.resumed",
	"contact_request.changed", "contact_request.created", "contact_request.redacted",
	"insertion.appeared", "insertion.changed", "insertion.disappeared", "insertion.reappeared",
	"watch.baselined", "watch.change_held", "watch.recovered",
}

func judgedByLibraries(t *testing.T, b *talker) {
	judge := exec.Command("node", npm(t, "judge.mjs"), "LISTINGS", "LISTINGS_REPLAY", "LISTINGS_DLQ")
	judge.Env = append(judge.Environ(), "NATS_URL="+b.url)
	var stderr bytes.Buffer
	judge.Stderr = &stderr
	out, err := judge.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	examples, types := map[string]bool{}, map[string]bool{}
	byPlace := map[string]map[uint64]understood{"LISTINGS": {}, "LISTINGS_REPLAY": {}, "LISTINGS_DLQ": {}}
	for line := range bytes.Lines(out) {
		var u understood
		if err := json.Unmarshal(line, &u); err != nil {
			t.Fatal(err)
		}
		if len(u.Problems) > 0 {
			t.Errorf("%s%s %d, on %s: %q", u.Example, u.Stream, u.Place, u.Subject, u.Problems)
		}
		if u.Example != "" {
			examples[u.Example] = true
			continue
		}
		byPlace[u.Stream][u.Place] = u
		types[u.Attributes["type"].(string)] = true
	}
	if len(examples) != 2*len(schemas.Types()) {
		t.Errorf("%d files of examples were judged", len(examples))
	}
	if got := slices.Sorted(maps.Keys(types)); !slices.Equal(got, brought) {
		t.Errorf("there were\n%q, want\n%q", got, brought)
	}
	for stream, judged := range byPlace {
		all, err := doorbelltest.ReadStreamNamed(t.Context(), b.nc, stream)
		if err != nil || len(judged) == 0 {
			t.Fatalf("%s: %d messages, %v", stream, len(judged), err)
		}
		for _, m := range all {
			if u, ok := judged[m.Stream]; ok { // more may have come since
				mustAgree(t, m, u)
			}
		}
	}
}

// mustAgree holds what was understood against the message: every ce-* header is an attribute, and there is no other.
func mustAgree(t *testing.T, m doorbelltest.Message, u understood) {
	t.Helper()
	want := map[string]any{}
	for name, values := range m.Header {
		if attribute, ok := strings.CutPrefix(name, "ce-"); ok {
			want[attribute] = values[0]
		}
	}
	if moment, err := time.Parse(time.RFC3339Nano, want["time"].(string)); err == nil && moment.Nanosecond() == 0 {
		want["time"] = moment.Format("2006-01-02T15:04:05.000Z") // as JavaScript writes a full second
	}
	if !maps.Equal(u.Attributes, want) {
		t.Errorf("%s %d: attributes are %v, want %v", u.Stream, u.Place, u.Attributes, want)
	}
	same := m.Body.PropertyReferenceID == u.PropertyReferenceID && m.Body.AgencyID == u.AgencyID &&
		m.Body.ContactRequestID == u.ContactRequestID && m.Body.Origin == u.Origin && m.Subject == u.Subject
	if !same || u.Reference != u.PropertyReferenceID || u.Origin != want["origin"] {
		t.Errorf("%s %d: it reads another event: %+v", u.Stream, u.Place, u)
	}
	id := want["id"].(string)
	wantID := map[string]string{"LISTINGS": id, "LISTINGS_REPLAY": m.Header.Get("doorbell-replay") + "/" + id, "LISTINGS_DLQ": m.Header.Get("Nats-Msg-Id")}[u.Stream]
	if got := m.Header.Get("Nats-Msg-Id"); got != wantID || got == "" {
		t.Errorf("%s %d: Nats-Msg-Id is %s, want %s", u.Stream, u.Place, got, wantID)
	}
	if u.Stream == "LISTINGS_DLQ" && (m.Header.Get("doorbell-reason") == "" || m.Header.Get("doorbell-attempts") != "1") {
		t.Errorf("a dead letter has reason %q after %q attempts", m.Header.Get("doorbell-reason"), m.Header.Get("doorbell-attempts"))
	}
}
