package listings

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// watching is a client of which some members of insertions are ignored.
func watching(t *testing.T) *Client {
	c := bare(t)
	c.o.IgnoreInsertions = []string{"/views", "/stats/seen", "/stats/shown"}
	return c
}

func listAnswer(body string) *exchange {
	return &exchange{
		request: Request{Operation: OperationInsertions, AgencyID: "A100"}, status: http.StatusOK, body: []byte(body),
		expect: Expect{Shape: Shape{Path: "/data", Known: true}},
	}
}

func TestWhatIsIgnoredIsMarked(t *testing.T) {
	const page = `{"data":[{"propertyReferenceId":"a","views":1,"stats":{"seen":1,"x":"\n"}},{"propertyReferenceId":"b","views":1},{"stats":{"x":1},"propertyReferenceId":"c"}]}`
	c := watching(t)
	before, err := c.insertionsPage(listAnswer(page), 0)
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"views":1,`, `"views":2,`}:                      "a/0 ",
		{`{"seen":1,"x"`, `{"seen":7,"x"`}:                "a/1 ",
		{`"b","views":1`, `"b","views":3`}:                "b/0 ",
		{`"seen":1,"x":"\n"`, `"x":"\u000a", "seen" : 1`}: "", // as it was
		{`"stats":{"x":1}`, `"stats" : { "x" : 1 }`}:      "", // as it was
		{`"x":"\n"`, `"x":"\r"`}:                          "a/1 digest of a ",
	} {
		now, err := c.insertionsPage(listAnswer(strings.Replace(page, change[0], change[1], 1)), 0)
		if err != nil {
			t.Fatal(err)
		}
		changed := ""
		for n, i := range now.Insertions {
			for m := range i.Marks {
				if i.Marks[m] != before.Insertions[n].Marks[m] {
					changed += fmt.Sprintf("%s/%d ", i.Reference, m)
				}
			}
			if i.Digest != before.Insertions[n].Digest {
				changed += "digest of " + i.Reference + " "
			}
		}
		if changed != want {
			t.Errorf("%s for %s: changed %q, want %q", change[1], change[0], changed, want)
		}
	}
}

func TestAMarkTellsWhetherAMemberIsThere(t *testing.T) {
	page, err := watching(t).insertionsPage(listAnswer(`{"data":[{"propertyReferenceId":"a","views":null}]}`), 0)
	if err != nil {
		t.Fatal(err)
	}
	if m := page.Insertions[0].Marks; len(m) != 2 || m[0] <= MarkAbsent || m[1] != MarkAbsent {
		t.Errorf("marks %v", m)
	}
}

func TestOnlyTheFirstMembersAreWatched(t *testing.T) {
	var all []string
	for n := range 40 {
		all = append(all, fmt.Sprintf("/m~1%d/x", n/2))
	}
	if got := Watched(all); len(got) != 16 || got[3] != "m/3" {
		t.Errorf("watched: %q", got)
	}
	if got := Watched([]string{""}); len(got) != 0 {
		t.Errorf("of the whole record: %q", got)
	}
}
