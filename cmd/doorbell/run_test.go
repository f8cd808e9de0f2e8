package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// oddReference has everything in it that a path or a header cannot bear.
const oddReference = `Haus am See#12 "b"#EG#50%ä/`

func TestWhatHappensAtTheAPIGivesExactlyItsEvent(t *testing.T) {
	t.Parallel()
	w, dir := startAPI(t), shortDir(t)
	d := launch(t, runEnviron(dir, w.url, madeUpKey, "A100", "B200"), "run")
	url := natsURL(t, dir)
	s := subscribeTo(t, url)
	s.baselined(t, "A100", "B200")
	durable, err := s.js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{
		Durable: "leads", FilterSubject: "listings.v1.*.contact_request.created", AckPolicy: jetstream.AckExplicitPolicy,
	})
	if err != nil {
		t.Fatal(err)
	}

	insertion := map[string]any{
		"propertyReferenceId": oddReference, "offerType": "RENT", "address": map[string]any{"locality": "Zürich"},
		"prices": map[string]any{"currency": "CHF", "rent": map[string]any{"gross": 2890, "interval": "MONTH"}},
	}
	which := map[string]any{"agencyId": "A100", "propertyReferenceId": oddReference}
	w.change(t, "/insertions", map[string]any{"agencyId": "A100", "insertion": insertion})
	appeared := s.event(t, "insertion.appeared", "A100")
	w.change(t, "/insertions/edit", join(which, map[string]any{"patch": map[string]any{"prices": map[string]any{"rent": map[string]any{"gross": 2790}}}}))
	changed := s.event(t, "insertion.changed", "A100")
	w.change(t, "/insertions/withdraw", which)
	disappeared := s.event(t, "insertion.disappeared", "A100")
	w.change(t, "/insertions", map[string]any{"agencyId": "A100", "insertion": insertion})
	reappeared := s.event(t, "insertion.reappeared", "A100")
	id, _ := w.change(t, "/contact-requests", join(which, map[string]any{"contactRequest": map[string]any{
		"firstName": "Nora", "lastName": "Beispiel" + sandbox.Marker, "email": "nora@example.org", "phone": "079 000 01 23",
		"language": "de", "message": "Guten Tag,\r\nist sie noch frei?", "score": 72.5,
	}}))["id"].(string)
	created := s.event(t, "contact_request.created", "A100")

	for _, a := range []arrival{appeared, changed, disappeared, reappeared, created} {
		if a.body.PropertyReferenceID != oddReference || a.subject != "listings.v1.A100."+a.kind() {
			t.Errorf("%s is about %q, on %s", a.kind(), a.body.PropertyReferenceID, a.subject)
		}
	}
	want := []any{map[string]any{"path": "/prices/rent/gross", "before": 2890.0, "after": 2790.0}}
	if got := changed.member(t, "changes"); !reflect.DeepEqual(got, want) {
		t.Errorf("changes are %v", got)
	}
	if appeared.body.Episode != 1 || disappeared.body.Episode != 1 || reappeared.body.Episode != 2 {
		t.Errorf("episodes %d, %d, %d", appeared.body.Episode, disappeared.body.Episode, reappeared.body.Episode)
	}
	mustBeAsPinned(t, nextOf(t, durable), w, dir, id)

	asked := w.asked(t, "A100") // several more looks at everything find nothing to tell
	eventually(t, "the API is asked on", func() bool { return w.asked(t, "A100") > asked+60 })
	all := mustBeWhole(t, url)
	for agency, want := range map[string]string{
		"A100": "watch.baselined insertion.appeared insertion.changed insertion.disappeared insertion.reappeared contact_request.created",
		"B200": "watch.baselined",
	} {
		if got := strings.Join(kinds(all, agency), " "); got != want {
			t.Errorf("%s: %s", agency, got)
		}
	}
	d.stop(t)
	holdsNobody(t, d.stdout.String()+d.stderr.String())
}

