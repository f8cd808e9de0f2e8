package listings

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// pager is a list of insertions behind a way of paging.
type pager struct {
	base     int                 // number of the first page
	size     int                 // default size
	most     int                 // cap
	total    bool                // send totals
	totals   func(n, of int) int // of the n-th request (from 1); nil: how many there are
	ignored  bool                // page does not count
	sizeless bool                // pageSize does not count
	clamped  bool                // past the end is the last page again
	refusal  int                 // past the end is this status
	refused  int                 // larger sizes are refused with 416
	failing  int                 // the n-th request (from 1) fails
	failure  int                 // with this status
	pageless bool                // any page number is refused
	list     []string
	before   func(p *pager, n int) // before the n-th request (from 1)

	asked []string
}

func sequence(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("r%03d", i)
	}
	return list
}

func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p.asked = append(p.asked, q.Get("pageSize")+"/"+q.Get("page"))
	if p.before != nil {
		p.before(p, len(p.asked))
	}
	size, page := p.size, 0
	if n, err := strconv.Atoi(q.Get("pageSize")); err == nil && !p.sizeless {
		size = min(n, p.most)
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && !p.ignored {
		page = max(0, n-p.base)
	}
	if p.clamped && len(p.list) > 0 {
		page = min(page, (len(p.list)-1)/size)
	}
	first, status := page*size, 0
	switch {
	case len(p.asked) == p.failing:
		status = p.failure
	case p.refused > 0 && q.Has("pageSize") && atoi(q.Get("pageSize")) > p.refused:
		status = http.StatusRequestedRangeNotSatisfiable
	case p.pageless && q.Has("page"):
		status = http.StatusBadRequest
	case first > 0 && first >= len(p.list):
		status = p.refusal
	}
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	p.show(w, p.list[min(first, len(p.list)):min(first+size, len(p.list))])
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func (p *pager) show(w http.ResponseWriter, references []string) {
	records := make([]string, len(references))
	for i, r := range references {
		records[i] = `{"propertyReferenceId":` + quote(r) + `}`
	}
	fmt.Fprintf(w, `{"results":[%s],"next":"https://elsewhere.example/?page=2"`, strings.Join(records, ","))
	total := len(p.list)
	if p.totals != nil {
		total = p.totals(len(p.asked), total)
	}
	if p.total {
		fmt.Fprintf(w, `,"total":%d`, total)
	}
	fmt.Fprint(w, "}")
}

// walked reads all pages and returns the references in the order in which they came first.
func walked(t testing.TB, h http.Handler, o WalkOptions) (refs []string, v Verdict, err error) {
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := New(Options{BaseURL: server.URL, Gate: hooks{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.closeIdle()
	if o.Size == 0 {
		o.Size = 50
	}
	walk := c.Walk(testKey, "A100", o)
	seen := map[string]bool{}
	for page, e := range walk.Pages(context.Background()) {
		if err != nil {
			t.Error("an error was not the last")
		}
		if e != nil {
			err = e
			continue
		}
		for _, i := range page.Insertions {
			if !seen[i.Reference] {
				seen[i.Reference] = true
				refs = append(refs, i.Reference)
			}
		}
	}
	return refs, walk.Verdict(), err
}

func TestWalksOverEveryKindOfPaging(t *testing.T) {
	drop := func(i int) func(*pager, int) {
		return func(p *pager, n int) {
			if n == 3 {
				p.list = slices.Delete(slices.Clone(p.list), i, i+1)
			}
		}
	}
	wrong := func(by int) func(int, int) int { return func(_, of int) int { return of + by } }
	add := func(p *pager, n int) {
		if n == 3 {
			p.list = slices.Insert(slices.Clone(p.list), 0, "new")
		}
	}
	for _, row := range []struct {
		name   string
		p      pager
		o      WalkOptions
		found  int
		reason string
		asked  string
	}{
		{name: "empty", p: pager{}, asked: "50/"},
		{name: "from 0, one page", p: pager{list: sequence(3)}, found: 3, asked: "50/ 50/1"},
		{name: "from 1, one page", p: pager{base: 1, list: sequence(3)}, found: 3, asked: "50/ 50/1 50/2"},
		{name: "from 1, last page full", p: pager{base: 1, list: sequence(100)}, found: 100, asked: "50/ 50/1 50/2 50/3"},
		{name: "size refused", p: pager{base: 1, refused: 20, list: sequence(25)}, found: 25, asked: "50/ 20/ 20/1 20/2 20/3"},
		{name: "every size refused", p: pager{refused: 1, size: 10, list: sequence(15)}, found: 15, asked: "50/ 20/ / /1 /2"},
		{name: "a larger size refused", p: pager{base: 1, refused: 20, most: 500, list: sequence(15)}, o: WalkOptions{Size: 60}, found: 15, asked: "60/ 50/ 20/ 20/1 20/2"},
		{name: "404 past the end, after a full page", p: pager{base: 1, refusal: 404, list: sequence(100)}, found: 100, reason: ReasonPagesMissing, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "404 past the end, from 1", p: pager{base: 1, refusal: 404, list: sequence(60)}, found: 60, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "400 past the end, from 0, more than a service caps at", p: pager{refusal: 400, list: sequence(41)}, found: 41, asked: "50/ 50/1 50/2"},
		{name: "400 past the end, from 0, one page that may be cut", p: pager{refusal: 400, list: sequence(40)}, found: 40, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "last page for ever, from 1", p: pager{base: 1, clamped: true, list: sequence(120)}, found: 120, asked: "50/ 50/1 50/2 50/3 50/4 50/5"},
		{name: "last page for ever, one page that may be cut", p: pager{base: 1, clamped: true, list: sequence(30)}, found: 30, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "last page for ever, one page without total", p: pager{base: 1, clamped: true, list: sequence(31)}, found: 31, asked: "50/ 50/1 50/2"},
		{name: "page ignored, more than fits", p: pager{ignored: true, list: sequence(80)}, found: 50, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "page ignored, more than fits, total", p: pager{ignored: true, total: true, list: sequence(80)}, found: 50, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2"},
		{name: "page refused", p: pager{pageless: true, size: 20, list: sequence(80)}, found: 50, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "total larger than what is shown", p: pager{total: true, totals: wrong(1), list: sequence(60)}, found: 60, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2"},
		{name: "nothing shown of some", p: pager{total: true, totals: wrong(7)}, reason: ReasonFewerThanTotal, asked: "50/"},
		{name: "one inserted while walking", p: pager{base: 1, before: add, list: sequence(120)}, found: 120, reason: ReasonPagesMoved, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "one removed while walking", p: pager{base: 1, total: true, before: drop(0), list: sequence(120)}, found: 119, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "endless", p: pager{before: func(p *pager, n int) { p.list = sequence(60 * n) }}, o: WalkOptions{MaxPages: 5}, found: 250, reason: ReasonTooManyPages, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "second page fails", p: pager{failing: 2, failure: 500, list: sequence(60)}, found: 50, reason: ReasonPageFailed, asked: "50/ 50/1"},
		{name: "refused with 403", p: pager{failing: 2, failure: 403, list: sequence(60)}, found: 50, reason: ReasonPageFailed, asked: "50/ 50/1"},
		{name: "one page is refused", p: pager{failing: 2, failure: 400, list: sequence(120)}, found: 50, reason: ReasonPageFailed, asked: "50/ 50/1 50/2"},
		{name: "last page is refused", p: pager{failing: 2, failure: 404, list: sequence(60)}, found: 50, reason: ReasonPageFailed, asked: "50/ 50/1 50/2"},
		{name: "two refusals that differ", p: pager{refusal: 404, failing: 3, failure: 400, list: sequence(60)}, found: 60, reason: ReasonPageFailed, asked: "50/ 50/1 50/2 50/3"},
		{name: "every first page is refused", p: pager{failing: 3, failure: 400, refused: 1}, reason: ReasonPageFailed, asked: "50/ 20/ /"},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := row.p
			if p.size == 0 {
				p.size = 20
			}
			if p.most == 0 {
				p.most = 100
			}
			refs, v, err := walked(t, &p, row.o)
			if len(refs) != row.found || v.References != row.found {
				t.Errorf("found %d, verdict %d, want %d", len(refs), v.References, row.found)
			}
			if v.Reason != row.reason || v.Complete != (row.reason == "") {
				t.Errorf("%+v, want %q", v, row.reason)
			}
			if got := strings.Join(p.asked, " "); got != row.asked {
				t.Errorf("asked %s\nwant  %s", got, row.asked)
			}
			if last, _, _ := strings.Cut(p.asked[len(p.asked)-1], "/"); v.Size != atoi(last) {
				t.Errorf("size %d, asked %s", v.Size, last)
			}
			failed := row.reason == ReasonPageFailed
			if (err != nil) != failed || (v.Err != nil) != failed || v.Structural != (row.reason != "" && !failed) {
				t.Errorf("%v, %+v", err, v)
			}
		})
	}
}

func TestElementsWithoutReferenceMakeAWalkPartial(t *testing.T) {
	_, v, err := walked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("page") {
			fmt.Fprint(w, `[]`)
			return
		}
		fmt.Fprint(w, `[{"propertyReferenceId":"a"},{"propertyReferenceId":null}]`)
	}), WalkOptions{})
	if err != nil || v.Complete || v.Reason != ReasonUnreadable || !v.Structural || v.References != 1 {
		t.Errorf("%+v %v", v, err)
	}
}

func TestTheFilterGoesWithEveryPage(t *testing.T) {
	filter := url.Values{"offerType": {"RENT"}, "page": {"7"}, "pageSize": {"1"}}
	var asked []string
	_, v, _ := walked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RawQuery)
		(&pager{}).show(w, sequence(2)[:2-min(2, len(asked)/2*2)])
	}), WalkOptions{Filter: filter})
	if want := "offerType=RENT&pageSize=50 offerType=RENT&page=1&pageSize=50"; strings.Join(asked, " ") != want || !v.Complete {
		t.Errorf("asked %v, %+v", asked, v)
	}
	if len(filter) != 3 {
		t.Error("the caller's filter was changed")
	}
}

