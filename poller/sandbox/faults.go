package sandbox

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// NamedFault is one of the ready ones.
type NamedFault struct {
	Name        string
	Description string
	Fault       Fault // a copy of one's own
}

// Faults returns a ready fault for everything that services are known to do wrong,
// to be taken as it is or combined with other fields. Those whose [Fault.Good] is
// true leave an answer that serves what it shows:
//
//	drip, late, wrong_type, stale, absent, renamed, reshaped, bad_utf8,
//	half_surrogate, name_twice; of contact requests also unnamed
//
// After all others the answer served nothing, whatever of it arrived.
func Faults() []NamedFault {
	return slices.Concat(statusFaults(), bodyFaults(), connectionFaults(), contentFaults())
}

// FaultNamed looks one of them up.
func FaultNamed(name string) (Fault, bool) {
	for _, f := range Faults() {
		if f.Name == name {
			return f.Fault, true
		}
	}
	return Fault{}, false
}

func statusFaults() []NamedFault {
	return []NamedFault{
		{"400", "status 400", Refuse(http.StatusBadRequest)},
		{"401", "status 401", Refuse(http.StatusUnauthorized)},
		{"403", "status 403 in the API's own words", Refuse(http.StatusForbidden)},
		{"403_gateway", "status 403 in a gateway's words", Fault{Status: http.StatusForbidden, Body: []byte(`{"message":"Missing Authentication Token"}`)}},
		{"403_html", "status 403 with a firewall's page", page403("<html><head><title>403 Forbidden</title></head><body>Blocked</body></html>", "text/html")},
		{"403_challenge", "status 403 with the address of a captcha", page403(`{"url":"https://geo.captcha-delivery.example/captcha/?cid=1"}`, "application/json")},
		{"404", "status 404", Refuse(http.StatusNotFound)},
		{"410", "status 410", Refuse(http.StatusGone)},
		{"429", "status 429 without Retry-After", Refuse(http.StatusTooManyRequests)},
		{"429_seconds", "status 429, Retry-After 20", RefuseUntil(http.StatusTooManyRequests, "20")},
		{"429_date", "status 429, Retry-After a date, in the past", RefuseUntil(http.StatusTooManyRequests, "Fri, 31 Dec 1999 23:59:59 GMT")},
		{"429_negative", "status 429, Retry-After -5", RefuseUntil(http.StatusTooManyRequests, "-5")},
		{"429_huge", "status 429, Retry-After beyond any number", RefuseUntil(http.StatusTooManyRequests, "99999999999999999999")},
		{"500", "status 500", Refuse(http.StatusInternalServerError)},
		{"502", "status 502 with a proxy's page", Fault{Status: http.StatusBadGateway, Body: []byte(htmlPage), Header: http.Header{"Content-Type": {"text/html"}}}},
		{"503", "status 503 without Retry-After", Refuse(http.StatusServiceUnavailable)},
		{"503_seconds", "status 503, Retry-After 20", RefuseUntil(http.StatusServiceUnavailable, "20")},
		{"redirect", "status 302 to another host", Fault{Status: http.StatusFound, Body: []byte{}, Header: http.Header{"Location": {"http://elsewhere.example/"}}}},
	}
}

const htmlPage = "<!DOCTYPE html><html><head><title>Maintenance</title></head><body><h1>Back soon</h1></body></html>"

func page403(body, contentType string) Fault {
	return Fault{Status: http.StatusForbidden, Body: []byte(body), Header: http.Header{"Content-Type": {contentType}}}
}

func bodyFaults() []NamedFault {
	const jsonType = "application/json"
	return []NamedFault{
		{"html", "status 200 with a page", Instead("text/html", htmlPage)},
		{"empty", "status 200 with no body", Fault{Body: []byte{}}},
		{"null", "status 200 with null", Instead(jsonType, "null")},
		{"object", "status 200 with {}", Instead(jsonType, "{}")},
		{"error", "status 200 with an error in it", Instead(jsonType, `{"error":{"code":"INTERNAL","message":"try again later"}}`)},
		{"unsuccessful", "status 200 that says success: false", Instead(jsonType, `{"success":false,"message":"try again later"}`)},
		{"garbage", "an honest body with something behind it", Fault{Trailing: []byte(`{"more":`)}},
		{"bomb", "a body of 64 MiB that takes 64 KiB on the way", Fault{Body: bomb(), Header: http.Header{"Content-Type": {jsonType}, "Content-Encoding": {"gzip"}}}},
		{"encoding", "a Content-Encoding that nobody asked for", Fault{Header: http.Header{"Content-Encoding": {"br"}}}},
		{"flood", "an honest body behind 12 MiB of header", Fault{Header: flood(), Unserved: true}},
		{"wrong_type", "an honest body that calls itself text/html", Fault{Header: http.Header{"Content-Type": {"text/html"}}}},
	}
}

// bomb unpacks to one long text.
var bomb = sync.OnceValue(func() []byte {
	return compress([]byte(`["` + strings.Repeat("A", 64<<20) + `"]`))
})

var flood = sync.OnceValue(func() http.Header {
	h := http.Header{}
	for n := range 12 << 4 {
		h.Set("X-Flood-"+strconv.Itoa(n), strings.Repeat("a", 64<<10))
	}
	return h
})

func connectionFaults() []NamedFault {
	return []NamedFault{
		{"cut", "the connection ends in the middle of the body", Fault{CutShare: 0.5}},
		{"cut_late", "the connection ends at the last bytes of the body", Fault{CutShare: 0.999}},
		{"hangup", "the connection ends before the status", Fault{CutAfter: -1}},
		{"reset", "the connection is reset before the status", Fault{CutAfter: -1, Reset: true}},
		{"reset_body", "the connection is reset in the middle of the body", Fault{CutShare: 0.5, Reset: true}},
		{"late", "an honest answer after 10 s", Fault{Delay: 10 * time.Second}},
		{"drip", "an honest body that takes 20 s", Fault{Drip: 20 * time.Second}},
		{"stuck", "no answer for an hour", Fault{Delay: time.Hour, Unserved: true}},
	}
}

func contentFaults() []NamedFault {
	reshaped := named()
	return []NamedFault{
		{"another", "the answer about another insertion or agency", Fault{Another: true}},
		{"stale", "what was true ten minutes ago", Fault{Age: 10 * time.Minute}},
		{"absent", "the newest record is missing", Fault{Newest: 1}},
		{"renamed", "offerType and language are called otherwise", Fault{Rename: map[string]string{"offerType": "offer_kind", "language": "lang_code"}}},
		{"unnamed", "the reference is called otherwise", Fault{Rename: map[string]string{reference: "ref"}}},
		{"reshaped", "another envelope", Fault{Rendering: &reshaped}},
		{"bad_utf8", "bytes that are no UTF-8 in the first record", Fault{Damage: BadUTF8}},
		{"half_surrogate", "half a character in the first record", Fault{Damage: HalfSurrogate}},
		{"name_twice", "a name twice in the first record", Fault{Damage: NameTwice}},
	}
}
