package shape

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"

	"doorbell/poller/listings"
	"doorbell/poller/listings/listingstest"
)

const testKey = "00000000-5a4d-4b0b-8a11-d00fbe110000"

// open is a gate that lets all pass.
type open struct{}

func (open) Wait(context.Context, listings.Request) error { return nil }
func (open) Done(listings.Request, listings.Outcome)      {}

// reading is what the client makes of a response to the request of a fixture, without values.
func reading(t *testing.T, base string, f listingstest.Fixture, transport http.RoundTripper) string {
	t.Helper()
	c, err := listings.New(listings.Options{BaseURL: base, MaxBody: 4 << 20, Transport: transport, Gate: open{}})
	must(t, err)
	learned := listings.Place{}
	if f.Learned != nil {
		learned = listings.Place{Path: *f.Learned, Known: true}
	}
	var e listings.Envelope
	var records []string // what is read of each
	names := map[string]map[string]bool{}
	meet := func(field, value string) {
		if names[field] == nil {
			names[field] = map[string]bool{}
		}
		names[field][value] = true
	}
	key := listings.NewKey(testKey)
	if f.Operation == listingstest.Insertions {
		page, err := c.Insertions(t.Context(), key, listingstest.Agency, listings.InsertionsQuery{Place: learned})
		if err != nil {
			return verdict(err)
		}
		e = page.Envelope
		for _, i := range page.Insertions {
			meet("reference", i.Reference)
			records = append(records, fmt.Sprint(i.Defects))
		}
	} else {
		page, err := c.ContactRequests(t.Context(), key, listingstest.Agency, listingstest.Reference,
			listings.ContactRequestsQuery{Place: learned})
		if err != nil {
			return verdict(err)
		}
		e = page.Envelope
		for _, r := range page.ContactRequests {
			for _, field := range listings.IDFields {
				meet(field, r.ID(field))
			}
			records = append(records, fmt.Sprint(r.CreatedForm, r.Defects))
		}
	}
	total := "none"
	if e.Total >= 0 {
		total = fmt.Sprint(cmp.Compare(e.Total, len(records)+e.Unreadable))
	}
	text := fmt.Sprintf("found %t at %s: %q, %d unreadable, total %s, more %v, pages %t, incomplete %t", e.Found,
		e.Path, records, e.Unreadable, total, e.More, e.Pages > 0, e.Incomplete)
	for _, field := range slices.Sorted(maps.Keys(names)) {
		text += fmt.Sprintf(", %d of %s", len(names[field]), field)
	}
	return text
}

func verdict(err error) string {
	var drift *listings.DriftError
	var status *listings.StatusError
	switch {
	case errors.As(err, &drift):
		return "drift"
	case errors.As(err, &status):
		return http.StatusText(status.Status) + " " + string(status.Body)
	}
	return "broken"
}

// described sends one request to a server and describes the response.
func described(t *testing.T, server *httptest.Server, f listingstest.Fixture) (Response, bool) {
	t.Helper()
	u, err := url.Parse(server.URL)
	must(t, err)
	r, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}})
	if err != nil {
		return Response{}, false
	}
	defer r.Body.Close()
	body, err := listings.ReadBody(r, 4<<20)
	if err != nil {
		return Response{}, false
	}
	a := Asked{Operation: Insertions, Agency: listingstest.Agency}
	if f.Operation == listingstest.ContactRequests {
		a.Operation, a.Reference = ContactRequests, listingstest.Reference
	}
	return Describe(a, r.StatusCode, r.Header, body), true
}

// written goes through the file, as check and sandbox do.
func written(t *testing.T, responses ...Response) (File, string) {
	t.Helper()
	text, err := json.Marshal(File{Version: Version, Note: Note, Responses: responses})
	must(t, err)
	f, err := Read(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return f, string(text)
}

// TestWhatIsServedAgainReadsAsTheOriginal gives the client every odd response that its own tests know,
// and what is made up in the form of it.
func TestWhatIsServedAgainReadsAsTheOriginal(t *testing.T) {
	tried := 0
	for _, f := range listingstest.Fixtures() {
		if f.Want.Kind == listingstest.Transport || f.Want.Kind == listingstest.TooLarge {
			continue
		}
		tried++
		t.Run(f.Operation+"/"+f.Name, func(t *testing.T) {
			original := httptest.NewServer(f)
			defer original.Close()
			response, ok := described(t, original, f)
			if !ok { // no content encoding that is known
				return
			}
			file, text := written(t, response)
			h := file.Handler(Options{})
			madeUp := httptest.NewServer(h)
			defer madeUp.Close()
			transport := &http.Transport{DisableKeepAlives: true, DisableCompression: true}
			want, got := reading(t, original.URL, f, transport), reading(t, madeUp.URL, f, transport)
			if why := differs[f.Operation+"/"+f.Name]; (got == want) == (why != "") {
				t.Errorf("read as\n%s, the original as\n%s\n%s", got, want, text)
			}
		})
	}
	if tried < 400 {
		t.Errorf("only %d responses were tried", tried)
	}
}

// differs are the responses whose form lacks what they are read by, each with its reason.
var differs = map[string]string{
	"insertions/mixture-depth-4":          "names of one letter, alone in objects, may be keys of a map",
	"insertions/mixture-too-deep-learned": "names of one letter, alone in objects, may be keys of a map",
	"insertions/family-7-total-in-header": "that a link leads to another server",
}
