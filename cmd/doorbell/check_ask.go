package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// mostAsked is how many requests are sent for one agency, at most: a walk that begins, the contact requests of one insertion
// newest first (of a second one if the first has none) and oldest first, once more if they have changed, and the list without a
// size and with a larger one. What is known, or cannot tell anything, is not asked.
const mostAsked = 8

// Sizes that are asked for.
const (
	usualSize   = 50  // insertions, as a walk begins
	largerSize  = 200 // insertions, to see a cap
	unsplitSize = 20  // insertions, that no service splits
	newestSize  = 20  // contact requests, as a poll begins
	oldestSize  = 5   // contact requests, oldest first; never 1, which some refuse
)

// asker asks the API as run would, sends no more requests than it may and none sooner, and notes what the answers have in common.
type asker struct {
	o      poller.Options
	client *listings.Client
	under  http.RoundTripper
	left   int // requests for the agency that is asked about
	size   int // of a page of insertions that the API took; -1: it was left to the API; 0: nothing is known

	took   []time.Duration
	common checkedAnswers
}

// checkedAnswers is what all answers together tell.
type checkedAnswers struct {
	Requests     int    `json:"requests"` // that were sent
	Failed       int    `json:"failed"`   // without a good answer
	MinMillis    int64  `json:"minMillis"`
	MedianMillis int64  `json:"medianMillis"`
	MaxMillis    int64  `json:"maxMillis"`
	Protocol     string `json:"protocol,omitempty"` // HTTP/1.1 or HTTP/2.0; empty: there was no answer
	ClockTold    bool   `json:"clockTold"`
	SkewSeconds  int64  `json:"skewSeconds"` // the API's clock minus ours
}

var errEnough = errors.New("enough was asked")

func newAsker(o poller.Options, every time.Duration) (a *asker, err error) {
	if len(o.IDFields) == 0 {
		o.IDFields = listings.IDFields
	}
	a = &asker{o: o, under: listings.NewTransport(listings.TransportOptions{Timeout: o.API.Timeout})}
	o.API.Transport, o.API.IDFields = a, o.IDFields
	next := time.Now()
	o.API.Before = func(ctx context.Context, _ listings.Request) error {
		if a.left <= 0 {
			return errEnough
		}
		a.left--
		select {
		case <-time.After(time.Until(next)):
		case <-ctx.Done():
			return ctx.Err()
		}
		next = time.Now().Add(every)
		return nil
	}
	o.API.After = func(_ listings.Request, outcome listings.Outcome) {
		a.took = append(a.took, outcome.Duration)
		if outcome.Err != nil {
			a.common.Failed++
		}
	}
	a.client, err = listings.New(o.API)
	return a, err
}

// RoundTrip notes what a client does not tell of answers.
func (a *asker) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := a.under.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	a.common.Protocol = resp.Proto
	if date, err := http.ParseTime(strings.TrimSpace(resp.Header.Get("Date"))); err == nil {
		// The header is cut to whole seconds: the middle of its second against the middle of the exchange.
		skew := date.Add(time.Second / 2).Sub(sent.Add(time.Since(sent) / 2)).Round(time.Second)
		if seconds := int64(skew / time.Second); !a.common.ClockTold || max(seconds, -seconds) < max(a.common.SkewSeconds, -a.common.SkewSeconds) {
			a.common.ClockTold, a.common.SkewSeconds = true, seconds
		}
	}
	return resp, nil
}

func (a *asker) answers() *checkedAnswers {
	sum := a.common
	if sum.Requests = len(a.took); sum.Requests > 0 {
		took := slices.Sorted(slices.Values(a.took))
		sum.MinMillis, sum.MedianMillis, sum.MaxMillis = took[0].Milliseconds(), took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds()
	}
	return &sum
}

// pausedWalk is a walk over an agency's insertions that has paused after its first page.
type pausedWalk struct {
	agencyID string
	key      listings.Key
	known    map[listings.Operation]listings.Dialect // what the store remembers
	walk     *listings.Walk
	next     func() (*listings.InsertionsPage, error, bool)
	stop     func()
	page     *listings.InsertionsPage // the first
	err      error                    // nil: access
	left     int                      // requests
}

