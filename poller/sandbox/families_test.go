package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// under finds every string and number that stands under a name, in any style of names, at any depth; those of an array in
// its order.
func under(t testing.TB, body []byte, name string) (found []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case object:
			for key, value := range v {
				if strings.EqualFold(strings.ReplaceAll(key, "_", ""), name) {
					switch value.(type) {
					case string, json.Number:
						found = append(found, fmt.Sprint(value))
					}
				}
				look(value)
			}
		}
	}
	look(tree)
	return found
}

func TestEveryFamilyShowsEverythingPageByPage(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Renderings() {
		t.Run(r.Name, func(t *testing.T) {
			if names[r.Name] || r.Name == "" {
				t.Fatal("a name twice, or none")
			}
			names[r.Name] = true
			m := newModel(Options{Now: newClock().now})
			var want []string
			for n := range 45 {
				want = append(want, fmt.Sprint("r", n))
			}
			publish(t, m, "A100", want...)
			var wantIDs []string
			for n := range 7 {
				wantIDs = append(wantIDs, add(t, m, "A100", "r1", ContactRequest{LastName: fmt.Sprint("Muster", n, Marker)}))
			}
			h := New(m, r)
			var got []string
			for n := range 4 {
				w := ask(h, testKey, fmt.Sprintf("%s?page=%d&pageSize=20", insertionsPath("A100"), r.PageBase+n))
				if w.Code != http.StatusOK {
					t.Fatalf("page %d: %d", n, w.Code)
				}
				got = append(got, under(t, w.Body.Bytes(), "propertyReferenceId")...)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Errorf("walked %v", got)
			}
			body := ask(h, testKey, contactRequestsPath("r1")).Body.Bytes()
			if got := under(t, body, "lastName"); len(got) != 7 || got[0] != "Muster6"+Marker {
				t.Errorf("contact requests of %v", got)
			}
			for _, c := range m.Truth().ContactRequests {
				if c.Served != 1 || !slices.Contains(wantIDs, c.ID) {
					t.Errorf("%+v", c.Served)
				}
			}
		})
	}
	if len(names) < 8 {
		t.Errorf("only %d families", len(names))
	}
}

func TestNoTwoFamiliesLookAlike(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	publish(t, m, "A100", "r1", "r2")
	add(t, m, "A100", "r1", ContactRequest{})
	add(t, m, "A100", "r1", ContactRequest{})
	shapes := map[string]string{}
	for _, r := range Renderings() {
		h := New(m, steady(r))
		shape := ask(h, testKey, insertionsPath("A100")).Body.String() + "\n" + ask(h, testKey, contactRequestsPath("r1")).Body.String()
		if other, there := shapes[shape]; there {
			t.Errorf("%s is %s", r.Name, other)
		}
		shapes[shape] = r.Name
		if !strings.Contains(shape, `"propertyReferenceId":"r1"`) {
			t.Errorf("%s does not show what is promised", r.Name)
		}
	}
}

func TestTheTotalsOfEveryFamilyCanBeHidden(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	var refs []string
	for n := range 53 {
		refs = append(refs, fmt.Sprint("r", n))
	}
	publish(t, m, "A100", refs...)
	for _, r := range Renderings() {
		told := func(r Rendering) bool {
			w := ask(New(m, steady(r)), testKey, insertionsPath("A100"))
			return strings.Contains(w.Body.String(), ":53") || w.Header().Get("X-Total-Count") == "53"
		}
		if !told(r) {
			t.Errorf("%s tells no total", r.Name)
		}
		r.NoTotals, r.TotalsInHeader = true, false
		if told(r) {
			t.Errorf("%s still tells the total", r.Name)
		}
		r.TotalsInHeader = true
		if !told(r) {
			t.Errorf("%s does not tell the total in the header", r.Name)
		}
	}
}

