package listings

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

var seeds = append([]string{
	"[" + one + "]", `{"results":[` + one + `],"total":1}`, `{"content":[{"insertion":` + one + `}],"page":{"totalElements":7}}`,
	"[" + lead + "]", `{"leads":[` + lead + `],"total":1}`, `{"odd":[` + lead + `],"links":[{"rel":"self"}]}`,
	`[{"propertyReferenceId":"a","x":"\ud800","x":1}]`, "[{\"propertyReferenceId\":\"\xff\"}]", `[{"createdAt":"?","contact":{"phones":[{"number":"079 000 01 23"}]}}]`,
}, odd[:len(odd)-10]...)

func FuzzInsertions(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	c := bare(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		x := &exchange{request: Request{Operation: OperationInsertions, AgencyID: "A100"}, status: 200, body: bytes.Clone(body)}
		page, err := c.insertionsPage(x, 50)
		if !bytes.Equal(x.body, body) {
			t.Fatal("the body was changed")
		}
		if err != nil {
			assertQuiet(t, err, page == nil)
			return
		}
		if page.Total < -1 || !jsontext.Pointer(page.Path).IsValid() {
			t.Fatalf("%+v", page.Envelope)
		}
		for _, i := range page.Insertions {
			assertProper(t, i.Record)
			if i.Reference == "" || len(i.Reference) > maxReference {
				t.Fatalf("reference %q", i.Reference)
			}
			if _, err := Digest(i.Record, []string{"/views", "/a/0"}); err != nil {
				t.Fatal(err)
			}
			if s := i.Summary(); s.Price != nil && s.Price.Amount == "" {
				t.Fatal("a price without amount")
			}
		}
	})
}

func FuzzContactRequests(f *testing.F) {
	for _, s := range seeds {
		f.Add([]byte(s))
	}
	c := bare(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		r := Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}
		page, err := c.contactRequestsPage(&exchange{request: r, status: 200, body: body}, 20)
		if err != nil {
			assertQuiet(t, err, page == nil)
			return
		}
		for _, r := range page.ContactRequests {
			assertProper(t, r.Record)
			if r.Reference != "" && r.Reference != "a#b##" {
				t.Fatalf("of another insertion: %q", r.Reference)
			}
			if r.Score != nil && !json.Valid(r.Score) {
				t.Fatalf("score %q", r.Score)
			}
			if _, err := json.Marshal(r.CreatedAt); err != nil {
				t.Fatal(err)
			}
			if p := r.Contact(); p.Phone != "" && (p.PhoneRaw == "" || !strings.HasPrefix(p.Phone, "+")) {
				t.Fatalf("phone %q of %q", p.Phone, p.PhoneRaw)
			}
			for _, f := range r.Fields() {
				_ = r.ID(f.Name)
			}
			if r.Fingerprint("a#b##") == r.Fingerprint("a#b#") {
				t.Fatal("the fingerprint does not know the insertion")
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
	if strings.ContainsFunc(err.Error(), isControl) || len(err.Error()) > 1000 {
		t.Fatalf("%q", err)
	}
}

func FuzzEscape(f *testing.F) {
	for _, s := range []string{"a#b##", "104/001", "%23", "ä ö", "..", "", "\x00", "a\xffb", "a/../b", `a\..`, "+&=?;,:@"} {
		f.Add(s)
	}
	c := bare(f)
	f.Fuzz(func(t *testing.T, reference string) {
		back, err := url.PathUnescape(escape(reference))
		if err != nil || back != reference {
			t.Fatalf("%q comes back as %q, %v", reference, back, err)
		}
		if strings.Trim(escape(reference), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~%") != "" {
			t.Fatalf("%q: reserved bytes in %q", reference, escape(reference))
		}
		u, err := c.address(Request{Operation: OperationContactRequests, AgencyID: "A1", Reference: reference}, nil)
		if err != nil {
			if !errors.Is(err, ErrReference) {
				t.Fatal(err)
			}
			return
		}
		if want := "/ubm-contact-request/property/" + escape(reference); u.RequestURI() != want {
			t.Fatalf("%s, want %s", u.RequestURI(), want)
		}
		for segment := range strings.SplitSeq(u.Path, "/") {
			if segment == "." || segment == ".." {
				t.Fatalf("a step in %q", u.Path)
			}
		}
	})
}

func FuzzRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "-1", "1e9", "99999999999999999999", "Fri, 20 Nov 2026 09:00:30 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "soon"} {
		f.Add(s)
	}
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, header string) {
		if d := retryAfter(header, now); d < 0 {
			t.Fatalf("%q: %v", header, d)
		}
	})
}

func FuzzTime(f *testing.F) {
	for _, s := range []string{"2026-11-20T09:41:07Z", "2026-11-20T10:41:07+0100", "2026-10-25T02:30:00", "1795167667", "1795167667123", "1795167667.5", "", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-01:00"} {
		f.Add(s)
	}
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := instant(jsontext.Value(quote(s)), zurich)
		if got.IsZero() {
			return
		}
		if got.Location() != time.UTC || got.Year() < 1971 || got.Year() > 9999 {
			t.Fatalf("%q: %v", s, got)
		}
		if again := instant(jsontext.Value(quote(got.Format(time.RFC3339Nano))), zurich); !again.Equal(got) {
			t.Fatalf("%q: %v comes back as %v", s, got, again)
		}
	})
}

// A corpus that moved would go unnoticed: the fuzzer is content with none.
func TestEveryFuzzTargetHasACorpus(t *testing.T) {
	source, err := os.ReadFile("fuzz_test.go")
	if err != nil {
		t.Fatal(err)
	}
	targets := 0
	for line := range strings.Lines(string(source)) {
		rest, ok := strings.CutPrefix(line, "func Fuzz")
		if !ok {
			continue
		}
		targets++
		name, _, _ := strings.Cut(rest, "(")
		if files, _ := filepath.Glob("testdata/fuzz/Fuzz" + name + "/*"); len(files) == 0 {
			t.Errorf("Fuzz%s has no corpus", name)
		}
	}
	if targets != 5 {
		t.Errorf("%d targets", targets)
	}
}
