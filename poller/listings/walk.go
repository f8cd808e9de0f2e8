package listings

import (
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// WalkOptions of Client.Walk. Zero values mean the defaults that stand beside them.
type WalkOptions struct {
	PageSize int        // 50; what to begin with. Smaller ones are tried if the API refuses it
	Filter   url.Values // the API's own filters, sent with every page
	// FirstSize is a smaller size to begin with, because larger ones were refused before; negative: the size is left to the
	// API. 0: PageSize.
	FirstSize int
	// Larger is a size beyond PageSize to read with. Where no complete walk comes of it, and a smaller size may do better, all
	// is read anew as if it were not set. 0: none.
	Larger int
	// LastShown is how many references the last complete walk showed. Where Larger shows far fewer, or any fewer and no
	// empty page at the end, that is looked at again too.
	LastShown int
	MaxPages  int     // 10,000; a bound, over all pages that are read, beside that of a million references
	Dialect   Dialect // where the records were found before
	// EndsEmpty: the list of this agency is known to end with an empty page. Refusals are then no end but failures.
	EndsEmpty bool
	// Known returns the page with this hash of its body, where the caller holds every record of it as it is: then the page is
	// yielded as the Same, with references alone. nil: there is none.
	Known func(Sum) *KnownPage
}

// KnownPage is a page of insertions whose records the caller of a walk holds as they are.
type KnownPage struct {
	Path       string // where its records stood
	Total      int
	Bytes      int // of its records
	References []string
}

func (o WalkOptions) withDefaults() WalkOptions {
	if o.PageSize <= 0 {
		o.PageSize = 50
	}
	if o.MaxPages <= 0 {
		o.MaxPages = 10_000
	}
	o.Filter = maps.Clone(o.Filter)
	for _, name := range []string{"page", "pageSize"} {
		delete(o.Filter, name) // are the walk's own
	}
	return o
}

// Reasons of a partial walk.
const (
	ReasonPageFailed     = "page_failed"        // a page could not be read; Verdict.Err says why
	ReasonCanceled       = "canceled"           // the context ended, or the caller stopped
	ReasonFewerThanTotal = "fewer_than_total"   // the API counts more than it shows
	ReasonPageIgnored    = "page_ignored"       // every page is the first one, and nothing says that it is all
	ReasonTooManyPages   = "too_many_pages"     // a bound was reached
	ReasonUnreadable     = "unreadable_records" // elements without a reference stand for nobody knows what
)

// Verdict is what a walk as a whole says.
type Verdict struct {
	Complete   bool
	Reason     string        // of a partial walk: the Reason constants
	Structural bool          // the reason lies in how the API pages, not in a failure: another walk will hardly do better
	EndsEmpty  bool          // the list ended with an empty page
	FirstPage  string        // how pages are numbered, see Dialect
	Refused    []int         // sizes that the API refused, or that were too much
	Moved      bool          // pages moved under the walk: a reference met on two of them, a total that changed
	Pages      int           // that were read, empty ones included
	References int           // different ones
	Size       int           // the page size that was used; 0: it was left to the API
	TooLarge   bool          // Larger did not do
	Fullest    int           // most records on a page
	Bytes      int           // most bytes of records on a page
	Took       time.Duration // from a question to the last byte of its answer, on average
	Err        error         // what ended a partial walk; nil if it came to an end
}

// Walk is one reading of all insertions of an agency. Nothing is known beforehand of how the API numbers its pages, how
// many records it puts on one, and what it answers past the end. So a walk asks without a page number, then for 1, 2, 3 …
// with one size throughout, and unites by reference: a service that counts from 0 answers 1 with the second page, one that
// counts from 1 answers it with the first again.
//
// It ends with an empty page, with the same refusal for two pages in a row, or with two pages in a row that bring nothing
// new; never with a short one, because services cap. Totals never prove an end, they only refute it. If 1 and 2 both bring
// nothing new, then either everything fits one page or page numbers are ignored: see fits.
//
// A walk is for one goroutine and to be read once.
type Walk struct {
	c      *Client
	key    Key
	agency string
	o      WalkOptions

	all     map[Sum]struct{} // all references that were read, by their hashes, so that a walk over many does not hold them
	verdict Verdict
	least   int           // smallest total of a page with records; -1: none was told
	first   int           // first such total
	odd     int           // unreadable elements
	given   int           // pages that were read in vain, with a size that was too large
	took    time.Duration // for all others
	refused []int         // sizes
}

// Walk prepares to read all pages of an agency's insertions. It asks nothing before Pages is ranged over.
func (c *Client) Walk(key Key, agency string, o WalkOptions) *Walk {
	o = o.withDefaults()
	return &Walk{
		c: c, key: key, agency: agency, o: o, all: map[Sum]struct{}{}, least: -1, first: -1,
		verdict: Verdict{Reason: ReasonCanceled, Size: o.PageSize},
	}
}

// Pages yields every page as it is read, empty ones too. A page may repeat references of earlier ones. An error is the
// last that is yielded; refusals by which the API only shows its limits (of size, of pages) are not among them.
func (w *Walk) Pages(ctx context.Context) iter.Seq2[*InsertionsPage, error] {
	return func(yield func(*InsertionsPage, error) bool) {
		end := w.read(ctx, yield)
		if ctx.Err() != nil && end.reason == ReasonPageFailed {
			end.reason = ReasonCanceled
		}
		w.conclude(end)
		if end.err != nil && !end.stopped {
			yield(nil, end.err)
		}
	}
}

// Verdict is what the walk says. Before Pages was ranged over to its end it is partial.
func (w *Walk) Verdict() Verdict {
	v := w.verdict
	v.References, v.Refused = len(w.all), slices.Clone(w.refused)
	return v
}

// end is how a reading of pages ended; without a reason it came to an end of the list.
type end struct {
	reason  string
	err     error
	stopped bool // by the caller
	single  bool // pages 1 and 2 brought nothing that the first had not: see fits
	records int  // different references that were read
}

// read reads with the larger size, if there is one, else with the usual ones.
func (w *Walk) read(ctx context.Context, yield func(*InsertionsPage, error) bool) end {
	if w.o.Larger <= w.o.PageSize {
		return w.readUsual(ctx, yield)
	}
	e, _ := w.pass(ctx, w.o.Larger, yield)
	if e.stopped || ctx.Err() != nil || !w.mayMend(e) {
		return e
	}
	found := len(w.all)
	w.anew()
	again := w.readUsual(ctx, yield)
	w.verdict.TooLarge = again.reason == "" && (e.reason != "" || len(w.all) > found)
	return again
}

// readUsual goes through the sizes until the API takes one.
func (w *Walk) readUsual(ctx context.Context, yield func(*InsertionsPage, error) bool) end {
	var e end
	for n, size := range w.sizes() {
		if n > 0 {
			w.anew()
		}
		var pages int
		e, pages = w.pass(ctx, size, yield)
		if errors.Is(e.err, ErrBodyTooLarge) || pages == 0 && IsRefusedSize(e.err) {
			w.refused = append(w.refused, size)
			continue
		}
		break
	}
	return e
}

// pass reads the list with one size, and once more with half of it where that tells more.
func (w *Walk) pass(ctx context.Context, size int, yield func(*InsertionsPage, error) bool) (e end, pages int) {
	w.verdict.Size = size
	r := w.reading(size, yield)
	e = r.run(ctx)
	if e.single && !w.fits(e.records) {
		w.verdict.TooLarge = size > w.o.PageSize // to see that pages differ costs more than several of them
		e = w.halved(ctx, e.records, yield)
	}
	return e, r.pages
}

// anew forgets what was read with a size that did not do. Its pages were shown, and count no more.
func (w *Walk) anew() {
	w.given, w.took = w.verdict.Pages, 0
	w.all, w.least, w.first, w.odd = map[Sum]struct{}{}, -1, -1, 0
	w.verdict = Verdict{Reason: ReasonCanceled, Pages: w.verdict.Pages}
}

// mayMend says whether the list may be read to its end with smaller pages where it was not with large ones.
func (w *Walk) mayMend(e end) bool {
	switch e.reason {
	case "":
		known := (9*w.o.LastShown + 9) / 10
		if !w.verdict.EndsEmpty {
			known = w.o.LastShown
		}
		return w.least > len(w.all) || w.odd > 0 || len(w.all) < known
	case ReasonPageFailed:
		return errors.Is(e.err, ErrBodyTooLarge) || isAnswerOfSize(e.err)
	}
	return e.reason == ReasonPageIgnored
}

// isAnswerOfSize says whether a failure may have to do with how much was asked for. Nothing has that comes of the key, of
// throttling by the API, or of there being no API at all.
func isAnswerOfSize(err error) bool {
	if status, ok := errors.AsType[*StatusError](err); ok {
		asks := status.Status == http.StatusTooManyRequests || status.Status == http.StatusServiceUnavailable && status.RetryAfter > 0
		return !asks && status.Status != http.StatusUnauthorized && status.Status != http.StatusForbidden
	}
	broken, ok := errors.AsType[*TransportError](err)
	return ok && (broken.Stage == StageTimeout || broken.Stage == StageRead) || is[*DriftError](err)
}

// sizes are what is tried in turn, beginning with what was taken before; 0 leaves the size to the API. A size of 1 is never
// among them: some refuse it.
func (w *Walk) sizes() []int {
	first := w.o.PageSize
	if w.o.FirstSize != 0 {
		first = min(first, max(w.o.FirstSize, 0))
	}
	return append([]int{first}, slices.DeleteFunc([]int{50, 20, 0}, func(size int) bool { return size >= first })...)
}

// surelyOnePage is a number of records that no service caps a page at.
const surelyOnePage = 20

// fits says whether a list whose every page is the same surely fits that one page. A page that is as full as was asked for
// may be one of many, however small it is.
func (w *Walk) fits(records int) bool {
	isFull := w.verdict.Size > 0 && records >= w.verdict.Size
	return records < surelyOnePage && !isFull || w.first == w.least && w.first == records
}

// halved reads the list once more with half as many records to a page, and never more than the caller wants: if pages
// differ then, page numbers are heeded, and the walk is as good as any.
func (w *Walk) halved(ctx context.Context, records int, yield func(*InsertionsPage, error) bool) end {
	r := w.reading(max(1, min(records, max(w.o.PageSize, w.verdict.Size))/2), yield)
	e := r.run(ctx)
	if e.single || r.pages == 0 && IsRefusedSize(e.err) {
		return end{reason: ReasonPageIgnored}
	}
	return e
}

// conclude makes the verdict.
func (w *Walk) conclude(e end) {
	v := &w.verdict
	v.Reason, v.Err = e.reason, e.err
	if read := v.Pages - w.given; read > 0 {
		v.Took = w.took / time.Duration(read)
	}
	switch {
	case v.Reason != "":
	case w.least > len(w.all):
		v.Reason = ReasonFewerThanTotal
	case w.odd > 0:
		v.Reason = ReasonUnreadable
	}
	v.Complete = v.Reason == ""
	switch v.Reason {
	case ReasonFewerThanTotal, ReasonPageIgnored, ReasonTooManyPages, ReasonUnreadable:
		v.Structural = true
	}
}

// IsRefusedSize says whether a request may have been refused because of the number of records that was asked for.
func IsRefusedSize(err error) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
	}, statusOf(err))
}

