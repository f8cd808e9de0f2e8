package listings

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Answers to a question about the API's habits.
const (
	Yes     = "yes"
	No      = "no"
	Unknown = "unknown" // what was there to see did not tell
)

// Learned is what the answers for one agency showed. Nothing in it is a value from a record.
type Learned struct {
	AgencyID        string                 `json:"agencyId"`
	Insertions      LearnedInsertions      `json:"insertions"`
	ContactRequests LearnedContactRequests `json:"contactRequests"`
	// Conditional requests: yes, no (the whole answer came again), unknown, or none: the API gives nothing to ask with.
	Conditional string `json:"conditional"`
}

// None is what Learned.Conditional is where the API gives neither ETag nor Last-Modified.
const None = "none"

// LearnedInsertions is what the list of insertions showed.
type LearnedInsertions struct {
	Path         string   `json:"path"` // JSON pointer to the records; "" is the answer itself
	Records      int      `json:"records"`
	TotalTold    bool     `json:"totalTold"`
	Unreadable   int      `json:"unreadable"`
	FirstPage    string   `json:"firstPage"`              // 0, 1 or unknown
	PageHeeded   string   `json:"pageHeeded"`             // yes, no, unknown
	Asked        int      `json:"askedPageSize"`          // 0: none
	Default      int      `json:"defaultPageSize"`        // 0: unknown
	Largest      int      `json:"largestPage"`            // records on the fullest page seen
	Capped       bool     `json:"capped"`                 // a larger size brought no more than a smaller one
	MayHoldMore  bool     `json:"mayHoldMore"`            // the list may be longer than its first page
	RefusedSizes []int    `json:"refusedSizes,omitempty"` // in the order in which they were tried
	Troubles     []string `json:"troubles,omitempty"`
}

// LearnedContactRequests is what the contact requests of one insertion showed.
type LearnedContactRequests struct {
	Read         bool     `json:"read"` // false: nothing below says anything but Troubles
	Path         string   `json:"path"`
	Records      int      `json:"records"`
	TotalTold    bool     `json:"totalTold"`
	Unreadable   int      `json:"unreadable"`
	IDCandidates []string `json:"idCandidates,omitempty"` // members that could be the id, best first
	IDField      string   `json:"idField,omitempty"`      // the one that would be taken; empty: none, or nothing to see
	CreatedForm  string   `json:"createdForm"`            // rfc3339, zoneless, seconds, milliseconds, unreadable, absent, mixed, unknown
	OrderHeeded  string   `json:"orderHeeded"`            // yes, no, unknown
	NumberHeeded string   `json:"numberHeeded"`           // yes, no, unknown
	Troubles     []string `json:"troubles,omitempty"`
	// Refused is the refusal of the contact requests of an insertion that the list shows; nil if there was none.
	Refused *StatusError `json:"-"`
}

// Learn asks on after a good List and tells what the answers show. With fewer requests than List left, or with no more
// than most of its own, it tells less. What fails is said in words and ends nothing but its own question; a refusal, and a
// call for patience, end all.
func (p *Prober) Learn(ctx context.Context, l *Listed, most int) *Learned {
	p.left = min(l.left, most)
	e := learning{p: p, ctx: ctx, l: l, out: &Learned{AgencyID: l.AgencyID, Conditional: Unknown}}
	e.out.Insertions = LearnedInsertions{
		Path: pathOf(l.page.Path), Records: l.Records, TotalTold: l.Total >= 0, Unreadable: l.page.Unreadable,
		FirstPage: Unknown, PageHeeded: Unknown, Asked: l.Size, Largest: l.Records, MayHoldMore: l.MayHoldMore(),
	}
	e.out.ContactRequests = LearnedContactRequests{CreatedForm: Unknown, OrderHeeded: Unknown, NumberHeeded: Unknown}
	for _, question := range []func(){e.contacts, e.pages, e.oldest, e.conditional, e.byDefault, e.larger} {
		if !e.over && p.left > 0 {
			question()
		}
	}
	e.out.Insertions.RefusedSizes = slices.Clone(p.refused)
	return e.out
}

// learning is one Learn.
type learning struct {
	p      *Prober
	ctx    context.Context
	l      *Listed
	out    *Learned
	newest *ContactRequestsPage // nil: not read
	target string               // its insertion
	over   bool
}

