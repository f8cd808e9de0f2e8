package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stage is a scenario that plays, asked over HTTP by a client of its own.
type stage struct {
	t     *testing.T
	play  *Play
	pipes *pipes
	began time.Time
}

// playing runs a scenario in virtual time, as fast as that.
func playing(t *testing.T, name string, test func(*stage)) {
	t.Helper()
	t.Parallel()
	s, ok := ScenarioNamed(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	synctest.Test(t, func(t *testing.T) {
		p := s.Open(ScenarioOptions{Seed: 1, Key: testKey, NextKey: otherKey, Speed: 1, Model: Options{KeepLog: true}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()
		test(&stage{t: t, play: p, pipes: listen(t, p.Handler), began: time.Now()})
	})
}

// until lets time pass to a moment of the story.
func (s *stage) until(d time.Duration) {
	time.Sleep(time.Until(s.began.Add(d)))
	synctest.Wait()
}

// get asks for something; status 0 is an answer that broke.
func (s *stage) get(key, target string) (status int, body string) {
	s.t.Helper()
	c := s.pipes.dial()
	defer c.Close()
	_, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: api\r\nConnection: close\r\nAuthorization: ApiKey %s\r\n\r\n", target, key)
	must(s.t, err)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, ""
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, string(b)
	}
	return answer.StatusCode, string(b)
}

// list reads the references on one page; it fails unless the answer is good.
func (s *stage) list(agencyID, query string) []string {
	s.t.Helper()
	status, body := s.get(testKey, insertionsPath(agencyID)+"?"+query)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d", agencyID, status)
	}
	return under(s.t, []byte(body), "propertyReferenceId")
}

func (s *stage) truth() Truth { return s.play.Model.Truth() }

// made counts the contact requests that were made in a stretch of the story.
func (s *stage) made(from, to time.Duration) (n int) {
	for _, c := range s.truth().ContactRequests {
		if age := c.CreatedAt.Sub(s.began); age >= from && age < to {
			n++
		}
	}
	return n
}

func (s *stage) expect(what string, got, want any) {
	s.t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestEveryScenarioSaysWhatItIs(t *testing.T) {
	want := strings.Fields(`zurich-hot relist key-rotation agency-revoked insertion-forbidden
		slow-and-flaky schema-shift page-shift replica-lag mass-vanish gdpr-null day-in-a-minute`)
	var names []string
	for _, s := range Scenarios() {
		names = append(names, s.Name)
		if s.Description == "" || s.Outcome == "" || len(s.Agencies) == 0 || s.Speed <= 0 || s.Lasts <= 0 {
			t.Errorf("%s is not told in full", s.Name)
		}
		if strings.Contains(s.Description, "\n") || len(s.Description) > 200 {
			t.Errorf("%s: the description is no line", s.Name)
		}
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}

func TestAScenarioIsItsSeedAndEnds(t *testing.T) {
	for _, s := range Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			played := func(seed uint64) (text string, lasted time.Duration) {
				synctest.Test(t, func(t *testing.T) {
					p := s.Open(ScenarioOptions{Seed: seed, Key: testKey, NextKey: otherKey})
					began := time.Now()
					p.Run(t.Context())
					lasted = time.Since(began)
					b, err := json.Marshal(p.Model.Truth())
					must(t, err)
					text = string(b)
				})
				return text, lasted
			}
			one, lasted := played(1)
			if again, _ := played(1); again != one {
				t.Error("the same seed plays otherwise")
			}
			if other, _ := played(2); other == one {
				t.Error("another seed plays the same")
			}
			if want := time.Duration(float64(s.Lasts) / s.Speed); lasted < want-time.Second || lasted > want+time.Second || lasted > time.Hour {
				t.Errorf("lasted %v, want %v", lasted, want)
			}
		})
	}
}

func TestAScenarioBeginsWithItsRun(t *testing.T) {
	t.Parallel()
	s, _ := ScenarioNamed("mass-vanish")
	synctest.Test(t, func(t *testing.T) {
		p := s.Open(ScenarioOptions{Seed: 1, Key: testKey, Speed: 1})
		h := p.Handler
		time.Sleep(25 * time.Minute) // nothing has begun
		count := func() int {
			return len(under(t, ask(h, testKey, insertionsPath("A100")+"?pageSize=50").Body.Bytes(), "propertyReferenceId"))
		}
		ctx, cancel := contextFor(t, 21*time.Minute)
		defer cancel()
		go p.Run(ctx)
		synctest.Wait()
		if n := count(); n != 30 {
			t.Errorf("%d at the beginning", n)
		}
		<-ctx.Done()
		if n := count(); n != 0 {
			t.Errorf("%d after 21 minutes", n)
		}
		synctest.Wait()
	})
}

