package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// texts finds every string and number that stands under a name, in any style of
// names, at any depth, in the order of the text.
func under(t testing.TB, body []byte, name string) (found []string) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	plain := strings.NewReplacer("_", "")
	var look func(any)
	look = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				look(e)
			}
		case object:
			for _, m := range v {
				if strings.EqualFold(plain.Replace(m.name), name) {
					switch m.value.(type) {
					case string, json.Number, float64:
						found = append(found, fmt.Sprint(m.value))
					}
				}
				look(m.value)
			}
		}
	}
	tree, err := readValue(d)
	if err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	look(tree)
	return found
}

func TestEveryFamilyShowsEverythingPageByPage(t *testing.T) {
	names := map[string]bool{}
	for _, r := range Families() {
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
				if c.Served.Count != 1 || !slices.Contains(wantIDs, c.ID) {
					t.Errorf("%+v", c.Served)
				}
			}
		})
	}
	if len(names) < 12 {
		t.Errorf("only %d families", len(names))
	}
}

func TestNoTwoFamiliesLookAlike(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	publish(t, m, "A100", "r1", "r2")
	add(t, m, "A100", "r1", ContactRequest{})
	add(t, m, "A100", "r1", ContactRequest{})
	shapes := map[string]string{}
	for _, r := range Families() {
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
	for _, r := range Families() {
		told := func(r Rendering) bool {
			w := ask(New(m, steady(r)), testKey, insertionsPath("A100"))
			return strings.Contains(w.Body.String(), ":53") || w.Header().Get("X-Total-Count") == "53"
		}
		if r.Name != "cursor" && !told(r) {
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

func TestCursorsAndLinksLeadToTheEnd(t *testing.T) {
	m := newModel(Options{})
	for n := range 45 {
		publish(t, m, "A100", fmt.Sprint("r", n))
	}
	next := map[string]func(http.Header, []byte) string{
		"cursor": func(_ http.Header, b []byte) string {
			if c := under(t, b, "nextCursor"); len(c) > 0 {
				return insertionsPath("A100") + "?cursor=" + c[0]
			}
			return ""
		},
		"linked": func(_ http.Header, b []byte) string { return strings.Join(under(t, b, "next"), "") },
		"hal": func(_ http.Header, b []byte) string {
			links := under(t, b, "href")
			for _, l := range links {
				if strings.Contains(l, "page=") && len(links) > 1 && l != links[0] {
					return l
				}
			}
			return ""
		},
		"array": func(h http.Header, _ []byte) string {
			link, _, _ := strings.Cut(strings.TrimPrefix(h.Get("Link"), "<"), ">")
			return link
		},
	}
	for _, r := range Families() {
		follow := next[r.Name]
		if follow == nil {
			continue
		}
		r.Steady = true // self comes first in hal
		if r.Name == "cursor" {
			r.PageIgnored = true // nothing else leads on
		}
		h := New(m, r)
		seen := 0
		for target := insertionsPath("A100"); target != "" && seen < 100; {
			w := ask(h, testKey, target)
			seen += len(under(t, w.Body.Bytes(), "propertyReferenceId"))
			target = follow(w.Header(), w.Body.Bytes())
		}
		if seen != 45 {
			t.Errorf("%s: %d insertions", r.Name, seen)
		}
	}
	r := cursors()
	for _, bad := range []string{"x", "", "ZnJvbTotMQ"} {
		if w := ask(New(m, r), testKey, insertionsPath("A100")+"?cursor="+bad); w.Code != http.StatusBadRequest {
			t.Errorf("cursor %q: %d", bad, w.Code)
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
		"a size of one is refused":       {func(r *Rendering) { r.PageSizes.Least = 2 }, "pageSize=1", result{416, 0, ""}},
		"two is not":                     {func(r *Rendering) { r.PageSizes.Least = 2 }, "pageSize=2", result{200, 2, "r44"}},
		"large sizes are refused":        {func(r *Rendering) { r.PageSizes = Sizes{Most: 20, TooLarge: 422} }, "pageSize=21", result{422, 0, ""}},
		"with 400 unless told otherwise": {func(r *Rendering) { r.PageSizes.Most = 20 }, "pageSize=21", result{400, 0, ""}},
		"any size is refused":            {func(r *Rendering) { r.PageSizes.Any = 400 }, "pageSize=20", result{400, 0, ""}},
		"no size is none":                {func(r *Rendering) { r.PageSizes.Any = 400 }, "", result{200, 20, "r44"}},
		"from zero":                      {func(r *Rendering) { r.PageBase = 0 }, "page=1", result{200, 20, "r24"}},
		"depth is bounded":               {func(r *Rendering) { r.MaxDepth, r.PastEnd = 40, 400 }, "page=3", result{400, 0, ""}},
		"and all above it is there":      {func(r *Rendering) { r.MaxDepth, r.PastEnd = 40, 400 }, "page=2", result{200, 20, "r24"}},
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
	} // oldest first b c a
	const ascending = "sortBy=createdAt&sortOrder=asc"
	for order, want := range map[Order][]string{
		"": {"b", "c", "a"}, OldestFirst: {"b", "c", "a"}, NewestFirst: {"a", "c", "b"}, BestFirst: {"a", "c", "b"}, ByID: {"a", "b", "c"},
	} {
		r := Flat()
		r.WindowOrder = order
		for _, query := range []string{ascending, "", "sortBy=score&sortOrder=desc"} {
			if got := ids(t, New(m, r), "r", query); !slices.Equal(got, want) && (order != "" || query == ascending) {
				t.Errorf("%q %q: %v", order, query, got)
			}
		}
	}
	r := Flat()
	r.MaxWindow = 2
	if got := ids(t, New(m, r), "r", "numberOfItemsPerPage=100"); len(got) != 2 {
		t.Errorf("capped: %v", got)
	}
	r.WindowSizes = Sizes{Least: 2, Most: 50, TooLarge: 422}
	for n, want := range map[int]int{1: 416, 2: 200, 50: 200, 51: 422} {
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
		"no colon":      {func(r *Rendering) { r.TimeLayout = TimeNoColon }, true, `"createdAt":"2026-11-20T10:41:07+0100"`, ""},
		"zone-less":     {func(r *Rendering) { r.TimeLayout, r.Zone = TimeZoneless, Zurich }, true, `"createdAt":"2026-11-20T10:41:07"`, ""},
		"seconds":       {func(r *Rendering) { r.TimeLayout = EpochSeconds }, true, `"createdAt":1795167667,`, ""},
		"milliseconds":  {func(r *Rendering) { r.TimeLayout = EpochMilliseconds }, true, `"createdAt":1795167667250,`, ""},
		"number":        {func(r *Rendering) { r.IDs = IDNumber }, true, `"id":` + NumberID(id) + `,`, id},
		"number text":   {func(r *Rendering) { r.IDs = IDNumberText }, true, `"id":"` + NumberID(id) + `"`, id},
		"no id":         {func(r *Rendering) { r.IDs = IDAbsent }, true, `[{"createdAt"`, `"id"`},
		"snake case":    {func(r *Rendering) { r.Names = SnakeCase }, true, `"viewing_times"`, "viewingTimes"},
		"pascal case":   {func(r *Rendering) { r.Names = PascalCase }, true, `"ViewingTimes"`, "viewingTimes"},
		"promised name": {func(r *Rendering) { r.Names = SnakeCase }, false, `"propertyReferenceId"`, "number_ofrooms"},
		"other name":    {func(r *Rendering) { r.ReferenceName = "objectReference" }, false, `"objectReference":"seefeld#1203#H2#0306"`, "propertyReferenceId"},
		"wrapped":       {func(r *Rendering) { r.WrapInsertion = "listing" }, false, `[{"listing":{"propertyReferenceId"`, ""},
		"wrapped too":   {func(r *Rendering) { r.WrapContactRequest = "contactRequest" }, true, `[{"contactRequest":{"id"`, ""},
		"sender":        {func(r *Rendering) { r.Person = "sender" }, true, `"sender":{"salutation"`, `"contact"`},
		"flat person":   {func(r *Rendering) { *r = steady(Nested()); r.Person = "flat" }, true, `"phone":`, `"contact"`},
		"views":         {func(r *Rendering) { r.Volatile.Views = true }, false, `"views":1`, ""},
		"counter":       {func(r *Rendering) { r.Volatile.ContactRequestCount = true }, false, `"contactRequestCount":1`, ""},
		"lonely":        {func(r *Rendering) { r.Lonely = true }, false, `"results":{"propertyReferenceId"`, `[{"prop`},
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

func TestVolatileMembersDifferFromAnswerToAnswer(t *testing.T) {
	c := newClock()
	m := newModel(Options{Now: c.now})
	must(t, m.Publish("A100", sample()))
	for name, v := range map[string]Volatile{
		"views": {Views: true}, "touched": {Touched: true}, "signed": {SignedURLs: true}, "translation": {Translation: true},
	} {
		r := steady(Flat())
		r.Volatile = v
		h := New(m, r)
		first := ask(h, testKey, insertionsPath("A100")).Body.String()
		c.advance(time.Second)
		if again := ask(h, testKey, insertionsPath("A100")).Body.String(); again == first {
			t.Errorf("%s: the same twice", name)
		}
	}
	if i, _ := m.Truth().Insertion("A100", sample().Reference); len(i.Versions) != 1 {
		t.Errorf("%d versions of what never changed", len(i.Versions))
	}
}

func TestNothingIsShownAsToldAndServesNothing(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r")
	for none, want := range map[None]string{"": "200 []", NullList: "200 null", NoContent: "204 ", NoBody: "200 "} {
		r := steady(Flat())
		r.None = none
		w := ask(New(m, r), testKey, contactRequestsPath("r"))
		if got := fmt.Sprint(w.Code, " ", w.Body.String()); got != want {
			t.Errorf("%q: %q, want %q", none, got, want)
		}
	}
}
