package listings

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// instead answers pages of more than 50 in its own way, from the n-th such request (from 1) on.
type instead struct {
	*pager
	from   int
	answer http.HandlerFunc

	large int
}

func (i *instead) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if atoi(r.URL.Query().Get("pageSize")) <= 50 || i.answer == nil {
		i.pager.ServeHTTP(w, r)
		return
	}
	if i.large++; i.large < max(i.from, 1) {
		i.pager.ServeHTTP(w, r)
		return
	}
	i.asked = append(i.asked, r.URL.Query().Get("pageSize")+"/"+r.URL.Query().Get("page"))
	i.answer(w, r)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func saying(text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, text) }
}

func TestAWalkTriesALargerPage(t *testing.T) {
	cut := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, `{"results":[`)
	}
	for _, row := range []struct {
		name     string
		i        instead
		o        WalkOptions
		found    int
		tooLarge bool
		size     int
		fullest  int
		partial  string
		asked    string
	}{
		{name: "taken", i: instead{pager: &pager{list: sequence(250), most: 1000}}, found: 250, size: 100, fullest: 100, asked: "100/ 100/1 100/2 100/3"},
		{name: "all fits", i: instead{pager: &pager{base: 1, total: true, list: sequence(80), most: 1000}}, found: 80, size: 100, fullest: 80, asked: "100/ 100/1 100/2"},
		{name: "capped in silence", i: instead{pager: &pager{list: sequence(120), most: 50}}, found: 120, size: 100, fullest: 50, asked: "100/ 100/1 100/2 100/3"},
		{name: "416", i: instead{pager: &pager{list: sequence(60), refused: 50}}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "400", i: instead{pager: &pager{list: sequence(60)}, answer: status(400)}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "422", i: instead{pager: &pager{list: sequence(60)}, answer: status(422)}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "500", i: instead{pager: &pager{list: sequence(60)}, answer: status(500)}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "502 in the middle", i: instead{pager: &pager{list: sequence(250), most: 1000}, from: 3, answer: status(502)}, found: 250, tooLarge: true, size: 50, fullest: 50, asked: "100/ 100/1 100/2 50/ 50/1 50/2 50/3 50/4 50/5"},
		{name: "413 in the middle", i: instead{pager: &pager{list: sequence(120), most: 1000}, from: 2, answer: status(413)}, found: 120, tooLarge: true, size: 50, fullest: 50, asked: "100/ 100/1 50/ 50/1 50/2 50/3"},
		{name: "cut", i: instead{pager: &pager{list: sequence(60)}, answer: cut}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "a page of a gateway", i: instead{pager: &pager{list: sequence(60)}, answer: saying("<html>")}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "too large a body", i: instead{pager: &pager{list: sequence(60)}, answer: saying(`{"results":[` + strings.Repeat(" ", 1<<16) + `]}`)}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "elements that are no record", i: instead{pager: &pager{list: sequence(60)}, answer: saying(`{"results":[{"propertyReferenceId":"r000"},7],"total":2}`)}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 100/1 100/2 50/ 50/1 50/2"},
		{name: "all fits, and nothing says so", i: instead{pager: &pager{base: 1, clamped: true, list: sequence(80), most: 1000}}, found: 80, tooLarge: true, size: 100, fullest: 80, asked: "100/ 100/1 100/2 40/ 40/1 40/2 40/3 40/4"},
		{name: "fewer than the total", i: instead{pager: &pager{list: sequence(60), total: true}, answer: saying(`{"results":[{"propertyReferenceId":"r000"}],"total":60}`)}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 100/1 100/2 50/ 50/1 50/2"},
		{name: "fewer than wanted", i: instead{pager: &pager{list: sequence(60)}, answer: saying("[]")}, o: WalkOptions{LastShown: 55}, found: 60, tooLarge: true, size: 50, fullest: 50, asked: "100/ 50/ 50/1 50/2"},
		{name: "fewer than wanted, and that is all", i: instead{pager: &pager{list: sequence(60), most: 1000}}, o: WalkOptions{LastShown: 100}, found: 60, size: 50, fullest: 50, asked: "100/ 100/1 50/ 50/1 50/2"},
		{name: "refused past a depth", i: instead{pager: &pager{list: sequence(205), most: 1000}, from: 3, answer: status(404)}, o: WalkOptions{LastShown: 205}, found: 205, tooLarge: true, size: 50, fullest: 50, asked: "100/ 100/1 100/2 100/3 50/ 50/1 50/2 50/3 50/4 50/5"},
		{name: "neither does", i: instead{pager: &pager{list: sequence(60), failing: 2, failure: 500}, answer: status(500)}, partial: ReasonPageFailed, size: 50, asked: "100/ 50/"},
		{name: "always the same page", i: instead{pager: &pager{base: 1, list: sequence(60)}, answer: saying(`{"results":[` + records(30) + `]}`)}, found: 60, tooLarge: true, size: 100, fullest: 30, asked: "100/ 100/1 100/2 15/ 15/1 15/2 15/3 15/4 15/5"},
		{name: "50 is refused too", i: instead{pager: &pager{list: sequence(30), refused: 20}}, found: 30, tooLarge: true, size: 20, fullest: 20, asked: "100/ 50/ 20/ 20/1 20/2"},
		{name: "the bound counts for what is read anew alone", i: instead{pager: &pager{list: sequence(120), most: 1000}, from: 2, answer: status(502)}, o: WalkOptions{MaxPages: 4}, found: 120, tooLarge: true, size: 50, fullest: 50, asked: "100/ 100/1 50/ 50/1 50/2 50/3"},
		{name: "not larger", i: instead{pager: &pager{list: sequence(60)}}, o: WalkOptions{Larger: 50}, found: 60, size: 50, fullest: 50, asked: "50/ 50/1 50/2"},

		{name: "403", i: instead{pager: &pager{list: sequence(60)}, answer: status(403)}, partial: ReasonPageFailed, size: 100, asked: "100/"},
		{name: "401", i: instead{pager: &pager{list: sequence(60)}, answer: status(401)}, partial: ReasonPageFailed, size: 100, asked: "100/"},
		{name: "429", i: instead{pager: &pager{list: sequence(60)}, answer: status(429)}, partial: ReasonPageFailed, size: 100, asked: "100/"},
		{name: "503 with Retry-After", i: instead{pager: &pager{list: sequence(60)}, answer: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "5")
			w.WriteHeader(http.StatusServiceUnavailable)
		}}, partial: ReasonPageFailed, size: 100, asked: "100/"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.i.most == 0 {
				row.i.most = 1000
			}
			row.i.size = 50
			if row.o.Larger == 0 {
				row.o.Larger = 100
			}
			refs, v := walkedBy(t, &row.i, row.o, nil)
			if len(refs) != row.found || v.Complete != (row.partial == "") || v.Reason != row.partial || v.Moved {
				t.Errorf("%d references, %+v", len(refs), v)
			}
			if v.TooLarge != row.tooLarge || v.Size != row.size || v.Fullest != row.fullest || row.found > 0 && (v.References != row.found || v.Took <= 0 || v.Bytes < 20*row.fullest) {
				t.Errorf("%+v", v)
			}
			if got := strings.Join(row.i.asked, " "); got != row.asked {
				t.Errorf("asked %s\nwant  %s", got, row.asked)
			}
		})
	}
}

