package sandbox

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// texts finds the texts of the members of a name, in the order in which they stand. The name is a
// regular expression for all styles of names.
func texts(body []byte, name string) (found []string) {
	for _, m := range regexp.MustCompile(`(?i)"`+name+`"\s*:\s*"([^"]*)"`).FindAllSubmatch(body, -1) {
		found = append(found, string(m[1]))
	}
	return found
}

func TestEveryFamilyShowsEverythingPageByPage(t *testing.T) {
	for _, r := range Renderings() {
		t.Run(r.Name, func(t *testing.T) {
			m := newModel(Options{Now: newClock().now})
			var want, got []string
			for n := range 45 {
				want = append(want, fmt.Sprint("r", n))
			}
			publish(t, m, "A100", want...)
			for n := range 7 {
				add(t, m, "A100", "r1", ContactRequest{LastName: fmt.Sprint("Muster", n, Marker)})
			}
			h := New(m, r)
			for n := range 4 {
				w := ask(h, testKey, fmt.Sprintf("%s?page=%d&pageSize=20", insertionsPath("A100"), r.PageBase+n))
				got = append(got, texts(w.Body.Bytes(), "property_?reference_?id")...)
			}
			slices.Reverse(got)
			if !slices.Equal(got, want) {
				t.Errorf("walked %v", got)
			}
			body := ask(h, testKey, contactRequestsPath("r1")).Body.Bytes()
			if got := texts(body, "last_?name"); len(got) != 7 || got[0] != "Muster6"+Marker {
				t.Errorf("contact requests of %v", got)
			}
		})
	}
}

func TestRecordKnobs(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	publish(t, m, "A100", "r")
	const id = "7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11"
	add(t, m, "A100", "r", ContactRequest{
		ID: id, CreatedAt: time.Date(2026, 11, 20, 9, 41, 7, 250e6, time.UTC), Email: "nora-zq7@example.org", Message: "Guten Tag\r\n<b>\"Samstag\"</b>",
	})
	for name, c := range map[string]struct {
		change      func(*Rendering)
		has, hasNot string
	}{
		"as usual":     {func(*Rendering) {}, `"createdAt":"2026-11-20T10:41:07.250+01:00"`, ""},
		"a text":       {func(*Rendering) {}, `"message":"Guten Tag\r\n<b>\"Samstag\"</b>"`, ""},
		"no colon":     {func(r *Rendering) { r.TimeLayout = TimeNoColon }, `"createdAt":"2026-11-20T10:41:07+0100"`, ""},
		"zone-less":    {func(r *Rendering) { r.TimeLayout, r.Zone = TimeZoneless, Zurich }, `"createdAt":"2026-11-20T10:41:07"`, ""},
		"seconds":      {func(r *Rendering) { r.TimeLayout = EpochSeconds }, `"createdAt":1795167667,`, ""},
		"milliseconds": {func(r *Rendering) { r.TimeLayout = EpochMilliseconds }, `"createdAt":1795167667250,`, ""},
		"number":       {func(r *Rendering) { r.IDs = IDNumber }, `"id":` + NumberID(id) + `,`, id},
		"number text":  {func(r *Rendering) { r.IDs = IDNumberText }, `"id":"` + NumberID(id) + `"`, id},
		"no id":        {func(r *Rendering) { r.IDs = IDAbsent }, `[{"createdAt"`, `"id"`},
		"sender":       {func(r *Rendering) { r.Person = "sender" }, `"sender":{"email"`, `"contact"`},
	} {
		r := steady(Flat())
		c.change(&r)
		body := ask(New(m, r), testKey, contactRequestsPath("r")).Body.String()
		if !strings.Contains(body, c.has) || c.hasNot != "" && strings.Contains(body, c.hasNot) {
			t.Errorf("%s: %s", name, body)
		}
	}
	n := NumberID(id)
	if f, err := strconv.ParseFloat(n, 64); err != nil || n == NumberID("another") || fmt.Sprintf("%.0f", f) == n {
		t.Errorf("%s survives a float", n)
	}
}
