package listings

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
)

// WalkOptions of Client.Walk. Zero values mean the defaults that stand beside them.
type WalkOptions struct {
	// PageSize; another one where that was refused before; negative: it is left to the API
	Size     int
	Filter   url.Values // the API's own filters, sent with every page
	MaxPages int        // 10,000
	Place    Place      // where the records stood before

	Settled func(Sum) *InsertionsPage // as [InsertionsQuery] has it
}

func (o WalkOptions) withDefaults() WalkOptions {
	o.Size = max(cmp.Or(o.Size, PageSize), 0)
	if o.MaxPages <= 0 {
		o.MaxPages = 10_000
	}
	o.Filter = maps.Clone(o.Filter)
	for _, name := range []string{"page", "pageSize"} {
		delete(o.Filter, name) // the walk sets them
	}
	return o
}

// PageSize is how many insertions a walk asks for in one request. Smaller sizes are tried where the
// API refuses it.
const PageSize = 100

// Reasons of a partial walk.
const (
	ReasonPageFailed     = "page_failed"      // a page could not be read; Verdict.Err says why
	ReasonCanceled       = "canceled"         // the context ended, or the caller stopped
	ReasonFewerThanTotal = "fewer_than_total" // the API counts more than it shows
	// every page is the first one, and nothing says that it is all
	ReasonPageIgnored  = "page_ignored"
	ReasonTooManyPages = "too_many_pages"     // a bound was reached
	ReasonUnreadable   = "unreadable_records" // elements without a reference
	ReasonIncomplete   = "says_incomplete"    // a response says that it lacks something
	// a reference was met on two pages: another one may have been passed over
	ReasonPagesMoved = "pages_moved"
	// a response says that there are pages which the walk did not get
	ReasonPagesMissing = "pages_missing"
)

// Verdict says how a walk has ended.
type Verdict struct {
	Complete bool
	Reason   string // of a partial walk: the Reason constants
	// the reason lies in how the API pages, not in a failure: another walk will hardly do better
	Structural bool
	Pages      int   // that were read, empty ones included
	References int   // different ones
	Size       int   // the page size that was used; 0: it was left to the API
	Err        error // what ended a partial walk; nil if it came to an end
}

// Walk is one reading of all insertions of an agency. Nothing is known beforehand of how the API
// numbers its pages, how many records it puts on one, and what it answers past the end. So a walk
// asks without a page number, then for 1, 2, 3 … with one size throughout, and unites by reference:
// a service that counts from 0 answers 1 with the second page, one that counts from 1 answers it
// with the first again.
//
// It ends with an empty page, with null or the same refusal for two pages in a row, or with two
// pages in a row that bring nothing new; never with a short one, because services cap. What
// responses claim about the list, such as a total, can disprove that a walk is complete, and never
// proves it; see conclude.
//
// A walk is for one goroutine and to be read once.
type Walk struct {
	c      *Client
	key    Key
	agency string
	o      WalkOptions

	verdict Verdict
	reading
}

// reading is what was read with one size.
type reading struct {
	seen, first, last map[string]struct{} // references of all pages, of the first, of the last
	pages             int                 // that were read
	// pages that brought something new and are not the first one again
	distinct   int
	fullest    int   // most references on a page
	nothing    int   // pages in a row that brought nothing new
	refusal    error // of the page before
	pastEnd    bool  // a page was null, or "" or {}
	oddEnd     bool  // a page was "" or {}
	total      int   // the largest that was claimed; -1: none
	odd        int   // elements without a reference
	claimed    int   // the largest number of pages that was claimed
	more       Claim // of the last page that was not empty
	moved      bool  // a reference was met on two pages that differ
	holes      int   // pages that were empty and not the last
	incomplete bool  // a response said so
}

// Walk prepares to read all pages of an agency's insertions. It makes no request before Pages is
// ranged over.
func (c *Client) Walk(key Key, agency string, o WalkOptions) *Walk {
	o = o.withDefaults()
	w := &Walk{c: c, key: key, agency: agency, o: o, verdict: Verdict{Reason: ReasonCanceled, Size: o.Size}}
	w.restart()
	return w
}

