package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

// pinnedByHand are the examples whose ids have only the form of the rule, or rest on a digest that no payload holds.
var pinnedByHand = []events.Type{
	events.TypeContactRequestCreated, events.TypeInsertionAppeared, events.TypeInsertionChanged, events.TypeInsertionDisappeared,
	events.TypeInsertionReappeared, events.TypeAccessHalted, events.TypeContactRequestChanged, events.TypeContactRequestRedacted,
}

// example reads the pinned example of a type: its headers and its payload, compact as on the wire.
func example(t testing.TB, kind events.Type) (map[string][]string, []byte) {
	t.Helper()
	headerFile, ok := schemas.ExampleHeader(string(kind))
	dataFile, ok2 := schemas.Example(string(kind))
	if !ok || !ok2 {
		t.Fatalf("%s has no example", kind)
	}
	var flat map[string]string
	if err := json.Unmarshal(headerFile, &flat); err != nil {
		t.Fatal(err)
	}
	header := map[string][]string{}
	for name, value := range flat {
		header[name] = []string{value}
	}
	var data bytes.Buffer
	if err := json.Compact(&data, dataFile); err != nil {
		t.Fatal(err)
	}
	return header, data.Bytes()
}

func exampleEvent(t testing.TB, kind events.Type) events.Event {
	t.Helper()
	e, err := events.Decode(example(t, kind))
	if err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return e
}

func exampleOf[P events.Payload](t testing.TB, kind events.Type) P {
	t.Helper()
	p, err := exampleEvent(t, kind).Payload()
	if err != nil {
		t.Fatal(err)
	}
	return p.(P)
}

func newEvent(t testing.TB, p events.Payload) events.Event {
	t.Helper()
	e, err := events.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func at(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t
}

func TestTheTypesAreThoseThatHaveASchema(t *testing.T) {
	var types []string
	for _, kind := range events.Types {
		types = append(types, string(kind))
	}
	slices.Sort(types)
	if !slices.Equal(types, schemas.Types()) {
		t.Errorf("types %v\nschemas %v", types, schemas.Types())
	}
}

func TestAPinnedExampleIsWrittenAsItWasRead(t *testing.T) {
	for _, kind := range events.Types {
		t.Run(string(kind), func(t *testing.T) {
			header, data := example(t, kind)
			e := exampleEvent(t, kind)
			if got := e.Header(); !reflect.DeepEqual(got, header) {
				t.Errorf("header\n%v\nwant\n%v", got, header)
			}
			p, err := e.Payload()
			if err != nil {
				t.Fatal(err)
			}
			again := newEvent(t, p).Stamp(e.Sequence, e.RecordedTime, e.StoreID)
			if string(again.Data) != string(data) {
				t.Errorf("payload\n%s\nwant\n%s", again.Data, data)
			}
			if slices.Contains(pinnedByHand, kind) {
				again.ID = e.ID
			}
			if !reflect.DeepEqual(again, e) {
				t.Errorf("event\n%+v\nwant\n%+v", again, e)
			}
		})
	}
}

func TestASubjectEndsWithTheTypeOfTheEvent(t *testing.T) {
	e := exampleEvent(t, events.TypeContactRequestCreated)
	if got := events.Subject("listings", e.AgencyID, e.Type); got != "listings.v1.A100.contact_request.created" {
		t.Error(got)
	}
}

func TestANewEventHasWhatItsPayloadSays(t *testing.T) {
	p := &events.ContactRequestCreated{
		Common: events.Common{
			AgencyID:   "A100",
			ObservedAt: time.Date(2026, 11, 20, 10, 41, 43, 498_700_000, time.FixedZone("", 3600)),
		},
		PropertyReferenceID: "a#b##",
		ContactRequestID:    "1",
		Identity:            events.IdentityID,
		CreatedAt:           at("2026-11-20T10:41:07+01:00"),
		Record:              json.RawMessage("{\n \"b\": 1.50, \"a\": \"<ä>\"}"),
	}
	e := newEvent(t, p)
	want := events.Event{
		ID: e.ID, Type: events.TypeContactRequestCreated, AgencyID: "A100", Reference: "a#b##", Origin: events.OriginLive,
		Time: at("2026-11-20T09:41:07Z"),
		Data: json.RawMessage(`{"agencyId":"A100","propertyReferenceId":"a#b##","contactRequestId":"1","identity":"id",` +
			`"origin":"live","createdAt":"2026-11-20T09:41:07Z","observedAt":"2026-11-20T09:41:43.498Z",` +
			`"contact":{},"insertion":{},"record":{"b":1.50,"a":"<ä>"}}`),
	}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("got  %s\nwant %s\n%+v", e.Data, want.Data, e)
	}
}

