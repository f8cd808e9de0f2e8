package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller/sandbox"

	"github.com/nats-io/nats.go/jetstream"
)

// oddReference has everything in it that a path or a header cannot bear.
const oddReference = `Haus am See#12 "b"#EG#50%ä/`

func TestWhatHappensAtTheAPIGivesExactlyItsEvent(t *testing.T) {
	t.Parallel()
	w, dir := doorbelltest.StartAPI(t), doorbelltest.ShortDir(t)
	d := doorbelltest.Launch(t, doorbelltest.RunEnviron(dir, w.URL, doorbelltest.SandboxKey, "A100", "B200"), "run")
	url := doorbelltest.NatsURL(t, dir)
	s := doorbelltest.SubscribeTo(t, url)
	s.Baselined(t, "A100", "B200")
	durable, err := s.JS.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{
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
	w.Change(t, "/insertions", map[string]any{"agencyId": "A100", "insertion": insertion})
	appeared := s.Event(t, "insertion.appeared", "A100")
	w.Change(t, "/insertions/edit", join(which, map[string]any{"patch": map[string]any{"prices": map[string]any{"rent": map[string]any{"gross": 2790}}}}))
	changed := s.Event(t, "insertion.changed", "A100")
	w.Change(t, "/insertions/withdraw", which)
	disappeared := s.Event(t, "insertion.disappeared", "A100")
	w.Change(t, "/insertions", map[string]any{"agencyId": "A100", "insertion": insertion})
	reappeared := s.Event(t, "insertion.reappeared", "A100")
	id, _ := w.Change(t, "/contact-requests", join(which, map[string]any{"contactRequest": map[string]any{
		"firstName": "Nora", "lastName": "Beispiel" + sandbox.Marker, "email": "nora@example.org", "phone": "079 000 01 23",
		"language": "de", "message": "Guten Tag,\r\nist sie noch frei?", "score": 72.5,
	}}))["id"].(string)
	created := s.Event(t, "contact_request.created", "A100")

	for _, a := range []doorbelltest.Arrival{appeared, changed, disappeared, reappeared, created} {
		if a.Body.PropertyReferenceID != oddReference || a.Subject != "listings.v1.A100."+a.Kind() {
			t.Errorf("%s is about %q, on %s", a.Kind(), a.Body.PropertyReferenceID, a.Subject)
		}
	}
	want := []any{map[string]any{"path": "/prices/rent/gross", "before": 2890.0, "after": 2790.0}}
	if got := changed.Member(t, "changes"); !reflect.DeepEqual(got, want) {
		t.Errorf("changes are %v", got)
	}
	if appeared.Body.Episode != 1 || disappeared.Body.Episode != 1 || reappeared.Body.Episode != 2 {
		t.Errorf("episodes %d, %d, %d", appeared.Body.Episode, disappeared.Body.Episode, reappeared.Body.Episode)
	}
	mustBeAsPinned(t, doorbelltest.NextOf(t, durable), w, dir, id)

	asked := w.Asked(t, "A100") // several more looks at everything find nothing to tell
	doorbelltest.Eventually(t, "the API is asked on", func() bool { return w.Asked(t, "A100") > asked+60 })
	all := doorbelltest.MustBeWhole(t, url)
	for agency, want := range map[string]string{
		"A100": "watch.baselined insertion.appeared insertion.changed insertion.disappeared insertion.reappeared contact_request.created",
		"B200": "watch.baselined",
	} {
		if got := strings.Join(doorbelltest.Kinds(all, agency), " "); got != want {
			t.Errorf("%s: %s", agency, got)
		}
	}
	d.Stop(t)
	doorbelltest.HoldsNobody(t, d.Stdout.String()+d.Stderr.String())
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

// mustBeAsPinned holds a contact_request.created against the contract: subject, every header, the payload.
func mustBeAsPinned(t *testing.T, a doorbelltest.Arrival, w doorbelltest.Api, dir, id string) {
	t.Helper()
	var truth sandbox.Truth
	w.Read(t, "/truth", &truth)
	made, ok := truth.ContactRequest(id)
	if !ok || a.Body.ContactRequestID != id || a.Subject != "listings.v1.A100.contact_request.created" {
		t.Fatalf("contact request %q on %s, want %q", a.Body.ContactRequestID, a.Subject, id)
	}
	status, err := ops.NewClient(filepath.Join(dir, daemon.SocketFile)).Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const moment = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`
	literally := regexp.QuoteMeta
	pinned := map[string]string{
		"Nats-Msg-Id": `[a-z2-7]{26}`, "ce-id": `[a-z2-7]{26}`, "ce-specversion": literally("1.0"), "ce-source": "/agencies/A100",
		"ce-type": literally("contact_request.created"), "ce-subject": literally(`Haus%20am%20See#12%20%22b%22#EG#50%25%C3%A4/`),
		"ce-time": moment, "ce-recordedtime": moment, "ce-sequence": "00000000000000000007", "ce-partitionkey": "A100",
		"ce-datacontenttype": "application/json", "ce-dataschema": literally("urn:doorbell:schema:contact_request.created:v1"),
		"ce-origin": "live", "ce-storeid": literally(status.StoreID),
	}
	for name, pattern := range pinned {
		values := a.Header[name]
		if len(values) != 1 || !regexp.MustCompile("^"+pattern+"$").MatchString(values[0]) {
			t.Errorf("header %s is %q, want %s", name, values, pattern)
		}
	}
	for name := range a.Header {
		if _, ok := pinned[name]; !ok && !strings.HasPrefix(name, "Nats-Batch-") && !strings.HasPrefix(name, "Nats-Expected-") {
			t.Errorf("header %s is not pinned", name)
		}
	}
	if a.Header.Get("ce-id") != a.Header.Get("Nats-Msg-Id") {
		t.Error("ce-id and Nats-Msg-Id differ")
	}
	at, err := time.Parse(time.RFC3339Nano, a.Header.Get("ce-time"))
	if err != nil || !at.Equal(a.Body.CreatedAt) || made.CreatedAt.Sub(at).Abs() > time.Second {
		t.Errorf("ce-time %s, payload %s, made %s: %v", at, a.Body.CreatedAt, made.CreatedAt, err)
	}
	mustHoldThePerson(t, a)
}

func mustHoldThePerson(t *testing.T, a doorbelltest.Arrival) {
	t.Helper()
	want := map[string]any{
		"firstName": "Nora", "lastName": "Beispiel" + sandbox.Marker, "email": "nora@example.org", "phone": "+41790000123",
		"phoneRaw": "079 000 01 23", "language": "de", "message": "Guten Tag,\r\nist sie noch frei?",
	}
	if got := a.Member(t, "contact"); !reflect.DeepEqual(got, want) {
		t.Errorf("contact is %v", got)
	}
	if a.Member(t, "identity") != "id" || a.Member(t, "score") != 72.5 || a.Body.Origin != "live" {
		t.Errorf("identity %v, score %v, origin %s", a.Member(t, "identity"), a.Member(t, "score"), a.Body.Origin)
	}
	var raw struct{ Record json.RawMessage }
	if err := json.Unmarshal(a.Data, &raw); err != nil || !strings.Contains(string(raw.Record), a.Body.ContactRequestID) {
		t.Error("record is not the API's")
	}
	if slices.Contains([]byte(raw.Record), '\n') {
		t.Error("record is not compact")
	}
}

func TestEventsTailThatIsEndedBeforeItIsConnectedHasNotFailed(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	var said bytes.Buffer
	if code := Main(ctx, []string{"events", "tail"}, nil, &said, &said, doorbelltest.NewScene(t, "A100").Environ); code != exit.Done || said.Len() > 0 {
		t.Errorf("exit code %d, and it says: %s", code, &said)
	}
}

func TestWhatIsOnlyOddIsWarnedAboutAndTheWatchBegins(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	key := write(t, "key", doorbelltest.TestKey+"\n", 0o644)
	d := doorbelltest.Launch(t, s.With("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+key, "DOORBELL_POL_INTERVAL=1s"), "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
	doorbelltest.Has(t, d.Stderr.String(), "DOORBELL_POL_INTERVAL is not a setting and is ignored; did you mean DOORBELL_POLL_INTERVAL?")
	doorbelltest.HoldsNobody(t, d.Stderr.String())
}
