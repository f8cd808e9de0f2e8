package email

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

var update = flag.Bool("update", false, "write the golden mails of testdata anew")

// now is shortly after what the examples tell of.
var now = time.Date(2026, 11, 20, 9, 42, 1, 0, time.UTC)

// with is an event whose payload was changed.
func with(t testing.TB, e events.Event, change func(p map[string]any)) events.Event {
	t.Helper()
	var p map[string]any
	if err := json.Unmarshal(e.Data, &p); err != nil {
		t.Fatal(err)
	}
	change(p)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	e.Data = data
	if id, ok := p["agencyId"].(string); ok {
		e.AgencyID = id
	}
	if r, ok := p["propertyReferenceId"].(string); ok {
		e.Reference = r
	}
	return e
}

// lead is a contact request of somebody else.
func lead(t testing.TB, id, first, last, message string) events.Event {
	t.Helper()
	e := with(t, forwardtest.Example(t, events.TypeContactRequestCreated), func(p map[string]any) {
		c := p["contact"].(map[string]any)
		c["firstName"], c["lastName"], c["message"] = first, last, message
		c["email"] = strings.ToLower(first+"."+last) + "@example.org"
		p["contactRequestId"] = id
	})
	e.ID = id
	return e
}

func newReceiver(t testing.TB, change func(*Options)) *Receiver {
	t.Helper()
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		SMTP: "smtp://mail.agency.example:587", From: "Doorbell <doorbell@agency.example>",
		To: "Lettings <office@agency.example>", OpenImmo: true, Location: zurich,
	}
	if change != nil {
		change(&o)
	}
	receiver, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return receiver
}

var boundary = regexp.MustCompile(`[0-9a-f]{60}`)

// textOf is the mail as it is sent.
func textOf(t testing.TB, m draft) []byte {
	t.Helper()
	g, err := m.mail()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := g.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// written is the mail with boundaries that do not change.
func written(t testing.TB, m draft) string {
	t.Helper()
	text := textOf(t, m)
	names := map[string]string{}
	return boundary.ReplaceAllStringFunc(string(text), func(b string) string {
		if names[b] == "" {
			names[b] = "boundary" + string(rune('A'+len(names)))
		}
		return names[b]
	})
}

// deliveries are one of each kind, by the name of their golden mail.
func deliveries(t testing.TB) map[string]forward.Delivery {
	all := map[string]forward.Delivery{}
	for _, kind := range events.Types {
		all[string(kind)] = forward.Delivery{Events: []events.Event{forwardtest.Example(t, kind)}}
	}
	nora := forwardtest.Example(t, events.TypeContactRequestCreated)
	all["digest"] = forward.Delivery{Events: []events.Event{
		nora,
		lead(t, "bbbbbbbbbbbbbbbbbbbbbbbbbb", "Luca", "Muster", "Buongiorno, l'appartamento è ancora libero?"),
		forwardtest.Example(t, events.TypeInsertionAppeared),
		forwardtest.Example(t, events.TypeInsertionChanged),
	}}
	all["test"] = forward.Delivery{Events: []events.Event{nora}, Test: true}
	all["replayed"] = forward.Delivery{Events: []events.Event{nora.WithOrigin(events.OriginReplay)}}
	sparse := with(t, nora, func(p map[string]any) {
		p["contact"], p["insertion"] = map[string]any{}, map[string]any{}
		delete(p, "score")
		delete(p, "createdAt")
	})
	sparse.ID = "cccccccccccccccccccccccccc"
	all["sparse"] = forward.Delivery{Events: []events.Event{sparse}}
	var halts []events.Event
	for _, agency := range []string{"A100", "A200", "B300"} {
		e := with(t, forwardtest.Example(t, events.TypeAccessHalted), func(p map[string]any) {
			p["agencyId"], p["resume"] = agency, "doorbell resume "+agency
		})
		e.ID = strings.ToLower(agency) + "aaaaaaaaaaaaaaaaaaaaaa"
		halts = append(halts, e)
	}
	all["halts"] = forward.Delivery{Events: halts}
	return all
}

func TestMailsLookAsTheyDid(t *testing.T) {
	o := newReceiver(t, nil)
	for name, d := range deliveries(t) {
		got := written(t, o.compose(d, now))
		file := filepath.Join("testdata", name+".eml")
		if *update {
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("%v; go test -update writes it", err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s; look at it, and update it with go test -update\n%s", name, file, got)
		}
	}
}