func TestTheTimeIsTheObservationWhereNobodySaysWhenThePersonWrote(t *testing.T) {
	p := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
	p.CreatedAt = time.Time{}
	e := newEvent(t, p)
	if !e.Time.Equal(p.ObservedAt) {
		t.Errorf("time is %v, want %v", e.Time, p.ObservedAt)
	}
	if bytes.Contains(e.Data, []byte("createdAt\":\"0001")) {
		t.Error("the payload has a createdAt")
	}
}

func TestATimeThatNobodyCanWriteIsNoTime(t *testing.T) {
	for _, year := range []int{-1, 0, 10_000, 292_277_026_596} {
		p := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
		p.CreatedAt = time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
		e := newEvent(t, p)
		if !e.Time.Equal(p.ObservedAt) {
			t.Errorf("year %d: time is %v", year, e.Time)
		}
		schematest.Validate(t, string(e.Type), e.Data)
	}
}

func TestStampAddsWhatTheCommitDecides(t *testing.T) {
	e := newEvent(t, exampleOf[*events.InsertionAppeared](t, events.TypeInsertionAppeared))
	stamped := e.Stamp(7, time.Date(2026, 1, 2, 3, 4, 5, 6_999_999, time.FixedZone("", -3600)), "store")
	want := e
	want.Sequence, want.RecordedTime, want.StoreID = 7, at("2026-01-02T04:04:05.006Z"), "store"
	if !reflect.DeepEqual(stamped, want) {
		t.Errorf("got %+v\nwant %+v", stamped, want)
	}
}

func TestWhatIsNoJSONIsAnErrorThatQuotesNothing(t *testing.T) {
	const secret = "nora.beispiel"
	for name, spoil := range map[string]func(*events.ContactRequestCreated){
		"record": func(p *events.ContactRequestCreated) { p.Record = json.RawMessage(`{"email":` + secret) },
		"score":  func(p *events.ContactRequestCreated) { p.Score = json.RawMessage(secret) },
		"number": func(p *events.ContactRequestCreated) { p.Insertion.Rooms = secret },
	} {
		p := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
		spoil(p)
		_, err := events.New(p)
		if err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "A100") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}

func TestBadUTF8InARecordBecomesTheReplacementCharacter(t *testing.T) {
	p := exampleOf[*events.InsertionAppeared](t, events.TypeInsertionAppeared)
	p.Record = json.RawMessage("{\"title\":\"caf\xe9\"}")
	if e := newEvent(t, p); !bytes.HasSuffix(e.Data, []byte("{\"title\":\"caf\uFFFD\"}}")) {
		t.Errorf("%s", e.Data)
	}
}

func TestIDsHaveTheirForm(t *testing.T) {
	form := regexp.MustCompile(`^[a-z2-7]{26}$`)
	for _, kind := range events.Types {
		p, err := exampleEvent(t, kind).Payload()
		if err != nil {
			t.Fatal(err)
		}
		if e := newEvent(t, p).Stamp(1, at("2026-01-01T00:00:00Z"), "s"); !form.MatchString(e.ID) {
			t.Errorf("%s: id %q", kind, e.ID)
		}
	}
}

