package listings

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// expecting decodes a body as the answer of both operations, with a place learned before.
func expecting(t testing.TB, known Place, body string) (*InsertionsPage, error, *ContactRequestsPage, error) {
	t.Helper()
	x := func(r Request) *exchange {
		return &exchange{request: r, place: known, status: 200, body: []byte(body)}
	}
	i, err := bare(t).insertionsPage(x(Request{Operation: OperationInsertions, AgencyID: "A100"}))
	c, err2 := bare(t).contactRequestsPage(x(Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}))
	return i, err, c, err2
}

// both is a record that is an insertion as well as a contact request.
const both = `{"id":7,"createdAt":"2026-11-20T10:41:07+0100","propertyReferenceId":"a#b##"}`

func TestALearnedPlaceSaysWhatAnEmptyAnswerMeans(t *testing.T) {
	for _, row := range []struct {
		learned, body string
		path          string // "drift"
		n             int
		unfound       bool
		none          bool // all the same for contact requests
	}{
		{learned: "/odd", body: `{"odd":[]}`, path: "/odd"},
		{learned: "/odd", body: `{"odd":[],"total":5}`, path: "/odd"},
		{learned: "/odd", body: `{"odd":[` + both + `]}`, path: "/odd", n: 1},
		{learned: "/odd", body: `{"odd":[` + both + `],"results":[` + both + `,` + both + `]}`, path: "/odd", n: 1},
		{learned: "/odd", body: `{"odd":[],"results":[` + both + `]}`, path: "/odd"},
		{learned: "/odd", body: `{"odd":` + both + `}`, path: "/odd", n: 1},
		{learned: "", body: both, path: "", n: 1},
		{learned: "", body: `[]`, path: ""},
		{learned: "/a/b/c/d/e", body: `{"a":{"b":{"c":{"d":{"e":[]}}}}}`, path: "/a/b/c/d/e"},
		{learned: "/a~1b", body: `{"a/b":[]}`, path: "/a~1b"},

		{learned: "/odd", body: `{"results":[` + both + `]}`, path: "/results", n: 1},
		{learned: "/odd", body: `{"odd":null,"results":[` + both + `]}`, path: "/results", n: 1},
		{learned: "/odd", body: `{"odd":{},"other":[` + both + `]}`, path: "/other", n: 1},
		{learned: "/odd", body: `[` + both + `]`, path: "", n: 1},
		{learned: "", body: `{"results":[` + both + `]}`, path: "/results", n: 1},
		{learned: "/odd", body: `{"results":` + both + `}`, path: "/results", n: 1},

		{learned: "/odd", body: `{"results":[]}`, path: "drift", none: true},
		{learned: "/odd", body: `{"odd":null,"results":[]}`, path: "drift", none: true},
		{learned: "/odd", body: `{"odd":null,"results":[],"total":4}`, path: "drift"},
		{learned: "/odd", body: `[]`, path: "drift", none: true},
		{learned: "", body: `{"results":[]}`, path: "drift", none: true},
		{learned: "/data/items", body: `{"data":[]}`, path: "drift", none: true},
		{learned: "/data/items", body: `{"data":null}`, path: "drift", none: true},
		{learned: "/odd", body: `{"odd":null}`, path: "drift", none: true},
		{learned: "/odd", body: `{}`, path: "drift"},
		{learned: "/odd", body: `null`, path: "drift", none: true},
		{learned: "/odd", body: `{"odd":""}`, path: "drift", none: true},
		{learned: "/odd", body: `{"odd":[1,2]}`, path: "drift"},
		{learned: "/odd", body: `{"odd":[],"success":false}`, path: "drift"},
		{learned: "/odd", body: `{"odd":[],"status":{"code":500}}`, path: "drift"},
		{learned: "/odd", body: `{"odd":[` + both + `],"status":"error"}`, path: "drift"},
		{learned: "/odd", body: `{"odd":null,"links":[{"rel":"next"}]}`, path: "drift", none: true},

		{learned: "/odd", body: `{"odd":null,"total":0}`, unfound: true},
		{learned: "/odd", body: `{"results":[],"total":0}`, unfound: true},
		{learned: "/data/items", body: `{"data":{"items":null,"total":0}}`, unfound: true},
		{learned: "/data/items", body: `{"data":{"total":0}}`, unfound: true},
		{learned: "/odd", body: `{"odd":{},"page":{"totalElements":0}}`, unfound: true},
		{learned: "/odd", body: `{"odd":null,"total":0,"success":false}`, path: "drift"},
	} {
		t.Run(row.learned+" "+row.body, func(t *testing.T) {
			i, err, c, err2 := expecting(t, Place{Path: row.learned, Known: true}, row.body)
			if row.path == "drift" {
				assertDrift(t, "insertions", row.body, i == nil, err)
				if row.none {
					if err2 != nil || len(c.ContactRequests) > 0 || c.Found {
						t.Errorf("contact requests: not none: %v", err2)
					}
					return
				}
				assertDrift(t, "contact requests", row.body, c == nil, err2)
				return
			}
			if err != nil || err2 != nil {
				t.Fatal(err, err2)
			}
			if i.Path != row.path || c.Path != row.path || i.Found == row.unfound || c.Found == row.unfound {
				t.Errorf("%q %v, %q %v", i.Path, i.Found, c.Path, c.Found)
			}
			if len(i.Insertions) != row.n || len(c.ContactRequests) != row.n || i.Unreadable+c.Unreadable > 0 {
				t.Errorf("%d and %d, want %d", len(i.Insertions), len(c.ContactRequests), row.n)
			}
		})
	}
}

