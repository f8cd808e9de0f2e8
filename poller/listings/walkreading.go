package listings

import (
	"context"
)

// maxReferences bounds what is remembered of a service that never comes to an end.
const maxReferences = 1_000_000

// reading is one pass over the pages with one size.
type reading struct {
	w     *Walk
	size  int
	yield func(*InsertionsPage, error) bool

	first   map[mark]struct{} // references of the first page
	pages   int               // that were read
	seen    map[mark]struct{} // references of this pass
	last    content           // of the page before
	nothing int               // pages in a row that brought nothing new
	news    int               // pages but the first that brought something new and are not the first once more
	refusal error             // of the page before
	shape   Shape             // where the records were found last
}

// content tells whether two pages hold the same references, in whatever order.
type content struct {
	records int
	marks   mark // combined with XOR
}

func (w *Walk) reading(size int, yield func(*InsertionsPage, error) bool) *reading {
	return &reading{w: w, size: size, yield: yield, seen: map[mark]struct{}{}, shape: w.o.Shape}
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
	expect := Expect{Shape: r.shape}
	var same *KnownPage
	if r.w.o.Known != nil && r.shape.Known {
		expect.Known = func(body Sum) bool {
			if same = r.w.o.Known(body); same != nil && same.Path != r.shape.Path {
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
		r.shape = Shape{Path: page.Path, Known: true}
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

// note compares a page with what was read before it.
func (r *reading) note(page *InsertionsPage) {
	r.w.odd += page.Unreadable
	fresh, repeated, this := r.unite(page)
	if repeated > 0 && this != r.last {
		r.w.verdict.Moved = true
	}
	if fresh > 0 {
		r.nothing = 0
	} else {
		r.nothing++
	}
	if fresh > 0 && r.pages > 1 && !r.isFirstAgain(page) {
		r.news++
	}
	r.last = this
	if len(page.Insertions) > 0 || r.pages == 1 {
		r.count(page.Total)
	}
}

// isFirstAgain says whether most of a page was on the first one: where page numbers are ignored, an insertion that came in
// between makes the first page look like another.
func (r *reading) isFirstAgain(page *InsertionsPage) bool {
	again := 0
	for _, i := range page.Insertions {
		if _, known := r.first[markOf(i.Reference)]; known {
			again++
		}
	}
	return again > len(page.Insertions)/2
}

func (r *reading) unite(page *InsertionsPage) (fresh, repeated int, this content) {
	own := make(map[mark]struct{}, len(page.Insertions))
	for _, i := range page.Insertions {
		m := markOf(i.Reference)
		if _, twice := own[m]; twice {
			continue
		}
		own[m] = struct{}{}
		this.add(m)
		if _, known := r.seen[m]; known {
			repeated++
			continue
		}
		fresh++
		r.seen[m] = struct{}{}
		r.w.all[m] = struct{}{}
	}
	if r.pages == 1 {
		r.first = own
	}
	return fresh, repeated, this
}

func markOf(reference string) (m mark) {
	return mark(sumOf([]byte(reference)))
}

func (c *content) add(m mark) {
	c.records++
	for i := range m {
		c.marks[i] ^= m[i]
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
