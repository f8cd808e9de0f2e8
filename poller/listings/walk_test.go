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
	base     int  // number of the first page
	size     int  // default size
	most     int  // cap
	total    bool // tell totals
	ignored  bool // page does not count
	sizeless bool // pageSize does not count
	clamped  bool // past the end is the last page again
	refusal  int  // past the end is this status
	refused  int  // larger sizes are refused with 416
	failing  int  // the n-th request (from 1) fails
	failure  int  // with this status
	wrong    int  // added to totals
	pageless bool // any page number is refused
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
	if n := len(p.asked); p.before != nil {
		p.before(p, n)
	}
	size := p.pageSize(q)
	switch {
	case len(p.asked) == p.failing:
		w.WriteHeader(p.failure)
		return
	case p.refused > 0 && q.Has("pageSize") && atoi(q.Get("pageSize")) > p.refused:
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	case p.pageless && q.Has("page"):
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	first := p.first(q, size)
	if first >= len(p.list) && p.refusal > 0 && first > 0 {
		w.WriteHeader(p.refusal)
		return
	}
	p.show(w, p.list[min(first, len(p.list)):min(first+size, len(p.list))])
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func (p *pager) pageSize(q url.Values) int {
	size := p.size
	if n, err := strconv.Atoi(q.Get("pageSize")); err == nil && !p.sizeless {
		size = min(n, p.most)
	}
	return size
}

func (p *pager) first(q url.Values, size int) int {
	page := 0
	if n, err := strconv.Atoi(q.Get("page")); err == nil && !p.ignored {
		page = n - p.base
	}
	if last := (len(p.list) - 1) / size; p.clamped && len(p.list) > 0 {
		page = min(page, last)
	}
	return page * size
}

func (p *pager) show(w http.ResponseWriter, references []string) {
	records := make([]string, len(references))
	for i, r := range references {
		records[i] = `{"propertyReferenceId":` + quote(r) + `}`
	}
	fmt.Fprintf(w, `{"results":[%s]`, strings.Join(records, ","))
	if p.total {
		fmt.Fprintf(w, `,"total":%d`, len(p.list)+p.wrong)
	}
	fmt.Fprint(w, "}")
}

// walked reads all pages and returns the references in the order in which they came first.
func walked(t testing.TB, h http.Handler, o WalkOptions) (refs []string, v Verdict, err error) {
	server := httptest.NewServer(h)
	defer server.Close()
	c, err := New(Options{BaseURL: server.URL})
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
		{name: "empty with total", p: pager{total: true}, asked: "50/"},
		{name: "from 0, one page", p: pager{list: sequence(3)}, found: 3, asked: "50/ 50/1"},
		{name: "from 1, one page", p: pager{base: 1, list: sequence(3)}, found: 3, asked: "50/ 50/1 50/2"},
		{name: "from 0, last page full", p: pager{list: sequence(100)}, found: 100, asked: "50/ 50/1 50/2"},
		{name: "from 1, last page full", p: pager{base: 1, list: sequence(100)}, found: 100, asked: "50/ 50/1 50/2 50/3"},
		{name: "from 1, one full page and no total", p: pager{base: 1, list: sequence(50)}, found: 50, asked: "50/ 50/1 50/2"},
		{name: "capped in silence", p: pager{base: 1, most: 20, list: sequence(45)}, found: 45, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "size ignored", p: pager{sizeless: true, size: 10, list: sequence(25)}, found: 25, asked: "50/ 50/1 50/2 50/3"},
		{name: "size refused", p: pager{base: 1, refused: 20, list: sequence(25)}, found: 25, asked: "50/ 20/ 20/1 20/2 20/3"},
		{name: "every size refused", p: pager{refused: 1, size: 10, list: sequence(15)}, found: 15, asked: "50/ 20/ / /1 /2"},
		{name: "a size of one's own", p: pager{most: 500, list: sequence(250)}, o: WalkOptions{Size: 200}, found: 250, asked: "200/ 200/1 200/2"},
		{name: "a larger size refused", p: pager{base: 1, refused: 20, most: 500, list: sequence(15)}, o: WalkOptions{Size: 60}, found: 15, asked: "60/ 50/ 20/ 20/1 20/2"},
		{name: "404 past the end, after a full page", p: pager{base: 1, refusal: 404, list: sequence(100)}, found: 100, reason: ReasonPagesMissing, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "404 past the end, after a full page, with a total", p: pager{base: 1, total: true, refusal: 404, list: sequence(100)}, found: 100, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "404 past the end, from 1", p: pager{base: 1, refusal: 404, list: sequence(60)}, found: 60, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "404 past the end, from 1, one page", p: pager{base: 1, refusal: 404, list: sequence(40)}, found: 40, asked: "50/ 50/1 50/2 50/3"},
		{name: "400 past the end, from 0, one page", p: pager{refusal: 400, list: sequence(5)}, found: 5, asked: "50/ 50/1 50/2"},
		{name: "400 past the end, from 0, more than a service caps at", p: pager{refusal: 400, list: sequence(41)}, found: 41, asked: "50/ 50/1 50/2"},
		{name: "400 past the end, from 0, one page that may be cut", p: pager{refusal: 400, list: sequence(40)}, found: 40, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "last page for ever, from 1", p: pager{base: 1, clamped: true, list: sequence(120)}, found: 120, asked: "50/ 50/1 50/2 50/3 50/4 50/5"},
		{name: "last page for ever, from 0", p: pager{clamped: true, list: sequence(120)}, found: 120, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "last page for ever, few", p: pager{base: 1, clamped: true, list: sequence(19)}, found: 19, asked: "50/ 50/1 50/2"},
		{name: "last page for ever, one page and total", p: pager{clamped: true, total: true, list: sequence(30)}, found: 30, asked: "50/ 50/1 50/2"},
		{name: "last page for ever, one page that may be cut", p: pager{base: 1, clamped: true, list: sequence(30)}, found: 30, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "last page for ever, one page without total", p: pager{base: 1, clamped: true, list: sequence(31)}, found: 31, asked: "50/ 50/1 50/2"},
		{name: "page ignored, few", p: pager{ignored: true, list: sequence(19)}, found: 19, asked: "50/ 50/1 50/2"},
		{name: "page ignored, all on it", p: pager{ignored: true, total: true, list: sequence(40)}, found: 40, asked: "50/ 50/1 50/2"},
		{name: "page ignored, more than fits", p: pager{ignored: true, list: sequence(80)}, found: 50, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "page ignored, more than fits, total", p: pager{ignored: true, total: true, list: sequence(80)}, found: 50, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2"},
		{name: "page and size ignored", p: pager{ignored: true, sizeless: true, size: 20, list: sequence(80)}, found: 20, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "page refused", p: pager{pageless: true, size: 20, list: sequence(80)}, found: 50, reason: ReasonPageIgnored, asked: "50/ 50/1 50/2"},
		{name: "total larger than what is shown", p: pager{total: true, wrong: 1, list: sequence(60)}, found: 60, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2"},
		{name: "total smaller than what is shown", p: pager{total: true, wrong: -5, list: sequence(60)}, found: 60, asked: "50/ 50/1 50/2"},
		{name: "nothing shown of some", p: pager{total: true, wrong: 7}, reason: ReasonFewerThanTotal, asked: "50/"},
		{name: "one inserted while walking", p: pager{base: 1, before: add, list: sequence(120)}, found: 120, reason: ReasonPagesMoved, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "one removed while walking", p: pager{base: 1, total: true, before: drop(0), list: sequence(120)}, found: 119, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "total sinks below what is shown", p: pager{total: true, before: drop(119), list: sequence(120)}, found: 119, reason: ReasonFewerThanTotal, asked: "50/ 50/1 50/2 50/3"},
		{name: "endless", p: pager{before: func(p *pager, n int) { p.list = sequence(60 * n) }}, o: WalkOptions{MaxPages: 5}, found: 250, reason: ReasonTooManyPages, asked: "50/ 50/1 50/2 50/3 50/4"},
		{name: "first page fails", p: pager{failing: 1, failure: 500, list: sequence(60)}, reason: ReasonPageFailed, asked: "50/"},
		{name: "second page fails", p: pager{failing: 2, failure: 500, list: sequence(60)}, found: 50, reason: ReasonPageFailed, asked: "50/ 50/1"},
		{name: "a page past the end fails", p: pager{failing: 3, failure: 503, list: sequence(60)}, found: 60, reason: ReasonPageFailed, asked: "50/ 50/1 50/2"},
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
			failed := row.reason == ReasonPageFailed
			if (err != nil) != failed || (v.Err != nil) != failed || v.Structural != (row.reason != "" && !failed) {
				t.Errorf("%v, %+v", err, v)
			}
		})
	}
}

