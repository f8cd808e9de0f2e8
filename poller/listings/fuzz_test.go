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
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"doorbell/poller/listings/listingstest"
)

// seed adds the bodies of all responses; a fuzzer is content with none, so that a corpus that moved
// would go unnoticed.
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
		f.Fatalf("%d responses: some have moved", n)
	}
	for _, s := range odd {
		if len(s) < 1000 {
			f.Add([]byte(s))
		}
	}
}

// alike compares the records of two pages, whatever the order of their members.
func alike[R any](t *testing.T, a, b Envelope, as, bs []R, print func(R) any) {
	t.Helper()
	if a.Path != b.Path || a.Total != b.Total || a.Unreadable != b.Unreadable || len(as) != len(bs) {
		t.Fatalf("members in another order: %+v, then %+v", a, b)
	}
	for n := range as {
		if !reflect.DeepEqual(print(as[n]), print(bs[n])) {
			t.Fatalf("members in another order make another record: %+v, then %+v", as[n], bs[n])
		}
	}
}

func FuzzInsertions(f *testing.F) {
	seed(f)
	c := bare(f)
	read := func(body []byte) (*InsertionsPage, error) {
		return c.insertionsPage(asking(OperationInsertions, Place{}, string(body)))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := read(body)
		if err != nil {
			assertQuiet(t, err, page == nil)
			_, err = read(planted(body))
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
			if s := i.Summary(); s.Price != nil && s.Price.Amount == "" {
				t.Fatal("a price without amount")
			}
		}
		if again := respelled(body); again != nil {
			other, err := read(again)
			if err != nil {
				t.Fatal(err)
			}
			alike(t, page.Envelope, other.Envelope, page.Insertions, other.Insertions, func(i Insertion) any {
				return []any{i.Reference, i.Digest, i.Summary()}
			})
		}
	})
}

func FuzzContactRequests(f *testing.F) {
	seed(f)
	c := bare(f)
	read := func(body []byte, known Place) (*ContactRequestsPage, error) {
		return c.contactRequestsPage(asking(OperationContactRequests, known, string(body)))
	}
	print := func(r ContactRequest) any {
		var ids []string
		for _, name := range IDFields {
			ids = append(ids, r.ID(name))
		}
		return []any{printOf(r, "r"), r.CreatedAt, r.PersonFields(), ids, r.Contact(), r.Digest(Outside{})}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		page, err := read(body, Place{})
		if err != nil {
			assertQuiet(t, err, page == nil)
			_, err = read(planted(body), Place{})
			assertUnquoted(t, err)
			return
		}
		said := scalarsOf(body)
		for _, r := range page.ContactRequests {
			assertContactRequest(t, r, said)
			alone := ContactRequest{Record: r.Record, CreatedAt: r.CreatedAt}
			if !reflect.DeepEqual(print(r), print(alone)) {
				t.Fatalf("read differently among others: %s", r.Record)
			}
		}
		_, err = jsontext.AppendFormat(nil, trimBOM(body), jsontext.AllowInvalidUTF8(true))
		if !errors.Is(err, jsontext.ErrDuplicateName) { // then a path names no one place
			known, err := read(body, page.Place())
			if err != nil {
				t.Fatal(err)
			}
			alike(t, page.Envelope, known.Envelope, page.ContactRequests, known.ContactRequests, print)
		}
		if again := respelled(body); again != nil {
			other, err := read(again, Place{})
			if err != nil {
				t.Fatal(err)
			}
			alike(t, page.Envelope, other.Envelope, page.ContactRequests, other.ContactRequests, print)
		}
	})
}

func assertContactRequest(t *testing.T, r ContactRequest, said map[string]bool) {
	t.Helper()
	assertProper(t, r.Record)
	if r.Score != nil && !json.Valid(r.Score) {
		t.Fatalf("score %q", r.Score)
	}
	p := r.Contact()
	if p.Phone != "" && (p.PhoneRaw == "" || !strings.HasPrefix(p.Phone, "+")) {
		t.Fatalf("phone %q of %q", p.Phone, p.PhoneRaw)
	}
	assertNothingInvented(t, p, said)
	if printOf(r, "a#b##") == printOf(r, "a#b#") {
		t.Fatal("the fingerprint does not know the insertion")
	}
}

// assertNothingInvented compares every word of a person with those in the body, entities and
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

func assertProper(t *testing.T, record json.RawMessage) {
	t.Helper()
	if !json.Valid(record) || !utf8.Valid(record) || !jsontext.Value(record).IsValid() {
		t.Fatalf("not proper JSON: %q", record)
	}
}

// respelled is a body with its members sorted and much white space; nil where a name is repeated,
// so that the order counts, or where texts are broken.
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
	d := jsontext.NewDecoder(bytes.NewReader(trimBOM(body)), lenient...)
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
		canonical, err := jsontext.AppendFormat(nil, record, jsontext.CanonicalizeRawInts(false),
			jsontext.CanonicalizeRawFloats(false), jsontext.ReorderRawObjects(true))
		if again, _ := Digest(respelled(record), []string{"/none", ""}); err != nil || again != whole || sha256.Sum256(canonical) != whole {
			t.Fatalf("%s: not the digest of %s, %v", record, canonical, err)
		}
		root, _ := decode(record)
		for _, m := range root.object() {
			ignored, err := Digest(record, []string{string(jsontext.Pointer("").AppendToken(m.name.text))})
			if err != nil || ignored == whole {
				t.Fatalf("%s without %q is the same, %v", record, m.name.text, err)
			}
		}
	})
}

// assertQuiet checks that an error holds only what it may. Bodies of the fuzzer are too short to look for
// excerpts; what may stand there is a fixed vocabulary around the names of members.
func assertQuiet(t *testing.T, err error, nothing bool) {
	t.Helper()
	if !is[*DriftError](err) || !nothing {
		t.Fatalf("%T %v", err, err)
	}
	if strings.ContainsFunc(err.Error(), isControl) || len(err.Error()) > 1000 || strings.Contains(err.Error(), "nora") {
		t.Fatalf("%q", err)
	}
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{
		"2026-11-20T09:41:07Z", "2026-11-20T10:41:07+0100", "2026-10-25T02:30:00", "1795167667123", "1795167667.5",
		"Fri, 20 Nov 2026 10:41:07 +0100 (CET)", "2026-11-20 09:41 UTC", "", "0001-01-01T00:00:00Z",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, form := instant(valueOf(quote(s)), time.UTC)
		if got.IsZero() {
			return
		}
		earliest := 1999
		if slices.Contains([]string{FormOffset, FormZoneless}, form) {
			earliest = 1990
		}
		if got.Location() != time.UTC || got.Year() < earliest || got.After(time.Now().AddDate(10, 0, 1)) {
			t.Fatalf("%q: %v", s, got)
		}
		if again, _ := instant(valueOf(quote(got.Format(time.RFC3339Nano))), time.UTC); !again.Equal(got) {
			t.Fatalf("%q: %v comes back as %v", s, got, again)
		}
	})
}