// join unites two JSON objects.
func join(a, b map[string]any) map[string]any {
	all := map[string]any{}
	for _, m := range []map[string]any{a, b} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

// nextOf takes one message from a durable consumer and acknowledges it.
func nextOf(t *testing.T, c jetstream.Consumer) arrival {
	t.Helper()
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Ack(); err != nil {
		t.Fatal(err)
	}
	return received(t, m)
}

// mustBeAsPinned holds a contact_request.created against the contract: subject, every header, the payload.
func mustBeAsPinned(t *testing.T, a arrival, w api, dir, id string) {
	t.Helper()
	var truth sandbox.Truth
	w.read(t, "/truth", &truth)
	made, ok := truth.ContactRequest(id)
	if !ok || a.body.ContactRequestID != id || a.subject != "listings.v1.A100.contact_request.created" {
		t.Fatalf("contact request %q on %s, want %q", a.body.ContactRequestID, a.subject, id)
	}
	store, err := os.ReadFile(filepath.Join(dir, "store-id"))
	if err != nil {
		t.Fatal(err)
	}
	const moment = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`
	literally := regexp.QuoteMeta
	pinned := map[string]string{
		"Nats-Msg-Id": `[a-z2-7]{26}`, "ce-id": `[a-z2-7]{26}`, "ce-specversion": literally("1.0"), "ce-source": "/agencies/A100",
		"ce-type": literally("contact_request.created"), "ce-subject": literally(`Haus%20am%20See#12%20%22b%22#EG#50%25%C3%A4/`),
		"ce-time": moment, "ce-recordedtime": moment, "ce-sequence": "00000000000000000006", "ce-partitionkey": "A100",
		"ce-datacontenttype": "application/json", "ce-dataschema": literally("urn:doorbell:schema:contact_request.created:v1"),
		"ce-origin": "live", "ce-storeid": literally(strings.TrimSpace(string(store))),
	}
	for name, pattern := range pinned {
		values := a.header[name]
		if len(values) != 1 || !regexp.MustCompile("^"+pattern+"$").MatchString(values[0]) {
			t.Errorf("header %s is %q, want %s", name, values, pattern)
		}
	}
	for name := range a.header {
		if _, ok := pinned[name]; !ok && !strings.HasPrefix(name, "Nats-Batch-") && !strings.HasPrefix(name, "Nats-Expected-") {
			t.Errorf("header %s is not pinned", name)
		}
	}
	if a.header.Get("ce-id") != a.header.Get("Nats-Msg-Id") {
		t.Error("ce-id and Nats-Msg-Id differ")
	}
	at, err := time.Parse(time.RFC3339Nano, a.header.Get("ce-time"))
	if err != nil || !at.Equal(a.body.CreatedAt) || made.CreatedAt.Sub(at).Abs() > time.Second {
		t.Errorf("ce-time %s, payload %s, made %s: %v", at, a.body.CreatedAt, made.CreatedAt, err)
	}
	mustHoldThePerson(t, a)
}

func mustHoldThePerson(t *testing.T, a arrival) {
	t.Helper()
	want := map[string]any{
		"firstName": "Nora", "lastName": "Beispiel" + sandbox.Marker, "email": "nora@example.org", "phone": "+41790000123",
		"phoneRaw": "079 000 01 23", "language": "de", "message": "Guten Tag,\r\nist sie noch frei?",
	}
	if got := a.member(t, "contact"); !reflect.DeepEqual(got, want) {
		t.Errorf("contact is %v", got)
	}
	if a.member(t, "identity") != "id" || a.member(t, "score") != 72.5 || a.body.Origin != "live" {
		t.Errorf("identity %v, score %v, origin %s", a.member(t, "identity"), a.member(t, "score"), a.body.Origin)
	}
	var raw struct{ Record json.RawMessage }
	if err := json.Unmarshal(a.data, &raw); err != nil || !strings.Contains(string(raw.Record), a.body.ContactRequestID) {
		t.Error("record is not the API's")
	}
	if slices.Contains([]byte(raw.Record), '\n') {
		t.Error("record is not compact")
	}
}

