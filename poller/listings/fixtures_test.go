package listings

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"doorbell/poller/listings/listingstest"
)

func TestEveryResponseMeansWhatItShould(t *testing.T) {
	fixtures := listingstest.Fixtures()
	names := map[string]bool{}
	for _, f := range fixtures {
		names[f.Name] = true
		t.Run(f.Name+"/"+f.Operation, func(t *testing.T) {
			got, err := outcomeOf(t, f)
			if want := f.Want; !reflect.DeepEqual(got, want) {
				t.Errorf("%v\n%+v, want\n%+v", err, got, want)
			}
			assertNoExample(t, err)
		})
	}
	if len(names) < 300 || len(fixtures) < 450 {
		t.Errorf("%d responses, %d fixtures: some have moved", len(names), len(fixtures))
	}
}

// outcomeOf requests a fixture over a real connection. What the fixture does not mention is left
// out.
func outcomeOf(t *testing.T, f listingstest.Fixture) (listingstest.Outcome, error) {
	t.Helper()
	server := httptest.NewServer(f)
	defer server.Close()
	// A bomb is read to the limit: an eighth of the usual one is enough.
	c := newClient(t, func(o *Options) { o.BaseURL, o.MaxBody = server.URL, 4<<20 })
	learned := Place{}
	if f.Learned != nil {
		learned = Place{Path: *f.Learned, Known: true}
	}
	var o listingstest.Outcome
	if f.Operation == listingstest.Insertions {
		page, err := c.Insertions(t.Context(), testKey, listingstest.Agency, InsertionsQuery{Place: learned})
		if err != nil {
			return failed(t, err), err
		}
		for _, i := range page.Insertions {
			o.List = append(o.List, listingstest.Record{ID: i.Reference, Defects: i.Defects})
		}
		if f.Want.Texts != nil {
			o.Texts = map[string]string{"title": page.Insertions[0].Summary().Title}
		}
		return counted(o, page.Envelope, f.Want), nil
	}
	q := ContactRequestsQuery{Place: learned}
	page, err := c.ContactRequests(t.Context(), testKey, listingstest.Agency, listingstest.Reference, q)
	if err != nil {
		return failed(t, err), err
	}
	for n, r := range page.ContactRequests {
		id := ""
		for _, name := range IDFields {
			id = cmp.Or(id, r.ID(name))
		}
		o.List = append(o.List, listingstest.Record{ID: id, Defects: r.Defects})
		if n == 0 {
			o = personOf(o, r, f.Want)
		}
	}
	return counted(o, page.Envelope, f.Want), nil
}

func personOf(o listingstest.Outcome, r ContactRequest, want listingstest.Outcome) listingstest.Outcome {
	c := r.Contact()
	if want.Created != nil {
		o.Created = &r.CreatedAt
	}
	if want.Email != "" {
		o.Email = c.Email
	}
	texts := map[string]string{
		"first": c.FirstName, "last": c.LastName, "full": c.FullName, "phone": c.Phone, "message": c.Message,
	}
	for name := range want.Texts {
		if o.Texts == nil {
			o.Texts = map[string]string{}
		}
		o.Texts[name] = texts[name]
	}
	return o
}

func counted(o listingstest.Outcome, e Envelope, want listingstest.Outcome) listingstest.Outcome {
	o.Kind, o.Total, o.Path, o.Found, o.Unreadable = listingstest.Records, e.Total, e.Path, e.Found, e.Unreadable
	if want.Claims != "" {
		o.Claims = e.Claims.String()
	}
	return o
}

func failed(t *testing.T, err error) listingstest.Outcome {
	t.Helper()
	o := listingstest.Outcome{Total: -1}
	s, isStatus := errors.AsType[*StatusError](err)
	switch {
	case is[*DriftError](err):
		o.Kind = listingstest.Drift
	case isStatus:
		o.Kind, o.Status, o.BodyKind, o.RetryAfter = listingstest.Status, s.Status, string(s.Body), s.RetryAfter
		isNamed := s.AgencyID == listingstest.Agency && strings.Contains(s.Error(), http.StatusText(s.Status))
		if !isNamed || strings.Contains(s.Error(), "bot challenge") != (s.Body == BodyChallenge) {
			t.Error(s)
		}
	case is[*TransportError](err):
		o.Kind = listingstest.Transport
	case errors.Is(err, ErrBodyTooLarge):
		o.Kind = listingstest.TooLarge
	}
	return o
}

// assertNoExample looks for the address that is in many of the responses.
func assertNoExample(t *testing.T, err error) {
	t.Helper()
	for ; err != nil; err = errors.Unwrap(err) {
		if strings.Contains(err.Error(), "example.org") {
			t.Errorf("quotes what it read: %v", err)
		}
	}
}

// String writes claims as the fixtures do.
func (c Claims) String() string {
	var list []string
	for _, claim := range []struct {
		name string
		made bool
	}{
		{"more", c.More == Claimed},
		{"last", c.More == Denied},
		{fmt.Sprint("pages ", c.Pages), c.Pages > 0},
		{"incomplete", c.Incomplete},
	} {
		if claim.made {
			list = append(list, claim.name)
		}
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}
