package cli

import (
	"encoding/csv"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// Rows must stay rows, and cells texts, whatever a stranger writes.
func TestHostileTextBreaksNoRowOfTheEvents(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100")
	reference := s.Model.Truth().Insertions[0].Reference
	const message = "\t=HYPERLINK(\"http://evil.example\";\"x\")\r\n;\"second\" line"
	id, err := s.Model.AddContactRequest("A100", reference, sandbox.ContactRequest{
		FirstName: "=1+1", LastName: "Muster" + sandbox.Marker, Email: "@SUM(1)", Phone: "+41 79 000 00 01", Message: message,
	})
	if err != nil {
		t.Fatal(err)
	}
	sub.Request(t, id)
	var out doorbelltest.Result
	doorbelltest.Eventually(t, "its acknowledgement is noted", func() bool {
		out = doorbelltest.Run(t, s.Environ, "events", "ls", "--csv", "--type", "contact_request.created")
		return strings.Contains(out.Stdout, ";yes;")
	})
	if out.Code != exit.Done || !strings.HasPrefix(out.Stdout, "\ufeffrecorded_utc;") || strings.Count(out.Stdout, "\r\n") != 2 || strings.Count(out.Stdout, "\n") != 2 {
		t.Fatalf("%+v", out)
	}
	r := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.Stdout, "\ufeff")))
	r.Comma = ';'
	rows, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	cells := map[string]string{}
	for n, name := range rows[0] {
		cells[name] = rows[1][n]
	}
	for name, want := range map[string]string{
		"agency": "A100", "type": "contact_request.created", "reference": reference, "name": "'=1+1 Muster" + sandbox.Marker,
		"phone": "'+41790000001", "published": "yes", "origin": "live",
	} {
		if cells[name] != want {
			t.Errorf("%s is %q, want %q", name, cells[name], want)
		}
	}
	if got := cells["message"]; !strings.HasPrefix(got, "'") || !strings.HasSuffix(got, `"x") ;"second" line`) {
		t.Errorf("the message is %q", got)
	}
	for name, cell := range cells {
		if begin := strings.TrimSpace(cell); begin != "" && strings.ContainsAny(begin[:1], "=+-@") {
			t.Errorf("%s may run as a formula: %q", name, cell)
		}
	}
}