func (w *Walk) restart() {
	w.reading = reading{seen: map[string]struct{}{}, total: -1}
}

// Pages yields every page as it is read, empty ones too. A page may repeat references of earlier
// ones. An error is the last that is yielded; refusals by which the API only shows its limits (of
// size, of pages) are not among them.
func (w *Walk) Pages(ctx context.Context) iter.Seq2[*InsertionsPage, error] {
	return func(yield func(*InsertionsPage, error) bool) {
		stopped := false
		reason, err := w.read(ctx, func(page *InsertionsPage) bool {
			stopped = !yield(page, nil)
			return !stopped
		})
		if ctx.Err() != nil && reason == ReasonPageFailed {
			reason = ReasonCanceled
		}
		w.conclude(reason, err)
		if err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// Verdict says how the walk has ended. Before Pages was ranged over to its end it is partial.
func (w *Walk) Verdict() Verdict {
	v := w.verdict
	v.References = len(w.seen)
	return v
}

// maxReferences bounds what is remembered of a service that never comes to an end.
const maxReferences = 1_000_000

// read asks for page after page until the list has ended. Without a reason it came to its end.
func (w *Walk) read(ctx context.Context, show func(*InsertionsPage) bool) (reason string, err error) {
	sizes, place := w.sizes(), w.o.Place
	for number := 0; ; number++ {
		if w.pages >= w.o.MaxPages || len(w.seen) >= maxReferences {
			return ReasonTooManyPages, nil
		}
		w.verdict.Size = sizes[0]
		page, err := w.c.Insertions(ctx, w.key, w.agency, InsertionsQuery{
			PageSize: sizes[0], Page: number, Other: w.o.Filter, Place: place, Settled: w.o.Settled,
		})
		isSize := errors.Is(err, ErrBodyTooLarge) || w.pages == 0 && IsRefusedSize(err)
		switch {
		case isSize && len(sizes) > 1:
			sizes, number = sizes[1:], -1
			w.restart()
			continue
		case err != nil && (isSize || w.pages == 0 || !isPastEnd(err)):
			return ReasonPageFailed, err
		case err != nil && w.refusal == nil: // one refusal proves nothing: it may be one bad page
			w.refusal = err
			continue
		case err == nil && w.refusal != nil || err != nil && statusOf(err) != statusOf(w.refusal):
			// a hole: the page before was refused, this one is not
			return ReasonPageFailed, w.refusal
		case err != nil:
			return "", nil
		}
		w.oddEnd = w.oddEnd || page.oddEnd
		if page.pastEnd && !w.pastEnd { // it proves nothing alone either
			w.pastEnd = true
			continue
		}
		if page.Found {
			place = page.Place()
		}
		ended := w.take(page)
		if !show(page) {
			return ReasonCanceled, nil
		}
		if ended {
			return "", nil
		}
	}
}

// sizes are what is tried in turn; 0 leaves the size to the API. A size of 1 is never among them:
// some refuse it.
func (w *Walk) sizes() []int {
	isTooLarge := func(size int) bool { return size >= w.o.Size }
	return append([]int{w.o.Size}, slices.DeleteFunc([]int{50, 20, 0}, isTooLarge)...)
}

// maxEmpty is how many empty pages are skipped.
const maxEmpty = 10

// take compares a page with what was read before it, and reports whether the list ends with it.
// Where page numbers are ignored, an insertion that came in between makes the first page look like
// another one: a page of which most was on the first is the first again.
func (w *Walk) take(page *InsertionsPage) (ended bool) {
	w.pages++
	w.verdict.Pages++
	w.odd += page.Unreadable
	w.total, w.claimed = max(w.total, page.Total), max(w.claimed, page.Claims.Pages)
	w.incomplete = w.incomplete || page.Claims.Incomplete
	own := make(map[string]struct{}, len(page.Insertions))
	fresh, onFirst := 0, 0
	for _, i := range page.Insertions {
		m := i.Reference
		if _, twice := own[m]; twice {
			continue
		}
		own[m] = struct{}{}
		if _, is := w.first[m]; is {
			onFirst++
		}
		if _, known := w.seen[m]; !known {
			fresh++
			w.seen[m] = struct{}{}
		}
	}
	if len(own) == 0 {
		return w.takeEmpty(page)
	}
	if w.pastEnd { // the page that was null hides something
		w.holes++
	}
	isFirst := onFirst > len(own)/2
	w.moved = w.moved || fresh < len(own) && !maps.Equal(own, w.last)
	w.more = page.Claims.More
	w.nothing++
	if fresh > 0 {
		w.nothing = 0
		if !isFirst {
			w.distinct++
		}
	}
	if w.first == nil {
		w.first = own
	}
	w.last, w.fullest = own, max(w.fullest, len(own))
	return w.nothing == 2
}

// takeEmpty ends the list with an empty page, unless the page says that others follow: then it is
// skipped. Where the page before claimed that there is more and this one does not deny it, that is
// a hole, too.
func (w *Walk) takeEmpty(page *InsertionsPage) (ended bool) {
	claim := page.Claims.More
	if claim == Claimed || claim == Unsaid && w.claimed > w.distinct+w.holes+1 {
		w.holes++
		return w.holes > maxEmpty
	}
	if claim == Denied {
		w.more = Denied
	}
	if w.pastEnd && !page.pastEnd {
		w.holes++
	}
	return true
}

// conclude makes the verdict. What a response says of its own incompleteness is never overruled;
// that pages were missed or have moved is, by a total that equals what was read.
func (w *Walk) conclude(reason string, err error) {
	v := &w.verdict
	v.Reason, v.Err = reason, err
	switch {
	case v.Reason != "":
	case w.incomplete:
		v.Reason = ReasonIncomplete
	case w.total > len(w.seen):
		v.Reason = ReasonFewerThanTotal
	case w.odd > 0:
		v.Reason = ReasonUnreadable
	case w.total == len(w.seen):
	case w.isOnePage() && w.mayBeCut():
		v.Reason = ReasonPageIgnored
	case w.moved:
		v.Reason = ReasonPagesMoved
	case w.more == Claimed, w.holes > 0, w.claimed > w.distinct,
		(w.refusal != nil || w.oddEnd) && w.isFull():
		v.Reason = ReasonPagesMissing
	}
	v.Complete = v.Reason == ""
	v.Structural = !v.Complete && v.Reason != ReasonPageFailed && v.Reason != ReasonCanceled
}

// isOnePage reports whether the first page may be all that the service ever shows. It is not where
// the service answered page 1 like the first and refused 2, or showed an empty page.
func (w *Walk) isOnePage() bool {
	isHeeded := w.refusal != nil && w.pages > 1
	return w.distinct == 1 && !isHeeded && (w.nothing == 2 || w.refusal != nil)
}

// mayBeCut reports whether the only page that a service shows may be a part of the list: it is as
// full as was asked for, or holds as many as services cap pages at.
func (w *Walk) mayBeCut() bool {
	n := len(w.first)
	return w.verdict.Size > 0 && n >= w.verdict.Size || n == 25 || n >= 20 && n%10 == 0
}

// isFull reports whether the last page was as full as any: then the list may go on behind it.
func (w *Walk) isFull() bool {
	n := len(w.last)
	return w.verdict.Size > 0 && n >= w.verdict.Size || w.distinct > 1 && n >= w.fullest
}

// IsRefusedSize says whether a request may have been refused because of the number of records that
// was asked for.
func IsRefusedSize(err error) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusRequestEntityTooLarge,
		http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
	}, statusOf(err))
}

// isPastEnd says whether a page may have been refused, or shows no list, because there is none of
// that number.
func isPastEnd(err error) bool {
	return slices.Contains([]int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusGone,
		http.StatusRequestedRangeNotSatisfiable, http.StatusUnprocessableEntity,
	}, statusOf(err))
}

func statusOf(err error) int {
	if s, ok := errors.AsType[*StatusError](err); ok {
		return s.Status
	}
	return 0
}
