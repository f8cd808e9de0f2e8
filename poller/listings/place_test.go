package listings

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
)

// odd are responses with status 200 that must never be taken for "none", whatever was requested.
var odd = []string{
	"", " ", "null", "true", "0", `""`, `"no results"`, "{}", `{"results":null}`, `{"results":{}}`, `{"items":"none"}`,
	"<!doctype html><html><body>Sign in</body></html>", "<html>[]</html>", "<?xml version='1.0'?><list/>", "OK",
	`{"error":"nora.beispiel@example.org"}`, `{"error":{"code":500,"message":"x"}}`, `{"errors":[{"reason":"x"}]}`,
	`{"message":"Forbidden"}`, `{"statusCode":500,"message":"x","error":"x"}`, `{"success":false,"results":[]}`,
	"[", "[{", `{"results":[`, `{"results":[]`, `[]]`, `[][]`, `[],`, `[] x`, `[]<!-- served by proxy -->`, `)]}',` + "\n[]",
	`[1,2,3]`, `["a"]`, `[[]]`, `{"results":[null]}`, `{"total":3}`, `{"total":-1}`, `{"total":0.0}`, `{"unknown":[]}`,
	`{"results":{"id":1}}`, `{"url":"https://captcha.example"}`, "\xff\xfe[\x00]\x00", "\x1f\x8b\x08", "{'results':[]}", "NaN",
	strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000), `{"agencyId":"B200","results":[]}`, "[]\x00",
}

const one = `{"propertyReferenceId":"a#b##","title":"t"}`

// readAt decodes a body as the answer of both operations, with a place learned before. Each is the
// path and the number of records, "none" or "drift".
func readAt(t *testing.T, known Place, body string) (insertions, contacts string) {
	t.Helper()
	say := func(e Envelope, n int) string {
		if !e.Found {
			return "none"
		}
		return fmt.Sprint(cmp.Or(e.Path, "/"), " ", n)
	}
	insertions, contacts = "drift", "drift"
	if page, err := bare(t).insertionsPage(asking(OperationInsertions, known, body)); err == nil {
		insertions = say(page.Envelope, len(page.Insertions))
	} else {
		assertQuiet(t, err, page == nil)
	}
	if page, err := bare(t).contactRequestsPage(asking(OperationContactRequests, known, body)); err == nil {
		contacts = say(page.Envelope, len(page.ContactRequests))
	} else {
		assertQuiet(t, err, page == nil)
	}
	return insertions, contacts
}

func TestTheRecordsAreWhereTheyWereUnlessTheyAreSurelyElsewhere(t *testing.T) {
	const both = `{"id":7,"createdAt":"2026-11-20T10:41:07Z","propertyReferenceId":"a#b##"}`
	for _, row := range []struct{ learned, body, insertions, contacts string }{
		{"/odd", `{"odd":[],"total":5}`, "/odd 0", "/odd 0"},
		{"/odd", `{"odd":[` + both + `],"results":[` + both + `,` + both + `]}`, "/odd 1", "/odd 1"},
		{"/odd", `{"odd":[],"results":[` + both + `]}`, "/odd 0", "/odd 0"},
		{"/odd", `{"odd":` + both + `}`, "/odd 1", "/odd 1"},
		{"", both, "/ 1", "/ 1"},
		{"/a/b/c/d/e", `{"a":{"b":{"c":{"d":{"e":[]}}}}}`, "/a/b/c/d/e 0", "/a/b/c/d/e 0"},
		{"/a~1b", `{"a/b":[]}`, "/a~1b 0", "/a~1b 0"},
		{"/odd", `{"odd":null,"results":[` + both + `]}`, "/results 1", "/results 1"},
		{"/odd", `{"odd":{},"other":[` + both + `]}`, "/other 1", "/other 1"},
		{"/odd", `[` + both + `]`, "/ 1", "/ 1"},
		{"/odd", `{"results":` + both + `}`, "/results 1", "/results 1"},
		{"", `{"results":[]}`, "drift", "none"},
		{"/odd", `{"odd":null,"results":[],"total":4}`, "drift", "drift"},
		{"/data/items", `{"data":[]}`, "drift", "none"},
		{"/data/items", `{"data":null}`, "drift", "none"},
		{"/odd", `{"odd":""}`, "drift", "none"},
		{"/odd", `{"odd":[1,2]}`, "drift", "drift"},
		{"/odd", `{"odd":[` + both + `],"status":"error"}`, "drift", "drift"},
		{"/odd", `{"odd":null,"links":[{"rel":"next"}]}`, "drift", "none"},
		{"/data/items", `{"data":{"items":null,"total":0}}`, "none", "none"},
		{"/odd", `{"odd":{},"page":{"totalElements":0}}`, "none", "none"},
		{"/odd", `{"odd":null,"total":0,"success":false}`, "drift", "drift"},
		{"/" + person, `{"x":1}`, "drift", "drift"},
	} {
		insertions, contacts := readAt(t, Place{Path: row.learned, Known: true}, row.body)
		if insertions != row.insertions || contacts != row.contacts {
			t.Errorf("%s: %s: insertions %s, contact requests %s", row.learned, row.body, insertions, contacts)
		}
	}
}

