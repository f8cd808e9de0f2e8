package listings

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Dialect is what was learned of how an API writes its answers to one operation: names, numbers and kinds, never a value from
// a record. Once Path is known it is where records are expected; elsewhere they are drift.
type Dialect struct {
	Known       bool   `json:"-"`    // Path
	Path        string `json:"path"` // JSON pointer to the list of records; "" is the root
	TotalTold   bool   `json:"totalTold"`
	FirstPage   string `json:"firstPage,omitempty"`   // number of the first page of a list of insertions: 0, 1 or unknown
	IDField     string `json:"idField,omitempty"`     // the member that tells contact requests apart; empty: none, or nothing to see
	CreatedForm string `json:"createdForm,omitempty"` // rfc3339, zoneless, seconds, milliseconds, unreadable, absent, mixed, unknown
}

// Dialect is what an answer shows of it.
func (e Envelope) Dialect() Dialect {
	return Dialect{Known: e.Found, Path: e.Path, TotalTold: e.Total >= 0}
}

// Dialect is what an answer shows of it.
func (p *InsertionsPage) Dialect() Dialect {
	d := p.Envelope.Dialect()
	d.FirstPage = Unknown
	return d
}

// Dialect is what an answer shows of it.
func (p *ContactRequestsPage) Dialect() Dialect {
	d := p.Envelope.Dialect()
	d.CreatedForm = Unknown
	if len(p.ContactRequests) > 0 {
		d.CreatedForm = createdForm(p.ContactRequests)
	}
	return d
}

// Printable is the dialect without a name in its path that does not look like one.
func (d Dialect) Printable() Dialect {
	d.Path = pathOf(d.Path)
	return d
}

// LearnID finds the member that tells contact requests apart, by two readings of those of one insertion. The candidates are
// present and distinct within both; the id is the first of them that is the same in both. It is empty if there is none.
func LearnID(fields []string, reference string, first, second []ContactRequest) (candidates []string, id string) {
	for _, field := range fields {
		if !isDistinct(field, first) || !isDistinct(field, second) {
			continue
		}
		candidates = append(candidates, field)
		if id == "" && isSteady(field, reference, first, second) {
			id = field
		}
	}
	return candidates, id
}

func isDistinct(field string, list []ContactRequest) bool {
	seen := make(map[string]bool, len(list))
	for _, r := range list {
		id := r.ID(field)
		if id == "" || seen[id] {
			return false
		}
		seen[id] = true
	}
	return true
}

// isSteady says whether contact requests of equal content had an id in common in both readings. What came or went in between
// says nothing.
func isSteady(field, reference string, first, second []ContactRequest) bool {
	later := make(map[[16]byte][]string, len(second))
	for _, r := range second {
		f := r.Fingerprint(reference)
		later[f] = append(later[f], r.ID(field))
	}
	for _, r := range first {
		if ids := later[r.Fingerprint(reference)]; len(ids) > 0 && !slices.Contains(ids, r.ID(field)) {
			return false
		}
	}
	return true
}

// createdForm names how creation times are written.
func createdForm(list []ContactRequest) string {
	form := ""
	for _, r := range list {
		f := r.object().createdForm()
		if form != "" && f != form {
			return "mixed"
		}
		form = f
	}
	return form
}

func (o object) createdForm() string {
	form := "absent"
	for v := range o.creations() {
		if form = instantForm(v); form != "unreadable" {
			break
		}
	}
	return form
}

var hasOffset = regexp.MustCompile(`(?:[Zz]|[+-]\d\d(?::?\d\d)?)$`)

func instantForm(v value) string {
	if instant(v, time.UTC).IsZero() {
		return "unreadable"
	}
	digits, _ := v.scalar()
	digits = strings.TrimSpace(digits)
	if t := epoch(digits); !t.IsZero() {
		whole, _, _ := strings.Cut(digits, ".")
		if n, _ := natural(whole); n > 99_999_999_999 {
			return "milliseconds"
		}
		return "seconds"
	}
	if len(digits) > 10 && hasOffset.MatchString(digits[10:]) {
		return "rfc3339"
	}
	return "zoneless"
}

// pathOf is a path fit to be shown: a name that does not look like one may be a value that somebody made a name of.
func pathOf(path string) string {
	var out jsontext.Pointer
	for token := range jsontext.Pointer(path).Tokens() {
		out = out.AppendToken(printableName(token))
	}
	return strings.ToValidUTF8(string(out), "")
}
