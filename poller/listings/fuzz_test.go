package listings

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"html"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"doorbell/poller/listings/listingstest"
)

// seed adds the bodies of all answers; a fuzzer is content with none, so that a corpus that moved would go unnoticed.
func seed(f *testing.F) {
	f.Helper()
	n := 0
	for _, x := range listingstest.Fixtures() {
		if len(x.Body) <= 4<<10 {
			f.Add(x.Body)
			n++
		}
	}
	if n < 300 {
		f.Fatalf("%d answers: some have moved", n)
	}
	for _, s := range odd {
		if len(s) < 1000 {
			f.Add([]byte(s))
		}
	}
}

func FuzzInsertions(f *testing.F) {
	seed(f)
	c := bare(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := fuzzInsertions(t, c, body)
		if err != nil {
			assertQuiet(t, err, page == nil)
			_, err = fuzzInsertions(t, c, planted(body))
			assertUnquoted(t, err)
			return
		}
		if page.Total < -1 || !jsontext.Pointer(page.Path).IsValid() || !page.Found && len(page.Insertions) > 0 {
			t.Fatalf("%+v", page.Envelope)
		}
		said := scalarsOf(body)
		for _, i := range page.Insertions {
			assertProper(t, i.Record)
			if i.Reference == "" || len(i.Reference) > maxReference || !said[i.Reference] {
				t.Fatalf("reference %q", i.Reference)
			}
			if _, err := Digest(i.Record, []string{"/views", "/a/0"}); err != nil {
				t.Fatal(err)
			}
			if s := i.Summary(); s.Price != nil && s.Price.Amount == "" {
				t.Fatal("a price without amount")
			}
		}
		assertSameInsertions(t, c, page, respelled(body))
	})
}

func fuzzInsertions(t *testing.T, c *Client, body []byte) (*InsertionsPage, error) {
	t.Helper()
	x := &exchange{request: Request{Operation: OperationInsertions, AgencyID: "A100"}, status: 200, body: bytes.Clone(body)}
	return c.insertionsPage(x)
}

func assertSameInsertions(t *testing.T, c *Client, page *InsertionsPage, again []byte) {
	t.Helper()
	if again == nil {
		return
	}
	other, err := fuzzInsertions(t, c, again)
	if err != nil || other.Path != page.Path || other.Total != page.Total || len(other.Insertions) != len(page.Insertions) {
		t.Fatalf("members in another order: %+v, then %+v, %v", page, other, err)
	}
	for n, i := range page.Insertions {
		a, _ := Digest(i.Record, nil)
		b, _ := Digest(other.Insertions[n].Record, nil)
		if a != b || i.Reference != other.Insertions[n].Reference {
			t.Fatal("members in another order make another insertion")
		}
	}
}

func FuzzContactRequests(f *testing.F) {
	seed(f)
	c := bare(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := fuzzContactRequests(c, body, Place{})
		if err != nil {
			assertQuiet(t, err, page == nil)
			_, err = fuzzContactRequests(c, planted(body), Place{})
			assertUnquoted(t, err)
			return
		}
		said := scalarsOf(body)
		for _, r := range page.ContactRequests {
			assertContactRequest(t, r, said)
		}
		_, err = jsontext.AppendFormat(nil, trimBOM(body), jsontext.AllowInvalidUTF8(true))
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return // a path names no one place
		}
		known, err := fuzzContactRequests(c, body, Place{Path: page.Path, Known: page.Found})
		if err != nil || known.Total != page.Total || known.Unreadable != page.Unreadable || len(known.ContactRequests) != len(page.ContactRequests) {
			t.Fatalf("where it was: %+v, then %+v, %v", page, known, err)
		}
		for n, r := range page.ContactRequests {
			assertContactRequest(t, known.ContactRequests[n], said)
			if r.decoded, known.ContactRequests[n].decoded = (value{}), (value{}); !reflect.DeepEqual(r, known.ContactRequests[n]) {
				t.Fatalf("another contact request where it was: %+v, %+v", r, known.ContactRequests[n])
			}
		}
		again := respelled(body)
		if again == nil {
			return
		}
		other, err := fuzzContactRequests(c, again, Place{})
		if err != nil || other.Path != page.Path || other.Total != page.Total || len(other.ContactRequests) != len(page.ContactRequests) {
			t.Fatalf("members in another order: %+v, then %+v, %v", page, other, err)
		}
		for n, r := range page.ContactRequests {
			assertSameContactRequest(t, r, other.ContactRequests[n])
		}
	})
}

