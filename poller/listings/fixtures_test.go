package listings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/poller/listings/listingstest"
)

// answered is what came of a fixture, in its own terms.
type answered struct {
	Envelope
	list    []listingstest.Record
	created time.Time
	email   string
	texts   map[string]string
	err     error
}

// serveFixture asks for a fixture over a real connection.
func serveFixture(t testing.TB, f listingstest.Fixture) answered {
	t.Helper()
	server := httptest.NewServer(f)
	defer server.Close()
	c, err := New(Options{BaseURL: server.URL, MaxBody: 4 << 20}) // a bomb is read to the limit: an eighth of the usual one is enough
	if err != nil {
		t.Fatal(err)
	}
	defer c.closeIdle()
	learned := Place{}
	if f.Learned != nil {
		learned = Place{Path: *f.Learned, Known: true}
	}
	if f.Operation == listingstest.Insertions {
		page, err := c.Insertions(context.Background(), testKey, listingstest.Agency, InsertionsQuery{Place: learned})
		return insertionsAnswered(page, err)
	}
	page, err := c.ContactRequests(context.Background(), testKey, listingstest.Agency, listingstest.Reference, ContactRequestsQuery{Place: learned})
	return contactRequestsAnswered(page, err)
}

func insertionsAnswered(page *InsertionsPage, err error) answered {
	if err != nil {
		return answered{err: err}
	}
	a := answered{Envelope: page.Envelope}
	for n, i := range page.Insertions {
		if n == 0 {
			a.texts = map[string]string{"title": i.Summary().Title}
		}
		a.list = append(a.list, listingstest.Record{ID: i.Reference, Defects: i.Defects})
	}
	return a
}

func contactRequestsAnswered(page *ContactRequestsPage, err error) answered {
	if err != nil {
		return answered{err: err}
	}
	a := answered{Envelope: page.Envelope}
	for i, r := range page.ContactRequests {
		if i == 0 {
			c := r.Contact()
			a.created, a.email = r.CreatedAt, c.Email
			a.texts = map[string]string{"first": c.FirstName, "last": c.LastName, "full": c.FullName, "phone": c.Phone, "message": c.Message}
		}
		id := ""
		for _, name := range IDFields {
			id = cmp.Or(id, r.ID(name))
		}
		a.list = append(a.list, listingstest.Record{ID: id, Defects: r.Defects})
	}
	return a
}

func TestEveryAnswerMeansWhatItShould(t *testing.T) {
	fixtures := listingstest.Fixtures()
	names := map[string]bool{}
	for _, f := range fixtures {
		names[f.Name] = true
		t.Run(f.Name+"/"+f.Operation, func(t *testing.T) { assertOutcome(t, f, serveFixture(t, f)) })
	}
	if len(names) < 300 || len(fixtures) < 450 {
		t.Errorf("%d answers, %d fixtures: some have moved", len(names), len(fixtures))
	}
}

func assertOutcome(t *testing.T, f listingstest.Fixture, got answered) {
	t.Helper()
	want := f.Want
	if kind := kindOfOutcome(got); kind != want.Kind {
		t.Fatalf("%s (%v), want %s", kind, got.err, want.Kind)
	}
	assertNoExample(t, got.err)
	switch want.Kind {
	case listingstest.Status:
		var s *StatusError
		errors.As(got.err, &s)
		if s.Status != want.Status || string(s.Body) != want.BodyKind || s.RetryAfter != want.RetryAfter {
			t.Errorf("%+v", s)
		}
		isNamed := s.AgencyID == listingstest.Agency && strings.Contains(s.Error(), http.StatusText(s.Status))
		if !isNamed || strings.Contains(s.Error(), "bot challenge") != (s.Body == BodyChallenge) {
			t.Error(s)
		}
	case listingstest.Records:
		assertRecords(t, want, got)
	}
}

func kindOfOutcome(got answered) string {
	switch {
	case got.err == nil:
		return listingstest.Records
	case is[*DriftError](got.err):
		return listingstest.Drift
	case is[*StatusError](got.err):
		return listingstest.Status
	case is[*TransportError](got.err):
		return listingstest.Transport
	case errors.Is(got.err, ErrBodyTooLarge):
		return listingstest.TooLarge
	}
	return "an error that has no name"
}

func assertRecords(t *testing.T, want listingstest.Outcome, got answered) {
	t.Helper()
	same := slices.EqualFunc(got.list, want.List, func(a, b listingstest.Record) bool {
		return a.ID == b.ID && slices.Equal(a.Defects, b.Defects)
	})
	if !same {
		t.Errorf("records %v, want %v", got.list, want.List)
	}
	if got.Total != want.Total || got.Path != want.Path || got.Found != want.Found || got.Unreadable != want.Unreadable {
		t.Errorf("total %d, path %q, found %v, unreadable %d; want %+v", got.Total, got.Path, got.Found, got.Unreadable, want)
	}
	if claims := got.Claims.String(); want.Claims != "" && claims != want.Claims {
		t.Errorf("claims %s, want %s", claims, want.Claims)
	}
	if want.Created != nil && !got.created.Equal(*want.Created) {
		t.Errorf("created %v, want %v", got.created, *want.Created)
	}
	if want.Email != "" && got.email != want.Email {
		t.Errorf("another e-mail than %s", want.Email)
	}
	for name, text := range want.Texts {
		if got.texts[name] != text {
			t.Errorf("%s %q, want %q", name, got.texts[name], text)
		}
	}
}

// assertNoExample looks for the address that stands in many of the answers.
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
	}{{"more", c.More == Claimed}, {"last", c.More == Denied}, {fmt.Sprint("pages ", c.Pages), c.Pages > 0}, {"incomplete", c.Incomplete}} {
		if claim.made {
			list = append(list, claim.name)
		}
	}
	return cmp.Or(strings.Join(list, ", "), "none")
}
