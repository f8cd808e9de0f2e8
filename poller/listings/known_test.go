package listings

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// knows says whether a hash is one of an answer.
func (e Envelope) knows(h Sum) bool { return h == e.Body || h == e.Records }

// again reports whether an answer counts as the same as one that was decoded before it.
func again(t *testing.T, first, second string) bool {
	t.Helper()
	c, err := New(Options{
		BaseURL:          "https://api.example",
		IgnoreInsertions: []string{"/views", "/stats/seen", "/agencyId"},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(body string, known func(Sum) bool) Envelope {
		x := &exchange{
			request: Request{Operation: OperationInsertions, AgencyID: "A100"}, status: http.StatusOK, body: []byte(body),
			expect: Expect{Dialect: Dialect{Path: "/data", Known: true}, Known: known},
		}
		page, err := c.insertionsPage(x, 0)
		if err != nil {
			return Envelope{}
		}
		return page.Envelope
	}
	before := read(first, nil)
	if before.Body == (Sum{}) {
		t.Fatalf("cannot be decoded: %s", first)
	}
	return read(second, before.knows).Same
}

// Which of two members with one name stands last says what a record means, and nothing else of their order does.
func TestOfANameThatStandsTwiceTheLastCounts(t *testing.T) {
	record := func(members []string) string {
		return `{"data":[{"propertyReferenceId":"a#b##","createdAt":1763631667,` + strings.Join(members, ",") + `}]}`
	}
	members := []string{`"email":"a@x"`, `"email":"b@x"`}
	for n := range 40 {
		members = append(members, fmt.Sprintf(`"m%d":1`, n))
	}
	first := record(members)
	for seed := range uint64(100) {
		rand.New(rand.NewPCG(seed, 0)).Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		second := record(members)
		same := strings.Index(second, "a@x") < strings.Index(second, "b@x")
		if again(t, first, second) != same {
			t.Fatalf("%s: taken for the same: %t", second, !same)
		}
	}
}

func TestAnotherTotalInAHeaderIsAnotherAnswer(t *testing.T) {
	c := bare(t)
	read := func(total string, known func(Sum) bool) Envelope {
		x := listAnswer(`{"data":[{"propertyReferenceId":"a"}]}`)
		x.header, x.expect.Known = http.Header{"X-Total-Count": {total}}, known
		page, err := c.insertionsPage(x, 0)
		if err != nil {
			t.Fatal(err)
		}
		return page.Envelope
	}
	before := read("5", nil)
	if !read("5", before.knows).Same || read("6", before.knows).Same || read("", before.knows).Same {
		t.Error("a total beside the body does not count")
	}
}

func TestWhatIsIgnoredDeeperDownMakesNoOtherAnswer(t *testing.T) {
	if !again(t, `{"data":[{"propertyReferenceId":"a","stats":{"seen":1,"x":2}}]}`, `{"data":[{"stats":{"x":2,"seen":9},"propertyReferenceId":"a"}]}`) {
		t.Error("what is ignored deeper down makes another answer")
	}
}

func TestWhatIsIgnoredIsNotToldFromWhatIsAroundTheRecord(t *testing.T) {
	// Of the record in "stats", "/stats/seen" is ignored, and "/seen" is not.
	const one = `{"data":[{"stats":{"propertyReferenceId":"a","seen":1}}]}`
	if again(t, one, strings.Replace(one, `:1`, `:2`, 1)) {
		t.Error("a change that is to be told makes no other answer")
	}
	if !again(t, one, one) {
		t.Error("the same bytes are another answer")
	}
}

// watching is a client of which some members of insertions are ignored.
func watching(t *testing.T) *Client {
	t.Helper()
	c, err := New(Options{BaseURL: "https://api.example", IgnoreInsertions: []string{"/views", "/stats/seen", "/stats/shown"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func listAnswer(body string) *exchange {
	return &exchange{
		request: Request{Operation: OperationInsertions, AgencyID: "A100"}, status: http.StatusOK, body: []byte(body),
		expect: Expect{Dialect: Dialect{Path: "/data", Known: true}},
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
		{`"views":1,`, `"views":2,`}:                      "a ",
		{`{"seen":1,"x"`, `{"seen":7,"x"`}:                "a ",
		{`"b","views":1`, `"b","views":3`}:                "b ",
		{`"seen":1,"x":"\n"`, `"x":"\u000a", "seen" : 1`}: "", // as it was
		{`"stats":{"x":1}`, `"stats" : { "x" : 1 }`}:      "", // as it was
		{`"x":"\n"`, `"x":"\r"`}:                          "a digest of a ",
	} {
		now, err := c.insertionsPage(listAnswer(strings.Replace(page, change[0], change[1], 1)), 0)
		if err != nil {
			t.Fatal(err)
		}
		changed := ""
		for n, i := range now.Insertions {
			if i.Mark != before.Insertions[n].Mark {
				changed += i.Reference + " "
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

func TestAMarkTellsOfEachMemberAndOfWhetherItIsThere(t *testing.T) {
	mark := func(record string) uint32 {
		page, err := watching(t).insertionsPage(listAnswer(`{"data":[{"propertyReferenceId":"a"`+record+`}]}`), 0)
		if err != nil {
			t.Fatal(err)
		}
		return page.Insertions[0].Mark
	}
	marks := map[uint32]string{}
	for _, record := range []string{
		``, `,"views":null`, `,"views":1`, `,"stats":1`, `,"views":1,"stats":1`, `,"views":2,"stats":2`, `,"views":1,"stats":2`, `,"views":2,"stats":1`,
	} {
		m := mark(record)
		if other, is := marks[m]; is || m == 0 {
			t.Errorf("%s has the mark %d of %q", record, m, other)
		}
		marks[m] = record
	}
	if mark(`,"stats":2,"views":1`) != mark(`,"views":1,"stats":2`) {
		t.Error("the order of members is a change")
	}
	if got := topMembers(tokens([]string{"", "/m~1x/y", "/m~1x", "/z"})); !slices.Equal(got, []string{"m/x", "z"}) {
		t.Errorf("watched: %q", got)
	}
}