func TestTheListOfInsertionsIsThatOfTheMostReferences(t *testing.T) {
	const a, b = `{"propertyReferenceId":"a#1##"}`, `{"propertyReferenceId":"a#2##"}`
	for body, want := range map[string]string{
		`{"results":[` + a + `],"items":[` + a + `,` + b + `]}`:       "/items 2",
		`{"results":[` + a + `],"items":[` + b + `]}`:                 "drift",
		`{"other":[` + a + `],"odd":[` + a + `,` + b + `]}`:           "/odd 2",
		`{"results":` + a + `,"more":{"items":` + b + `}}`:            "drift",
		`{"results":{"id":1,"listing":` + one + `}}`:                  "/results 1",
		`{"results":{"listing":` + one + `}}`:                         "/results/listing 1",
		`{"response":{"data":{"items":[` + a + `]}}}`:                 "/response/data/items 1",
		`{"data":{"items":` + a + `}}`:                                "/data/items 1",
		`{"results":[{"agencyId":"a100",` + one[1:] + `]}`:            "/results 1",
		`{"results":[],"items":[{"odd":1}]}`:                          "drift",
		`{"data":[],"agents":[{"id":1}]}`:                             "/data 0",
		`{"results":[{"id":1,"listing":` + a + `},{"id":2}],"x":[1]}`: "/results 1",
	} {
		if got, _ := readAt(t, Place{}, body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

func TestTheListOfContactRequestsIsTheOneThatLooksMostLikeIt(t *testing.T) {
	const (
		sure = `{"createdAt":"2026-11-20T10:41:07Z"}`
		mail = `{"email":"n@x"}`
		id   = `{"id":1}`
		odd  = `{"odd":1}`
		lead = `{"id":7,"createdAt":"2026-11-20T10:41:07Z","email":"n@x"}`
		head = `"id":1,"createdAt":"2026-11-20T09:41:07Z",`
	)
	for _, row := range []struct{ learned, body, want string }{
		{"", `{"a":[` + lead + `],"b":[` + lead + `]}`, "drift"},
		{"", `{"requests":[` + lead + `],"leads":[` + lead + `]}`, "drift"},
		{"", `{"odd":` + lead + `}`, "drift"},
		{"", `{"items":{"createdAt":"x"}}`, "drift"},
		{"", `{"items":{"createdAt":"x","id":1,"leads":{}}}`, "drift"},
		{"", `{"leads":[1,2]}`, "drift"},
		{"", `{"id":7,"createdAt":"2026-11-20T10:41:07Z","data":""}`, "/ 1"},
		{"", `{"requests":[],"leads":[]}`, "/leads 0"},
		{"", `{"totalSize":0,"done":true,"records":[]}`, "/records 0"},
		{"", `{"data":[],"included":[],"links":{}}`, "/data 0"},
		{"", `{"data":[],"links":{"first":"/x?page=1","next":null},"meta":{"total":0,"links":[{"url":null,"label":"«"}]}}`, "/data 0"},
		{"", `{"data":{"contactRequests":{"nodes":[]}}}`, "/data/contactRequests/nodes 0"},
		{"", `{"timed_out":false,"_shards":{"total":1,"failed":0},"hits":{"total":{"value":0},"max_score":null,"hits":[]}}`, "/hits/hits 0"},
		{"", `{"response":{"leads":{"lead":` + lead + `},"total":1}}`, "/response/leads/lead 1"},
		{"/contactRequest", `{"contactRequest":null}`, "none"},
		{"", `{"results":[` + sure + `],"similar":[` + sure + `]}`, "/results 1"},
		{"", `{"new":[` + sure + `],"more":{"old":[` + sure + `]}}`, "drift"},
		{"", `{"results":[` + odd + `],"other":[` + odd + `]}`, "/results 1"},
		{"", `{"one":[` + mail + `],"two":[` + odd + `]}`, "/one 1"},
		{"", `{"one":[` + id + `],"two":[` + odd + `]}`, "/one 1"},
		{"", `{"one":[` + mail + `],"more":{"two":[` + mail + `]}}`, "drift"},
		{"", `{"one":[` + mail + `],"results":0}`, "drift"},
		{"", `{"one":[` + odd + `],"links":[` + odd + `]}`, "/one 1"},
		{"", `{"data":{"errors":[` + id + `]}}`, "drift"},
		{"", `{"lead":{},"leads":` + lead + `}`, "/leads 1"},
		{"", `{"leads":` + lead + `,"data":{"items":` + lead + `}}`, "/leads 1"},
		{"", `{"contactRequests":[],"agents":[` + lead + `]}`, "/contactRequests 0"},
		{"", `{"results":[],"metadata":{"createdAt":"2026-11-20T10:41:07Z","requestId":"r"}}`, "/results 0"},
		{"", `{"requests":[` + `{"id":7,"createdAt":"2026-11-20T10:41:07Z","firstName":"A"}` + `],"agency":{"users":{"items":[` + lead + `]}}}`, "/requests 1"},
		{"/requests", `{"requests":[],"data":[` + lead + `]}`, "/requests 0"},
		{"/odd", `{"odd":[` + lead + `],"source":` + lead + `}`, "/odd 1"},
		{"", `{"results":[],"agents":[` + mail + `]}`, "/results 0"},
		{"", `{"leads":[],"results":[` + lead + `]}`, "/results 1"},
		{"", `{"items":[` + mail + `],"data":{"items":[` + mail + `]}}`, "/items 1"},
		{"", `[{"id":7,"email":"n@x","errors":["x"]}]`, "/ 1"},
		{"/a/b", `{"a":null,"odd":[` + mail + `]}`, "drift"},
		{"", `{"leads":null,"results":[],"agents":{"contactRequest":{}}}`, "none"},
		{"", `{"insertions":{}}`, "drift"},
		{"/odd", `{"listing":{"contactRequest":` + lead + `}}`, "drift"},
		{"/odd", `{"leads":[],"meta":[` + id + `]}`, "drift"},
		{"/odd", `{"data":{"items":[],"error_description":"x"}}`, "drift"},
		{"/odd", `[` + odd + `]`, "/ 1"},
		{"/odd", `{"leads":[` + odd + `]}`, "/leads 1"},
		{"/odd", `{"new":[` + sure + `]}`, "/new 1"},
		{"/odd", `{"results":[` + odd + `]}`, "drift"},
		{"/odd", `{"one":[` + mail + `]}`, "drift"},

		// What was learned hides no contact request beside it.
		{"/items", `{"new":[` + lead + `],"items":[]}`, "/new 1"},
		{"/read", `{"new":[` + lead + `],"read":[` + lead + `]}`, "drift"},
		{"/read", `{"new":[],"read":[` + lead + `]}`, "/read 1"},
		{"/read", `{"read":[` + lead + `],"included":[` + lead + `]}`, "/read 1"},
		{"/read", `{"read":[` + lead + `],"similar":[{"id":1,"score":3}]}`, "/read 1"},
		{"/items", `{"property":{"agents":[` + lead + `]},"items":[]}`, "/items 0"},
		{"/leads", `{"calls":[` + lead + `],"leads":[]}`, "/leads 0"},

		// A list inside a contact request is none of them.
		{"", `{"data":{` + head + `"email":"n@x","phones":[{"type":"mobile","number":"079"}]}}`, "/data 1"},
		{"", `{"data":{` + head + `"email":"n@x","notes":[{"createdAt":"2026-11-20T09:41:07Z","text":"x"}]}}`, "/data 1"},
		{"", `{"data":{` + head + `"emails":[{"value":"n@x"}]}}`, "/data 1"},
		{"", `{` + head + `"email":"n@x","replies":[{"createdAt":"2026-11-20T09:41:07Z","message":"x"}]}`, "/ 1"},
		{"", `{"contactRequest":{` + head + `"email":"n@x","viewingTimes":[{"from":"9","to":"10"}]}}`, "/contactRequest 1"},
		{"", `{"data":{` + head + `"odd":[` + lead + `]}}`, "/data/odd 1"},
		{"", `{"results":[{"email":"a@x","items":[{"x":1}]},{"email":"b@x","items":[{"x":2}]}]}`, "/results 2"},
		{"/a/b/c", `{"a":{"b":{"c":{}}}}`, "none"},
	} {
		_, got := readAt(t, Place{Path: row.learned, Known: row.learned != ""}, row.body)
		if got != row.want {
			t.Errorf("learned at %q: %s: %s, want %s", row.learned, row.body, got, row.want)
		}
	}
}

func TestAConfiguredPlaceIsTheOnlyOne(t *testing.T) {
	c := bare(t)
	c.o.InsertionsPath, c.o.ContactRequestsPath = "/my/list", "/my/list"
	for body, good := range map[string]bool{
		`{"my":{"list":[{"propertyReferenceId":"r"}]},"results":[` + one + `]}`: true,
		`{"my":{"list":[]},"results":[` + one + `]}`:                            true,
		`{"my":{"list":[1]}}`: false,
		`{"results":[]}`:      false,
		`[]`:                  false,
	} {
		x := exchange{request: Request{AgencyID: "A100"}, place: Place{Path: "/results", Known: true}, body: []byte(body)}
		_, err := c.insertionsPage(&x)
		x.request = Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "r"}
		_, err2 := c.contactRequestsPage(&x)
		if (err == nil) != good || (err2 == nil) != good {
			t.Errorf("%s: %v, %v", body, err, err2)
		}
	}
}

func TestNothingPastTheEndIsTheEndUnlessAnErrorStandsBesideIt(t *testing.T) {
	for _, row := range []struct {
		learned, body string
		end           bool
	}{
		{"/insertions", `{"insertions":""}`, true},
		{"/insertions", `{"insertions":{},"count":25}`, true},
		{"/insertions", `{"insertions":null,"error":null,"code":"OK"}`, true},
		{"/insertions/insertion", `{"insertions":{"insertion":null},"count":25}`, true},
		{"/data/insertions", `{"data":{"insertions":null}}`, true},
		{"/data/insertions", `{"data":{}}`, true},
		{"/content", `{"content":null,"totalElements":25,"last":true}`, true},
		{"", `null`, true},
		{"/insertions", `{"insertions":"","code":"LIMIT_EXCEEDED"}`, false},
		{"/insertions", `{"insertions":"none"}`, false},
		{"/insertions", `{"count":25}`, false},
		{"/insertions", `{}`, false},
		{"/insertions", `{"insertions":null,"errorMessage":"x"}`, false},
		{"/insertions", `{"insertions":null,"meta":{"status":"error"}}`, false},
		{"/insertions", `{"insertions":{"error":"x"}}`, false},
		{"/insertions", `{"insertions":null,"messages":[{"level":"error"}]}`, false},
		{"/_embedded/insertions", `{"_links":{"self":{"href":"/"}},"page":{"number":2}}`, true},
		{"/_embedded/insertions", `{"page":{"size":20,"totalElements":25,"totalPages":2}}`, true},
		{"/_embedded/insertions", `{"_links":{"self":{"href":"/"}},"_embedded":{}}`, true},
		{"/_embedded/insertions", `{"_links":{"self":{"href":"/"}},"_embedded":{"others":[]}}`, false},
		{"/_embedded/insertions", `{"_links":{"self":{"href":"/"}},"error":"x"}`, false},
		{"/_embedded/insertions", `{}`, false},
	} {
		for page := range 2 {
			a := serve(t, body(row.body))
			q := InsertionsQuery{Page: page, Place: Place{Path: row.learned, Known: true}}
			_, err := a.client(t).Insertions(t.Context(), testKey, "A100", q)
			if (err == nil || isPastEnd(err)) != (row.end && page > 0) {
				t.Errorf("%s, page %d: %v", row.body, page, err)
			}
		}
	}
}
