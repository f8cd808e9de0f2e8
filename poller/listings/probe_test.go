package listings

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// habits are those of an API that a probe is to find out.
type habits struct {
	insertions, standard, most int // in all, on a page without a size, on a page at most
	first                      int // number of the first page
	deaf                       bool
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
		one := map[string]any{"createdAt": h.created(time.Unix(1_760_000_000+int64(i)*3600, 0).UTC()), "name": person, "id": 1000 + i}
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

func probe(t *testing.T, h http.Handler, o ProbeOptions) (*Prober, *Listed, *Learned, []string) {
	t.Helper()
	a := serve(t, h.ServeHTTP)
	p, err := NewProber(Options{BaseURL: a.URL}, o)
	if err != nil {
		t.Fatal(err)
	}
	l := p.List(t.Context(), testKey, "A100")
	if l.Err != nil {
		return p, l, nil, a.requests()
	}
	learned := p.Learn(t.Context(), l, MostProbeRequests)
	asked := a.requests()
	if len(asked) > MostProbeRequests || len(asked) != p.Answers().Requests {
		t.Errorf("%d requests, %d counted:\n%s", len(asked), p.Answers().Requests, strings.Join(asked, "\n"))
	}
	text, err := json.Marshal(learned)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{person, "geheim", "2025", "17600", sentinelKey} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	return p, l, learned, asked
}

func TestAProbeFindsOutHowPagesAreNumberedAndWhetherTheyAreHeeded(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		h             habits
		first, heeded string
		requests      int
	}{
		"from 1":                 {habits{insertions: 300, standard: 20, most: 500, first: 1}, "1", Yes, 7},
		"from 0":                 {habits{insertions: 300, standard: 20, most: 500}, "0", Yes, 6},
		"from 0, one page":       {habits{insertions: 3, standard: 20, most: 500}, "0", Yes, 4},
		"from 1, one page":       {habits{insertions: 3, standard: 20, most: 500, first: 1}, "1", Yes, 5},
		"ignored":                {habits{insertions: 300, standard: 20, most: 500, deaf: true}, Unknown, No, 7},
		"no insertion to see it": {habits{standard: 20, most: 500}, Unknown, Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, got, asked := probe(t, tt.h, ProbeOptions{})
			if got.Insertions.FirstPage != tt.first || got.Insertions.PageHeeded != tt.heeded {
				t.Errorf("first page %s, heeded %s", got.Insertions.FirstPage, got.Insertions.PageHeeded)
			}
			if len(asked) != tt.requests {
				t.Errorf("%d requests:\n%s", len(asked), strings.Join(asked, "\n"))
			}
		})
	}
}

func TestAProbeFindsOutSizes(t *testing.T) {
	t.Parallel()
	big := habits{insertions: 300, standard: 20, most: 500, first: 1}
	_, _, got, _ := probe(t, big, ProbeOptions{})
	if i := got.Insertions; i.Default != 20 || i.Largest != 200 || i.Capped || !i.TotalTold || i.Path != "/results" {
		t.Errorf("%+v", i)
	}
	capped := big
	capped.most = 30
	if _, _, got, _ = probe(t, capped, ProbeOptions{}); !got.Insertions.Capped || got.Insertions.Largest != 30 {
		t.Errorf("%+v", got.Insertions)
	}
	capped.hidesTotal = true
	if _, _, got, _ = probe(t, capped, ProbeOptions{}); !got.Insertions.Capped || got.Insertions.Largest != 30 || !got.Insertions.MayHoldMore {
		t.Errorf("without a total: %+v", got.Insertions)
	}
	capped.insertions = 30
	_, l, got, asked := probe(t, capped, ProbeOptions{})
	if !l.MayHoldMore() || got.Insertions.MayHoldMore || got.Insertions.Capped || len(asked) != 5 {
		t.Errorf("with as many as fit a page: %+v\n%q", got.Insertions, asked)
	}
	refusing := big
	refusing.refuses = []string{"50", "200"}
	if _, _, got, _ = probe(t, refusing, ProbeOptions{}); !slices.Equal(got.Insertions.RefusedSizes, []int{50}) || got.Insertions.Asked != 20 {
		t.Errorf("%+v", got.Insertions)
	}
	refusing.refuses = []string{"200"}
	if _, _, got, _ = probe(t, refusing, ProbeOptions{}); !slices.Equal(got.Insertions.RefusedSizes, []int{200}) {
		t.Errorf("%+v", got.Insertions)
	}
	refusing.refuses = []string{"50", "20"}
	if _, _, got, _ = probe(t, refusing, ProbeOptions{}); got.Insertions.Default != 20 || got.Insertions.Asked != 0 {
		t.Errorf("%+v", got.Insertions)
	}
	if _, _, _, asked := probe(t, big, ProbeOptions{PageSize: 30}); strings.Contains(strings.Join(asked, " "), "pageSize=200") {
		t.Errorf("a configured size was exceeded: %q", asked)
	}
}

