package listings

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// asked is one question of a walk as a service sees it.
type asked struct {
	n    int // which one, from 1
	page int // -1: not said
	size int // 0: not said
}

// style is a service in one function: the references on a page and the total (-1: none), or a status.
type style func(asked) (page []string, total, status int)

// served is a style as a handler that remembers the sizes that were asked for.
type served struct {
	style
	sizes []int
}

func (s *served) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := asked{n: len(s.sizes) + 1, page: -1}
	if p := r.URL.Query().Get("page"); p != "" {
		q.page, _ = strconv.Atoi(p)
	}
	q.size, _ = strconv.Atoi(r.URL.Query().Get("pageSize"))
	s.sizes = append(s.sizes, q.size)
	page, total, status := s.style(q)
	if status != 0 {
		w.WriteHeader(status)
		return
	}
	var records []string
	for _, reference := range page {
		records = append(records, `{"propertyReferenceId":`+quote(reference)+`}`)
	}
	fmt.Fprintf(w, `{"results":[%s],"next":"https://elsewhere.example/?page=2"`, strings.Join(records, ","))
	if total >= 0 {
		fmt.Fprintf(w, `,"total":%d`, total)
	}
	fmt.Fprint(w, "}")
}

// slicePage is what a page shows of a list; numbers begin at base.
func slicePage(list []string, q asked, base, size int) []string {
	first := max(0, q.page-base) * size
	if q.page < 0 {
		first = 0
	}
	return list[min(first, len(list)):min(first+size, len(list))]
}

func missing(of, in []string) (list []string) {
	for _, r := range of {
		if !slices.Contains(in, r) {
			list = append(list, r)
		}
	}
	return list
}

// One insertion comes or goes before any question, anywhere in the list.
func TestWhatWasThereThroughoutIsFoundOrTheWalkSaysThatPagesMoved(t *testing.T) {
	const size = 4
	for _, n := range []int{8, 9} {
		for _, base := range []int{0, 1} {
			for at := range n {
				for when := 1; when <= 6; when++ {
					for _, comes := range []bool{true, false} {
						for _, totals := range []bool{true, false} {
							name := fmt.Sprint(n, " from ", base, ", at ", at, " before ", when, ", comes ", comes, ", totals ", totals)
							assertMoving(t, name, n, base, size, at, when, comes, totals)
						}
					}
				}
			}
		}
	}
}

func assertMoving(t *testing.T, name string, n, base, size, at, when int, comes, totals bool) {
	t.Helper()
	list := sequence(n)
	ever, throughout := slices.Clone(list), slices.Clone(list)
	if comes {
		ever = append(ever, "new")
	} else {
		throughout = slices.Delete(throughout, at, at+1)
	}
	refs, v, err := walked(t, &served{style: func(q asked) ([]string, int, int) {
		if q.n == when && comes {
			list = slices.Insert(slices.Clone(list), at, "new")
		} else if q.n == when {
			list = slices.Delete(slices.Clone(list), at, at+1)
		}
		total := -1
		if totals {
			total = len(list)
		}
		return slicePage(list, q, base, size), total, 0
	}}, WalkOptions{Size: size})
	lost := missing(throughout, refs)
	switch {
	case err != nil:
		t.Errorf("%s: %v", name, err)
	case len(missing(refs, ever)) > 0:
		t.Errorf("%s: invented %v", name, refs)
	case comes && len(lost) > 0:
		t.Errorf("%s: missed %v, although nothing went away: %+v", name, lost, v)
	case totals && len(lost) > 0 && v.Complete:
		t.Errorf("%s: missed %v unnoticed: %+v", name, lost, v)
	case len(lost) > 1:
		t.Errorf("%s: missed %v of one that went", name, lost)
	}
}

func TestOneFailingPageNeverMakesACompleteWalkThatMissesSomething(t *testing.T) {
	list := sequence(23)
	for _, base := range []int{0, 1} {
		for _, totals := range []int{-1, len(list)} {
			for failing := 1; failing <= 9; failing++ {
				for _, status := range []int{400, 401, 403, 404, 408, 410, 413, 414, 416, 422, 429, 500, 502, 503, 204, 206, 302} {
					refs, v, err := walked(t, &served{style: func(q asked) ([]string, int, int) {
						if q.n == failing {
							return nil, 0, status
						}
						return slicePage(list, q, base, max(1, min(q.size, 5))), totals, 0
					}}, WalkOptions{Size: 5})
					lost := missing(list, refs)
					if v.Complete && (len(lost) > 0 || err != nil) || !v.Complete && v.Reason == "" || err != nil && v.Err == nil {
						t.Errorf("from %d, request %d answers %d: missed %v, %+v, %v", base, failing, status, lost, v, err)
					}
				}
			}
		}
	}
}

