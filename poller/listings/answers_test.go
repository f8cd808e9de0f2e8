package listings

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const one = `{"propertyReferenceId":"a#b##","title":"t"}`

func TestInsertionsAreFoundByTheirReferenceWhateverTheListIsCalled(t *testing.T) {
	for _, row := range []struct {
		body, path, references string
		total                  int
	}{
		{`[` + one + `]`, "", "a#b##", -1},
		{"\uFEFF [" + one + `] `, "", "a#b##", -1},
		{`{"results":[` + one + `],"total":1,"from":0,"size":20}`, "/results", "a#b##", 1},
		{`{"results":[{"id":1,"listing":` + one + `,"listingType":{"type":"TOP"}}],"total":9}`, "/results", "a#b##", 9},
		{`{"insertions":[` + one + `],"totalCount":3}`, "/insertions", "a#b##", 3},
		{`{"content":[{"insertion":` + one + `}],"totalElements":1,"totalPages":1,"number":0,"last":true}`, "/content", "a#b##", 1},
		{`{"content":[` + one + `],"page":{"size":20,"number":0,"totalElements":7}}`, "/content", "a#b##", 7},
		{`{"data":{"items":[` + one + `],"total":5}}`, "/data/items", "a#b##", 5},
		{`{"data":[` + one + `],"meta":{"totalItems":5}}`, "/data", "a#b##", 5},
		{`{"data":[` + one + `],"pagination":{"total":5}}`, "/data", "a#b##", 5},
		{`{"_embedded":{"whatever":[` + one + `]},"_links":{}}`, "/_embedded/whatever", "a#b##", -1},
		{`{"a":{"b":{"c":{"d":[` + one + `]}}}}`, "/a/b/c/d", "a#b##", -1},
		{`{"a":{"b":{"odd~/name":[` + one + `]}}}`, "/a/b/odd~0~1name", "a#b##", -1},
		{`{"x":[{"objectReference":"r"}]}`, "/x", "r", -1},
		{`{"x":[{"propertyReferenceId":4001234567890123456}]}`, "/x", "4001234567890123456", -1},
		{`{"x":[1,2],"tags":["a"],"y":[` + one + `]}`, "/y", "a#b##", -1},
		{`{"featured":[{"propertyReferenceId":"r"},{"propertyReferenceId":"s"}],"results":[` + one + `]}`, "/results", "a#b##", -1},
		{`[{"propertyReferenceId":"first","propertyReferenceId":"last"}]`, "", "last", -1},
		{`{"few":[` + one + `],"many":[{"propertyReferenceId":"r"},{"propertyReferenceId":"s"}]}`, "/many", "r s", -1},
		{`{"results":[],"premium":[` + one + `]}`, "/premium", "a#b##", -1},
		{`{"count":1,"next":null,"previous":null,"results":[` + one + `]}`, "/results", "a#b##", -1},
		{`{"count":40,"next":null,"results":[` + one + `]}`, "/results", "a#b##", 40},
		{`{"total":-7,"results":[` + one + `]}`, "/results", "a#b##", -1},
		{`{"total":1.0,"totalCount":"3","totalItems":2,"results":[` + one + `]}`, "/results", "a#b##", 2},
		{`{"total":99999999999999999999,"results":[` + one + `]}`, "/results", "a#b##", -1},
		{`{"agencyId":"a100","results":[` + one + `]}`, "/results", "a#b##", -1},
		{`{"success":true,"error":null,"results":[` + one + `]}`, "/results", "a#b##", -1},
		{`[]`, "", "", -1},
		{`{"results":[]}`, "/results", "", -1},
		{`{"results":[],"total":250,"page":9}`, "/results", "", 250},
		{`{"data":{"items":[]}}`, "/data/items", "", -1},
		{`{"Listings":[],"facets":[]}`, "/Listings", "", -1},
		{`{"real_estates":[]}`, "/real_estates", "", -1},
		{`{"total":0}`, "", "", 0},
		{`{"odd":[],"meta":{"total":0}}`, "", "", 0},
		{`{"results":null,"count":0}`, "", "", -1},
		{`{"_links":{},"page":{"totalElements":0}}`, "", "", 0},
	} {
		t.Run(row.body, func(t *testing.T) {
			page, err := decodeInsertions(t, row.body)
			if err != nil {
				t.Fatal(err)
			}
			if page.Path != row.path || references(page) != row.references || page.Total != row.total {
				t.Errorf("path %q, references %q, total %d", page.Path, references(page), page.Total)
			}
		})
	}
}

