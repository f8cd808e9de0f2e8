package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
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
