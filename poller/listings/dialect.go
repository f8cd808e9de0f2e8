package listings

import (
	"cmp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// Dialect is what was learned of how an API writes its answers to one operation: names, numbers and kinds, never a value from
// a record. Where records are is what an answer is held against, see locate. The rest is there to be shown: an API may change it
// between two answers, and both are read.
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

// Dialect is what an answer shows of it.
func (e Envelope) Dialect() Dialect {
	return Dialect{Known: e.Found, Path: e.Path, TotalTold: e.Total >= 0}
}

// Dialect is what an answer shows of it.
func (p *ContactRequestsPage) Dialect() Dialect {
	d := p.Envelope.Dialect()
	for _, r := range p.ContactRequests {
		d = d.Learned(Dialect{CreatedForm: r.CreatedForm})
	}
	return d
}

// Printable is the dialect without a name in its path that does not look like one: that may be a value that somebody made a name of.
func (d Dialect) Printable() Dialect {
	var path jsontext.Pointer
	for token := range jsontext.Pointer(d.Path).Tokens() {
		path = path.AppendToken(printableName(token))
	}
	d.Path = string(path)
	return d
}

// LearnID finds the member that tells contact requests apart, by two readings of those of one insertion. The candidates are
// present and distinct within both; the id is the first of them that is the same in both, for contact requests of equal content. It
// is empty if there is none. What only came or only went in between says nothing: of two equal ones one may have been erased.
func LearnID(fields []string, reference string, first, second []ContactRequest) (candidates []string, id string) {
	for _, field := range fields {
		before, after := idsByContent(field, reference, first), idsByContent(field, reference, second)
		if before == nil || after == nil {
			continue
		}
		candidates = append(candidates, field)
		steady := true
		for content, ids := range before {
			again := after[content]
			steady = steady && (within(ids, again) || within(again, ids))
		}
		if id == "" && steady {
			id = field
		}
	}
	return candidates, id
}

// within says whether all ids of one list stand in another.
func within(ids, all []string) bool {
	return !slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(all, id) })
}

// idsByContent is what a member says of contact requests, by their fingerprints; nil if it is absent from one, or the same in two.
func idsByContent(field, reference string, list []ContactRequest) map[[16]byte][]string {
	ids, seen := map[[16]byte][]string{}, make(map[string]bool, len(list))
	for _, r := range list {
		id := r.ID(field)
		if id == "" || seen[id] {
			return nil
		}
		seen[id] = true
		content := r.Fingerprint(reference)
		ids[content] = append(ids[content], id)
	}
	return ids
}
