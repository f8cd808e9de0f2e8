package shape

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"doorbell/poller/listings"
)

// paged is a list of 30 insertions on pages of 10 whose numbers begin with base.
func paged(base int, more string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		page := base
		if r.URL.Query().Has("page") {
			page = atoi(r.URL.Query().Get("page"))
		}
		var list []string
		for n := (page - base) * 10; n >= 0 && n < min(30, (page-base+1)*10); n++ {
			list = append(list, fmt.Sprintf(`{"propertyReferenceId":"a#%d##"}`, n))
		}
		last := page-base >= 2
		next := `"/next"`
		if last {
			next = "null"
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"items":[%s],%s}`, strings.Join(list, ","),
			strings.NewReplacer("LAST", fmt.Sprint(last), "MORE", fmt.Sprint(!last), "NEXT", next).Replace(more))
	}
}

// TestAListOfSeveralPagesIsServedAsSeveral describes the first two pages of longer lists, as a check
// does, and walks through what is made up of them.
func TestAListOfSeveralPagesIsServedAsSeveral(t *testing.T) {
	for _, base := range []int{0, 1} {
		for _, more := range []string{
			`"total":30`, `"total":30,"last":LAST`, `"page":{"totalElements":30},"hasNext":MORE`,
			`"total":30,"next":NEXT`, `"hasNext":MORE`, `"last":LAST`, `"links":{"next":NEXT}`,
		} {
			t.Run(fmt.Sprint(base, more), func(t *testing.T) {
				original := httptest.NewServer(paged(base, more))
				defer original.Close()
				var responses []Response
				for _, query := range []url.Values{{"pageSize": {"10"}}, {"pageSize": {"10"}, "page": {"1"}}} {
					recorded := httptest.NewRecorder()
					paged(base, more)(recorded, httptest.NewRequest(http.MethodGet, "/?"+query.Encode(), nil))
					asked := Asked{Operation: Insertions, Agency: "A100", Query: query}
					responses = append(responses, Describe(asked, 200, recorded.Header(), recorded.Body.Bytes()))
				}
				f, _ := written(t, responses...)
				h := f.Handler(Options{})
				madeUp := httptest.NewServer(h)
				defer madeUp.Close()
				want, got := walk(t, original.URL), walk(t, madeUp.URL)
				if got.Complete != want.Complete || got.Reason != want.Reason || got.References != 25 {
					t.Errorf("the walk ends with %+v, that of the original with %+v", got, want)
				}
				if again := walk(t, madeUp.URL); again != nil && again.References != got.References {
					t.Errorf("another walk ends with %+v", again)
				}
			})
		}
	}
}

func walk(t *testing.T, base string) *listings.Verdict {
	t.Helper()
	c, err := listings.New(listings.Options{BaseURL: base, Gate: open{}, Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}})
	must(t, err)
	w := c.Walk(listings.NewKey(testKey), "A100", listings.WalkOptions{Size: 10})
	for range w.Pages(t.Context()) {
	}
	v := w.Verdict()
	return &v
}

// TestTheOrderOfContactRequestsIsTheOneAskedFor wants newest first as the original has them, the
// same ones oldest first, and others for another insertion.
func TestTheOrderOfContactRequestsIsTheOneAskedFor(t *testing.T) {
	const body = `{"leads":[{"id":"7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11","createdAt":"2026-11-20T10:41:07Z"},
		{"id":"7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c12","createdAt":"2026-11-19T10:41:07Z"},
		{"id":"7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c13","createdAt":"2026-11-18T10:41:07Z"}],"total":3}`
	f, _ := written(t, Describe(Asked{Operation: ContactRequests, Reference: "a#b##"}, 200,
		http.Header{"Content-Type": {"application/json"}}, []byte(body)))
	server := httptest.NewServer(f.Handler(Options{Key: testKey}))
	defer server.Close()
	c, err := listings.New(listings.Options{BaseURL: server.URL, Gate: open{}})
	must(t, err)
	read := func(reference, order string) (ids []string) {
		q := listings.ContactRequestsQuery{SortBy: "createdAt", SortOrder: order}
		page, err := c.ContactRequests(t.Context(), listings.NewKey(testKey), "A100", reference, q)
		must(t, err)
		var times []int64
		for _, r := range page.ContactRequests {
			ids, times = append(ids, r.ID("id")), append(times, r.CreatedAt.Unix())
		}
		if order == "desc" {
			slices.Reverse(times)
		}
		if !slices.IsSorted(times) || len(ids) != 3 || !uuid.MatchString(ids[0]) {
			t.Errorf("%s: %q at %d", order, ids, times)
		}
		return ids
	}
	newest, oldest := read("x#1##", "desc"), read("x#1##", "asc")
	if slices.Reverse(oldest); !slices.Equal(newest, oldest) || slices.Contains(newest, read("x#2##", "desc")[0]) {
		t.Errorf("newest first %q, oldest first %q, or those of another insertion", newest, oldest)
	}
	wrong := listings.NewKey("00000000-5a4d-4b0b-8a11-d00fbe110009")
	_, err = c.ContactRequests(t.Context(), wrong, "A100", "x#1##", listings.ContactRequestsQuery{})
	if verdict(err) != "Forbidden none" {
		t.Errorf("another key: %v", err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
