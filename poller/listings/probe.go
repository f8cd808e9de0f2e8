package listings

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// MostProbeRequests is how many requests Prober.List and Prober.Learn make together, at most, for one agency: the list
// without a page number, page 1, page 2, without a size and with a larger one; the contact requests of one insertion newest
// first (of a second one if the first has none), then a few oldest first; and one conditional request. What cannot tell
// anything is not asked.
const MostProbeRequests = 8

// sizes that a probe asks for.
const (
	probeSize       = 50  // insertions, as a walk begins
	probeLargerSize = 200 // insertions, to see a cap
	probeWindow     = 20  // contact requests, as a poll begins
	probeOldest     = 5   // contact requests, oldest first; never 1, which some refuse
)

// ProbeOptions say what a watch would ask for.
type ProbeOptions struct {
	PageSize int        // never exceeded; 0: 50, and once more if that tells something
	Filter   url.Values // the API's own filters
}

// Prober learns of the API what its description leaves open, with a handful of requests. What it tells holds names, numbers
// and kinds, never a value from a record. It is for one goroutine.
type Prober struct {
	c    *Client
	o    ProbeOptions
	size int // of a page of insertions, as far as the API takes it
	left int // requests for the agency that is probed

	mu      sync.Mutex
	took    []time.Duration
	failed  int
	proto   string
	skew    time.Duration
	skewed  bool
	refused []int // sizes
}

// NewProber makes a prober of the options of a client. It asks nothing.
func NewProber(o Options, probe ProbeOptions) (*Prober, error) {
	p := &Prober{o: probe, size: cmp.Or(probe.PageSize, probeSize)}
	o = o.withDefaults()
	before, after := o.Before, o.After
	o.Before = func(ctx context.Context, r Request) error {
		if p.left <= 0 {
			return errProbeOver
		}
		p.left--
		return before(ctx, r)
	}
	o.After = func(r Request, outcome Outcome) {
		p.note(outcome)
		after(r, outcome)
	}
	o.Transport = overhearing{o.Transport, p}
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	p.c = c
	return p, nil
}

var errProbeOver = errors.New("enough was asked")

// overhearing is a transport that notes what a client does not tell of answers.
type overhearing struct {
	http.RoundTripper
	p *Prober
}

func (o overhearing) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := o.RoundTripper.RoundTrip(r)
	if err == nil {
		o.p.overhear(resp, sent, time.Now())
	}
	return resp, err
}

func (p *Prober) overhear(resp *http.Response, sent, received time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proto = resp.Proto
	date := dateOf(resp.Header)
	if date.IsZero() {
		return
	}
	// The header is cut to whole seconds: the middle of its second against the middle of the exchange.
	skew := date.Add(500 * time.Millisecond).Sub(sent.Add(received.Sub(sent) / 2)).Round(time.Second)
	if !p.skewed || skew.Abs() < p.skew.Abs() {
		p.skew, p.skewed = skew, true
	}
}

func (p *Prober) note(o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, o.Duration)
	if o.Err != nil {
		p.failed++
	}
}

// Answers is what all answers together tell.
type Answers struct {
	Requests     int    `json:"requests"` // that were sent
	Failed       int    `json:"failed"`   // without a good answer
	MinMillis    int64  `json:"minMillis"`
	MedianMillis int64  `json:"medianMillis"`
	MaxMillis    int64  `json:"maxMillis"`
	Protocol     string `json:"protocol,omitempty"` // HTTP/1.1 or HTTP/2.0; empty: nobody answered
	ClockTold    bool   `json:"clockTold"`
	SkewSeconds  int64  `json:"skewSeconds"` // the API's clock minus ours
}

// Answers sums up the requests so far.
func (p *Prober) Answers() Answers {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := Answers{
		Requests: len(p.took), Failed: p.failed, Protocol: p.proto, ClockTold: p.skewed, SkewSeconds: int64(p.skew / time.Second),
	}
	if len(p.took) > 0 {
		took := slices.Sorted(slices.Values(p.took))
		a.MinMillis, a.MedianMillis, a.MaxMillis = took[0].Milliseconds(), took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds()
	}
	return a
}

// Listed is the first answer of an agency's list.
type Listed struct {
	AgencyID string
	Err      error // nil: access
	Records  int
	Total    int // -1: not told
	Size     int // that was asked for; 0: none

	key  Key
	page *InsertionsPage
	left int
}

// More says whether the list surely holds more than the answer.
func (l *Listed) More() bool { return l.Total > l.Records }

// MayHoldMore says whether it may hold more than the answer. A page that is not full says nothing: services cap.
func (l *Listed) MayHoldMore() bool {
	few := surelyOnePage
	if l.Size > 0 {
		few = min(few, l.Size)
	}
	return l.More() || l.Total < 0 && l.Records >= few
}