// odd are answers with status 200 that must never be taken for "none", whatever was asked for.
var odd = []string{
	"", " ", "\n", "null", "true", "false", "0", `""`, `"[]"`, `"no results"`, "{}", `{"results":null}`, `{"results":{}}`, `{"results":""}`, `{"items":"none"}`,
	"<!doctype html><html><body>Sign in</body></html>", "<html>[]</html>", "<?xml version='1.0'?><list/>", "Service temporarily unavailable", "OK",
	`{"error":"nora.beispiel@example.org"}`, `{"error":{"code":500,"message":"x"}}`, `{"errors":[{"reason":"x"}]}`, `{"errors":[]}`,
	`{"message":"Forbidden"}`, `{"timestamp":"2026-11-20T10:41:07Z","status":500,"error":"x","path":"/"}`, `{"statusCode":500,"message":"x","error":"x"}`,
	`{"type":"about:blank","title":"x","status":500}`, `{"success":false,"results":[]}`, `{"success":false}`, `{"error":"x","results":[]}`,
	`{"errors":[{"x":1}],"data":{"items":[]}}`, `{"error":true,"total":0}`, `{"ok":false,"items":[]}`,
	"[", "[{", `{"results":[`, `{"results":[{}`, `{"results":[]`, `[]]`, `[][]`, `[],`, `[] x`, `{} {}`, `[]<!-- served by proxy -->`, `{"results":[]}}`, `)]}',` + "\n[]",
	`[1,2,3]`, `["a"]`, `[null]`, `[[]]`, `[[{}]]`, `{"results":[1]}`, `{"results":[null]}`, `{"results":[[]]}`, `{"total":3}`, `{"total":0,"results":[1]}`,
	`{"total":"0"}`, `{"total":-1}`, `{"total":0.0}`, `{"unknown":[]}`, `{"facets":[],"tags":[]}`, `{"a":{"b":{"results":[]}}}`,
	`{"results":{"id":1}}`, `{"url":"https://captcha.example"}`, "\xff\xfe[\x00]\x00", "\x1f\x8b\x08", "{'results':[]}", "{results:[]}", `{"results":[],}`, "NaN", "[NaN]", "undefined",
	strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000), strings.Repeat("[", 11_000) + strings.Repeat("]", 11_000),
	`{"agencyId":"B200","results":[]}`, "[]\x00", `{"results":[]}` + "\x00", `{"success":false,"total":0}`,
}

func TestOddAnswersAreNeverTakenForNone(t *testing.T) {
	none := []string{"", " ", "\n", "null", `{"results":null}`, `{"results":{}}`, `{"results":""}`} // of contact requests
	for i, body := range odd {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			insertions, err := decodeInsertions(t, body)
			assertDrift(t, "insertions", body, insertions == nil, err)
			requests, err := decodeContactRequests(t, body)
			if slices.Contains(none, body) {
				if err != nil || len(requests.ContactRequests) > 0 || requests.Found {
					t.Errorf("contact requests: %q is not none: %v", body, err)
				}
				return
			}
			assertDrift(t, "contact requests", body, requests == nil, err)
		})
	}
}

func assertDrift(t *testing.T, what, body string, nothing bool, err error) {
	t.Helper()
	var drift *DriftError
	if !errors.As(err, &drift) || !nothing {
		t.Fatalf("%s: %.60q gives %T %v", what, body, err, err)
	}
	if drift.Expected == "" || drift.Found == "" || drift.AgencyID != "A100" {
		t.Errorf("%s: %.60q gives %+v", what, body, drift)
	}
	if strings.Contains(err.Error(), "nora") {
		t.Errorf("quotes what it read: %v", err)
	}
}

func TestWhatIsNoListOfInsertionsIsDrift(t *testing.T) {
	for _, body := range []string{
		`[{}]`, `[{"id":1}]`, `{"results":[{"id":1}]}`, `{"results":[{"id":1}],"items":[]}`,
		`{"odd":` + one + `}`, `{"results":` + one + `,"data":` + one + `}`, `{"data":{"a":` + one + `,"b":` + one + `}}`,
		`{"success":false,"results":[` + one + `]}`, `{"results":[{"agencyId":"B200",` + one[1:] + `]}`,
		`{"a":{"a":{"a":{"a":{"results":[` + one + `]}}}}}`, `[{"propertyReferenceId":null}]`, `[{"propertyReferenceId":""}]`, `[{"propertyReferenceId":{}}]`,
		`[{"propertyReferenceId":"a\u0000b"}]`, `[[` + one + `]]`, `{"agencyId":"B200","results":[` + one + `]}`,
		`[{"propertyReferenceId":"` + strings.Repeat("x", maxReference+1) + `"}]`,
	} {
		page, err := decodeInsertions(t, body)
		assertDrift(t, "insertions", body, page == nil, err)
	}
}

