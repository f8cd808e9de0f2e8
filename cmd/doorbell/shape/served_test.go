package shape

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"doorbell/poller/listings"
	"doorbell/poller/listings/listingstest"
)

// reading is what the client makes of a response, without values.
type reading struct {
	Verdict    string
	Path       string
	Records    int
	Identified int
	IDField    string
	Unreadable int
	Counted    string // the total, by how it relates to the records
	Claims     listings.Claim
	Pages      bool
	Incomplete bool
	Defects    []string
	Times      []string
}

const testKey = "00000000-5a4d-4b0b-8a11-d00fbe110000"

// read asks once, as the fixture was asked.
func read(t *testing.T, base string, f listingstest.Fixture, transport http.RoundTripper) reading {
	t.Helper()
	c, err := listings.New(listings.Options{BaseURL: base, MaxBody: 4 << 20, Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	learned := listings.Place{}
	if f.Learned != nil {
		learned = listings.Place{Path: *f.Learned, Known: true}
	}
	var r reading
	note := func(e listings.Envelope, records int) {
		r.Verdict, r.Path, r.Records, r.Unreadable = "records", e.Path, records, e.Unreadable
		r.Claims, r.Pages, r.Incomplete = e.More, e.Pages > 0, e.Incomplete
		switch {
		case e.Total < 0:
			r.Counted = "no"
		case e.Total > records+e.Unreadable:
			r.Counted = "more"
		case e.Total == records+e.Unreadable:
			r.Counted = "as many"
		default:
			r.Counted = "fewer"
		}
		if !e.Found {
			r.Verdict = "none"
		}
	}
	if f.Operation == listingstest.Insertions {
		page, err := c.Insertions(context.Background(), listings.NewKey(testKey), listingstest.Agency, listings.InsertionsQuery{Place: learned})
		if err != nil {
			return reading{Verdict: verdict(err)}
		}
		note(page.Envelope, len(page.Insertions))
		met := map[string]bool{}
		for _, i := range page.Insertions {
			met[i.Reference] = true
			r.Defects = append(r.Defects, strings.Join(i.Defects, " "))
		}
		r.Identified = len(met)
		return r
	}
	page, err := c.ContactRequests(context.Background(), listings.NewKey(testKey), listingstest.Agency, listingstest.Reference, listings.ContactRequestsQuery{Place: learned})
	if err != nil {
		return reading{Verdict: verdict(err)}
	}
	note(page.Envelope, len(page.ContactRequests))
	for _, field := range listings.IDFields {
		met := map[string]bool{}
		for _, c := range page.ContactRequests {
			if id := c.ID(field); id != "" {
				met[id] = true
			}
		}
		if len(met) > r.Identified {
			r.Identified, r.IDField = len(met), field
		}
	}
	for _, c := range page.ContactRequests {
		r.Times = append(r.Times, c.CreatedForm)
		r.Defects = append(r.Defects, strings.Join(c.Defects, " "))
	}
	return r
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

// described asks a server once and describes what came.
func described(t *testing.T, server *httptest.Server, f listingstest.Fixture) (Response, bool) {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
			want, got := read(t, original.URL, f, transport), read(t, madeUp.URL, f, transport)
			if why := differs[f.Operation+"/"+f.Name]; same(got, want) == (why != "") {
				t.Errorf("read as\n%+v, the original as\n%+v\n%s", got, want, text)
			}
		})
	}
	if tried < 400 {
		t.Errorf("only %d responses were tried", tried)
	}
}

// differs are the responses whose form does not say what they are read by, each for its reason.
var differs = map[string]string{
	"insertions/mixture-depth-4":          "names of one letter, alone in objects, may be keys of a map",
	"insertions/mixture-too-deep-learned": "names of one letter, alone in objects, may be keys of a map",
	"insertions/family-7-total-in-header": "that a link leads to another server",
}

func same(a, b reading) bool {
	equal := slices.Equal(a.Defects, b.Defects) && slices.Equal(a.Times, b.Times)
	a.Defects, b.Defects, a.Times, b.Times = nil, nil, nil, nil
	return equal && fmtOf(a) == fmtOf(b)
}

func fmtOf(r reading) string { b, _ := json.Marshal(r); return string(b) }