func TestPropertyAWalkThatMissesSomethingAgainstATotalIsNeverComplete(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := &pager{
			base: rapid.IntRange(0, 1).Draw(r, "base"), size: rapid.IntRange(2, 60).Draw(r, "default size"),
			most: rapid.IntRange(2, 120).Draw(r, "cap"), total: true, list: sequence(rapid.IntRange(1, 260).Draw(r, "records")),
			ignored: rapid.Bool().Draw(r, "ignored"), sizeless: rapid.Bool().Draw(r, "sizeless"), clamped: rapid.Bool().Draw(r, "clamped"),
			failing: rapid.IntRange(0, 9).Draw(r, "failing"), failure: rapid.SampledFrom([]int{400, 403, 404, 422, 429, 500, 503}).Draw(r, "failure"),
			pageless: rapid.Bool().Draw(r, "pageless"),
		}
		refs, v, _ := walked(t, p, WalkOptions{Size: rapid.IntRange(2, 120).Draw(r, "size")})
		if v.Complete && len(refs) < len(p.list) {
			r.Fatalf("%d of %d, %+v, asked %v", len(refs), len(p.list), v, p.asked)
		}
	})
}

func missing(of, in []string) (list []string) {
	return slices.DeleteFunc(slices.Clone(of), func(r string) bool { return slices.Contains(in, r) })
}