func TestPagingKnobs(t *testing.T) {
	m := newModel(Options{})
	for n := range 45 {
		publish(t, m, "A100", fmt.Sprint("r", n))
	}
	type result struct {
		status, records int
		first           string
	}
	for name, c := range map[string]struct {
		change func(*Rendering)
		query  string
		want   result
	}{
		"past the end is empty":          {func(*Rendering) {}, "page=9", result{200, 0, ""}},
		"past the end is 404":            {func(r *Rendering) { r.PastEnd = 404 }, "page=4", result{404, 0, ""}},
		"past the end is 416":            {func(r *Rendering) { r.PastEnd = 416 }, "page=4", result{416, 0, ""}},
		"the end itself is not past":     {func(r *Rendering) { r.PastEnd = 404 }, "page=3", result{200, 5, "r4"}},
		"far past, without overflow":     {func(r *Rendering) { r.PastEnd = 400 }, "page=9223372036854775807", result{400, 0, ""}},
		"the last page for ever":         {func(r *Rendering) { r.PastEnd = LastPageAgain }, "page=99", result{200, 5, "r4"}},
		"page is ignored":                {func(r *Rendering) { r.PageIgnored = true }, "page=3", result{200, 20, "r44"}},
		"sizes capped":                   {func(r *Rendering) { r.MaxPageSize = 7 }, "pageSize=50", result{200, 7, "r44"}},
		"and pages are of that size":     {func(r *Rendering) { r.MaxPageSize = 7 }, "pageSize=50&page=2", result{200, 7, "r37"}},
		"a size of one is refused":       {func(r *Rendering) { r.PageSizes = Sizes{Least: 2, Status: 416} }, "pageSize=1", result{416, 0, ""}},
		"two is not":                     {func(r *Rendering) { r.PageSizes.Least = 2 }, "pageSize=2", result{200, 2, "r44"}},
		"large sizes are refused":        {func(r *Rendering) { r.PageSizes = Sizes{Most: 20, Status: 422} }, "pageSize=21", result{422, 0, ""}},
		"with 400 unless told otherwise": {func(r *Rendering) { r.PageSizes.Most = 20 }, "pageSize=21", result{400, 0, ""}},
		"any size is refused":            {func(r *Rendering) { r.PageSizes.Least = math.MaxInt }, "pageSize=20", result{400, 0, ""}},
		"no size is none":                {func(r *Rendering) { r.PageSizes.Least = math.MaxInt }, "", result{200, 20, "r44"}},
		"from zero":                      {func(r *Rendering) { r.PageBase = 0 }, "page=1", result{200, 20, "r24"}},
	} {
		r := Flat()
		c.change(&r)
		w := ask(New(m, r), testKey, insertionsPath("A100")+"?"+c.query)
		got := result{status: w.Code}
		if w.Code == http.StatusOK {
			refs := decoded[flatPage](t, w).references()
			if got.records = len(refs); got.records > 0 {
				got.first = refs[0]
			}
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestWindowKnobs(t *testing.T) {
	c := newClock()
	m := newModel(Options{Now: c.now})
	publish(t, m, "A100", "r")
	for id, score := range map[string]float64{"a": 3, "b": 1, "c": 2} {
		add(t, m, "A100", "r", ContactRequest{ID: id, Score: score, CreatedAt: c.t.Add(time.Duration(score) * time.Second)})
	}
	r := Flat()
	r.MaxWindow = 2
	if got := ids(t, New(m, r), "r", "numberOfItemsPerPage=100"); len(got) != 2 {
		t.Errorf("capped: %v", got)
	}
	r.WindowSizes = Sizes{Least: 2, Most: 50, Status: 422}
	for n, want := range map[int]int{1: 422, 2: 200, 50: 200, 51: 422} {
		if w := ask(New(m, r), testKey, fmt.Sprintf("%s?numberOfItemsPerPage=%d", contactRequestsPath("r"), n)); w.Code != want {
			t.Errorf("%d: %d, want %d", n, w.Code, want)
		}
	}
}

func TestRecordKnobs(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	must(t, m.Publish("A100", sample()))
	add(t, m, "A100", sample().Reference, inquiry())
	id := inquiry().ID
	for name, c := range map[string]struct {
		change   func(*Rendering)
		requests bool // of contact requests
		has      string
		hasNot   string
	}{
		"no colon":     {func(r *Rendering) { r.TimeLayout = TimeNoColon }, true, `"createdAt":"2026-11-20T10:41:07+0100"`, ""},
		"zone-less":    {func(r *Rendering) { r.TimeLayout, r.Zone = TimeZoneless, Zurich }, true, `"createdAt":"2026-11-20T10:41:07"`, ""},
		"seconds":      {func(r *Rendering) { r.TimeLayout = EpochSeconds }, true, `"createdAt":1795167667,`, ""},
		"milliseconds": {func(r *Rendering) { r.TimeLayout = EpochMilliseconds }, true, `"createdAt":1795167667250,`, ""},
		"number":       {func(r *Rendering) { r.IDs = IDNumber }, true, `"id":` + NumberID(id) + `,`, id},
		"number text":  {func(r *Rendering) { r.IDs = IDNumberText }, true, `"id":"` + NumberID(id) + `"`, id},
		"no id":        {func(r *Rendering) { r.IDs = IDAbsent }, true, `[{"createdAt"`, `"id"`},
		"sender":       {func(r *Rendering) { r.Person = "sender" }, true, `"sender":{"email"`, `"contact"`},
	} {
		r := steady(Flat())
		c.change(&r)
		target := insertionsPath("A100")
		if c.requests {
			target = contactRequestsPath(sample().Reference)
		}
		body := ask(New(m, r), testKey, target).Body.String()
		if !strings.Contains(body, c.has) || c.hasNot != "" && strings.Contains(body, c.hasNot) {
			t.Errorf("%s: %s", name, body)
		}
	}
	if n := NumberID(id); len(n) < 16 || n == NumberID("another") || fmt.Sprintf("%.0f", asFloat(t, n)) == n {
		t.Errorf("%s survives a float", n)
	}
}

func asFloat(t *testing.T, digits string) (f float64) {
	must(t, json.Unmarshal([]byte(digits), &f))
	return f
}
