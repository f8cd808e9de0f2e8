package listings

import (
	"errors"
	"strings"
	"testing"
)

const one = `{"propertyReferenceId":"a#b##","title":"t"}`

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
