package watch

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/schemas/schematest"
	"doorbell/store"
)

var epoch = time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)

// drawRecord draws a record of an insertion: nested objects, arrays, odd names, big numbers.
func drawRecord(rt *rapid.T, label string) map[string]any {
	names := rapid.SampledFrom([]string{"a", "b", "a/b", "m~n", "views", "ä"})
	leaf := rapid.SampledFrom([]any{1, "x", nil, true, "9007199254740993", []any{1, 2}, []any{}, json.Number("9007199254740993")})
	record := map[string]any{}
	for _, n := range rapid.SliceOfNDistinct(names, 0, 5, rapid.ID).Draw(rt, label) {
		if rapid.Bool().Draw(rt, "nested") {
			inner := map[string]any{}
			for _, m := range rapid.SliceOfNDistinct(names, 0, 3, rapid.ID).Draw(rt, "inner") {
				inner[m] = leaf.Draw(rt, "leaf")
			}
			record[n] = inner
			continue
		}
		record[n] = leaf.Draw(rt, "leaf")
	}
	return record
}

func marshal(t interface{ Fatal(...any) }, v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// apply does to a record what a list of changes says, the way a consumer would.
func apply(record map[string]any, list []events.Change) {
	for _, c := range list {
		path := strings.Split(c.Path, "/")[1:]
		at := record
		for n, part := range path {
			part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
			if n < len(path)-1 {
				at = at[part].(map[string]any)
				continue
			}
			if c.After == nil {
				delete(at, part)
				continue
			}
			var v any
			if json.Unmarshal(c.After, &v) == nil {
				at[part] = v
			}
		}
	}
}

func TestChangesAppliedToTheOldRecordGiveTheNewOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		before, after := marshal(rt, drawRecord(rt, "before")), marshal(rt, drawRecord(rt, "after"))
		list := changes(before, after, nil)
		if !sort.SliceIsSorted(list, func(i, j int) bool { return list[i].Path < list[j].Path }) {
			rt.Errorf("changes are not sorted: %v", list)
		}
		var record map[string]any
		if err := json.Unmarshal(before, &record); err != nil {
			rt.Fatal(err)
		}
		apply(record, list)
		if !same(marshal(rt, record), loosely(rt, after)) {
			rt.Errorf("%s\nwith %v\nis %s\nnot %s", before, list, marshal(rt, record), after)
		}
		if len(changes(before, before, nil)) != 0 {
			rt.Error("a record differs from itself")
		}
		for _, c := range changes(before, after, []string{"/views"}) {
			if c.Path == "/views" || strings.HasPrefix(c.Path, "/views/") {
				rt.Errorf("an ignored member changed: %s", c.Path)
			}
		}
	})
}

// loosely loses what apply loses: numbers become floats.
func loosely(rt *rapid.T, b []byte) []byte {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		rt.Fatal(err)
	}
	return marshal(rt, v)
}

func TestAnInsertionThatIsReadTwiceSaysNothingTheSecondTime(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := NewRules([]string{"/views"}, nil)
		a := store.Agency{WatchStart: epoch, Baselined: rapid.Bool().Draw(rt, "baselined"), LastCompleteWalk: epoch}
		s := Observation{AgencyID: "A100", At: epoch.Add(time.Hour), Emit: rapid.Bool().Draw(rt, "emit")}
		var k Known
		said := 0
		ids := map[string]bool{}
		for n := range rapid.IntRange(1, 6).Draw(rt, "readings") {
			read := listings.Insertion{Reference: "a#b##", Record: marshal(rt, drawRecord(rt, "record"))}
			digest, err := listings.Digest(read.Record, r.ignoreInsertion)
			if err != nil {
				rt.Fatal(err)
			}
			for again := range 2 {
				d := diffInsertion(s, a, k, read, digest, r, Drift{})
				if again == 1 && (d.Write || d.Event != nil) {
					rt.Fatalf("reading %d again says %T", n, d.Event)
				}
				if d.Event != nil {
					e, err := events.New(d.Event)
					if err != nil {
						rt.Fatal(err)
					}
					if ids[e.ID] {
						rt.Errorf("id of %s is not its own", e.Type)
					}
					ids[e.ID] = true
					said++
					if err := schematest.Check(string(e.Type), e.Data); err != nil {
						rt.Error(err)
					}
				}
				k = Known{Insertion: d.Next, Record: read.Record, Exists: true}
			}
		}
		if k.Revision > said {
			rt.Errorf("revision %d after %d events", k.Revision, said)
		}
	})
}