func records(n int) string {
	var all []string
	for _, r := range sequence(n) {
		all = append(all, `{"propertyReferenceId":`+quote(r)+`}`)
	}
	return strings.Join(all, ",")
}

// walkedBy reads all pages with a bound on bodies that holds what the pager shows, through a transport of one's own.
func walkedBy(t *testing.T, h http.Handler, o WalkOptions, front func(http.RoundTripper) http.RoundTripper) (refs []string, v Verdict) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	options := Options{BaseURL: server.URL, MaxBody: 1 << 15}
	under := NewTransport(TransportOptions{})
	defer under.CloseIdleConnections()
	options.Transport = under
	if front != nil {
		options.Transport = front(under)
	}
	c, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	walk := c.Walk(testKey, "A100", o)
	for page, err := range walk.Pages(context.Background()) {
		if err != nil {
			continue
		}
		for _, i := range page.Insertions {
			if !slices.Contains(refs, i.Reference) {
				refs = append(refs, i.Reference)
			}
		}
	}
	return refs, walk.Verdict()
}

type front func(*http.Request) (*http.Response, error)

func (f front) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestALargePageThatTakesTooLongIsReadSmaller(t *testing.T) {
	for _, row := range []struct {
		err      error
		complete bool
		asked    string
	}{
		{context.DeadlineExceeded, true, "50/ 50/1 50/2"},
		{errors.New("connection reset"), true, "50/ 50/1 50/2"},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false, ""}, // no size mends that
	} {
		p := &pager{size: 50, most: 1000, list: sequence(60)}
		_, v := walkedBy(t, p, WalkOptions{Larger: 200}, func(under http.RoundTripper) http.RoundTripper {
			return front(func(r *http.Request) (*http.Response, error) {
				if r.URL.Query().Get("pageSize") == "200" {
					return nil, row.err
				}
				return under.RoundTrip(r)
			})
		})
		if got := strings.Join(p.asked, " "); v.Complete != row.complete || got != row.asked {
			t.Errorf("%v: asked %s, %+v", row.err, got, v)
		}
	}
}

// What is complete with pages of 50 is complete when larger ones are tried, whatever the API makes of those, and holds the
// same.
func TestALargerPageMakesNoWalkWorse(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"honest": nil, "refuses": status(422), "fails": status(500), "null": saying("null"), "few": saying(`[]`),
		"the first for ever": saying(`{"results":[` + records(50) + `]}`),
	}
	for _, total := range []bool{false, true} {
		for _, ignored := range []bool{false, true} {
			for base := range 2 {
				for _, most := range []int{20, 50, 1000} {
					for _, n := range []int{0, 1, 45, 50, 51, 130} {
						usual := &pager{base: base, size: 20, most: most, total: total, ignored: ignored, list: sequence(n)}
						want, v := walkedBy(t, usual, WalkOptions{}, nil)
						if !v.Complete {
							continue
						}
						for name, answer := range answers {
							for from := range 3 {
								if name == "the first for ever" && n < 50 {
									continue // shows what is not there
								}
								p := *usual
								p.asked = nil
								i := &instead{pager: &p, from: from + 1, answer: answer}
								got, v := walkedBy(t, i, WalkOptions{Larger: 100, LastShown: n}, nil)
								slices.Sort(got)
								if !v.Complete || !slices.Equal(got, want) {
									t.Errorf("%d of at most %d, from %d, total %t, ignored %t, %s from %d: %d of %d, %+v; asked %v",
										n, most, base, total, ignored, name, from+1, len(got), len(want), v, i.asked)
								}
							}
						}
					}
				}
			}
		}
	}
}