func fuzzContactRequests(c *Client, body []byte, known Place) (*ContactRequestsPage, error) {
	r := Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}
	return c.contactRequestsPage(&exchange{request: r, place: known, status: 200, body: body})
}

func assertContactRequest(t *testing.T, r ContactRequest, said map[string]bool) {
	t.Helper()
	assertProper(t, r.Record)
	if r.Score != nil && !json.Valid(r.Score) {
		t.Fatalf("score %q", r.Score)
	}
	if _, err := json.Marshal(r.CreatedAt); err != nil {
		t.Fatal(err)
	}
	p := r.Contact()
	if p.Phone != "" && (p.PhoneRaw == "" || !strings.HasPrefix(p.Phone, "+")) {
		t.Fatalf("phone %q of %q", p.Phone, p.PhoneRaw)
	}
	assertNothingInvented(t, p, said)
	for _, o := range r.OtherIDs(IDFields) {
		if !said[o.Value] {
			t.Fatalf("id %q was invented", o.Value)
		}
	}
	if printOf(r, "a#b##") == printOf(r, "a#b#") {
		t.Fatal("the fingerprint does not know the insertion")
	}
	assertReadAsAlone(t, r)
}

// assertNothingInvented holds every word of a person against those that the body says, entities and
// the forms of addresses resolved.
func assertNothingInvented(t *testing.T, p Contact, said map[string]bool) {
	t.Helper()
	words := map[string]bool{}
	for text := range said {
		name, address := mailbox(text)
		for word := range strings.FieldsSeq(strings.Join([]string{text, html.UnescapeString(text), name, address}, " ")) {
			words[word] = true
		}
	}
	texts := []string{p.FirstName, p.LastName, p.FullName, p.Email, p.Message, p.Company, p.Language}
	for word := range strings.FieldsSeq(strings.Join(texts, " ")) {
		if !words[word] {
			t.Fatalf("%q was invented", word)
		}
	}
}

// assertReadAsAlone holds what was found in a record on the way, among others, against what its text says.
func assertReadAsAlone(t *testing.T, r ContactRequest) {
	t.Helper()
	alone := ContactRequest{Record: r.Record, CreatedAt: r.CreatedAt}
	if r.Digest(Outside{}) != alone.Digest(Outside{}) {
		t.Fatalf("another digest of %s", r.Record)
	}
	if !reflect.DeepEqual(r.Contact(), alone.Contact()) || !slices.Equal(r.PersonFields(), alone.PersonFields()) || printOf(r, "a") != printOf(alone, "a") {
		t.Fatalf("read in another way among others: %s", r.Record)
	}
	for _, name := range IDFields {
		if r.ID(name) != alone.ID(name) {
			t.Fatalf("another id among others: %s", r.Record)
		}
	}
}

func assertSameContactRequest(t *testing.T, a, b ContactRequest) {
	t.Helper()
	if printOf(a, "r") != printOf(b, "r") || !a.CreatedAt.Equal(b.CreatedAt) || !slices.Equal(a.PersonFields(), b.PersonFields()) {
		t.Fatalf("members in another order make another contact request: %s, %s", a.Record, b.Record)
	}
	for _, name := range IDFields {
		if a.ID(name) != b.ID(name) {
			t.Fatalf("members in another order make another id: %s, %s", a.Record, b.Record)
		}
	}
}

