package events_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

var must = helptest.Must

// pinnedByHand are the examples whose ids have only the form of the rule, or rest on a digest that no payload holds.
var pinnedByHand = []events.Type{
	events.TypeContactRequestCreated, events.TypeInsertionAppeared, events.TypeInsertionChanged, events.TypeInsertionDisappeared,
	events.TypeInsertionReappeared, events.TypeAccessHalted, events.TypeContactRequestChanged, events.TypeContactRequestRedacted,
}

// example reads the pinned example of a type: its headers and its payload, compact as on the wire.
func example(t testing.TB, kind events.Type) (map[string][]string, []byte) {
	t.Helper()
	return schematest.Example(t, string(kind))
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
	must(t, err)
	return p.(P)
}

func newEvent(t testing.TB, p events.Payload) events.Event {
	t.Helper()
	e, err := events.New(p)
	must(t, err)
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
			must(t, err)
			again := newEvent(t, p).Stamp(e.Sequence, e.RecordedTime, e.StoreID)
			if string(again.Data) != string(data) {
				t.Errorf("payload\n%s\nwant\n%s", again.Data, data)
			}
			if !slices.Contains(pinnedByHand, kind) && again.ID != e.ID {
				t.Errorf("the id is %s, not %s: correct the headers of the example, or name the type in pinnedByHand "+
					"if its id needs more than the payload", again.ID, e.ID)
			}
			again.ID, again.Data = e.ID, e.Data // both are compared above
			if !reflect.DeepEqual(again, e) {
				t.Errorf("event\n%+v\nwant\n%+v", again, e)
			}
		})
	}
}

func TestInvalidJSONIsAnErrorThatQuotesNothing(t *testing.T) {
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

// golden ids: streams and consumers hold them. A change here makes every known thing new again.
func TestIDsNeverChange(t *testing.T) {
	common := events.Common{AgencyID: "A100", ObservedAt: at("2026-11-20T09:41:43.490Z")}
	digest := [32]byte{1, 2, 3}
	missing := slices.Clone(events.Types)
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
		missing = slices.DeleteFunc(missing, func(t events.Type) bool { return t == e.Type })
	}
	if len(missing) > 0 {
		t.Errorf("no id is pinned for %q", missing)
	}
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