// isPastEnd says whether a page may have been refused because there is none of that number.
func isPastEnd(err error) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusGone, http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
	}, statusOf(err))
}

func statusOf(err error) int {
	if s, ok := errors.AsType[*StatusError](err); ok {
		return s.Status
	}
	return 0
}

// maxReferences bounds what is remembered of a service that never comes to an end.
const maxReferences = 1_000_000

// reading is one pass over the pages with one size.
type reading struct {
	w     *Walk
	size  int
	yield func(*InsertionsPage, error) bool

	first   map[Sum]struct{} // references of the first page
	pages   int              // that were read
	seen    map[Sum]struct{} // references of this pass
	last    map[Sum]struct{} // of the page before
	nothing int              // pages in a row that brought nothing new
	news    int              // pages but the first that brought something new and are not the first once more
	refusal error            // of the page before
	dialect Dialect          // where the records were found last
}

func (w *Walk) reading(size int, yield func(*InsertionsPage, error) bool) *reading {
	return &reading{w: w, size: size, yield: yield, seen: map[Sum]struct{}{}, dialect: w.o.Dialect}
}

// run asks without a page number, then for 1, 2, 3 … until the pass is over.
func (r *reading) run(ctx context.Context) end {
	for number := 0; ; number++ {
		if r.w.verdict.Pages-r.w.given >= r.w.o.MaxPages || len(r.w.all) >= maxReferences {
			return end{reason: ReasonTooManyPages}
		}
		page, err := r.ask(ctx, number)
		over, e := false, end{}
		if err != nil {
			over, e = r.refused(err)
		} else {
			over, e = r.take(page)
		}
		if over {
			return e
		}
	}
}