func TestZurichHotBringsMoreThanAnyPageHolds(t *testing.T) {
	playing(t, "zurich-hot", func(s *stage) {
		s.until(2 * time.Hour)
		status, _ := s.get(testKey, insertionsPath("A100"))
		s.expect("the API in the second hour", status, 503)
		s.until(4 * time.Hour)
		if n := s.made(time.Hour, 3*time.Hour); n <= 100 {
			t.Errorf("only %d while nobody could see", n)
		}
		s.until(23 * time.Hour)
		s.expect("people", s.made(0, 23*time.Hour), 480)
		hot := s.list("A100", "")[0]
		_, body := s.get(testKey, contactRequestsPath(hot)+"?numberOfItemsPerPage=1000")
		s.expect("in the widest window", len(under(t, []byte(body), "createdAt")), 100)
	})
}

func TestKeyRotationHasAnHourOfTwoKeys(t *testing.T) {
	playing(t, "key-rotation", func(s *stage) {
		for _, c := range []struct {
			at       time.Duration
			old, new int
		}{{5 * time.Minute, 200, 403}, {11 * time.Minute, 200, 200}, {59 * time.Minute, 200, 200}, {61 * time.Minute, 403, 200}} {
			s.until(c.at)
			for _, id := range s.play.Scenario.Agencies {
				old, _ := s.get(testKey, insertionsPath(id))
				next, _ := s.get(otherKey, insertionsPath(id))
				s.expect(fmt.Sprint(id, " after ", c.at), []int{old, next}, []int{c.old, c.new})
			}
		}
	})
}

func TestSlowAndFlakyMisbehavesInEveryWayAndThenStops(t *testing.T) {
	playing(t, "slow-and-flaky", func(s *stage) {
		bad, statuses := 0, map[int]int{}
		for range 400 {
			status, body := s.get(testKey, insertionsPath("A100"))
			statuses[status]++
			if status != 200 || !json.Valid([]byte(body)) || len(under(t, []byte(body), "propertyReferenceId")) == 0 {
				bad++
			}
		}
		if bad < 90 || bad > 190 {
			t.Errorf("%d of 400 were bad", bad)
		}
		for _, status := range []int{0, 200, 429, 500, 502, 503} {
			if statuses[status] == 0 {
				t.Errorf("no %d among %v", status, statuses)
			}
		}
		s.until(2*time.Hour + time.Second)
		for range 50 {
			s.list("A100", "")
		}
	})
}

func TestReplicaLagHidesForAWhileAndFlaps(t *testing.T) {
	playing(t, "replica-lag", func(s *stage) {
		s.until(5 * time.Minute)
		whole := s.list("A100", "")
		s.until(9*time.Minute + 30*time.Second)
		s.expect("listed while one flaps", len(s.list("A100", "")), len(whole)-1)
		s.until(10*time.Minute + time.Second)
		s.expect("listed afterwards", len(s.list("A100", "")), len(whole))
		s.until(119 * time.Minute)
		lags := map[bool]int{}
		for _, c := range s.truth().ContactRequests {
			if c.CreatedAt.Before(s.began) {
				continue
			}
			lag := c.VisibleFrom.Sub(c.CreatedAt)
			lags[lag >= 90*time.Second && lag <= 600*time.Second]++
		}
		if lags[true] < 50 || lags[false] > 0 {
			t.Errorf("%v", lags)
		}
	})
}

func TestPageShiftShiftsUnderTheWalk(t *testing.T) {
	playing(t, "page-shift", func(s *stage) {
		doubled, missed := 0, 0
		for range 60 {
			listed := s.play.Model.listedReferences("A100")
			seen := map[string]int{}
			for page := 1; ; page++ {
				got := s.list("A100", fmt.Sprintf("pageSize=50&page=%d", page))
				if len(got) == 0 {
					break
				}
				for _, reference := range got {
					seen[reference]++
				}
			}
			now := s.play.Model.listedReferences("A100")
			for _, reference := range listed {
				if slices.Contains(now, reference) && seen[reference] == 0 {
					missed++
				}
				if seen[reference] > 1 {
					doubled++
				}
			}
		}
		if doubled == 0 || missed == 0 {
			t.Errorf("met twice: %d, overlooked: %d", doubled, missed)
		}
	})
}