func TestAProbeFindsOutOrderAndIdentityAndTimes(t *testing.T) {
	t.Parallel()
	h := habits{insertions: 3, standard: 20, most: 500, first: 1, requests: 8, created: rfc}
	_, _, got, _ := probe(t, h, ProbeOptions{})
	if c := got.ContactRequests; c.OrderHeeded != Yes || c.NumberHeeded != Yes || c.IDField != "id" || c.CreatedForm != "rfc3339" || c.Path != "/leads" || !c.TotalTold {
		t.Errorf("%+v", c)
	}
	unsorted := h
	unsorted.unsorted, unsorted.withoutID, unsorted.hidesTotal = true, true, true
	unsorted.created = func(at time.Time) any { return at.UnixMilli() }
	_, _, got, _ = probe(t, unsorted, ProbeOptions{})
	if c := got.ContactRequests; c.OrderHeeded != No || c.NumberHeeded != No || c.IDField != "" || len(c.IDCandidates) > 0 || c.CreatedForm != "milliseconds" || c.TotalTold {
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
		if _, _, got, _ = probe(t, h, ProbeOptions{}); got.ContactRequests.CreatedForm != form {
			t.Errorf("%s: %s", form, got.ContactRequests.CreatedForm)
		}
	}
}

// TestAProbeTakesNoUnsteadyID has an API that makes up a new id for every answer.
func TestAProbeTakesNoUnsteadyID(t *testing.T) {
	t.Parallel()
	h := habits{insertions: 3, standard: 20, most: 500, first: 1, requests: 3, created: rfc}
	n := 0
	_, _, got, _ := probe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/insertions") {
			h.ServeHTTP(w, r)
			return
		}
		answer := h.window(r)
		for _, one := range answer["leads"].([]any) {
			n++
			one.(map[string]any)["id"] = n
			one.(map[string]any)["uuid"] = fmt.Sprint(one.(map[string]any)["createdAt"])
		}
		_ = json.NewEncoder(w).Encode(answer)
	}), ProbeOptions{})
	if c := got.ContactRequests; c.IDField != "uuid" || !slices.Contains(c.IDCandidates, "id") {
		t.Errorf("%+v", c)
	}
}

func TestAProbeStopsWhereItIsRefusedOrAskedForPatience(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusForbidden, http.StatusTooManyRequests} {
		_, l, _, asked := probe(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }), ProbeOptions{})
		if FailureOf(l.Err).Status != status || len(asked) != 1 {
			t.Errorf("%v after %d requests", l.Err, len(asked))
		}
		h := habits{insertions: 90, standard: 20, most: 500, first: 1}
		_, _, got, asked := probe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.Contains(r.URL.Path, "/insertions") {
				w.WriteHeader(status)
				return
			}
			h.ServeHTTP(w, r)
		}), ProbeOptions{})
		if len(asked) != 2 || got.ContactRequests.Read || len(got.ContactRequests.Troubles) != 1 {
			t.Errorf("%d requests: %+v", len(asked), got.ContactRequests)
		}
		if (got.ContactRequests.Refused != nil) != true || got.ContactRequests.Refused.Status != status {
			t.Errorf("%+v", got.ContactRequests.Refused)
		}
	}
}

func TestAProbeTellsOfAnswersAndClock(t *testing.T) {
	t.Parallel()
	h := habits{insertions: 3, standard: 20, most: 500, first: 1}
	p, _, got, _ := probe(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
		h.ServeHTTP(w, r)
	}), ProbeOptions{})
	a := p.Answers()
	if !a.ClockTold || a.SkewSeconds < -3602 || a.SkewSeconds > -3598 || a.Protocol != "HTTP/1.1" || a.MaxMillis < a.MinMillis || a.Failed != 0 {
		t.Errorf("%+v", a)
	}
	if got.Conditional != None {
		t.Errorf("conditional requests: %s", got.Conditional)
	}
}

// TestAProbeSeesThatAConditionIsIgnored begins with answers that could be asked for conditionally.
func TestAProbeSeesThatAConditionIsIgnored(t *testing.T) {
	t.Parallel()
	a := serve(t, habits{insertions: 3, standard: 20, most: 500, first: 1}.ServeHTTP)
	p, err := NewProber(Options{BaseURL: a.URL}, ProbeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := p.List(t.Context(), testKey, "A100")
	l.page.ETag = `"v1"`
	if got := p.Learn(t.Context(), l, MostProbeRequests); got.Conditional != No {
		t.Errorf("conditional requests: %s", got.Conditional)
	}
}

func TestAProbeAsksNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	for most := range 4 {
		a := serve(t, habits{insertions: 300, standard: 20, most: 500, first: 1, requests: 8, created: rfc}.ServeHTTP)
		p, err := NewProber(Options{BaseURL: a.URL}, ProbeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := p.Learn(t.Context(), p.List(t.Context(), testKey, "A100"), most)
		if n := len(a.requests()); n != 1+most || len(got.Insertions.Troubles) > 0 {
			t.Errorf("%d requests where %d are allowed: %q", n, 1+most, got.Insertions.Troubles)
		}
	}
}

func TestAProbeNamesNoInsertionInItsTroubles(t *testing.T) {
	t.Parallel()
	r := Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "geheim#1##"}
	for _, err := range []error{
		&StatusError{Request: r, Status: 403, Body: BodyChallenge}, &TransportError{Request: r, Stage: StageRefused, Err: errBroken},
		&DriftError{Request: r, Expected: "a", Found: "b"}, &RequestError{r, ErrReference}, errors.New("geheim"),
	} {
		if f := FailureOf(err); strings.Contains(f.Text, "geheim") || f.Text == "" {
			t.Errorf("%T: %q", err, f.Text)
		}
	}
	if got := pathOf("/data/Nora Beispiel/items"); got != "/data/(odd name)/items" {
		t.Errorf("path is %q", got)
	}
}
