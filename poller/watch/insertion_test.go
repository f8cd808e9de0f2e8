package watch

import (
	"encoding/json"
	"fmt"
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

// apply applies a list of changes to a record, as a consumer would.
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
		r := NewRules([]string{"/views"}, nil, nil)
		a := store.Agency{WatchStart: epoch, Baselined: rapid.Bool().Draw(rt, "baselined"), LastCompleteWalk: epoch}
		s := Observation{AgencyID: "A100", At: epoch.Add(time.Hour), Emit: rapid.Bool().Draw(rt, "emit")}
		var k Known
		said := 0
		ids := map[string]bool{}
		for n := range rapid.IntRange(1, 6).Draw(rt, "readings") {
			read := listings.Insertion{
				Reference: "a#b##", Record: marshal(rt, drawRecord(rt, "record")), Defects: []string{listings.DefectUTF8},
			}
			var err error
			if read.Digest, err = listings.Digest(read.Record, r.ignoreInsertion); err != nil {
				rt.Fatal(err)
			}
			for again := range 2 {
				page := Page(s, a, []Known{k}, []Listed{{Insertion: read}}, r, nil)
				if again == 1 && !page.Empty() {
					rt.Fatalf("reading %d again changes %+v", n, page.Effects)
				}
				for _, p := range page.Events {
					e, err := events.New(p)
					if err != nil {
						rt.Fatal(err)
					}
					if ids[e.ID] {
						rt.Errorf("id of %s is not its own", e.Type)
					}
					ids[e.ID] = true
					if !strings.Contains(string(e.Data), listings.DefectUTF8) {
						rt.Errorf("%s names no defect", e.Type)
					}
					said++
					if err := schematest.Check(string(e.Type), e.Data); err != nil {
						rt.Error(err)
					}
				}
				if len(page.Insertions) > 0 {
					k = Known{Insertion: page.Insertions[0], Record: read.Record, Exists: true}
				}
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
		if got, _ := implausible(c.missing, c.known, c.listed); got != c.want {
			t.Errorf("%d of %d missing, %d listed: %q, want %q", c.missing, c.known, c.listed, got, c.want)
		}
	}
}

func TestADriftQuotesNothingAndIsBounded(t *testing.T) {
	var list []form
	for n := range 80 {
		list = append(list, form{fmt.Sprintf("/nora%d@example.org %s", n, strings.Repeat("x", 500)), nothing, "string"})
	}
	e, err := events.New(driftEvent("A100", list, epoch))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(e.Data); len(text) > 2000 || strings.Contains(text, "nora") {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}