// One insertion comes or goes before any question, anywhere in the list.
func TestWhatWasThereThroughoutIsFoundOrTheWalkSaysThatPagesMoved(t *testing.T) {
	const size = 4
	for n := range 2 * 2 * 9 * 6 * 2 * 2 {
		digit := func(of int) (d int) { n, d = n/of, n%of; return d }
		comes, totals, base, length := digit(2) == 0, digit(2) == 0, digit(2), 8+digit(2)
		when, at := 1+digit(6), min(digit(9), length-1)
		list := sequence(length)
		ever, throughout := slices.Concat(list, []string{"new"}), list
		if !comes {
			ever, throughout = list, slices.Delete(slices.Clone(list), at, at+1)
		}
		p := &pager{size: size, most: size, base: base, total: totals, list: list, before: func(p *pager, n int) {
			if n == when && comes {
				p.list = slices.Insert(slices.Clone(p.list), at, "new")
			} else if n == when {
				p.list = throughout
			}
		}}
		refs, v, err := walked(t, p, WalkOptions{Size: size})
		lost := missing(throughout, refs)
		isSilent := len(lost) > 0 && (comes || totals && v.Complete || len(lost) > 1)
		if err != nil || len(missing(refs, ever)) > 0 || isSilent {
			t.Errorf("%d from %d, at %d before %d, comes %t, totals %t: missed %v, %+v, %v", length, base, at, when, comes, totals, lost, v, err)
		}
	}
}

func TestOneFailingPageNeverMakesACompleteWalkThatMissesSomething(t *testing.T) {
	for _, base := range []int{0, 1} {
		for _, totals := range []bool{true, false} {
			for failing := 1; failing <= 9; failing++ {
				for _, status := range []int{400, 401, 403, 404, 408, 410, 413, 414, 416, 422, 429, 500, 502, 503, 204, 206, 302} {
					p := &pager{base: base, size: 5, most: 5, total: totals, failing: failing, failure: status, list: sequence(23)}
					refs, v, err := walked(t, p, WalkOptions{Size: 5})
					lost := missing(p.list, refs)
					if v.Complete && (len(lost) > 0 || err != nil) || !v.Complete && v.Reason == "" || err != nil && v.Err == nil {
						t.Errorf("from %d, request %d answers %d: missed %v, %+v, %v", base, failing, status, lost, v, err)
					}
				}
			}
		}
	}
}

