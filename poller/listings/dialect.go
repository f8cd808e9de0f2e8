package listings

import (
	"cmp"

	"github.com/go-json-experiment/json/jsontext"
)

// Dialect is what was learned of how an API writes its answers to one operation: names, numbers and kinds, never a value from
// a record. Path is what a response is held against, see find. The rest is there to be shown: an API may change it
// between two responses, and both are read.
type Dialect struct {
	Known       bool   `json:"-"`                     // Path
	Path        string `json:"path"`                  // JSON pointer to the list of records; "" is the root
	TotalTold   bool   `json:"totalTold"`             // answers say how many records there are
	FirstPage   string `json:"firstPage,omitempty"`   // of a list of insertions: 0, 1, PagesIgnored, or empty: unknown
	IDField     string `json:"idField,omitempty"`     // the member that tells contact requests apart; empty: none, or nothing to see
	CreatedForm string `json:"createdForm,omitempty"` // of contact requests: the Form constants, or empty: unknown
}

// PagesIgnored is Dialect.FirstPage where every page is the first one.
const PagesIgnored = "ignored"

// Forms of creation times.
const (
	FormOffset       = "rfc3339"
	FormZoneless     = "zoneless"
	FormSeconds      = "seconds" // since 1970
	FormMilliseconds = "milliseconds"
	FormMicroseconds = "microseconds"
	FormNanoseconds  = "nanoseconds"
	FormUnreadable   = "unreadable"
	FormAbsent       = "absent"
	FormMixed        = "mixed"
)

// Learned is what is known after more was seen. What shows nothing changes nothing, and nothing changes again and again.
func (d Dialect) Learned(more Dialect) Dialect {
	if more.Known {
		d.Known, d.Path = true, more.Path
	}
	d.TotalTold = d.TotalTold || more.TotalTold
	d.FirstPage, d.IDField = cmp.Or(more.FirstPage, d.FirstPage), cmp.Or(more.IDField, d.IDField)
	if d.CreatedForm != "" && more.CreatedForm != "" && d.CreatedForm != more.CreatedForm {
		more.CreatedForm = FormMixed
	}
	d.CreatedForm = cmp.Or(more.CreatedForm, d.CreatedForm)
	return d
}

// Dialect is what a response shows of it.
func (e Envelope) Dialect() Dialect {
	return Dialect{Known: e.Found, Path: e.Path, TotalTold: e.Total >= 0}
}

// Dialect is what a response shows of it.
func (p *ContactRequestsPage) Dialect() Dialect {
	d := p.Envelope.Dialect()
	for _, r := range p.ContactRequests {
		d = d.Learned(Dialect{CreatedForm: r.CreatedForm})
	}
	return d
}

// Printable is the dialect without a name in its path that does not look like one: that may be a value in place of a name.
func (d Dialect) Printable() Dialect {
	var path jsontext.Pointer
	for token := range jsontext.Pointer(d.Path).Tokens() {
		path = path.AppendToken(printableName(token))
	}
	d.Path = string(path)
	return d
}

// IDField names the first of some members that could be the id of contact requests of one insertion: the one that is present
// and distinct in a response, and the others like it. It is empty if there is none.
func IDField(fields []string, list []ContactRequest) (field string, candidates []string) {
	for _, field := range fields {
		seen := make(map[string]bool, len(list))
		for _, r := range list {
			if id := r.ID(field); id != "" {
				seen[id] = true
			}
		}
		if len(list) > 0 && len(seen) == len(list) {
			candidates = append(candidates, field)
		}
	}
	if len(candidates) > 0 {
		field = candidates[0]
	}
	return field, candidates
}