// respelled is a body with its members sorted and much white space; nil where a name stands twice, so that the order
// counts, or where texts are broken.
func respelled(body []byte) []byte {
	again, err := jsontext.AppendFormat(nil, trimBOM(body), jsontext.Multiline(true), jsontext.ReorderRawObjects(true))
	if err != nil {
		return nil
	}
	return again
}

const sentinel = "SENTINELPERSON"

// planted is a body whose every text begins with a sentinel, and which is followed by one.
func planted(body []byte) []byte {
	planted := bytes.ReplaceAll(body, []byte(`:"`), []byte(`:"`+sentinel))
	return append(bytes.ReplaceAll(planted, []byte(`["`), []byte(`["`+sentinel)), sentinel...)
}

func assertUnquoted(t *testing.T, err error) {
	t.Helper()
	if err == nil || strings.Contains(err.Error(), sentinel) {
		t.Fatalf("quotes what it read, or reads garbage: %v", err)
	}
}

// scalarsOf are all texts and numbers of a body, as they are and trimmed.
func scalarsOf(body []byte) map[string]bool {
	said := map[string]bool{}
	d := jsontext.NewDecoder(bytes.NewReader(trimBOM(body)), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return said
		}
		if k := token.Kind(); k == jsontext.KindString || k == jsontext.KindNumber {
			said[token.String()], said[strings.TrimSpace(token.String())] = true, true
		}
	}
}

func FuzzDigest(f *testing.F) {
	seed(f)
	f.Add([]byte(`{"\ue000":1,"😀":2,"\uffff":3,"a":{"😀😀":4,"😀\ue000":5,"😀":6,"ä":7}}`)) // sorted by UTF-16
	f.Fuzz(func(t *testing.T, record []byte) {
		whole, err := Digest(record, nil)
		if err != nil {
			assertUnquoted(t, err)
			_, err = Digest(planted(record), []string{"/a"})
			assertUnquoted(t, err)
			return
		}
		if again, err := Digest(respelled(record), []string{"/no such member", ""}); err != nil || again != whole {
			t.Fatalf("%s in another order: %v", record, err)
		}
		canonical, err := jsontext.AppendFormat(nil, record, jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true))
		if err != nil || sha256.Sum256(canonical) != whole {
			t.Fatalf("%s: not the digest of %s, %v", record, canonical, err)
		}
		root, _ := decode(record)
		for _, m := range root.object() {
			name := m.name.text
			ignored, err := Digest(record, []string{string(jsontext.Pointer("").AppendToken(name))})
			if err != nil || ignored == whole {
				t.Fatalf("%s without %q is the same, %v", record, name, err)
			}
		}
	})
}

// assertQuiet holds an error to what it may say. Bodies of the fuzzer are too short to look for excerpts; what may stand
// there is a fixed vocabulary around the names of members.
func assertQuiet(t *testing.T, err error, nothing bool) {
	t.Helper()
	var drift *DriftError
	if !errors.As(err, &drift) || !nothing {
		t.Fatalf("%T %v", err, err)
	}
	if strings.ContainsFunc(err.Error(), isControl) || len(err.Error()) > 1000 || strings.Contains(err.Error(), "nora") {
		t.Fatalf("%q", err)
	}
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-11-20T09:41:07Z", "2026-11-20T10:41:07+0100", "2026-10-25T02:30:00", "1795167667", "1795167667123", "1795167667.5", "1795167667123456789", "Fri, 20 Nov 2026 10:41:07 +0100 (CET)", "2026-11-20 09:41 UTC", "", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"} {
		f.Add(s)
	}
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, form := instant(valueOf(quote(s)), zurich)
		if got.IsZero() {
			return
		}
		earliest := 1999
		if form == FormOffset || form == FormZoneless {
			earliest = 1990
		}
		if got.Location() != time.UTC || got.Year() < earliest || got.After(time.Now().AddDate(10, 0, 1)) {
			t.Fatalf("%q: %v", s, got)
		}
		if again, _ := instant(valueOf(quote(got.Format(time.RFC3339Nano))), zurich); !again.Equal(got) {
			t.Fatalf("%q: %v comes back as %v", s, got, again)
		}
	})
}