// list begins a walk: it asks for one page, and for smaller ones while the API refuses the size.
func (a *asker) list(ctx context.Context, agencyID string, key listings.Key, known map[listings.Operation]listings.Dialect) *pausedWalk {
	a.left = mostAsked
	l := &pausedWalk{agencyID: agencyID, key: key, known: known}
	l.walk = a.client.Walk(key, agencyID, listings.WalkOptions{
		PageSize: a.o.PageSize, Filter: a.o.Filter, FirstSize: a.size, MaxPages: 3, Dialect: known[listings.OperationInsertions],
	})
	l.next, l.stop = iter.Pull2(l.walk.Pages(ctx))
	if l.page, l.err, _ = l.next(); l.err != nil {
		l.stop()
		return l
	}
	a.size, l.left = cmp.Or(l.size(), -1), a.left
	return l
}

// size is how many insertions were asked for; 0: it was left to the API.
func (l *pausedWalk) size() int { return l.walk.Verdict().Size }

func (l *pausedWalk) records() int { return len(l.page.Insertions) }

// more says whether the list surely holds more than its first page.
func (l *pausedWalk) more() bool { return l.page.Total > l.records() }

// mayHoldMore says whether it may. A page that is not full says nothing: services cap.
func (l *pausedWalk) mayHoldMore() bool {
	few := unsplitSize
	if size := l.size(); size > 0 {
		few = min(few, size)
	}
	return l.more() || l.page.Total < 0 && l.records() >= few
}

// Answers to a question about the API's habits.
const (
	yes     = "yes"
	no      = "no"
	unknown = "unknown" // what was there to see did not tell
	none    = "none"    // of conditional requests: the API gives nothing to ask with
)

// learned is the dialect of the answers for one agency: what the store remembers of it, and what else the answers showed. Nothing
// in it is a value from a record.
type learned struct {
	AgencyID        string                 `json:"agencyId"`
	Insertions      learnedInsertions      `json:"insertions"`
	ContactRequests learnedContactRequests `json:"contactRequests"`
	Conditional     string                 `json:"conditional"` // requests: yes, no (the whole answer came again), unknown, none
}

