package listings

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

func TestReferencesAreEscapedByteByByte(t *testing.T) {
	for _, row := range []struct{ reference, line string }{
		{"seefeld#1203#H2#0305", "seefeld%231203%23H2%230305"},
		{"a#b##", "a%23b%23%23"},
		{"###x", "%23%23%23x"},
		{"#", "%23"},
		{"104/001", "104%2F001"},
		{"100%", "100%25"},
		{"%23", "%2523"},
		{"Zürich ä", "Z%C3%BCrich%20%C3%A4"},
		{"a b", "a%20b"},
		{"a+b&c=d;e,f:g@h!$'()*", "a%2Bb%26c%3Dd%3Be%2Cf%3Ag%40h%21%24%27%28%29%2A"},
		{`back\slash`, "back%5Cslash"},
		{"?q", "%3Fq"},
		{"~tilde-dash_under.dot", "~tilde-dash_under.dot"},
		{"...", "..."},
		{"a\xffb", "a%FFb"},
		{"//x", "%2F%2Fx"},
	} {
		t.Run(row.reference, func(t *testing.T) {
			a := serve(t, body("[]"))
			_, err := a.client(t).ContactRequests(t.Context(), testKey, "A100", row.reference, ContactRequestsQuery{})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := a.requests()[0], "GET /ubm-contact-request/property/"+row.line; got != want {
				t.Errorf("request line %s, want %s", got, want)
			}
		})
	}
}

func TestSpellingsOfOneReferenceAreTheSame(t *testing.T) {
	const asked = "a100#zürich#03##"
	escaped := url.PathEscape(asked)
	for spelled, same := range map[string]bool{
		"a100#zürich#03": true, "a100#zürich#03#": true, "a100#zürich#03###": true, " " + asked + " ": true, "A100#ZÜRICH#03##": true,
		escaped: true, strings.ToLower(escaped): true, url.PathEscape("A100#ZÜRICH#03"): true, "a100#zu\u0308rich#03##": true,
		"a100#zürich#04##": false, "a100##zürich#03": false, "-": false, "4711": false, "": false,
	} {
		if sameReference(spelled, asked) != same {
			t.Errorf("%q: the same is not %t", spelled, same)
		}
	}
}

func TestBothOperationsSendAllTheirParameters(t *testing.T) {
	a := serve(t, body("[]"))
	c := a.client(t, func(o *Options) { o.BaseURL += "/api%2Fv0/" })
	q := InsertionsQuery{PageSize: 50, Page: 3, Other: url.Values{"offerType": {"RENT"}, "searchQuery": {"8005 Zürich+"}, "page": {"9"}}}
	if _, err := c.Insertions(t.Context(), testKey, "A/1", q); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ContactRequests(t.Context(), testKey, "A1", "r", ContactRequestsQuery{NumberOfItemsPerPage: 100, SortBy: "score", SortOrder: "asc"}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GET /api%2Fv0/insertion-funnel/integration/A%2F1/insertions?offerType=RENT&page=3&pageSize=50&searchQuery=8005%20Z%C3%BCrich%2B",
		"GET /api%2Fv0/ubm-contact-request/property/r?numberOfItemsPerPage=100&sortBy=score&sortOrder=asc",
	}
	for i, got := range a.requests() {
		if got != want[i] {
			t.Errorf("request line\n%s, want\n%s", got, want[i])
		}
	}
	if q.Other.Get("page") != "9" {
		t.Error("the caller's values were changed")
	}
}

func TestAnInvalidPathSegmentIsNeverSent(t *testing.T) {
	a := serve(t, body("[]"))
	c := a.client(t)
	for _, reference := range []string{"", ".", "..", "a/../b", "../x", `a\..\b`, "a/./b", "a\x00b", "a\nb", "\x7f", strings.Repeat("x", maxReference+1)} {
		_, err := c.ContactRequests(t.Context(), testKey, "A100", reference, ContactRequestsQuery{})
		if !errors.Is(err, ErrReference) {
			t.Errorf("reference %q: %v", reference, err)
		}
		_, err = c.Insertions(t.Context(), testKey, reference, InsertionsQuery{})
		if !errors.Is(err, ErrReference) {
			t.Errorf("agency %q: %v", reference, err)
		}
	}
	if n := len(a.requests()); n > 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestEveryRequestCarriesTheSameHeaders(t *testing.T) {
	a := serve(t, body("[]"))
	c := a.client(t)
	if _, err := c.insertions(t); err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Authorization": {"ApiKey " + sentinelKey}, "User-Agent": {"doorbell/1.2.3"}, "Accept": {"application/json"},
		"Accept-Encoding": {"gzip"}, "Cache-Control": {"no-cache"},
	}
	for name, values := range want {
		if got := a.heads[0][name]; len(got) != 1 || got[0] != values[0] {
			t.Errorf("%s: want %s", name, values)
		}
	}
	if len(a.heads[0]) != len(want) {
		t.Errorf("%d headers, want %d", len(a.heads[0]), len(want))
	}
}

func TestARequestPrintsAShortHarmlessReference(t *testing.T) {
	for reference, want := range map[string]string{
		"bäckerstrasse#1##": "bäckerstrasse#1##", "a\u202eb": `"a\u202eb"`, "a\nb": `"a\nb"`,
		strings.Repeat("ä", 60): strings.Repeat("ä", 50) + "…", "x" + strings.Repeat("ä", 60): `"x` + strings.Repeat("ä", 49) + `\xc3…"`,
	} {
		if got := (Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: reference}).String(); got != "contact_requests of agency A100, insertion "+want {
			t.Errorf("%q: %s", reference, got)
		}
	}
}