func TestAMassOfMissingInsertionsIsHeldFromTheSixthAndAThirdOn(t *testing.T) {
	for _, c := range []struct {
		missing, known, listed int
		want                   string
	}{
		{5, 10, 5, ""},
		{6, 10, 4, "mass_disappearance"},
		{6, 20, 14, ""},
		{7, 20, 13, "mass_disappearance"},
		{30, 100, 70, ""},
		{31, 100, 69, "mass_disappearance"},
		{3, 3, 0, "empty_list"},
		{1, 1, 0, "empty_list"},
		{0, 0, 0, ""},
		{2, 2, 2, ""},
	} {
		if got, _ := Implausible(c.missing, c.known, c.listed); got != c.want {
			t.Errorf("%d of %d missing, %d listed: %q, want %q", c.missing, c.known, c.listed, got, c.want)
		}
	}
}

// leads draws contact requests: few different times, so that many are equal.
func leads(rt *rapid.T, n int) []listings.ContactRequest {
	list := make([]listings.ContactRequest, n)
	for i := range list {
		at := epoch.Add(-time.Duration(rapid.IntRange(0, n).Draw(rt, "age")) * time.Minute)
		record := fmt.Sprintf(`{"id":"c%d","createdAt":%q,"score":%d,"email":"c%d@example.org"}`, i, at.Format(time.RFC3339), i, i)
		list[i] = listings.ContactRequest{Record: json.RawMessage(record), CreatedAt: at}
	}
	slices.SortStableFunc(list, func(a, b listings.ContactRequest) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}

func TestTheOrderOfAnAnswerDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := leads(rt, rapid.IntRange(0, 12).Draw(rt, "n"))
		s := contactsObservation{
			Observation: Observation{AgencyID: "A100", At: epoch}, IDField: "id", Rules: NewRules(nil, nil),
			Insertion: store.Insertion{Reference: "a#b##", Start: epoch.Add(-6 * time.Minute)},
		}
		one := diffContactRequests(s, nil, Answer{Requests: list})
		other := diffContactRequests(s, nil, Answer{Requests: rapid.Permutation(list).Draw(rt, "order")})
		if got, want := told(rt, other), told(rt, one); !slices.Equal(got, want) {
			rt.Errorf("%v, in another order %v", want, got)
		}
		again := diffContactRequests(s, one.Puts, Answer{Requests: list})
		if len(again.Puts) != 0 || len(again.Events) != 0 || again.New != 0 {
			rt.Errorf("the same answer again: %v", told(rt, again))
		}
	})
}

func told(rt *rapid.T, d contactsDiff) (ids []string) {
	for _, p := range d.Events {
		e, err := events.New(p)
		if err != nil {
			rt.Fatal(err)
		}
		ids = append(ids, e.ID)
	}
	slices.Sort(ids)
	return ids
}

func TestTheScoreIsNoNews(t *testing.T) {
	s := contactsObservation{Observation: Observation{AgencyID: "A100", At: epoch}, IDField: "id", Rules: NewRules(nil, nil), Insertion: store.Insertion{Reference: "a#b##"}}
	for _, form := range []string{
		`{"id":"c1","email":"a@example.org","score":%s}`, `{"id":"c1","email":"a@example.org","Score":%s}`,
		`{"contactRequest":{"id":"c1","email":"a@example.org","score":%s}}`,
	} {
		read := func(score string) Answer {
			return Answer{Requests: []listings.ContactRequest{{Record: json.RawMessage(fmt.Sprintf(form, score))}}}
		}
		first := diffContactRequests(s, nil, read("1"))
		if len(first.Events) != 1 {
			t.Fatal("nothing was told")
		}
		for _, score := range []string{"2", "null", `"high"`} {
			if d := diffContactRequests(s, first.Puts, read(score)); len(d.Puts) != 0 || len(d.Events) != 0 {
				t.Errorf("score %s is told as %v", score, d.Events)
			}
		}
	}
}

func TestAnIdThatChangesAtEveryReadingMakesNothingNew(t *testing.T) {
	s := contactsObservation{Observation: Observation{AgencyID: "A100", At: epoch}, IDField: "id", Rules: NewRules(nil, nil), Insertion: store.Insertion{Reference: "a#b##"}}
	read := func(id string) Answer {
		return Answer{Requests: []listings.ContactRequest{{Record: json.RawMessage(`{"id":"` + id + `","email":"a@example.org","message":"x"}`)}}}
	}
	first := diffContactRequests(s, nil, read("1"))
	if d := diffContactRequests(s, first.Puts, read("2")); d.New != 0 {
		t.Error("the same contact request under another id is told again")
	}
	both := Answer{Requests: append(read("1").Requests, read("2").Requests...)}
	if d := diffContactRequests(s, first.Puts, both); d.New != 1 {
		t.Errorf("a double click with two ids gives %d news, want 1", d.New)
	}
}

