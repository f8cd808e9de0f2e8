package sandbox

import (
	"regexp"
	"strings"
	"testing"
	"time"
)

func generated(seed uint64, steps int) *Model {
	c := newClock()
	m := NewModel(Options{Now: c.now, Seed: seed})
	g := NewGenerator(m, GeneratorOptions{Seed: seed, Agencies: []string{"A100", "B200"}, Insertions: 20, History: 3, ContactRequestsPerMinute: 2, ChangesPerMinute: 1})
	g.Seed()
	for range steps {
		c.advance(time.Second)
		g.Step()
	}
	return m
}

func TestTheGeneratorMakesEveryKindOfChange(t *testing.T) {
	m := generated(3, 3000)
	truth, n := m.Truth(), map[string]int{}
	for _, i := range truth.Insertions {
		n["edits"] += len(i.Versions) - len(i.Visible)
		n["returns"] += len(i.Visible) - 1
		if i.Visible[0].From != truth.Insertions[0].Visible[0].From {
			n["publications"]++
		}
		if !i.VisibleAt(truth.At) {
			n["withdrawals"]++
		}
	}
	for _, c := range truth.ContactRequests {
		n[map[bool]string{true: "old", false: "requests"}[c.CreatedAt.Before(c.VisibleFrom)]]++
	}
	for _, kind := range []string{"edits", "withdrawals", "returns", "publications"} {
		if n[kind] < 30 {
			t.Errorf("only %d %s", n[kind], kind)
		}
	}
	if n["requests"] < 1800 || n["requests"] > 2200 || n["old"] != 2*20*3 {
		t.Errorf("%v in 3000 steps", n)
	}
	if left := len(truth.Insertions) - n["withdrawals"]; left < 20 || left > 80 {
		t.Errorf("%d are listed, of 40 at the start", left)
	}
}

var (
	mailForm  = regexp.MustCompile(`^[a-z.-]+-zq7@example\.(org|com|net)$`)
	phoneForm = regexp.MustCompile(`^(\+41|0041|0)(79|76|44)000\d{4}$`)
)

func TestEveryPersonIsSyntheticAndMarked(t *testing.T) {
	m := generated(4, 2000)
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