// golden ids: they stand in streams and in the memory of consumers. A change here makes every known thing new again.
func TestIDsNeverChange(t *testing.T) {
	common := events.Common{AgencyID: "A100", ObservedAt: at("2026-11-20T09:41:43.490Z")}
	digest := [32]byte{1, 2, 3}
	for _, c := range []struct {
		id string
		p  events.Payload
	}{
		{"k5qbcyfaosnuuri4mmfekcukgu", &events.InsertionAppeared{Common: common, PropertyReferenceID: "a#b##", Episode: 1, Digest: digest}},
		{"pseh7rp7les37wxulngf4t3l7y", &events.InsertionChanged{Common: common, PropertyReferenceID: "a#b##", Episode: 1, Revision: 2, Digest: digest}},
		{"nbfc7qlfb7wwphv3psrua2fghe", &events.InsertionDisappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 1, Digest: digest}},
		{"pf5nirb2deztixlxftwnpmd4vy", &events.InsertionReappeared{Common: common, PropertyReferenceID: "a#b##", Episode: 2, Digest: digest}},
		{"6sl3mnnm3yd752wavo5pd47nje", &events.ContactRequestCreated{Common: common, PropertyReferenceID: "a#b##", ContactRequestID: "17"}},
		{"6sfe5jp3q523q2746zcfpwvziy", &events.ContactRequestChanged{Common: common, PropertyReferenceID: "a#b##", ContactRequestID: "17", Revision: 1, Digest: digest}},
		{"blneobiecwnten6h2pv4cn7dia", &events.ContactRequestRedacted{Common: common, PropertyReferenceID: "a#b##", ContactRequestID: "17", Revision: 1, Digest: digest}},
		{"2qkoyjtay43jbhdzig2trxfecy", &events.AccessHalted{Common: common, Scope: events.ScopeAgency}},
		{"2icntobgmujzamivz7ggadqlqy", &events.AccessResumed{Common: common, Scope: events.ScopeAgency}},
		{"gyf4bksad7rv3i7qkfnn6nkckq", &events.WatchBaselined{Common: common}},
		{"uocor22prla6fx3rup4iem6u3y", &events.WatchStale{Common: common}},
		{"bg5o56kls5mtvoijxd3bn2k44u", &events.WatchRecovered{Common: common, Ends: "stale"}},
		{"6kschgey5nxumarf3udi4yo35y", &events.WatchGapDetected{Common: common, Reason: "window_full"}},
		{"ubojghq5wc6aao3obf674czvuu", &events.WatchSchemaDrifted{Common: common, Operation: "insertions"}},
		{"vsrbbqael5ss3t57pjbw3bccua", &events.WatchChangeHeld{Common: common, Reason: "empty_list"}},
	} {
		e := newEvent(t, c.p).Stamp(42, at("2026-11-20T09:41:44Z"), "s")
		if e.ID != c.id {
			t.Errorf("%s: id is %s, want %s", e.Type, e.ID, c.id)
		}
	}
}

func TestAnIDTellsNothingOfWhenAndWithWhatItWasFound(t *testing.T) {
	first := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
	again := *first
	again.ObservedAt = again.ObservedAt.Add(time.Hour)
	again.Origin = events.OriginBaseline
	again.Score = json.RawMessage("1")
	again.Record = json.RawMessage(`{}`)
	if newEvent(t, first).Stamp(1, at("2026-01-01T00:00:00Z"), "a").ID != newEvent(t, &again).Stamp(2, at("2027-01-01T00:00:00Z"), "b").ID {
		t.Error("the same contact request has two ids")
	}
}

func TestAValueThatChangesThereAndBackMakesThreeIDs(t *testing.T) {
	a, b := [32]byte{'a'}, [32]byte{'b'}
	ids := map[string]bool{}
	for i, digest := range [][32]byte{b, a, b} {
		p := exampleOf[*events.InsertionChanged](t, events.TypeInsertionChanged)
		p.Revision, p.Digest = i+1, digest
		ids[newEvent(t, p).ID] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d ids for three changes", len(ids))
	}
}

