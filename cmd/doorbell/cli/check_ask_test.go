package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// habits are those of an API that check is to find out.
type habits struct {
	insertions, standard, most int // in all, on a page without a size, on a page at most
	first                      int // number of the first page
	deaf                       bool
	ends                       bool     // pages past the end are refused
	refuses                    []string // sizes
	hidesTotal                 bool
	requests                   int // of every insertion
	created                    func(at time.Time) any
	unsorted                   bool
	withoutID                  bool
}

func (h habits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var answer map[string]any
	if strings.Contains(r.URL.Path, "/insertions") {
		answer = h.page(r)
	} else {
		answer = h.window(r)
	}
	if answer == nil {
		w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		return
	}
	if h.hidesTotal {
		delete(answer, "total")
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (h habits) page(r *http.Request) map[string]any {
	q := r.URL.Query()
	if slices.Contains(h.refuses, q.Get("pageSize")) {
		return nil
	}
	size, number := h.standard, 0
	if n, err := strconv.Atoi(q.Get("pageSize")); err == nil {
		size = min(n, h.most)
	}
	if n, err := strconv.Atoi(q.Get("page")); err == nil && !h.deaf {
		number = n - h.first
	}
	if h.ends && number > 0 && number*size >= h.insertions {
		return nil
	}
	list := []any{}
	for i := number * size; i < min(h.insertions, (number+1)*size); i++ {
		list = append(list, map[string]any{"propertyReferenceId": fmt.Sprintf("geheim#%d##", i)})
	}
	return map[string]any{"results": list, "total": h.insertions}
}

func (h habits) window(r *http.Request) map[string]any {
	q := r.URL.Query()
	list := []any{}
	for i := range h.requests {
		one := map[string]any{"createdAt": h.created(time.Unix(1_760_000_000+int64(i)*3600, 0).UTC()), "name": sandbox.Marker, "id": 1000 + i}
		if h.withoutID {
			delete(one, "id")
		}
		list = append(list, one)
	}
	if q.Get("sortOrder") == "desc" && !h.unsorted {
		slices.Reverse(list)
	}
	if n, err := strconv.Atoi(q.Get("numberOfItemsPerPage")); err == nil && !h.unsorted {
		list = list[:min(n, len(list))]
	}
	return map[string]any{"leads": list, "total": h.requests}
}

func rfc(at time.Time) any { return at.Format(time.RFC3339) }

// askedBy runs `doorbell check` against an API of such habits. It may exit with the codes that are wanted, and says nothing of a record.
func askedBy(t *testing.T, h http.Handler, settings ...string) (check.Report, []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	s := doorbelltest.NewScene(t, "A100")
	environ := append(faced(t, s, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.RequestURI)
		mu.Unlock()
		h.ServeHTTP(w, r)
	}), settings...)
	got := doorbelltest.Run(t, environ, "check", "--json")
	var r check.Report
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil {
		t.Fatalf("%v: %s%s", err, got.Stdout, got.Stderr)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(asked) > check.MostAsked || len(asked) != r.Requests {
		t.Errorf("%d requests, %d counted:\n%s", len(asked), r.Requests, strings.Join(asked, "\n"))
	}
	for _, secret := range []string{sandbox.Marker, "geheim", "2025-", "1760000000", "1760003600", doorbelltest.TestKey} {
		if strings.Contains(got.Stdout+got.Stderr, secret) {
			t.Errorf("%q is in %s", secret, got.Stdout)
		}
	}
	return r, asked
}

func TestCheckFindsOutHowPagesAreNumberedAndWhetherTheyAreHeeded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		h             habits
		first, heeded string
		requests      int
	}{
		"from 1":                 {habits{insertions: 300, standard: 20, most: 500, first: 1}, "1", check.Yes, 5},
		"from 0":                 {habits{insertions: 300, standard: 20, most: 500}, "0", check.Yes, 4},
		"from 0, one page":       {habits{insertions: 3, standard: 20, most: 500}, "0", check.Yes, 4},
		"from 1, one page":       {habits{insertions: 3, standard: 20, most: 500, first: 1}, "1", check.Yes, 5},
		"from 0, past the end":   {habits{insertions: 3, standard: 20, most: 500, ends: true}, "0", check.Yes, 5},
		"from 1, past the end":   {habits{insertions: 3, standard: 20, most: 500, first: 1, ends: true}, "1", check.Yes, 6},
		"ignored":                {habits{insertions: 300, standard: 20, most: 500, deaf: true}, check.Unknown, check.No, 5},
		"no insertion to see it": {habits{standard: 20, most: 500}, check.Unknown, check.Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, asked := askedBy(t, tt.h)
			if i := got.Learned.Insertions; i.FirstPage != tt.first || i.PageHeeded != tt.heeded {
				t.Errorf("first page %s, heeded %s", i.FirstPage, i.PageHeeded)
			}
			if len(asked) != tt.requests {
				t.Errorf("%d requests:\n%s", len(asked), strings.Join(asked, "\n"))
			}
		})
	}
}