// ask reads a page. One that the caller knows is not decoded, and holds references only.
func (r *reading) ask(ctx context.Context, number int) (*InsertionsPage, error) {
	expect := Expect{Dialect: r.dialect}
	var same *KnownPage
	if r.w.o.Known != nil && r.dialect.Known {
		expect.Known = func(body Sum) bool {
			if same = r.w.o.Known(body); same != nil && same.Path != r.dialect.Path {
				same = nil // what is known was found elsewhere
			}
			return same != nil
		}
	}
	query := InsertionsQuery{PageSize: r.size, Page: number, Other: r.w.o.Filter, Expect: expect}
	page, err := r.w.c.Insertions(ctx, r.w.key, r.w.agency, query)
	if err != nil || !page.Same {
		return page, err
	}
	r.w.verdict.Bytes = max(r.w.verdict.Bytes, same.Bytes)
	if !page.Found { // not decoded
		page.Path, page.Found, page.Total = same.Path, true, same.Total
		page.Insertions = make([]Insertion, len(same.References))
		for n, reference := range same.References {
			page.Insertions[n].Reference = reference
		}
	}
	return page, err
}

// refused judges an error: past the end there may be refusals instead of empty pages. One alone proves nothing, it may be
// one bad page; two of the same kind, for two pages in a row, are the end.
func (r *reading) refused(err error) (over bool, e end) {
	if r.pages == 0 || r.w.o.EndsEmpty || !isPastEnd(err) {
		return true, end{reason: ReasonPageFailed, err: err}
	}
	if r.refusal == nil {
		r.refusal = err
		r.number(r.pages, false)
		return false, end{}
	}
	if statusOf(r.refusal) != statusOf(err) {
		return true, end{reason: ReasonPageFailed, err: r.refusal}
	}
	return true, r.ended()
}