func TestElementsWithoutReferenceAreCounted(t *testing.T) {
	page, err := decodeInsertions(t, `[null,`+one+`,{"id":1},7,{"propertyReferenceId":"a\u0000"}]`)
	if err != nil || references(page) != "a#b##" || page.Unreadable != 4 {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestTheRecordOfAWrappedInsertionIsTheInnerOne(t *testing.T) {
	page, err := decodeInsertions(t, `{"content":[{"meta":{"x":1},"insertion": { "propertyReferenceId" : "r", "n" : 1.50e2 , "u":"\u00e4\/" } }]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(page.Insertions[0].Record), `{"propertyReferenceId":"r","n":1.50e2,"u":"\u00e4\/"}`; got != want {
		t.Errorf("record %s, want %s", got, want)
	}
}

func TestAConfiguredPathIsTheOnlyPlace(t *testing.T) {
	c := bare(t)
	c.o.InsertionsPath, c.o.ContactRequestsPath = "/my/list", "/my/list"
	for body, good := range map[string]bool{
		`{"my":{"list":[{"propertyReferenceId":"r"}]},"results":[` + one + `]}`: true,
		`{"my":{"list":[]},"results":[` + one + `]}`:                            true,
		`{"my":{"list":[1]}}`: false,
		`{"results":[]}`:      false,
		`[]`:                  false,
	} {
		_, err := c.insertionsPage(&exchange{request: Request{AgencyID: "A100"}, body: []byte(body)})
		_, err2 := c.contactRequestsPage(&exchange{request: Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "r"}, body: []byte(body)})
		if (err == nil) != good || (err2 == nil) != good {
			t.Errorf("%s: %v, %v", body, err, err2)
		}
	}
}

const lead = `{"id":7,"createdAt":"2026-11-20T10:41:07+0100","score":72.5,"email":"n@example.org"}`

func TestContactRequestsAreFoundByNameOrByWhatTheyLookLike(t *testing.T) {
	for _, row := range []struct {
		body, path string
		n, total   int
	}{
		{`[` + lead + `]`, "", 1, -1},
		{`[{"anything":1}]`, "", 1, -1},
		{`{"contactRequests":[` + lead + `],"total":1}`, "/contactRequests", 1, 1},
		{`{"contact_requests":[{"x":1}]}`, "/contact_requests", 1, -1},
		{`{"leads":[{"x":1}],"agents":[` + lead + `]}`, "/leads", 1, -1},
		{`{"items":[` + lead + `],"totalNumberOfItems":31,"numberOfItemsPerPage":20}`, "/items", 1, 31},
		{`{"items":[{"x":1}],"page":1}`, "/items", 1, -1},
		{`{"data":{"inquiries":[{"x":1}],"total":4}}`, "/data/inquiries", 1, 4},
		{`{"data":{"page":{"leads":[{"x":1}]}}}`, "/data/page/leads", 1, -1},
		{`{"odd":[` + lead + `]}`, "/odd", 1, -1},
		{`{"odd":[{"x":1}]}`, "/odd", 1, -1},
		{`{"odd":[` + lead + `],"links":[{"rel":"self"}]}`, "/odd", 1, -1},
		{`{"odd":[{"email":"x"}],"links":[{"rel":"self"}]}`, "/odd", 1, -1},
		{`{"items":[],"odd":[` + lead + `]}`, "/odd", 1, -1},
		{`{"contactRequests":[],"agents":[` + lead + `]}`, "/contactRequests", 0, -1},
		{`{"items":[],"links":[{"rel":"self"}]}`, "/items", 0, -1},
		{`{"items":[{"type":"x"}],"results":[` + lead + `]}`, "/results", 1, -1},
		{`[]`, "", 0, -1},
		{`{"leads":[],"total":3}`, "/leads", 0, 3},
		{`{"requests":[],"leads":[]}`, "/leads", 0, -1},
		{`{"total":0}`, "", 0, 0},
		{`{"propertyReferenceId":"a#b##","leads":[{"propertyReferenceId":"a#b##"},{"property":{"objectReference":"a#b##"}}]}`, "/leads", 2, -1},
	} {
		t.Run(row.body, func(t *testing.T) {
			page, err := decodeContactRequests(t, row.body)
			if err != nil {
				t.Fatal(err)
			}
			if page.Path != row.path || len(page.ContactRequests) != row.n || page.Total != row.total {
				t.Errorf("path %q, %d found, total %d", page.Path, len(page.ContactRequests), page.Total)
			}
		})
	}
}

func TestWhatMayBeAnotherListIsDrift(t *testing.T) {
	for _, body := range []string{
		`{"a":[` + lead + `],"b":[` + lead + `]}`, `{"a":[{"x":1}],"b":[{"y":1}]}`, `{"odd":` + lead + `}`, `{"items":{"createdAt":"x"}}`, `{"items":{"createdAt":"x","id":1,"leads":{}}}`,
		`[{}]`, `[{"errorCode":"X","message":"x"}]`, `{"links":[{"rel":"x"}]}`, `{"leads":[{"agencyId":"B200"}]}`, `{"leads":[1,2]}`,
		`{"leads":[{"propertyReferenceId":"other"}]}`,
		`{"requests":[` + lead + `],"leads":[` + lead + `]}`, `{"items":[` + lead + `],"data":[` + lead + `]}`,
		`{"propertyReferenceId":"other","leads":[]}`, `{"objectReference":"other","leads":[` + lead + `]}`, `{"agencyId":"B200","leads":[]}`,
	} {
		page, err := decodeContactRequests(t, body)
		assertDrift(t, "contact requests", body, page == nil, err)
	}
}

func TestTwoListsThatHoldAsManyInsertionsAreDrift(t *testing.T) {
	for _, body := range []string{
		`{"results":[` + one + `],"items":[` + one + `]}`, `{"a":[` + one + `],"b":[{"x":1},` + one + `]}`, `{"data":` + one + `,"item":` + one + `,"result":` + one + `}`,
	} {
		page, err := decodeInsertions(t, body)
		assertDrift(t, "insertions", body, page == nil, err)
	}
}

func TestATotalInAHeaderCountsForAPlainArray(t *testing.T) {
	for header, want := range map[string]int{"12": 12, "": -1, "-1": -1, "x": -1} {
		x := &exchange{request: Request{AgencyID: "A100"}, header: map[string][]string{"X-Total-Count": {header}}, body: []byte("[" + one + "]")}
		page, err := bare(t).insertionsPage(x)
		if err != nil || page.Total != want {
			t.Errorf("%q: %+v %v", header, page, err)
		}
	}
}

func TestReferencesAndTotalsAreReadInEveryStyle(t *testing.T) {
	for _, row := range []struct {
		body, path, references string
		total                  int
	}{
		{`{"Objects":[{"PropertyReferenceId":"r"}],"Paging":{"TotalCount":3}}`, "/Objects", "r", 3},
		{`{"List":[{"property_reference_id":"r"}],"TotalCount":3}`, "/List", "r", 3},
		{`{"list":[{"property-reference-id":"r"}],"total-count":3}`, "/list", "r", 3},
		{`{"data":{"insertions":{"edges":[{"cursor":"c","node":` + one + `}],"totalCount":8}}}`, "/data/insertions/edges", "a#b##", 8},
		{`{"data":[{"id":"1","type":"insertion","attributes":` + one + `}],"meta":{"page":{"total":8}}}`, "/data", "a#b##", 8},
		{`{"hits":{"total":{"value":8,"relation":"eq"},"hits":[{"_id":"1","_source":` + one + `}]}}`, "/hits/hits", "a#b##", 8},
		{`{"results":[{"objectReference":"o","propertyReferenceId":"p"}]}`, "/results", "p", -1},
		{`{"results":[{"propertyReferenceId":null,"objectReference":"o"}]}`, "/results", "o", -1},
		{`{"results":{"id":1,"listing":` + one + `}}`, "/results", "a#b##", -1},
		{`{"response":{"data":{"items":[` + one + `]},"paging":{"total":8}}}`, "/response/data/items", "a#b##", 8},
		{`{"results":[{"agencyId":"a100",` + one[1:] + `]}`, "/results", "a#b##", -1},
		{`{"results":[{"agencyId":"immo-ag",` + one[1:] + `]}`, "/results", "a#b##", -1},
	} {
		page, err := decodeInsertions(t, row.body)
		if err != nil {
			t.Errorf("%s: %v", row.body, err)
			continue
		}
		if page.Path != row.path || references(page) != row.references || page.Total != row.total {
			t.Errorf("%s: path %q, references %q, total %d", row.body, page.Path, references(page), page.Total)
		}
	}
}

func TestTotalsOfHeadersCountWhereTheBodyTellsNone(t *testing.T) {
	for _, row := range []struct {
		name, value, body string
		total             int
	}{
		{"X-Total-Count", "12", "[" + one + "]", 12},
		{"X-Total", " 12 ", `{"results":[` + one + `]}`, 12},
		{"X-Total-Count", "12", `{"results":[` + one + `],"total":9}`, 9},
		{"Content-Range", "items 0-19/163", "[" + one + "]", 163},
		{"Content-Range", "bytes 0-19/163", "[" + one + "]", -1},
		{"Content-Range", "items 0-19/*", "[" + one + "]", -1},
		{"X-Total-Count", "99999999999999", "[" + one + "]", -1},
	} {
		x := &exchange{request: Request{AgencyID: "A100"}, header: map[string][]string{row.name: {row.value}}, body: []byte(row.body)}
		page, err := bare(t).insertionsPage(x)
		if err != nil || page.Total != row.total {
			t.Errorf("%s %q: %+v %v", row.name, row.value, page, err)
		}
	}
}