// trouble notes what failed, and ends everything where asking on would be rude or useless.
func (e *learning) trouble(list *[]string, question string, err error) {
	if errors.Is(err, errProbeOver) {
		return
	}
	f := FailureOf(err)
	*list = append(*list, question+": "+f.Text)
	e.over = f.Refused() || f.Busy() || f.Down() || e.ctx.Err() != nil
}

// pages asks for pages 1 and 2, if the first answer does not show how they are numbered.
func (e *learning) pages() {
	if e.l.Records == 0 {
		return
	}
	one, err := e.p.insertions(e.ctx, e.l, e.l.Size, 1)
	if err == nil && sameRecords(one, e.l.page) {
		if e.p.left > 0 {
			e.secondPage()
		}
		return
	}
	e.nextPage("0", one, err)
}

// secondPage is asked for where page 1 is the first: if it is the first again, page numbers are ignored.
func (e *learning) secondPage() {
	two, err := e.p.insertions(e.ctx, e.l, e.l.Size, 2)
	if err == nil && sameRecords(two, e.l.page) {
		e.out.Insertions.PageHeeded = No
		return
	}
	e.nextPage("1", two, err)
}

// nextPage judges the page that follows the first, if pages count from there.
func (e *learning) nextPage(first string, page *InsertionsPage, err error) {
	i := &e.out.Insertions
	if err != nil && !isPastEnd(err) {
		e.trouble(&i.Troubles, "another page", err)
		return
	}
	i.FirstPage, i.PageHeeded, i.MayHoldMore = first, Yes, e.l.More()
	if err == nil && len(page.Insertions) > 0 {
		i.MayHoldMore = true
		i.Largest = max(i.Largest, len(page.Insertions))
	}
}

// byDefault leaves the size to the API, where the first page did not hold all.
func (e *learning) byDefault() {
	i := &e.out.Insertions
	if !i.MayHoldMore {
		return
	}
	if e.l.Size == 0 {
		i.Default = e.l.Records
		return
	}
	page, err := e.p.insertions(e.ctx, e.l, 0, 0)
	if err != nil {
		e.trouble(&i.Troubles, "without a size", err)
		return
	}
	i.Default = len(page.Insertions)
	i.Largest = max(i.Largest, i.Default)
}

// larger asks for more on a page, to see a cap, unless a size was configured or refused.
func (e *learning) larger() {
	i := &e.out.Insertions
	if !i.MayHoldMore || e.p.o.PageSize > 0 || len(e.p.refused) > 0 || e.l.Size == 0 {
		return
	}
	page, err := e.p.insertions(e.ctx, e.l, probeLargerSize, 0)
	switch {
	case isRefusedSize(err):
		e.p.refuse(probeLargerSize)
	case err != nil:
		e.trouble(&i.Troubles, "with a larger size", err)
	default:
		surely := e.l.More() || i.PageHeeded == Yes // else all may fit
		i.Capped = len(page.Insertions) <= e.l.Records && surely
		i.Largest = max(i.Largest, len(page.Insertions))
	}
}

// contacts reads the contact requests of the first insertion, and of one more if it has none or is aside.
func (e *learning) contacts() {
	c := &e.out.ContactRequests
	for _, reference := range e.targets() {
		if e.over || e.p.left == 0 {
			return
		}
		page, err := e.newestOf(reference, Expect{})
		if err != nil {
			errors.As(err, &c.Refused)
			e.trouble(&c.Troubles, "contact requests", err)
			continue
		}
		e.newest, e.target, c.Read = page, reference, true
		c.Path, c.Records, c.TotalTold, c.Unreadable = pathOf(page.Path), len(page.ContactRequests), page.Total >= 0, page.Unreadable
		if c.Records > 0 {
			c.CreatedForm = createdForm(page.ContactRequests)
			c.IDCandidates, c.IDField = LearnID(e.p.c.o.IDFields, reference, page.ContactRequests, nil)
			return
		}
	}
}

func (e *learning) targets() []string {
	list := e.l.page.Insertions
	switch len(list) {
	case 0:
		return nil
	case 1:
		return []string{list[0].Reference}
	}
	return []string{list[0].Reference, list[len(list)/2].Reference}
}

