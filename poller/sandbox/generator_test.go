package sandbox

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
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
