package listings

import (
	"fmt"
	"strings"
	"testing"
)

func TestTheScannerFindsRecordsAndMembersWhereTheyAre(t *testing.T) {
	const one, two = `{"id":"1","createdAt" : "2026-11-20T09:41:07Z","a":{"b":[1,{"id":2}]}, "score":1}`, `{ "id":"2" ,"score":[{}]}`
	for _, row := range []struct {
		body string
		want []string // nil: they are found in another way
	}{
		{`{"data":[` + one + `]}`, []string{one}},
		{`{"total":2,"data": [ ` + one + " , " + two + `,{} ],"other":[` + two + `]}`, []string{one, two, `{}`}},
		{`{"data":` + two + `}`, []string{two}},
		{"\uFEFF" + `{"data":[` + two + `]}`, []string{two}},
		{`{"data":[]}`, nil},
		{`{"data":[` + one + `,null,` + two + `]}`, nil},
		{`{"data":[` + one + `,[` + two + `]]}`, nil},
		{`{"data":[` + one + `,"x"]}`, nil},
		{`{"data":[` + one + `,{"x":1e5}]}`, nil},
		{`{"other":[` + one + `]}`, nil},
		{`{"data":[` + one + `,{"x":"` + strings.Repeat("x", largestBuffer) + `"}]}`, nil},
	} {
		found := newSketch("/data", nil, IDFields, true).read([]byte(row.body))
		if len(found.records) != len(row.want) {
			t.Fatalf("%.200s: %d records", row.body, len(found.records))
		}
		if len(row.want) == 0 {
			continue
		}
		n := 0
		for raw, list := range found.each(trimBOM([]byte(row.body))) {
			var got, want []string
			for _, m := range list {
				got = append(got, fmt.Sprintf(`"%s" %s`, raw[m.name:m.nameEnd], raw[m.from:m.to]))
			}
			for name, value := range rawMembers(raw) {
				want = append(want, fmt.Sprintf("%s %s", name, value))
			}
			if string(raw) != row.want[n] || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: %s with %s", row.body, raw, got)
			}
			n++
		}
	}
}

func TestARecordWhoseMembersAreKnownIsReadAsOnItsOwn(t *testing.T) {
	body := `{"data":[{"id":1,"createdAt":"x","a":[1]},{"id":2,"createdAt":"y","a":{}},{"createdAt":"y","id":3,"a":0},{"id":4},{"id":5,"createdAt":"z","b":1,"a":2},{}]}`
	found := newSketch("/data", nil, IDFields, true).read([]byte(body))
	like := formed{left: 6}
	for raw, list := range found.each([]byte(body)) {
		o, plain := like.parse(raw, list)
		like.keep(o)
		if want := parse(raw); len(o) != len(want) || !plain && len(o) > 0 {
			t.Errorf("%s: %v", raw, o)
		}
		for n, f := range parse(raw) {
			if o[n].name != f.name || o[n].plain != f.plain || string(o[n].value) != string(f.value) {
				t.Errorf("%s: %v", raw, o)
			}
		}
	}
}

// Contact requests that have moved are read where they are, and not where others have come to stand.
func TestRecordsElsewhereThanExpectedAreReadWhereTheyAre(t *testing.T) {
	const one = `{"id":"1","createdAt":"2026-11-20T09:41:07Z","email":"n@example.org"}`
	body := `{"data":{"note":"none","of":{"a":1}},"contactRequests":[` + one + `]}`
	page, err := fuzzContactRequests(bare(t), []byte(body), Shape{Path: "/data", Known: true})
	if err != nil || len(page.ContactRequests) != 1 || string(page.ContactRequests[0].Record) != one || page.Path != "/contactRequests" {
		t.Fatalf("%+v, %v", page, err)
	}
}

func TestAScannerKeepsNoRoomForMoreRecordsThanAreUsual(t *testing.T) {
	s := newSketch("", nil, IDFields, true)
	full := `{"a":1`
	for n := range 200 {
		full += fmt.Sprintf(`,"%d":1`, n)
	}
	for _, body := range []string{"[" + strings.Repeat("{},", 1<<16) + "{}]", "[" + strings.Repeat(full+"},", 1<<6) + "{}]"} {
		found := s.read([]byte(body))
		k := found.scanner
		if len(found.records)+len(found.members) <= mostParts {
			t.Fatalf("%d records with %d members", len(found.records), len(found.members))
		}
		if found.release(); cap(k.parts.records)+cap(k.parts.members) > 0 || k.b != nil || found.scanner != nil {
			t.Errorf("room for %d records and %d members", cap(k.parts.records), cap(k.parts.members))
		}
	}
}