func TestCheckFindsOutIdentityAndTimes(t *testing.T) {
	t.Parallel()
	h := habits{insertions: 3, standard: 20, most: 500, first: 1, requests: 8, created: rfc}
	got, _ := askedBy(t, h)
	if c := got.Learned.ContactRequests; c.IDField != "id" || c.CreatedForm != "rfc3339" || c.Path != "/leads" || !c.TotalTold {
		t.Errorf("%+v", c)
	}
	unsorted := h
	unsorted.unsorted, unsorted.withoutID, unsorted.hidesTotal = true, true, true
	unsorted.created = func(at time.Time) any { return at.UnixMilli() }
	got, _ = askedBy(t, unsorted)
	if c := got.Learned.ContactRequests; c.IDField != "" || len(c.IDCandidates) > 0 || c.CreatedForm != "milliseconds" || c.TotalTold {
		t.Errorf("%+v", c)
	}
	for form, created := range map[string]func(time.Time) any{
		"seconds":    func(at time.Time) any { return at.Unix() },
		"zoneless":   func(at time.Time) any { return at.Format("2006-01-02 15:04:05") },
		"unreadable": func(time.Time) any { return "heute" },
		"absent":     func(time.Time) any { return nil },
		"mixed": func(at time.Time) any {
			if at.Hour()%2 == 0 {
				return nil
			}
			return rfc(at)
		},
	} {
		h.created = created
		if got, _ = askedBy(t, h); got.Learned.ContactRequests.CreatedForm != form {
			t.Errorf("%s: %s", form, got.Learned.ContactRequests.CreatedForm)
		}
	}
	h.requests = 0
	if got, _ = askedBy(t, h); got.Learned.ContactRequests.CreatedForm != check.Unknown || !got.Learned.ContactRequests.Read {
		t.Errorf("%+v", got.Learned.ContactRequests)
	}
}

func TestCheckStopsWhereItIsRefusedOrAskedForPatience(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		r, asked := askedBy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		if r.Agencies[0].Status != status || len(asked) != 1 || r.Learned != nil {
			t.Errorf("%+v after %d requests", r.Agencies, len(asked))
		}
		h := habits{insertions: 90, standard: 20, most: 500, first: 1}
		r, asked = askedBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, "/insertions") {
				w.WriteHeader(status)
				return
			}
			h.ServeHTTP(w, r)
		}))
		if c := r.Learned.ContactRequests; len(asked) != 2 || c.Read || len(c.Troubles) != 1 {
			t.Errorf("%d requests: %+v", len(asked), c)
		}
	}
}

func TestCheckComparesTheClocks(t *testing.T) {
	t.Parallel()
	h := habits{insertions: 3, standard: 20, most: 500, first: 1}
	r, _ := askedBy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		h.ServeHTTP(w, r)
	}))
	if a := r.Answers; !a.ClockTold || a.SkewSeconds < -3602 || a.SkewSeconds > -3598 {
		t.Errorf("%+v", a)
	}
}

// TestCheckSaysWhatTheStoreRemembers has an API that writes its answers otherwise than it did when it was watched.
func TestCheckSaysWhatTheStoreRemembers(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	s.Ring(t, "A100")
	d := doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100")
	sub.Request(t, s.Ring(t, "A100"))
	r, _ := checked(t, s, exit.Done, s.Environ, "the daemon works", "insertions are at /results, with a total; pages count from 1")
	if r.Learned.Insertions.FirstPage != "1" || r.Learned.ContactRequests.CreatedForm != "rfc3339" {
		t.Errorf("beside the daemon: %+v", r.Learned)
	}
	d.Stop(t)
	s.Model.KeepLog()
	r, _ = checked(t, s, exit.Done, s.Environ, "insertions are at /results, with a total; pages count from 1", "their id is /id", "date and time with an offset")
	if r.Learned.ContactRequests.IDField != "id" {
		t.Errorf("the id: %+v", r.Learned.ContactRequests)
	}
	if n := len(s.Model.Log(sandbox.Filter{Operation: sandbox.OperationInsertions})); n != 2 {
		t.Errorf("%d requests of two reports for the list, whose pages are known", n)
	}

	answer := func(body string) {
		s.Model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Body: []byte(body)}
			}
			return nil
		})
	}
	answer(`{"elsewhere":[{"propertyReferenceId":"` + s.Model.Truth().Insertions[0].Reference + `"}],"total":1}`)
	checked(t, s, exit.Done, s.Environ, "insertions are at /elsewhere", "they were at /results before", "run would publish watch.schema_drifted")
	answer(`{"elsewhere":[]}`) // is none only where records were
	checked(t, s, exit.CodeFailed, s.Environ, "not the answer of this API: expected an array of objects with propertyReferenceId at /results")
}