func TestAWalkThatStartsAnewSaysWhichSizeItUsed(t *testing.T) {
	p := &pager{refused: 20, size: 10, most: 100, list: sequence(5)}
	if _, v, _ := walked(t, p, WalkOptions{}); v.Size != 20 || v.Pages != 2 {
		t.Errorf("%+v", v)
	}
}

func TestPagesRepeatedInAnotherCompositionBringNothingNew(t *testing.T) {
	pages := []string{"a b c", "d e f", "f a d", "b e c", "x"}
	n := 0
	refs, v, err := walked(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		(&pager{}).show(w, strings.Fields(pages[n]))
		n++
	}), WalkOptions{})
	if err != nil || strings.Join(refs, " ") != "a b c d e f" || v.Reason != ReasonPagesMoved || n != 4 {
		t.Errorf("%v %+v %v after %d", refs, v, err, n)
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

func TestAWalkThatIsNotReadToItsEndIsPartial(t *testing.T) {
	server := httptest.NewServer(&pager{size: 20, most: 100, list: sequence(200)})
	defer server.Close()
	stop := errors.New("stop")
	n := 0
	c := newClient(t, func(o *Options) {
		o.BaseURL = server.URL
		o.Gate = hooks{wait: func(Request) error {
			if n++; n == 6 {
				return stop
			}
			return nil
		}}
	})
	untouched := c.Walk(testKey, "A100", WalkOptions{})
	if v := untouched.Verdict(); v.Complete || v.Reason == "" {
		t.Errorf("%+v", v)
	}
	broken := c.Walk(testKey, "A100", WalkOptions{})
	for range broken.Pages(t.Context()) {
		break
	}
	if v := broken.Verdict(); v.Complete || v.Reason != ReasonCanceled || v.Structural || v.Pages != 1 {
		t.Errorf("%+v", v)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	canceled := c.Walk(testKey, "A100", WalkOptions{})
	var last error
	for _, err := range canceled.Pages(ctx) {
		cancel()
		last = err
	}
	if v := canceled.Verdict(); v.Complete || v.Reason != ReasonCanceled || !errors.Is(last, context.Canceled) || !errors.Is(v.Err, context.Canceled) {
		t.Errorf("%+v %v", v, last)
	}
	stopped := c.Walk(testKey, "A100", WalkOptions{})
	for _, err := range stopped.Pages(t.Context()) {
		last = err
	}
	if v := stopped.Verdict(); v.Complete || v.Reason != ReasonPageFailed || !errors.Is(last, stop) || v.Pages != 2 {
		t.Errorf("%+v %v", v, last)
	}
}

func TestPropertyAWalkOverAWellBehavedServiceIsCompleteAndFindsAll(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		p := &pager{
			base:    rapid.IntRange(0, 1).Draw(r, "base"),
			size:    rapid.IntRange(2, 60).Draw(r, "default size"),
			most:    rapid.IntRange(2, 120).Draw(r, "cap"),
			total:   rapid.Bool().Draw(r, "totals"),
			list:    sequence(rapid.IntRange(0, 260).Draw(r, "records")),
			refusal: rapid.SampledFrom([]int{0, 0, 400, 404, 416, 422}).Draw(r, "past the end"),
		}
		size := rapid.IntRange(2, 120).Draw(r, "size")
		refs, v, err := walked(t, p, WalkOptions{Size: size})
		full, n := min(size, p.most), len(p.list)
		if p.refusal > 0 && !p.total && n <= full && n < size && (n == 25 || n >= 20 && n%10 == 0) {
			return // a service may cap its only page at that
		}
		isUnknownCap := n == full && full < size                                // of a service that shows one page only
		if p.refusal > 0 && !p.total && n > 0 && n%full == 0 && !isUnknownCap { // more may follow a full page
			if v.Complete {
				r.Fatalf("%d of %d, %+v, asked %v", len(refs), len(p.list), v, p.asked)
			}
			return
		}
		if err != nil || !v.Complete || v.References != len(p.list) || !slices.Equal(refs, p.list) {
			r.Fatalf("%d of %d, %+v, %v, asked %v", len(refs), len(p.list), v, err, p.asked)
		}
	})
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
