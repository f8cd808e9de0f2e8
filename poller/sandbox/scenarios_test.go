package sandbox

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestAScenarioFollowsFromItsSeedAndEnds(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			played := func(seed uint64) (text string) {
				synctest.Test(t, func(t *testing.T) {
					p := s.Open(ScenarioOptions{Seed: seed, Key: testKey, NextKey: otherKey})
					time.Sleep(time.Hour) // it begins with its run
					began := time.Now()
					p.Run(t.Context())
					want := time.Duration(float64(s.Lasts) / s.Speed)
					if lasted := time.Since(began); (lasted-want).Abs() > time.Second || lasted > time.Hour {
						t.Errorf("lasted %v, want %v", lasted, want)
					}
					b, err := json.Marshal(p.Model.Truth())
					must(t, err)
					text = string(b)
				})
				return text
			}
			one := played(1)
			if played(1) != one {
				t.Error("the same seed plays differently")
			}
			if played(2) == one {
				t.Error("another seed plays the same")
			}
		})
	}
}

// audience walks the lists of a scenario in virtual time, with both keys, and polls what it finds.
type audience struct {
	play     *Play
	statuses map[string]int // by key's label and status; 0 is a response that broke
	doubled  int            // references that one walk met twice
	missed   int            // references that were listed throughout a walk that did not meet them
}

func (a *audience) saw(statuses ...string) bool {
	return !slices.ContainsFunc(statuses, func(s string) bool { return a.statuses[s] == 0 })
}

// get sends a request; what hangs up has no status.
func (a *audience) get(label, key, target string) (w *httptest.ResponseRecorder) {
	defer func() {
		status := w.Code
		if recover() != nil {
			status = 0
		}
		a.statuses[fmt.Sprint(label, " ", status)]++
	}()
	w = httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	r.Header.Set("Authorization", "ApiKey "+key)
	a.play.Handler.ServeHTTP(w, r)
	return w
}

func (a *audience) walk(agencyID string) {
	before, seen := a.play.Model.listedReferences(agencyID), map[string]int{}
	for page := a.play.rendering.PageBase; page < 9; page++ {
		w := a.get("old", testKey, fmt.Sprintf("%s?page=%d&pageSize=50", insertionsPath(agencyID), page))
		if w.Code != http.StatusOK || !json.Valid(w.Body.Bytes()) {
			return
		}
		references := texts(w.Body.Bytes(), "property_?reference_?id")
		for _, reference := range references {
			seen[reference]++
		}
		if len(references) == 0 {
			break
		}
	}
	after := a.play.Model.listedReferences(agencyID)
	for _, reference := range before {
		if seen[reference] > 1 {
			a.doubled++
		}
		if seen[reference] == 0 && slices.Contains(after, reference) {
			a.missed++
		}
	}
	a.get("new", otherKey, insertionsPath(agencyID))
}

// TestScenariosShowWhatTheyPromise plays the scenarios that other tests rely on.
func TestScenariosShowWhatTheyPromise(t *testing.T) {
	for name, judge := range map[string]func(a *audience, truth Truth) bool{
		"zurich-hot":   func(a *audience, truth Truth) bool { return a.saw("old 503") && len(truth.ContactRequests) == 480+5*3 },
		"key-rotation": func(a *audience, _ Truth) bool { return a.saw("old 200", "old 403", "new 200", "new 403") },
		"slow-and-flaky": func(a *audience, _ Truth) bool {
			return a.saw("old 0", "old 200", "old 429", "old 500", "old 502", "old 503")
		},
		"page-shift":  func(a *audience, _ Truth) bool { return a.doubled > 0 && a.missed > 0 },
		"replica-lag": func(a *audience, truth Truth) bool { return a.missed > 0 && lagging(truth) >= 50 },
		"mass-vanish": func(a *audience, _ Truth) bool { return a.missed >= 30 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := ScenarioNamed(name)
			synctest.Test(t, func(t *testing.T) {
				p := s.Open(ScenarioOptions{Seed: 1, Key: testKey, NextKey: otherKey, Speed: 1})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				go p.Run(ctx)
				a := &audience{play: p, statuses: map[string]int{}}
				for ended := time.Now().Add(s.Lasts); time.Now().Before(ended); time.Sleep(30 * time.Second) {
					for _, id := range s.Agencies {
						a.walk(id)
					}
				}
				if !judge(a, p.Model.Truth()) {
					t.Errorf("%v, %d met twice, %d missed", slices.Sorted(maps.Keys(a.statuses)), a.doubled, a.missed)
				}
			})
		})
	}
}

// lagging is how many contact requests became visible one and a half to ten minutes late.
func lagging(truth Truth) (n int) {
	for _, c := range truth.ContactRequests {
		if lag := c.VisibleFrom.Sub(c.CreatedAt); lag >= 90*time.Second && lag <= 600*time.Second {
			n++
		}
	}
	return n
}