// List asks once for an agency's insertions, without a page number, as a walk begins. A size that the API refuses is
// followed by a smaller one, then by none; later calls begin with what was taken.
func (p *Prober) List(ctx context.Context, key Key, agency string) *Listed {
	p.left = MostProbeRequests
	l := &Listed{AgencyID: agency, Total: -1, key: key}
	for _, size := range p.sizes() {
		l.Size = size
		l.page, l.Err = p.insertions(ctx, l, size, 0)
		if !isRefusedSize(l.Err) {
			break
		}
		p.refuse(size)
	}
	if l.Err == nil {
		l.Records, l.Total = len(l.page.Insertions), l.page.Total
		p.size = l.Size
	}
	l.left = p.left
	return l
}

func (p *Prober) sizes() []int {
	if p.size == 0 {
		return []int{0}
	}
	return sizes(p.size)
}

func (p *Prober) refuse(size int) {
	if size > 0 && !slices.Contains(p.refused, size) {
		p.refused = append(p.refused, size)
	}
}

func (p *Prober) insertions(ctx context.Context, l *Listed, size, page int) (*InsertionsPage, error) {
	return p.c.Insertions(ctx, l.key, l.AgencyID, InsertionsQuery{PageSize: size, Page: page, Other: p.o.Filter})
}

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
	Dialect
	Records      int      `json:"records"`
	Unreadable   int      `json:"unreadable"`
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
	Dialect
	Read         bool     `json:"read"` // false: nothing else says anything but Troubles
	Records      int      `json:"records"`
	Unreadable   int      `json:"unreadable"`
	IDCandidates []string `json:"idCandidates,omitempty"` // members that could be the id, best first
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
		Dialect: l.page.Dialect().Printable(), Records: l.Records, Unreadable: l.page.Unreadable, PageHeeded: Unknown, Asked: l.Size, Largest: l.Records, MayHoldMore: l.MayHoldMore(),
	}
	e.out.ContactRequests = LearnedContactRequests{Dialect: Dialect{CreatedForm: Unknown}, OrderHeeded: Unknown, NumberHeeded: Unknown}
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
	if err == nil && showsTheSame(one, e.l.page) {
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
	if err == nil && showsTheSame(two, e.l.page) {
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
		c.Dialect, c.Records, c.Unreadable = page.Dialect().Printable(), len(page.ContactRequests), page.Unreadable
		if c.Records > 0 {
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
	return Expect{Dialect: e.Dialect(), ETag: e.ETag, LastModified: e.LastModified}
}

// showsTheSame says whether two pages show the same insertions.
func showsTheSame(a, b *InsertionsPage) bool {
	shown := map[string]int{}
	for n, page := range []*InsertionsPage{a, b} {
		for _, i := range page.Insertions {
			shown[i.Reference] |= 1 << n
		}
	}
	for _, by := range shown {
		if by != 3 {
			return false
		}
	}
	return true
}

// orderHeeded holds two readings, newest and oldest first, against the creation times.
func orderHeeded(newest, oldest []ContactRequest) string {
	rises, falls := directions(newest)
	again, back := directions(oldest)
	switch {
	case rises || back:
		return No
	case falls && again:
		return Yes
	}
	return Unknown
}

// directions says which ways the times of a list go.
func directions(list []ContactRequest) (rises, falls bool) {
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1].CreatedAt, list[i].CreatedAt; !a.IsZero() && !b.IsZero() {
			rises, falls = rises || b.After(a), falls || b.Before(a)
		}
	}
	return rises, falls
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

// Failure is what went wrong with a request, in words without the insertion that was asked for, and by kind.
type Failure struct {
	Text   string
	Status int // 0: no answer
	down   bool
	wait   bool
}

// FailureOf describes an error of this package.
func FailureOf(err error) Failure {
	var status *StatusError
	var transport *TransportError
	var drift *DriftError
	var other *RequestError
	switch {
	case errors.As(err, &status):
		return failureOfStatus(status)
	case errors.As(err, &transport):
		down := transport.Stage != StageRead && transport.Stage != StageTimeout && transport.Stage != StageCanceled
		return Failure{Text: fmt.Sprintf("no answer (%s: %v)", transport.Stage, transport.Err), down: down}
	case errors.As(err, &drift):
		return Failure{Text: fmt.Sprintf("not the answer of this API: expected %s, found %s", drift.Expected, drift.Found), Status: drift.Status}
	case errors.As(err, &other):
		return Failure{Text: other.Err.Error()}
	}
	return Failure{Text: "failed"}
}

func failureOfStatus(e *StatusError) Failure {
	text := strings.TrimSpace(fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status)))
	switch e.Body {
	case BodyChallenge:
		text += ", with a bot challenge"
	case BodyHTML:
		text += ", as HTML"
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", to be asked again after %s", e.RetryAfter.Round(time.Second))
	}
	return Failure{Text: text, Status: e.Status, wait: e.RetryAfter > 0}
}

// Refused says whether access was refused.
func (f Failure) Refused() bool {
	return f.Status == http.StatusForbidden || f.Status == http.StatusUnauthorized
}

// Busy says whether the API asks for patience.
func (f Failure) Busy() bool {
	return f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable && f.wait
}

// Down says whether nobody answers at the base URL.
func (f Failure) Down() bool { return f.down }