func TestARestoredBackupGivesAnotherChangeAnotherID(t *testing.T) {
	ids := map[string]bool{}
	for _, digest := range [][32]byte{{1}, {2}} { // the same revision twice: the second after the restore
		changed := exampleOf[*events.InsertionChanged](t, events.TypeInsertionChanged)
		changed.Digest = digest
		request := exampleOf[*events.ContactRequestChanged](t, events.TypeContactRequestChanged)
		request.Revision, request.Digest = 1, digest
		redacted := exampleOf[*events.ContactRequestRedacted](t, events.TypeContactRequestRedacted)
		redacted.Revision, redacted.Digest = 1, digest
		for _, p := range []events.Payload{changed, request, redacted} {
			ids[newEvent(t, p).ID] = true
		}
	}
	if len(ids) != 6 {
		t.Errorf("%d ids for six changes", len(ids))
	}
}

func TestWhatIsAnotherThingHasAnotherID(t *testing.T) {
	ids := map[string]string{}
	add := func(name string, p events.Payload) {
		id := newEvent(t, p).ID
		if ids[id] != "" {
			t.Errorf("%s and %s have one id", name, ids[id])
		}
		ids[id] = name
	}
	of := func(agency, reference, id string) *events.ContactRequestCreated {
		return &events.ContactRequestCreated{Common: events.Common{AgencyID: agency}, PropertyReferenceID: reference, ContactRequestID: id}
	}
	add("one", of("A100", "a#b", "1"))
	add("another agency", of("A10", "a#b", "1"))
	add("another reference", of("A100", "a#b#", "1"))
	add("another contact request", of("A100", "a#b", "2"))
	add("parts joined elsewhere", of("A100", "a#", "b1"))
	add("parts joined elsewhere again", of("A100a", "#b", "1"))
	add("another type", &events.InsertionAppeared{Common: events.Common{AgencyID: "A100"}, PropertyReferenceID: "a#b", Episode: 1})
	add("another episode", &events.InsertionAppeared{Common: events.Common{AgencyID: "A100"}, PropertyReferenceID: "a#b", Episode: 2})
}

func TestTwoEqualHaltsHaveTwoIDsAndAStampedOneKeepsItsOwn(t *testing.T) {
	halted := newEvent(t, exampleOf[*events.AccessHalted](t, events.TypeAccessHalted))
	first := halted.Stamp(1, halted.Time, "s")
	second := halted.Stamp(2, halted.Time, "s")
	if first.ID == second.ID {
		t.Error("two halts have one id")
	}
	if again := first.Stamp(9, halted.Time, "t"); again.ID != first.ID {
		t.Error("stamping a second time changed the id")
	}
	scoped := exampleOf[*events.AccessHalted](t, events.TypeAccessHalted)
	scoped.Scope = events.ScopeContactRequests
	if newEvent(t, scoped).Stamp(1, halted.Time, "s").ID == first.ID {
		t.Error("two scopes have one id")
	}
}

func TestAnotherOriginChangesNothingElse(t *testing.T) {
	e, err := events.New(&events.InsertionAppeared{
		Common: events.Common{AgencyID: "A100", ObservedAt: time.Date(2026, 11, 20, 8, 0, 0, 120e6, time.UTC)}, PropertyReferenceID: "a\u2028#<b>", Episode: 1,
		Record: []byte(`{"origin":"live","n":9007199254740993,"z":1.50,"a":"\u00e4 <&>","b":[{"origin":"live"}]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	e = e.Stamp(7, time.Now(), "store")
	before := bytes.Clone(e.Data)
	again := e.WithOrigin(events.OriginReplay)
	if want := strings.Replace(string(before), `"origin":"live"`, `"origin":"replay"`, 1); string(again.Data) != want {
		t.Errorf("the payload is %s, want %s", again.Data, want)
	}
	if again.Origin != events.OriginReplay || again.Header()["ce-origin"][0] != "replay" || again.ID != e.ID || again.Sequence != 7 || !again.Time.Equal(e.Time) {
		t.Errorf("the envelope is %v", again.Header())
	}
	if !bytes.Equal(e.Data, before) || e.Origin != events.OriginLive {
		t.Error("the event it was made of is another one now")
	}
	read, err := events.Decode(again.Header(), again.Data)
	if err != nil || read.Origin != events.OriginReplay {
		t.Errorf("read again: %v, %v", read.Origin, err)
	}
}