func TestARedactionIsFinal(t *testing.T) {
	s := contactsObservation{Observation: Observation{AgencyID: "A100", At: epoch}, IDField: "id", Rules: NewRules(nil, nil), Insertion: store.Insertion{Reference: "a#b##"}}
	read := func(record string) Answer {
		return Answer{Requests: []listings.ContactRequest{{Record: json.RawMessage(record)}}}
	}
	whole := read(`{"id":"c1","email":"a@example.org","firstName":"Nora","status":"NEW"}`)
	known := diffContactRequests(s, nil, whole).Puts
	d := diffContactRequests(s, known, read(`{"id":"c1","email":null,"firstName":"Nora","status":"NEW"}`))
	if len(d.Events) != 1 || len(d.Puts) != 1 || !d.Puts[0].Redacted {
		t.Fatalf("a person field turned to null is told as %v", d.Events)
	}
	if p, ok := d.Events[0].(*events.ContactRequestRedacted); !ok || !slices.Equal(p.RedactedFields, []string{"email"}) {
		t.Errorf("told %+v", d.Events[0])
	}
	if again := diffContactRequests(s, d.Puts, whole); len(again.Puts) != 0 || len(again.Events) != 0 {
		t.Error("an answer older than the redaction brought the person back")
	}
	more := diffContactRequests(s, d.Puts, read(`{"id":"c1","email":null,"firstName":null,"status":"NEW"}`))
	if len(more.Events) != 1 {
		t.Error("a further redaction is not told")
	}
}

func TestWhatIsSaidOfPeopleChangesNothingThatIsRemembered(t *testing.T) {
	at := epoch.Add(-time.Hour) // before the start: old, and announced as such
	read := func(message string, times ...time.Time) (a Answer) {
		for n, at := range times {
			record := fmt.Sprintf(`{"id":"c%d","sender":{"email":"nora@example.org","message":%q}}`, n, message)
			a.Requests = append(a.Requests, listings.ContactRequest{Record: json.RawMessage(record), CreatedAt: at})
		}
		return a
	}
	type outcome struct {
		Puts []store.ContactRequest
		IDs  []string
	}
	outcomes := map[events.People]outcome{}
	for _, people := range []events.People{events.PeopleFull, events.PeopleContact, events.PeopleNone} {
		s := contactsObservation{
			Observation: Observation{AgencyID: "A100", At: epoch, Emit: true}, IDField: "id", Rules: NewRules(nil, nil), People: people,
			Insertion: store.Insertion{Reference: "a#b##", Start: epoch.Add(-time.Minute)},
		}
		first := diffContactRequests(s, nil, read("Guten Tag", at, epoch))
		second := diffContactRequests(s, first.Puts, read("Guten Abend", at, epoch))
		var o outcome
		for _, p := range slices.Concat(first.Events, second.Events) {
			e, err := events.New(p)
			if err != nil {
				t.Fatal(err)
			}
			o.IDs = append(o.IDs, string(e.Type)+" "+string(e.Origin)+" "+e.ID)
			if err := schematest.Check(string(e.Type), e.Data); err != nil {
				t.Error(err)
			}
			if said := strings.Contains(string(e.Data), "Guten"); said != (people == events.PeopleFull) {
				t.Errorf("%s: the message is in %s: %v", people, e.Type, said)
			}
			if said := strings.Contains(string(e.Data), "nora"); said != (people != events.PeopleNone) {
				t.Errorf("%s: the address is in %s: %v", people, e.Type, said)
			}
		}
		o.Puts = append(first.Puts, second.Puts...)
		outcomes[people] = o
	}
	whole := outcomes[events.PeopleFull]
	if len(whole.IDs) != 4 || len(whole.Puts) != 4 {
		t.Fatalf("%d events and %d contact requests, want 4 of each", len(whole.IDs), len(whole.Puts))
	}
	for people, o := range outcomes {
		if !reflect.DeepEqual(o, whole) {
			t.Errorf("%s: what is remembered, or the ids of events, are not those of full", people)
		}
	}
}

func TestOnlyNewsCountsForLatency(t *testing.T) {
	at := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := contactsObservation{Observation: Observation{At: at, After: at.Add(-10 * time.Minute)}, Skew: time.Minute}
	created := func(origin events.Origin, created time.Time) events.Payload {
		return &events.ContactRequestCreated{Common: events.Common{Origin: origin}, CreatedAt: created}
	}
	got := waits([]events.Payload{
		created(events.OriginBaseline, at.Add(-time.Hour)),
		created(events.OriginLive, at.Add(-2*time.Minute)), // three by our clock: the API's is ahead
		created(events.OriginLive, time.Time{}),
		&events.ContactRequestChanged{Common: events.Common{Origin: events.OriginLive}},
	}, s)
	if want := []time.Duration{3 * time.Minute, 10 * time.Minute}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.After = time.Time{}
	if got := waits([]events.Payload{created(events.OriginLive, time.Time{})}, s); len(got) != 0 {
		t.Errorf("nobody knows since when, but %v", got)
	}
}