func TestRefusedSizesAreGivenUpWhateverTheRefusal(t *testing.T) {
	list := sequence(130)
	for _, status := range []int{400, 413, 416, 422} {
		for _, most := range []int{49, 20, 19, 0} { // 0: any number is refused
			s := &served{style: func(q asked) ([]string, int, int) {
				if q.size > most {
					return nil, 0, status
				}
				return slicePage(list, q, 0, max(q.size, 30-q.size)), -1, 0
			}}
			refs, v, err := walked(t, s, WalkOptions{Size: 60})
			if err != nil || !v.Complete || len(missing(list, refs)) > 0 {
				t.Errorf("%d above %d: %+v, %v, asked %v", status, most, v, err, s.sizes)
			}
		}
	}
}

// Where page numbers are ignored, an insertion that comes in between makes the first page look like another one.
func TestANewInsertionDoesNotMakeIgnoredPagesLookHeeded(t *testing.T) {
	for when := 2; when <= 4; when++ {
		list := sequence(80)
		_, v, err := walked(t, &served{style: func(q asked) ([]string, int, int) {
			if q.n == when {
				list = slices.Insert(slices.Clone(list), 0, "new")
			}
			return list[:q.size], -1, 0
		}}, WalkOptions{Size: 50})
		if err != nil || v.Complete || v.Reason != ReasonPageIgnored {
			t.Errorf("before %d: %+v, %v", when, v, err)
		}
	}
}

func TestTotalsOnlyRefute(t *testing.T) {
	list := sequence(12)
	total := func(of func(asked) int) style {
		return func(q asked) ([]string, int, int) { return slicePage(list, q, 0, 5), of(q), 0 }
	}
	for _, row := range []struct {
		name     string
		style    style
		complete bool
	}{
		{"absent", total(func(asked) int { return -1 }), true},
		{"right", total(func(asked) int { return 12 }), true},
		{"too small", total(func(asked) int { return 5 }), true},
		{"too large", total(func(asked) int { return 13 }), false},
		{"far too large", total(func(asked) int { return 1 << 40 }), false},
		{"rising", total(func(q asked) int { return 12 + q.n }), false},
		{"rising to the right one", total(func(q asked) int { return min(12, 9+q.n) }), true},
		{"falling", total(func(q asked) int { return 14 - q.n }), false},
		{"only on the first page", total(func(q asked) int { return 13 - 14*min(1, q.page+1) }), false},
		{"only on the last page", total(func(q asked) int { return -1 + 14*(max(1, q.page)-1) }), false},
		{"0 past the end", total(func(q asked) int { return 12 * min(1, max(0, 3-q.page)) }), true},
		{"of the page", total(func(q asked) int { return len(slicePage(list, q, 0, 5)) }), true},
	} {
		refs, v, err := walked(t, &served{style: row.style}, WalkOptions{Size: 5})
		if err != nil || v.Complete != row.complete || len(missing(list, refs)) > 0 {
			t.Errorf("%s: %+v, %v", row.name, v, err)
		}
	}
}

// One page of a list of 30 shows no list, in one of several forms.
func TestAPageWithoutAListIsNotTheEnd(t *testing.T) {
	list := sequence(30)
	for _, form := range []string{`{"results":""}`, `{"results":{}}`} {
		for hole := 1; hole <= 8; hole++ {
			s := &served{style: func(q asked) ([]string, int, int) { return slicePage(list, q, 0, 5), -1, 0 }}
			refs, v, err := walked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if page := r.URL.Query().Get("page"); page == strconv.Itoa(hole) || hole == 8 && len(s.sizes) >= 6 {
					fmt.Fprint(w, form)
					return
				}
				s.ServeHTTP(w, r)
			}), WalkOptions{Size: 5})
			lost := missing(list, refs)
			if err != nil || v.Complete && len(lost) > 0 || v.Complete != (hole > 6) {
				t.Errorf("%s in place of page %d: missed %v, %+v, %v", form, hole, lost, v, err)
			}
		}
	}
}

func TestNoNextLinkIsEverFollowed(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	link := other.URL + "/insertions?page=2"
	_, v, err := walked(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", "<"+link+`>; rel="next"`)
		w.Header().Set("Content-Location", link)
		record := one
		if r.URL.Query().Has("page") {
			record = ""
		}
		fmt.Fprintf(w, `{"next":%q,"nextPage":%q,"_links":{"next":{"href":%q}},"results":[%s]}`, link, link, link, record)
	}), WalkOptions{})
	if err != nil || !v.Complete || elsewhere.Load() != 0 {
		t.Errorf("%+v, %v, %d requests elsewhere", v, err, elsewhere.Load())
	}
}
