package sandbox

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

func generated(seed uint64, steps int) (*Model, string) {
	c := newClock()
	m := NewModel(Options{Now: c.now, Seed: seed})
	g := NewGenerator(m, GeneratorOptions{Seed: seed, Agencies: []string{"A100", "B200"}, Insertions: 20, History: 3, ContactRequestsPerMinute: 2, ChangesPerMinute: 1})
	g.Seed()
	for range steps {
		c.advance(time.Second)
		g.Step()
	}
	text, err := json.Marshal(m.Truth())
	if err != nil {
		panic(err)
	}
	return m, string(text)
}

func TestTheSameSeedMakesTheSameWorld(t *testing.T) {
	_, one := generated(1, 500)
	_, again := generated(1, 500)
	_, other := generated(2, 500)
	if one != again {
		t.Error("two worlds of one seed differ")
	}
	if one == other {
		t.Error("two seeds make the same world")
	}
}

func TestTheGeneratorMakesEveryKindOfChange(t *testing.T) {
	m, _ := generated(3, 3000)
	var edits, withdrawals, returns, fresh, requests, history int
	truth := m.Truth()
	stock := map[string]int{}
	for _, i := range truth.Insertions {
		edits += len(i.Versions) - len(i.Visible)
		returns += len(i.Visible) - 1
		if i.Visible[0].From != truth.Insertions[0].Visible[0].From {
			fresh++
		}
		for _, v := range i.Visible {
			if !v.Until.IsZero() {
				withdrawals++
			}
		}
		if i.VisibleAt(truth.At) {
			stock[i.AgencyID]++
		}
	}
	for _, c := range truth.ContactRequests {
		if c.CreatedAt.Before(c.VisibleFrom) {
			history++
		} else {
			requests++
		}
	}
	for name, n := range map[string]int{"edits": edits, "withdrawals": withdrawals, "returns": returns, "publications": fresh} {
		if n < 30 {
			t.Errorf("only %d %s", n, name)
		}
	}
	if requests < 1800 || requests > 2200 || history != 2*20*3 {
		t.Errorf("%d contact requests in 3000 steps, and %d old ones", requests, history)
	}
	for id, n := range stock {
		if n < 10 || n > 40 {
			t.Errorf("%s lists %d, started with 20", id, n)
		}
	}
}

var (
	mailForm  = regexp.MustCompile(`^[a-z.-]+-zq7@example\.(org|com|net)$`)
	phoneForm = regexp.MustCompile(`^(\+41|0041|0)(79|76|44)000\d{4}$`)
)

func TestEveryPersonIsSyntheticAndMarked(t *testing.T) {
	m, _ := generated(4, 2000)
	languages, untidy := map[string]int{}, map[string]int{}
	for _, c := range m.Truth().ContactRequests {
		r := c.Versions[0].Record
		languages[r.Language]++
		digits := strings.NewReplacer(" ", "", ".", "", "-", "", "/", "").Replace(r.Phone)
		if !strings.HasSuffix(r.LastName, Marker) || !strings.Contains(r.Message, r.LastName) ||
			r.Email != "" && !mailForm.MatchString(r.Email) || r.Phone != "" && !phoneForm.MatchString(digits) {
			t.Errorf("%+v", r)
		}
		for _, s := range []string{"\r\n", "<b>", "🐈", "&amp;"} {
			if strings.Contains(r.Message, s) {
				untidy[s]++
			}
		}
		if r.Phone == "" {
			untidy["no phone"]++
		}
	}
	if len(languages) != 4 || len(untidy) != 5 {
		t.Errorf("languages %v, untidiness %v", languages, untidy)
	}
}

func TestGeneratedReferencesHoldWhatPathsCannotBear(t *testing.T) {
	m, _ := generated(5, 0)
	h := New(m, Flat())
	m.AddKey(testKey, "A100", "B200")
	found := map[string]bool{}
	for _, i := range m.Truth().Insertions {
		for _, s := range []string{"##", "#H1#", " ", "/", "ä", "%"} {
			found[s] = found[s] || strings.Contains(i.Reference, s)
		}
		if strings.Count(i.Reference, "#") != 3 || !utf8.ValidString(i.Reference) {
			t.Errorf("%q has not four segments", i.Reference)
		}
		if got := ids(t, h, i.Reference, ""); len(got) != 3 {
			t.Errorf("%q: %d contact requests", i.Reference, len(got))
		}
	}
	for s, ok := range found {
		if !ok {
			t.Errorf("none with %q", s)
		}
	}
}

func TestAnEditAlwaysChangesSomething(t *testing.T) {
	m := newModel(Options{})
	g := NewGenerator(m, GeneratorOptions{Seed: 6, Agencies: []string{"A100"}, Insertions: 1})
	g.Seed()
	reference := m.Truth().Insertions[0].Reference
	for range 50 {
		must(t, m.Edit("A100", reference, func(i *Insertion) { edit(g.random, i) }))
	}
	if n := len(m.Truth().Insertions[0].Versions); n != 51 {
		t.Errorf("%d versions after 50 edits", n)
	}
}

func TestTheGeneratorRunsAtTheSpeedItWasGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel(Options{})
		g := NewGenerator(m, GeneratorOptions{Seed: 7, Agencies: []string{"A100", "B200"}, Insertions: 12, ContactRequestsPerMinute: 30, ChangesPerMinute: 6})
		g.Seed()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		began := time.Now()
		g.Run(ctx)
		if d := time.Since(began); d != time.Hour {
			t.Errorf("ended after %v", d)
		}
		changes := 0
		truth := m.Truth()
		for _, i := range truth.Insertions {
			changes += len(i.Versions) + len(i.Visible)
		}
		if n := len(truth.ContactRequests); n < 1600 || n > 2000 {
			t.Errorf("%d contact requests in an hour, want about 1800", n)
		}
		if changes < 250 {
			t.Errorf("%d versions and intervals in an hour", changes)
		}
	})
}

func TestNothingIsMadeUpBeyondWhatTheOptionsSay(t *testing.T) {
	m := NewModel(Options{})
	g := NewGenerator(m, GeneratorOptions{Agencies: []string{"A100"}})
	g.Seed()
	g.Run(t.Context())
	if truth := m.Truth(); len(truth.Agencies) != 1 || len(truth.Insertions) != 0 {
		t.Errorf("%+v", truth)
	}
}