func TestWhatIsConfiguredWinsOverWhatWasLearned(t *testing.T) {
	c := bare(t)
	c.o.InsertionsPath = "/my"
	x := &exchange{request: Request{AgencyID: "A100"}, place: Place{Path: "/odd", Known: true}, body: []byte(`{"odd":[` + one + `],"my":[]}`)}
	if page, err := c.insertionsPage(x); err != nil || page.Path != "/my" || len(page.Insertions) != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	x.body = []byte(`{"odd":[` + one + `]}`)
	if page, err := c.insertionsPage(x); err == nil {
		t.Errorf("%+v", page)
	}
}

func TestAnErrorSaysNoNameThatDoesNotLookLikeOne(t *testing.T) {
	_, err, _, err2 := expecting(t, Place{Path: "/odd", Known: true}, `{"x":1}`)
	if !strings.Contains(err.Error(), "at /odd") || !strings.Contains(err2.Error(), "at /odd") {
		t.Error(err, err2)
	}
	_, err, _, err2 = expecting(t, Place{Path: "/" + person, Known: true}, `{"x":1}`)
	assertNoSentinel(t, err)
	assertNoSentinel(t, err2)
}

func TestARequestIsNotConditionalAndSoA304IsARefusal(t *testing.T) {
	a := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"x1"`)
		w.WriteHeader(http.StatusNotModified)
	})
	c := a.client(t)
	for range 2 {
		if page, err := c.Insertions(t.Context(), testKey, "A100", InsertionsQuery{}); page != nil || statusOf(err) != http.StatusNotModified {
			t.Errorf("%+v %v", page, err)
		}
	}
	for _, h := range a.heads {
		if h.Get("If-None-Match")+h.Get("If-Modified-Since") != "" || h.Get("Cache-Control") != "no-cache" {
			t.Error("a stale answer would do")
		}
	}
}

func TestALearnedPlaceHidesNoContactRequestBesideIt(t *testing.T) {
	const lead = `{"id":7,"createdAt":"2026-11-20T10:41:07+0100","email":"n@x"}`
	for _, row := range []struct{ learned, body, path string }{
		{"/read", `{"new":[` + lead + `],"read":[]}`, "/new"},
		{"/items", `{"new":[` + lead + `],"items":[]}`, "/new"},
		{"/read", `{"new":[` + lead + `],"read":[` + lead + `]}`, "drift"},
		{"/read", `{"new":[` + lead + `],"old":[` + lead + `],"read":[]}`, "drift"},
		{"/read", `{"new":[],"read":[` + lead + `]}`, "/read"},
		{"/read", `{"read":[` + lead + `],"included":[` + lead + `]}`, "/read"},
		{"/read", `{"read":[` + lead + `],"similar":[{"id":1,"score":3}]}`, "/read"},
		{"/items", `{"archived":[` + lead + `],"items":[` + lead + `]}`, "/items"},
		{"/items", `{"property":{"agents":[` + lead + `]},"items":[]}`, "/items"},
		{"/leads", `{"calls":[` + lead + `],"leads":[]}`, "/leads"},
	} {
		_, _, page, err := expecting(t, Place{Path: row.learned, Known: true}, row.body)
		if row.path == "drift" {
			assertDrift(t, "contact requests", row.body, page == nil, err)
			continue
		}
		if err != nil || page.Path != row.path {
			t.Errorf("%s: %+v, %v", row.body, page, err)
		}
	}
}

// TestEveryRowDecides has, for each row of the tables and each of its conditions, answers that mean something else without it.
func TestEveryRowDecides(t *testing.T) {
	const (
		a    = `{"propertyReferenceId":"a#1##"}`
		b    = `{"propertyReferenceId":"a#2##"}`
		sure = `{"createdAt":"2026-11-20T10:41:07Z"}`
		mail = `{"email":"n@x"}`
		id   = `{"id":1}`
		any  = `{"odd":1}`
		lone = `{"createdAt":"2026-11-20T10:41:07Z","email":"n@x"}`
	)
	for _, row := range []struct{ operation, learned, body, path string }{
		{"insertions", "", `{"results":[` + a + `],"other":[` + a + `,` + b + `]}`, "/results"},
		{"insertions", "", `{"results":[` + a + `],"items":[` + a + `,` + b + `]}`, "/items"},
		{"insertions", "", `{"results":[` + a + `],"items":[` + b + `]}`, "drift"},
		{"insertions", "", `{"other":[` + a + `],"odd":[` + a + `,` + b + `]}`, "/odd"},
		{"insertions", "", `{"results":` + a + `}`, "/results"},
		{"insertions", "", `{"results":` + a + `,"more":{"items":` + b + `}}`, "drift"},
		{"insertions", "", `{"results":[]}`, "/results"},
		{"insertions", "", `{"results":[],"items":[` + any + `]}`, "drift"},
		{"insertions", "/odd", `{"results":[]}`, "drift"},

		{"contact requests", "/odd", `[` + any + `]`, ""},
		{"contact requests", "/odd", `{"leads":[` + any + `]}`, "/leads"},
		{"contact requests", "", `{"leads":[]}`, "/leads"},
		{"contact requests", "", `{"requests":[],"leads":[]}`, "/leads"},
		{"contact requests", "/odd", `{"leads":[]}`, ""},
		{"contact requests", "", `{"results":[` + sure + `],"similar":[` + sure + `]}`, "/results"},
		{"contact requests", "/odd", `{"results":[` + sure + `],"similar":[` + sure + `]}`, "/results"},
		{"contact requests", "/odd", `{"new":[` + sure + `]}`, "/new"},
		{"contact requests", "", `{"new":[` + sure + `],"more":{"old":[` + sure + `]}}`, "drift"},
		{"contact requests", "", `{"results":[` + any + `],"other":[` + any + `]}`, "/results"},
		{"contact requests", "/odd", `{"results":[` + any + `]}`, "drift"},
		{"contact requests", "", `[]`, ""},
		{"contact requests", "/odd", `[]`, ""},
		{"contact requests", "", `{"results":[]}`, "/results"},
		{"contact requests", "/odd", `{"results":[]}`, ""},
		{"contact requests", "", `{"one":[` + mail + `],"two":[` + any + `]}`, "/one"},
		{"contact requests", "", `{"one":[` + id + `],"two":[` + any + `]}`, "/one"},
		{"contact requests", "/odd", `{"one":[` + mail + `]}`, "drift"},
		{"contact requests", "", `{"one":[` + mail + `],"more":{"two":[` + mail + `]}}`, "drift"},
		{"contact requests", "", `{"one":[` + mail + `],"results":0}`, "drift"},
		{"contact requests", "", `{"one":[` + any + `],"links":[` + any + `]}`, "/one"},
		{"contact requests", "/odd", `{"one":[` + any + `]}`, "drift"},
		{"contact requests", "", `{"one":[` + any + `],"more":{"two":[` + any + `]}}`, "drift"},
		{"contact requests", "", `{"one":[` + any + `],"results":0}`, "drift"},
		{"contact requests", "", `{"data":{"errors":[` + id + `]}}`, "drift"}, // a list of errors is none of records
		{"contact requests", "", `{"lead":{},"leads":` + lone + `}`, "/leads"},
		{"contact requests", "", `{"leads":` + lone + `,"data":{"items":` + lone + `}}`, "/leads"},
	} {
		i, err, c, err2 := expecting(t, Place{Path: row.learned, Known: row.learned != ""}, row.body)
		path := "drift"
		switch {
		case row.operation == "insertions" && err == nil:
			path = i.Path
		case row.operation != "insertions" && err2 == nil:
			path = c.Path
		}
		if path != row.path {
			t.Errorf("%s, learned at %q: %s: %q, want %q", row.operation, row.learned, row.body, path, row.path)
		}
	}
}

func TestNothingPastTheEndIsTheEndUnlessAnErrorStandsBesideIt(t *testing.T) {
	for body, end := range map[string]bool{
		`{"insertions":""}`:                              true,
		`{"insertions":{},"count":25}`:                   true,
		`{"insertions":"","code":"LIMIT_EXCEEDED"}`:      false,
		`{"insertions":{},"message":"x","errors":["x"]}`: false,
		`{"insertions":"none"}`:                          false,
		`{"count":25}`:                                   false,
		`{}`:                                             false,
		`""`:                                             false,
		`{"insertions":null,"count":25}`:                 true,
		`{"insertions":null,"error":null,"code":"OK"}`:       true,
		`{"insertions":null,"error":"x"}`:                    false,
		`{"insertions":null,"errorMessage":"x"}`:             false,
		`{"insertions":null,"code":"LIMIT_EXCEEDED"}`:        false,
		`{"insertions":null,"meta":{"status":"error"}}`:      false,
		`{"insertions":{"error":"x"}}`:                       false,
		`{"insertions":null,"messages":[{"level":"error"}]}`: false,
	} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		q := InsertionsQuery{Page: 2, Place: Place{Path: "/insertions", Known: true}}
		page, err := a.client(t).Insertions(t.Context(), testKey, "A100", q)
		if (err == nil) != end || end && (len(page.Insertions) > 0 || page.Path != "/insertions") {
			t.Errorf("%s: %+v, %v", body, page, err)
		}
	}
}

func TestAHALDocumentThatEmbedsNothingPastTheEndIsTheEnd(t *testing.T) {
	for body, end := range map[string]bool{
		`{"_links":{"self":{"href":"/"}},"page":{"number":2}}`:       true,
		`{"page":{"size":20,"totalElements":25,"totalPages":2}}`:     true,
		`{"_links":{"self":{"href":"/"}},"_embedded":{}}`:            true,
		`{"_links":{"self":{"href":"/"}},"_embedded":{"others":[]}}`: false,
		`{"_links":{"self":{"href":"/"}},"error":"x"}`:               false,
		`{"message":"x"}`: false,
		`{}`:              false,
	} {
		a := serve(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
		for page := range 2 {
			q := InsertionsQuery{Page: page, Place: Place{Path: "/_embedded/insertions", Known: true}}
			if _, err := a.client(t).Insertions(t.Context(), testKey, "A100", q); (err == nil) != (end && page > 0) {
				t.Errorf("%s, page %d: %v", body, page, err)
			}
		}
	}
}

// Finding the list takes about as long as decoding the body, however many places there are.
func TestFindingTheRecordsIsBounded(t *testing.T) {
	for name, body := range map[string]string{
		"arrays":  `{"id":1,` + strings.Repeat(`"a":[{"x":1}],`, 5_000) + `"b":[]}`,
		"objects": `{"id":1,` + strings.Repeat(`"data":{"x":{}},`, 5_000) + `"b":[]}`,
		"nothing": `{` + strings.Repeat(`"results":null,`, 5_000) + `"b":[]}`,
		"deep":    `{"a":{"b":{"c":{` + strings.Repeat(`"leads":{},`, 5_000) + `"d":[]}}}}`,
	} {
		x := exchange{request: Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}, body: []byte(body)}
		assertQuick(t, name, body, func() { _, _ = x.find(contactNames, nil, "") })
		x.request.Operation = OperationInsertions
		assertQuick(t, name, body, func() { _, _ = x.find(insertionNames, nil, "") })
	}
}