func (e *learning) newestOf(reference string, x Expect) (*ContactRequestsPage, error) {
	q := ContactRequestsQuery{NumberOfItemsPerPage: probeWindow, SortBy: "createdAt", SortOrder: "desc", Expect: x}
	return e.p.c.ContactRequests(e.ctx, e.l.key, e.l.AgencyID, reference, q)
}

// oldest asks for a few from the other end: order, number and ids of a second reading show.
func (e *learning) oldest() {
	c := &e.out.ContactRequests
	if c.Records < 2 {
		return
	}
	page, err := e.p.c.ContactRequests(e.ctx, e.l.key, e.l.AgencyID, e.target,
		ContactRequestsQuery{NumberOfItemsPerPage: probeOldest, SortBy: "createdAt", SortOrder: "asc"})
	if err != nil {
		e.trouble(&c.Troubles, "contact requests, oldest first", err)
		return
	}
	c.OrderHeeded = orderHeeded(e.newest.ContactRequests, page.ContactRequests)
	c.NumberHeeded = numberHeeded(max(c.Records, e.newest.Total), len(page.ContactRequests))
	c.IDCandidates, c.IDField = LearnID(e.p.c.o.IDFields, e.target, e.newest.ContactRequests, page.ContactRequests)
}

// conditional asks the last question again, to be answered only if something has changed.
func (e *learning) conditional() {
	var again *Envelope
	var err error
	switch {
	case e.newest != nil && hasValidator(e.newest.Envelope):
		var page *ContactRequestsPage
		if page, err = e.newestOf(e.target, validators(e.newest.Envelope)); err == nil {
			again = &page.Envelope
		}
	case hasValidator(e.l.page.Envelope):
		var page *InsertionsPage
		q := InsertionsQuery{PageSize: e.l.Size, Other: e.p.o.Filter, Expect: validators(e.l.page.Envelope)}
		if page, err = e.p.c.Insertions(e.ctx, e.l.key, e.l.AgencyID, q); err == nil {
			again = &page.Envelope
		}
	default:
		e.out.Conditional = None
		return
	}
	switch {
	case err != nil:
		e.trouble(&e.out.Insertions.Troubles, "conditional request", err)
	case again.NotModified:
		e.out.Conditional = Yes
	default:
		e.out.Conditional = No
	}
}

func hasValidator(e Envelope) bool { return e.ETag != "" || e.LastModified != "" }

func validators(e Envelope) Expect {
	return Expect{Shape: Shape{Path: e.Path, Known: e.Found}, ETag: e.ETag, LastModified: e.LastModified}
}

func sameRecords(a, b *InsertionsPage) bool { return contentOf(a) == contentOf(b) }

func contentOf(p *InsertionsPage) (c content) {
	own := map[mark]struct{}{}
	for _, i := range p.Insertions {
		own[markOf(i.Reference)] = struct{}{}
	}
	for m := range maps.Keys(own) {
		c.add(m)
	}
	return c
}

// orderHeeded holds two readings, newest and oldest first, against the creation times.
func orderHeeded(newest, oldest []ContactRequest) string {
	down, up := trend(newest), trend(oldest)
	switch {
	case down.mixed || up.mixed || down.rises || up.falls:
		return No
	case down.falls && up.rises:
		return Yes
	}
	return Unknown
}

// moves is how the times of a list go.
type moves struct{ rises, falls, mixed bool }

func trend(list []ContactRequest) (m moves) {
	for i := 1; i < len(list); i++ {
		a, b := list[i-1].CreatedAt, list[i].CreatedAt
		if a.IsZero() || b.IsZero() {
			continue
		}
		m.rises = m.rises || b.After(a)
		m.falls = m.falls || b.Before(a)
	}
	m.mixed = m.rises && m.falls
	return m
}

func numberHeeded(known, got int) string {
	switch {
	case got > probeOldest:
		return No
	case known > probeOldest:
		return Yes
	}
	return Unknown
}

// pathOf is a path fit to be shown: a name that does not look like one may be a value that somebody made a name of.
func pathOf(path string) string {
	var out jsontext.Pointer
	for token := range jsontext.Pointer(path).Tokens() {
		if !looksLikeName.MatchString(token) {
			token = "(odd name)"
		}
		out = out.AppendToken(token)
	}
	return strings.ToValidUTF8(string(out), "")
}
