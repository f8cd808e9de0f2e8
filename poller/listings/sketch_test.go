package listings

import (
	"net/http"
	"strings"
	"testing"
)

// again asks whether an answer counts as the same as one that was decoded before it.
func again(t *testing.T, op Operation, first, second string) bool {
	t.Helper()
	c := bare(t)
	c.o.IgnoreInsertions, c.o.IgnoreContactRequests = []string{"/views", "/stats/seen", "/agencyId"}, []string{"/views", "/email"}
	read := func(body string, known Hashes) Envelope {
		x := &exchange{
			request: Request{Operation: op, AgencyID: "A100", Reference: "a#b##"}, status: http.StatusOK, body: []byte(body),
			expect: Expect{Shape: Shape{Path: "/data", Known: true}, Hashes: known},
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
	before := read(first, Hashes{})
	if before.Hashes.Body == (Sum{}) {
		t.Fatalf("cannot be decoded: %s", first)
	}
	return read(second, before.Hashes).Same
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
		`"servedAt":"12:00"`:            `"servedAt":12`,
		`"servedAt"`:                    `"servedat"`,
		`"servedAt":"12:00",`:           `"servedAt":"12:00","errors":["x"],`,
		`,"success":true`:               ``,
		`"id":"1"`:                      `"id":"3"`,
		`"email":"n@x"`:                 `"email":"o@x"`, // ignored, and read all the same
		`"email":"m@x"`:                 `"email":null`,
		`"views":7`:                     `"views":"7"`,
		`"views":7,`:                    ``,
		`["a","b"]`:                     `["b","a"]`,
		`{"x":1,"y":2}`:                 `{"x":2,"y":1}`,
		one + `,` + two:                 two + `,` + one,
		`,` + two:                       ``,
		`"score":72.5,`:                 `"score":72.5,"score":72.5,`,
		`"createdAt":"2026-11-20T09:41`: `"createdAt":"2026-11-20T09:40`,
		`"id":"1",`:                     `"id":"1","x":"` + "\xff" + `",`,
	} {
		if other := strings.Replace(whole, from, to, 1); other == whole || again(t, OperationContactRequests, whole, other) {
			t.Errorf("the same answer: %s", other)
		}
	}
	twice := `{"data":[{"id":"1","createdAt":1763631667,"email":"a@x","email":"b@x"}]}`
	if again(t, OperationContactRequests, twice, strings.Replace(strings.Replace(strings.Replace(twice, "a@x", "c@x", 1), "b@x", "a@x", 1), "c@x", "b@x", 1)) {
		t.Error("of two members with one name the order counts")
	}
}

func TestABodyThatIsNoJSONIsNotKnownByItsContent(t *testing.T) {
	s := newSketch("/data", nil, IDFields, true)
	good := `{"servedAt":"12:00","data":[{"id":"1","score":7}]}`
	if s.content([]byte(good)) == (Sum{}) {
		t.Fatal("a proper body has no content")
	}
	for _, bad := range []string{
		good[:len(good)-1], good + `x`, good + good, strings.Replace(good, `:7`, `:07`, 1), strings.Replace(good, `:7`, `:`, 1),
		strings.Replace(good, `,"data"`, `,,"data"`, 1), strings.Replace(good, `}]}`, `}}]`, 1), strings.Replace(good, `12:00`, "12\n00", 1),
		strings.Replace(good, `}]}`, `},]}`, 1), strings.Replace(good, `"score":7`, `"score":7,`, 1), strings.Replace(good, `"data":`, `"data"`, 1),
		strings.Repeat(`{"x":`, 100) + `1` + strings.Repeat(`}`, 100), ``, `"`, `{"`, `{"a`, `{"a"`, `{"a":`, `[`, `[1`, `[1,`,
	} {
		if s.content([]byte(bad)) == s.content([]byte(good)) {
			t.Errorf("taken for the good one: %q", bad)
		}
	}
}

// FuzzSketch holds the second look at an answer against decoding it: what counts as the same must read the same.
func FuzzSketch(f *testing.F) {
	f.Add(`{"servedAt":"12:00","data":[{"id":"1","createdAt":"2026-11-20T09:41:07Z","score":7}]}`, `{"servedAt":"12:01","data":[{"score":8,"id":"1","createdAt":"2026-11-20T09:41:07Z"}]}`)
	f.Add(`{"data":[],"total":0}`, `{"total":0,"data":[]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		c := bare(t)
		read := func(body string, known Hashes) (*ContactRequestsPage, error) {
			return c.contactRequestsPage(&exchange{
				request: Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}, status: http.StatusOK,
				body: []byte(body), expect: Expect{Shape: Shape{Path: "/data", Known: true}, Hashes: known},
			}, 20)
		}
		before, err := read(first, Hashes{})
		if err != nil {
			return
		}
		if same, err := read(second, before.Hashes); err != nil || !same.Same {
			return
		}
		after, err := read(second, Hashes{})
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
	s := newSketch("/data", []string{"/a/b/c"}, IDFields, true)
	same := func(body string) bool { return s.content([]byte(one)) == s.content([]byte(body)) }
	if same(strings.Replace(one, `:5`, `:6`, 1)) {
		t.Error("digests hold it")
	}
	if !same(strings.ReplaceAll(one, `"score":1`, `"score":2`)) || !same(strings.Replace(one, `"c":1`, `"c":2`, 1)) {
		t.Error("what no digest holds makes another answer")
	}
}