func TestEventsTailMasksPeopleAndShowsThemAsJSON(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	launch(t, s.environ, "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100", "B200")
	one, two := s.ring(t, "A100"), s.ring(t, "B200")
	sub.request(t, one)
	later := launch(t, s.environ, "events", "tail", "--agency", "B200", "--since", "1h", "--type", "contact_request.created")
	lines := launch(t, s.environ, "events", "tail", "--all")
	objects := launch(t, s.environ, "events", "tail", "--all", "--json")

	lines.stdout.await(t, `(?s)A100\s+contact_request\.created.*\n`)
	lines.stdout.await(t, `B200\s+contact_request\.created.*\n`)
	lines.stdout.await(t, `A100\s+watch\.baselined.*\n`)
	later.stdout.await(t, `B200\s+contact_request\.created.*\n`)
	objects.stdout.await(t, two+`.*\n`)
	objects.stdout.await(t, one+`.*\n`)
	for _, c := range []*child{later, lines, objects} {
		c.stop(t)
	}
	holdsNobody(t, lines.stdout.String()+lines.stderr.String()+later.stdout.String()+objects.stderr.String())
	if text := later.stdout.String(); strings.Contains(text, "A100") || strings.Contains(text, "watch.") {
		t.Errorf("more than was asked for:\n%s", text)
	}
	mustBeCloudEvents(t, objects.stdout.String(), one)
}

func TestEventsTailSaysThatItWaitsForAnAgencyNobodyKnows(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	launch(t, s.environ, "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100")
	stranger := launch(t, s.environ, "events", "tail", "--all", "--agency", "a100")
	watched := launch(t, s.environ, "events", "tail", "--all", "--agency", "A100")
	elsewhere := launch(t, append(slices.Clone(s.environ), "DOORBELL_AGENCIES=B200"), "events", "tail", "--all", "--agency", "A100")
	newcomer := launch(t, append(slices.Clone(s.environ), "DOORBELL_AGENCIES=B200"), "events", "tail", "--all", "--agency", "B200")

	stranger.stderr.await(t, `^a100 is not watched here, and stream LISTINGS holds nothing of it; waiting .*\n`)
	watched.stdout.await(t, `watch\.baselined.*\n`)
	elsewhere.stdout.await(t, `watch\.baselined.*\n`)
	for _, c := range []*child{stranger, watched, elsewhere, newcomer} {
		c.stop(t)
	}
	for _, c := range []*child{watched, elsewhere, newcomer} {
		if text := c.stderr.String(); strings.Contains(text, "not watched") {
			t.Errorf("an agency that is known is said to be none: %s", text)
		}
	}
}

func TestEventsTailThatIsEndedBeforeItIsConnectedHasNotFailed(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	var said bytes.Buffer
	if code := Main(ctx, []string{"events", "tail"}, nil, &said, &said, newScene(t, "A100").environ); code != exit.Done || said.Len() > 0 {
		t.Errorf("exit code %d, and it says: %s", code, &said)
	}
}

func mustBeCloudEvents(t *testing.T, text, id string) {
	t.Helper()
	found := 0
	for line := range strings.Lines(text) {
		var e struct {
			SpecVersion, ID, Source, Type, Sequence, DataSchema string
			Data                                                struct {
				ContactRequestID string
				Contact          struct{ LastName string }
			}
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal("a line is no JSON object")
		}
		if e.SpecVersion != "1.0" || e.ID == "" || e.Source == "" || e.Type == "" || len(e.Sequence) != 20 || e.DataSchema == "" {
			t.Errorf("no CloudEvent: %+v", e)
		}
		if e.Data.ContactRequestID == id {
			found++
			if e.Data.Contact.LastName != "Muster"+sandbox.Marker {
				t.Error("the person is not in the JSON")
			}
		}
	}
	if found != 1 {
		t.Errorf("contact request %s is there %d times", id, found)
	}
}

func TestWhatIsOnlyOddIsWarnedAboutAndTheWatchBegins(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	key := write(t, "key", testKey+"\n", 0o644)
	d := launch(t, s.with("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+key, "DOORBELL_POL_INTERVAL=1s"), "run")
	subscribeTo(t, natsURL(t, s.dir)).baselined(t, "A100")
	d.stop(t)
	has(t, d.stderr.String(), "DOORBELL_POL_INTERVAL is not a setting and is ignored; did you mean DOORBELL_POLL_INTERVAL?", key)
	holdsNobody(t, d.stderr.String())
}