// learnedInsertions is what the list of insertions showed.
type learnedInsertions struct {
	listings.Dialect
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

// learnedContactRequests is what the contact requests of one insertion showed.
type learnedContactRequests struct {
	listings.Dialect
	Read         bool     `json:"read"` // false: nothing else says anything but Troubles
	Records      int      `json:"records"`
	Unreadable   int      `json:"unreadable"`
	IDCandidates []string `json:"idCandidates,omitempty"` // members that could be the id, best first
	OrderHeeded  string   `json:"orderHeeded"`            // yes, no, unknown
	NumberHeeded string   `json:"numberHeeded"`           // yes, no, unknown
	Troubles     []string `json:"troubles,omitempty"`

	refused failure // of an insertion that the list shows
}

// learning goes on where a list has paused.
type learning struct {
	*asker
	ctx    context.Context
	of     *pausedWalk
	out    *learned
	newest *listings.ContactRequestsPage // nil: not read
	target string                        // its insertion
	over   bool
}

// learn goes on with a good list and says what the answers show. With fewer requests than the list has left, or with no more than
// most, it says less. What fails is said in words and ends nothing but its own question; a refusal, and a call for patience, end all.
func (a *asker) learn(ctx context.Context, l *pausedWalk, most int) *learned {
	a.left = min(l.left, most)
	e := &learning{asker: a, ctx: ctx, of: l, out: &learned{AgencyID: l.agencyID, Conditional: unknown}}
	e.out.Insertions = learnedInsertions{
		Dialect: l.known[listings.OperationInsertions].Learned(l.page.Dialect()), Records: l.records(), Unreadable: l.page.Unreadable,
		Asked: l.size(), Largest: l.records(), MayHoldMore: l.mayHoldMore(), RefusedSizes: l.walk.Verdict().Refused,
	}
	e.out.ContactRequests = learnedContactRequests{Dialect: l.known[listings.OperationContactRequests], OrderHeeded: unknown, NumberHeeded: unknown}
	for _, question := range []func(){e.contacts, e.pages, e.oldest, e.conditional, e.sizes} {
		if !e.over && a.left > 0 {
			question()
		}
	}
	i, c := &e.out.Insertions, &e.out.ContactRequests
	i.PageHeeded = heeded(i.FirstPage)
	if i.PageHeeded != yes {
		i.FirstPage = unknown
	}
	i.Dialect, c.Dialect = i.Printable(), c.Printable()
	c.CreatedForm = cmp.Or(c.CreatedForm, unknown)
	return e.out
}

// heeded says whether page numbers are.
func heeded(firstPage string) string {
	switch firstPage {
	case "":
		return unknown
	case listings.PagesIgnored:
		return no
	}
	return yes
}

// trouble notes what failed, and ends everything where to ask on would be rude or useless.
func (e *learning) trouble(to *[]string, question string, err error) {
	if errors.Is(err, errEnough) {
		return
	}
	f := failureOf(err)
	*to = append(*to, question+": "+f.text)
	e.over = e.ctx.Err() != nil || slices.Contains([]watch.Class{watch.ClassRefused, watch.ClassBusy, watch.ClassDown}, f.class)
}

// contacts reads the contact requests of the first insertion, and of one more if it has none or is aside.
func (e *learning) contacts() {
	c, all := &e.out.ContactRequests, e.of.page.Insertions
	for _, n := range slices.Compact([]int{0, len(all) / 2}) {
		if e.over || n >= len(all) {
			return
		}
		page, err := e.contactRequests(all[n].Reference, newestSize, "desc", listings.Expect{})
		if err != nil {
			c.refused = failureOf(err)
			e.trouble(&c.Troubles, "contact requests", err)
			continue
		}
		e.newest, e.target, c.Read = page, all[n].Reference, true
		c.Dialect, c.Records, c.Unreadable = c.Learned(page.Dialect()), len(page.ContactRequests), page.Unreadable
		if c.Records > 0 {
			e.identify(nil)
			return
		}
	}
}

func (e *learning) contactRequests(reference string, most int, order string, x listings.Expect) (*listings.ContactRequestsPage, error) {
	x.Dialect = e.of.known[listings.OperationContactRequests]
	return e.client.ContactRequests(e.ctx, e.of.key, e.of.agencyID, reference,
		listings.ContactRequestsQuery{NumberOfItemsPerPage: most, SortBy: "createdAt", SortOrder: order, Expect: x})
}

// identify says which member is the id, by two readings, unless that is known.
func (e *learning) identify(again []listings.ContactRequest) {
	if c := &e.out.ContactRequests; e.of.known[listings.OperationContactRequests].IDField == "" {
		c.IDCandidates, c.IDField = listings.LearnID(e.o.IDFields, e.target, e.newest.ContactRequests, again)
	}
}

// pages goes on with the walk until it shows how pages are numbered.
func (e *learning) pages() {
	i := &e.out.Insertions
	for more := i.Records > 0; more && i.FirstPage == ""; {
		page, err, ok := e.of.next()
		v := e.of.walk.Verdict()
		i.FirstPage, i.Largest, more = v.FirstPage, max(i.Largest, v.Fullest), ok && err == nil
		if heeded(i.FirstPage) == yes {
			i.MayHoldMore = e.of.more() || more && len(page.Insertions) > 0
		}
		if err != nil {
			e.trouble(&i.Troubles, "another page", err)
		}
	}
}

// oldest asks for a few from the other end: order, number and ids of a second reading show.
func (e *learning) oldest() {
	c := &e.out.ContactRequests
	if c.Records < 2 {
		return
	}
	page, err := e.contactRequests(e.target, oldestSize, "asc", listings.Expect{})
	if err != nil {
		e.trouble(&c.Troubles, "contact requests, oldest first", err)
		return
	}
	c.Dialect = c.Learned(page.Dialect())
	rises, falls := directions(e.newest.ContactRequests)
	again, back := directions(page.ContactRequests)
	switch {
	case rises || back:
		c.OrderHeeded = no
	case falls && again:
		c.OrderHeeded = yes
	}
	switch {
	case len(page.ContactRequests) > oldestSize:
		c.NumberHeeded = no
	case max(c.Records, e.newest.Total) > oldestSize:
		c.NumberHeeded = yes
	}
	e.identify(page.ContactRequests)
}

// directions says which ways the times of a list go.
func directions(list []listings.ContactRequest) (rises, falls bool) {
	for i := 1; i < len(list); i++ {
		if a, b := list[i-1].CreatedAt, list[i].CreatedAt; !a.IsZero() && !b.IsZero() {
			rises, falls = rises || b.After(a), falls || b.Before(a)
		}
	}
	return rises, falls
}

// conditional asks for the newest again, to be answered only if something has changed, as polls do.
func (e *learning) conditional() {
	if e.newest == nil {
		return
	}
	x := listings.Expect{ETag: e.newest.ETag, LastModified: e.newest.LastModified}
	if x.ETag+x.LastModified == "" {
		e.out.Conditional = none
		return
	}
	page, err := e.contactRequests(e.target, newestSize, "desc", x)
	switch {
	case err != nil:
		e.trouble(&e.out.ContactRequests.Troubles, "conditional request", err)
	case page.NotModified:
		e.out.Conditional = yes
	default:
		e.out.Conditional = no
	}
}

// sizes asks for the list without a size, and for a larger page unless one was configured or refused, where the first page may not
// hold all.
func (e *learning) sizes() {
	i := &e.out.Insertions
	switch {
	case !i.MayHoldMore:
		return
	case i.Asked == 0:
		i.Default = i.Records
		return
	}
	if page := e.insertions(0, "without a size"); page != nil {
		i.Default = len(page.Insertions)
	}
	if e.over || e.o.PageSize > 0 || len(i.RefusedSizes) > 0 {
		return
	}
	if page := e.insertions(largerSize, "with a larger size"); page != nil {
		surely := e.of.more() || heeded(i.FirstPage) == yes // else all may fit
		i.Capped = len(page.Insertions) <= i.Records && surely
	}
}

// insertions asks for the first page with another size; nil if it does not come.
func (e *learning) insertions(size int, question string) *listings.InsertionsPage {
	i := &e.out.Insertions
	page, err := e.client.Insertions(e.ctx, e.of.key, e.of.agencyID, listings.InsertionsQuery{
		PageSize: size, Other: e.o.Filter, Expect: listings.Expect{Dialect: e.of.known[listings.OperationInsertions]},
	})
	switch {
	case err == nil:
		i.Largest = max(i.Largest, len(page.Insertions))
	case size > 0 && watch.RefusedSize(err):
		i.RefusedSizes = append(i.RefusedSizes, size)
	default:
		e.trouble(&i.Troubles, question, err)
	}
	return page
}

// failure is what went wrong with a request, in words without the insertion that was asked for, and what run makes of it.
type failure struct {
	text   string
	status int // 0: no answer
	class  watch.Class
}

func failureOf(err error) failure {
	var of interface {
		error
		String() string // what was asked for
	}
	f := failure{text: "failed", class: watch.Classify(err)}
	if !errors.As(err, &of) {
		return f
	}
	f.text = strings.TrimPrefix(of.Error(), of.String()+": ")
	switch e := of.(type) {
	case *listings.StatusError:
		f.status = e.Status
		if e.Body == listings.BodyHTML {
			f.text += ", as HTML"
		}
		if e.RetryAfter > 0 {
			f.text += fmt.Sprintf(", to be asked again after %s", e.RetryAfter.Round(time.Second))
		}
	case *listings.TransportError:
		f.text = "no answer (" + f.text + ")"
	case *listings.DriftError:
		f.status, f.text = e.Status, "not the answer of this API: "+f.text
	}
	return f
}