// take counts a page and passes it on.
func (r *reading) take(page *InsertionsPage) (over bool, e end) {
	if r.refusal != nil {
		return true, end{reason: ReasonPageFailed, err: r.refusal} // a hole: the page before was refused, this one is not
	}
	r.pages++
	r.w.verdict.Pages++
	r.w.measure(page)
	if page.Found {
		r.dialect = page.Dialect()
	}
	r.note(page)
	if !r.yield(page, nil) {
		return true, end{reason: ReasonCanceled, stopped: true}
	}
	switch {
	case len(page.Insertions) == 0:
		r.w.verdict.EndsEmpty = r.pages > 1 // an empty list does not tell how others end
		return true, end{}
	case r.nothing == 2:
		return true, r.ended()
	}
	return false, end{}
}

// measure notes how large pages are, and how long they take.
func (w *Walk) measure(page *InsertionsPage) {
	bytes := 0
	for _, i := range page.Insertions {
		bytes += len(i.Record)
	}
	w.verdict.Bytes = max(w.verdict.Bytes, bytes)
	w.verdict.Fullest = max(w.verdict.Fullest, len(page.Insertions)+page.Unreadable)
	w.took += page.Received.Sub(page.Sent)
}

// ended is the end of the list where no empty page showed it. If no page but the first brought anything, the first may be
// all that this service ever shows; not so if it answered page 1 like the first and refused 2.
func (r *reading) ended() end {
	heeded := r.refusal != nil && r.pages > 1
	return end{single: r.news == 0 && !heeded, records: len(r.seen)}
}

// note compares a page with what was read before it. Where page numbers are ignored, an insertion that came in between makes
// the first page look like another: one of which most was on the first is the first again.
func (r *reading) note(page *InsertionsPage) {
	r.w.odd += page.Unreadable
	own := make(map[Sum]struct{}, len(page.Insertions))
	for _, i := range page.Insertions {
		own[sumOf([]byte(i.Reference))] = struct{}{}
	}
	fresh, onFirst := 0, 0
	for m := range own {
		if _, known := r.first[m]; known {
			onFirst++
		}
		if _, known := r.seen[m]; !known {
			fresh++
			r.seen[m], r.w.all[m] = struct{}{}, struct{}{}
		}
	}
	if fresh < len(own) && !maps.Equal(own, r.last) {
		r.w.verdict.Moved = true
	}
	isFirst := onFirst > len(own)/2
	r.nothing++
	if fresh > 0 {
		r.nothing = 0
		if r.pages > 1 && !isFirst {
			r.news++
		}
	}
	if r.pages == 1 {
		r.first = own
	}
	r.last = own
	if len(own) > 0 || r.pages == 1 {
		r.count(page.Total)
	}
	r.number(r.pages-1, isFirst)
}

// number notes what the answers to page=1 and 2 say about how pages are numbered: whether they are the first page again.
func (r *reading) number(asked int, again bool) {
	switch first := &r.w.verdict.FirstPage; {
	case asked == 1 && !again:
		*first = "0"
	case asked == 2 && again:
		*first = PagesIgnored
	case asked == 2 && *first != "0":
		*first = "1"
	}
}

// count keeps the totals. Those of empty pages are left out: past the end some say 0.
func (r *reading) count(total int) {
	w := r.w
	if total < 0 {
		return
	}
	if w.first < 0 {
		w.first, w.least = total, total
	}
	if total != w.first {
		w.verdict.Moved = true
	}
	w.least = min(w.least, total)
}