// Where page numbers are ignored, an insertion that comes in between makes the first page look like
// another one.
func TestANewInsertionDoesNotMakeIgnoredPagesLookHeeded(t *testing.T) {
	for when := 2; when <= 4; when++ {
		p := &pager{ignored: true, most: 50, list: sequence(80), before: func(p *pager, n int) {
			if n == when {
				p.list = slices.Insert(slices.Clone(p.list), 0, "new")
			}
		}}
		if _, v, err := walked(t, p, WalkOptions{Size: 50}); err != nil || v.Reason != ReasonPageIgnored {
			t.Errorf("before %d: %+v, %v", when, v, err)
		}
	}
}

func TestTotalsOnlyRefute(t *testing.T) {
	for _, row := range []struct {
		name     string
		total    func(n, of int) int
		complete bool
	}{
		{"right", func(_, of int) int { return of }, true},
		{"too small", func(int, int) int { return 5 }, true},
		{"too large", func(_, of int) int { return of + 1 }, false},
		{"rising to the right one", func(n, of int) int { return min(of, of-3+n) }, true},
		{"falling", func(n, of int) int { return of + 2 - n }, false},
		{"too large on the first page only", func(n, _ int) int { return 13 - 14*min(1, n-1) }, false},
		{"0 past the end", func(n, of int) int { return of * min(1, max(0, 4-n)) }, true},
	} {
		p := &pager{size: 5, most: 5, total: true, totals: row.total, list: sequence(12)}
		refs, v, err := walked(t, p, WalkOptions{Size: 5})
		if err != nil || v.Complete != row.complete || len(missing(p.list, refs)) > 0 {
			t.Errorf("%s: %+v, %v", row.name, v, err)
		}
	}
}

func TestAWalkThatIsNotReadToItsEndIsPartial(t *testing.T) {
	server := httptest.NewServer(&pager{size: 20, most: 100, list: sequence(200)})
	defer server.Close()
	stop := errors.New("stop")
	for name, row := range map[string]struct {
		end    func(cancel func()) (goOn bool)
		reason string
		err    error
	}{
		"the caller stops":    {func(func()) bool { return false }, ReasonCanceled, nil},
		"the context ends":    {func(cancel func()) bool { cancel(); return true }, ReasonCanceled, context.Canceled},
		"the gate ends calls": {func(func()) bool { return true }, ReasonPageFailed, stop},
	} {
		asked := 0
		c := newClient(t, func(o *Options) {
			o.BaseURL = server.URL
			o.Gate = hooks{wait: func(Request) error {
				if asked++; asked == 3 {
					return stop
				}
				return nil
			}}
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		walk := c.Walk(testKey, "A100", WalkOptions{})
		if v := walk.Verdict(); v.Complete || v.Reason == "" {
			t.Errorf("not begun: %+v", v)
		}
		for range walk.Pages(ctx) {
			if !row.end(cancel) {
				break
			}
		}
		v := walk.Verdict()
		if v.Complete || v.Reason != row.reason || v.Structural || !errors.Is(v.Err, row.err) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

// One page of a list of 30 shows no list, or all past its end show none.
func TestAPageWithoutAListIsTheEndOnlyIfTheNextHasNoneEither(t *testing.T) {
	list := sequence(30)
	for _, hidden := range []string{`{"results":null}`, `{"results":""}`, `{"results":{}}`} {
		for _, end := range []string{`null`, `{"results":null}`, `{"results":[]}`, `{"results":{}}`} {
			for hole := 1; hole <= 5; hole++ {
				p := &pager{size: 5, most: 5, list: list}
				refs, v, err := walked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch page, _ := strconv.Atoi(r.URL.Query().Get("page")); {
					case page == hole:
						fmt.Fprint(w, hidden)
					case page > 5:
						fmt.Fprint(w, end)
					default:
						p.ServeHTTP(w, r)
					}
				}), WalkOptions{Size: 5})
				// In place of the last page null looks like the end if it follows as well.
				looksLikeIt := hole == 5 && strings.Contains(hidden, "null") && strings.Contains(end, "null")
				if lost := missing(list, refs); err != nil || v.Complete != looksLikeIt || len(lost) != 5 {
					t.Errorf("%s in place of page %d, %s past the end: missed %v, %+v, %v", hidden, hole, end, lost, v, err)
				}
			}
		}
	}
}
