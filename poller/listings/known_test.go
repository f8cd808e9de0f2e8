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

// again asks whether an answer counts as the same as one that was decoded before it.
func again(t *testing.T, op Operation, first, second string) bool {
	t.Helper()
	c, err := New(Options{
		BaseURL:          "https://api.example",
		IgnoreInsertions: []string{"/views", "/stats/seen", "/agencyId"}, IgnoreContactRequests: []string{"/views", "/email", "/a/b/c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(body string, known func(Sum) bool) Envelope {
		x := &exchange{
			request: Request{Operation: op, AgencyID: "A100", Reference: "a#b##"}, status: http.StatusOK, body: []byte(body),
			expect: Expect{Dialect: Dialect{Path: "/data", Known: true}, Known: known},
		}
		if op == OperationInsertions {
			page, err := c.insertionsPage(x, 0)
			if err != nil {
				return Envelope{}
			}
			return page.Envelope
		}
		page, err := c.contactRequestsPage(x, 0)
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

func TestWhatNobodyReadsMakesNoOtherAnswer(t *testing.T) {
	const one = `{"id":"1","createdAt":"2026-11-20T09:41:07Z","score":72.5,"views":7,"email":"n@x","message":"Guten \"Tag\""}`
	for _, row := range [][2]string{
		{`{"data":[` + one + `]}`, `{"data":[` + one + `]}`},
		{`{"servedAt":"12:00","data":[` + one + `]}`, `{"servedAt":"12:01","data":[` + one + `]}`},
		{`{"servedAt":"12:00","data":[` + one + `]}`, `{"data":[` + one + `],"servedAt":"12:00"}`},
		{`{"meta":{"took":12},"data":[` + one + `]}`, `{"meta":{"took":3.5},"data":[` + one + `]}`},
		{`{"data":[` + one + `]}`, `{"data":[` + strings.Replace(one, "72.5", "1", 1) + `]}`},
		{`{"data":[` + strings.Replace(one, "score", "_score", 1) + `]}`, `{"data":[` + strings.Replace(one, `score":72.5`, `_score":1`, 1) + `]}`},
		{`{"data":[` + one + `]}`, `{"data":[` + strings.Replace(one, `"views":7`, `"views":8`, 1) + `]}`},
		{`{"data":[` + one + `]}`, `{"data":[` + strings.Replace(one, `"id":"1",`, ``, 1)[:len(one)-len(`"id":"1",`)-1] + `,"id":"1"}]}`},
	} {
		if !again(t, OperationContactRequests, row[0], row[1]) {
			t.Errorf("another answer: %s, %s", row[0], row[1])
		}
	}
	if !again(t, OperationInsertions, `{"data":[{"propertyReferenceId":"a","stats":{"seen":1,"x":2}}]}`, `{"data":[{"stats":{"x":2,"seen":9},"propertyReferenceId":"a"}]}`) {
		t.Error("what is ignored deeper down makes another answer")
	}
}

func TestWhatIsReadMakesAnotherAnswer(t *testing.T) {
	const one = `{"id":"1","createdAt":"2026-11-20T09:41:07Z","score":72.5,"views":7,"email":"n@x","tags":["a","b"],"pair":{"x":1,"y":2}}`
	const two = `{"id":"2","createdAt":"2026-11-20T09:42:07Z","email":"m@x"}`
	whole := `{"total":2,"agencyId":"A100","servedAt":"12:00","success":true,"data":[` + one + `,` + two + `]}`
	for from, to := range map[string]string{
		`"total":2`:                     `"total":3`,
		`"success":true`:                `"success":false`,
		`"agencyId":"A100"`:             `"agencyId":"B200"`,
		`"servedAt":"12:00",`:           `"servedAt":"12:00","errors":["x"],`,
		`"id":"1"`:                      `"id":"3"`,
		`"email":"n@x"`:                 `"email":"o@x"`, // ignored, and read all the same
		`"email":"m@x"`:                 `"email":null`,
		`["a","b"]`:                     `["b","a"]`,
		`{"x":1,"y":2}`:                 `{"x":2,"y":1}`,
		one + `,` + two:                 two + `,` + one,
		`,` + two:                       ``,
		`"createdAt":"2026-11-20T09:41`: `"createdAt":"2026-11-20T09:40`,
		`"id":"1",`:                     `"id":"1","x":"` + "\xff" + `",`,
	} {
		if other := strings.Replace(whole, from, to, 1); other == whole || again(t, OperationContactRequests, whole, other) {
			t.Errorf("the same answer: %s", other)
		}
	}
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
		for _, op := range []Operation{OperationContactRequests, OperationInsertions} {
			if again(t, op, first, second) != same {
				t.Fatalf("%s: taken for the same: %t", second, !same)
			}
		}
	}
}

func TestWhatAnAnswerSaidIsNotTouchedByTheNext(t *testing.T) {
	n := 0
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n++
		fmt.Fprintf(w, `{"servedAt":%d,"data":[{"id":"%d","createdAt":"2026-11-20T09:41:%02dZ","contact":{"email":"n%d@x"},"score":%d}]}`, n, n/2, n/2, n/2, n)
	})
	c := a.client(t)
	ask := func(known func(Sum) bool) *ContactRequestsPage {
		q := ContactRequestsQuery{Expect: Expect{Dialect: Dialect{Path: "/data", Known: true}, Known: known}}
		page, err := c.ContactRequests(t.Context(), testKey, "A100", "a#b##", q)
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	n = 1
	for range 29 {
		page := ask(nil)
		r := page.ContactRequests[0]
		email, fingerprint, fields, score := r.Contact().Email, r.Fingerprint("r"), r.Fields(), string(r.Score)
		if again := ask(page.knows); !again.Same {
			t.Fatal("the same records beside another time are another answer")
		}
		if r.Contact().Email != email || r.Fingerprint("r") != fingerprint || !slices.Equal(r.Fields(), fields) || string(r.Score) != score || r.ID("id") == "" {
			t.Fatalf("a contact request says %q after another answer, and said %q", r.Contact().Email, email)
		}
	}
}

// FuzzKnownAgain holds what counts as the same answer against what is read of it.
func FuzzKnownAgain(f *testing.F) {
	f.Add(`{"servedAt":"12:00","data":[{"id":"1","createdAt":"2026-11-20T09:41:07Z","score":7}]}`, `{"servedAt":"12:01","data":[{"score":8,"id":"1","createdAt":"2026-11-20T09:41:07Z"}]}`)
	f.Add(`{"data":[],"total":0}`, `{"total":0,"data":[]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		c := bare(t)
		read := func(body string, known func(Sum) bool) (*ContactRequestsPage, error) {
			return c.contactRequestsPage(&exchange{
				request: Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}, status: http.StatusOK,
				body: []byte(body), expect: Expect{Dialect: Dialect{Path: "/data", Known: true}, Known: known},
			}, 20)
		}
		before, err := read(first, nil)
		if err != nil {
			return
		}
		if same, err := read(second, before.knows); err != nil || !same.Same {
			return
		}
		after, err := read(second, nil)
		if err != nil || after.Total != before.Total || after.Path != before.Path || len(after.ContactRequests) != len(before.ContactRequests) {
			t.Fatalf("taken for the same, and is not: %v", err)
		}
		for n, r := range after.ContactRequests {
			was := before.ContactRequests[n]
			if r.Fingerprint("r") != was.Fingerprint("r") || r.ID("id") != was.ID("id") || !r.CreatedAt.Equal(was.CreatedAt) {
				t.Fatal("a contact request reads otherwise")
			}
		}
	})
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

func TestWhatIsIgnoredIsNotToldFromWhatIsAroundTheRecord(t *testing.T) {
	// Of the record in "stats", "/stats/seen" is ignored, and "/seen" is not.
	const one = `{"data":[{"stats":{"propertyReferenceId":"a","seen":1}}]}`
	if again(t, OperationInsertions, one, strings.Replace(one, `:1`, `:2`, 1)) {
		t.Error("a change that is to be told makes no other answer")
	}
	if !again(t, OperationInsertions, one, one) {
		t.Error("the same bytes are another answer")
	}
}

func TestAScoreDeepInARecordCounts(t *testing.T) {
	const one = `{"data":[{"createdAt":"2026-11-20T09:41:07Z","score":1,"a":{"score":1,"b":{"c":1,"score":5}}}]}`
	if again(t, OperationContactRequests, one, strings.Replace(one, `:5`, `:6`, 1)) {
		t.Error("digests hold it")
	}
	for _, other := range []string{strings.ReplaceAll(one, `"score":1`, `"score":2`), strings.Replace(one, `"c":1`, `"c":2`, 1)} {
		if !again(t, OperationContactRequests, one, other) {
			t.Errorf("what no digest holds makes another answer: %s", other)
		}
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
