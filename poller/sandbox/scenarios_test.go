package sandbox

import (
	"bufio"
	"bytes"
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

func (s *stage) first(agencyID string) string {
	for _, i := range s.truth().Insertions {
		if i.AgencyID == agencyID {
			return i.Reference
		}
	}
	return ""
}

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
	want := strings.Fields(`calm-village zurich-hot monday-upload relist key-rotation agency-revoked insertion-forbidden edge-challenge
		slow-and-flaky schema-shift page-shift capped-pages replica-lag mass-vanish gdpr-null ref-torture day-in-a-minute`)
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

func TestCalmVillageIsCalm(t *testing.T) {
	playing(t, "calm-village", func(s *stage) {
		if n := len(s.list("A100", "")); n != 8 {
			t.Errorf("%d insertions", n)
		}
		s.until(7*day - time.Minute)
		if n := s.made(0, 7*day); n < 1 || n > 20 {
			t.Errorf("%d contact requests in a week", n)
		}
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

func TestADayInAMinuteIsADay(t *testing.T) {
	t.Parallel()
	s, _ := ScenarioNamed("day-in-a-minute")
	synctest.Test(t, func(t *testing.T) {
		p := s.Open(ScenarioOptions{Seed: 1, Key: testKey})
		began := time.Now()
		p.Run(t.Context())
		if d := time.Since(began); d != time.Minute {
			t.Errorf("took %v", d)
		}
		people := 0
		truth := p.Model.Truth()
		for _, c := range truth.ContactRequests {
			if !c.CreatedAt.Before(began) {
				people++
			}
		}
		if people < 480 || people > 495 || truth.At.Sub(began) != time.Minute {
			t.Errorf("%d people", people)
		}
	})
}

func TestMondayUploadReplacesTwoFifthsAndTouchesTheRest(t *testing.T) {
	playing(t, "monday-upload", func(s *stage) {
		before := s.list("A100", "pageSize=100")
		s.until(29 * time.Minute)
		s.expect("before two o'clock", s.list("A100", "pageSize=100"), before)
		s.until(4 * time.Hour)
		after := s.list("A100", "pageSize=100")
		gone := 0
		for _, reference := range before {
			if !slices.Contains(after, reference) {
				gone++
			}
		}
		s.expect("gone", gone, 24)
		s.expect("listed", len(after), 60)
		touched := 0
		for _, i := range s.truth().Insertions {
			if len(i.Versions) == 2 {
				a, b := i.Versions[0].Record, i.Versions[1].Record
				a.UpdatedAt, b.UpdatedAt = time.Time{}, time.Time{}
				if fmt.Sprint(a) != fmt.Sprint(b) {
					t.Errorf("%s changed", i.Reference)
				}
				touched++
			}
		}
		s.expect("touched", touched, 36)
		if _, body := s.get(testKey, insertionsPath("A100")); !strings.Contains(body, "updatedAt") {
			t.Error("nobody can see updatedAt")
		}
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

func TestAgencyRevokedRevokesOneOfThree(t *testing.T) {
	playing(t, "agency-revoked", func(s *stage) {
		s.until(19 * time.Minute)
		s.expect("before", len(s.list("B200", "")), 10)
		s.until(21 * time.Minute)
		for id, want := range map[string]int{"A100": 200, "B200": 403, "C300": 200} {
			status, _ := s.get(testKey, insertionsPath(id))
			s.expect(id, status, want)
			status, _ = s.get(testKey, contactRequestsPath(s.first(id)))
			s.expect("contact requests of "+id, status, want)
		}
	})
}

func TestInsertionForbiddenForbidsOne(t *testing.T) {
	playing(t, "insertion-forbidden", func(s *stage) {
		references := s.list("A100", "")
		for _, c := range []struct {
			at   time.Duration
			want int
		}{{19 * time.Minute, 0}, {21 * time.Minute, 1}} {
			s.until(c.at)
			refused := 0
			for _, reference := range references {
				if status, _ := s.get(testKey, contactRequestsPath(reference)); status == 403 {
					refused++
				}
			}
			s.expect("refused", refused, c.want)
			s.expect("listed", s.list("A100", ""), references)
		}
	})
}

func TestEdgeChallengeAnswersWithPagesAndCaptchas(t *testing.T) {
	playing(t, "edge-challenge", func(s *stage) {
		s.expect("before", len(s.list("A100", "")), 10)
		s.until(21 * time.Minute)
		for id, has := range map[string]string{"A100": "<html>", "B200": "captcha"} {
			status, body := s.get(testKey, insertionsPath(id))
			if status != 403 || !strings.Contains(body, has) {
				t.Errorf("%s: %d %s", id, status, body)
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

func TestSchemaShiftShiftsAfterAnHour(t *testing.T) {
	playing(t, "schema-shift", func(s *stage) {
		reference := s.list("A100", "")[0]
		_, list := s.get(testKey, insertionsPath("A100"))
		_, requests := s.get(testKey, contactRequestsPath(reference))
		s.until(time.Hour + time.Second)
		_, listAfter := s.get(testKey, insertionsPath("A100"))
		_, requestsAfter := s.get(testKey, contactRequestsPath(reference))
		for name, c := range map[string]struct {
			body     string
			has, not string
		}{
			"list before": {list, `"items"`, `"results"`}, "list after": {listAfter, `"results"`, `"items"`},
			"rank before": {list, `"rankType"`, `"ranking"`}, "rank after": {listAfter, `"ranking"`, `"rankType"`},
		} {
			if !strings.Contains(c.body, c.has) || strings.Contains(c.body, c.not) {
				t.Errorf("%s: %.300s", name, c.body)
			}
		}
		before, after := under(t, []byte(requests), "id"), under(t, []byte(requestsAfter), "id")
		if len(before) == 0 || !slices.Equal(before, after[len(after)-len(before):]) {
			t.Errorf("ids %v became %v", before, after)
		}
		if text := `"` + before[0] + `"`; strings.Contains(requests, text) || !strings.Contains(requestsAfter, text) {
			t.Error("the number is no text now")
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

func TestCappedPagesSetsEveryTrap(t *testing.T) {
	playing(t, "capped-pages", func(s *stage) {
		s.expect("capped", len(s.list("A100", "pageSize=50")), 10)
		s.expect("page ignored", s.list("B200", "page=3"), s.list("B200", ""))
		s.expect("the last page again", s.list("C300", "page=9"), s.list("C300", "page=3"))
		s.expect("which is short", len(s.list("C300", "page=9")), 5)
		for query, want := range map[string]int{"pageSize=1": 416, "pageSize=50": 416, "pageSize=20": 200, "": 200} {
			status, _ := s.get(testKey, insertionsPath("D400")+"?"+query)
			s.expect("D400 "+query, status, want)
		}
	})
}

func TestRefTortureCanBeAskedByEscapedPaths(t *testing.T) {
	playing(t, "ref-torture", func(s *stage) {
		references := s.list("A100", "pageSize=100")
		if len(references) < 20 {
			t.Errorf("only %d", len(references))
		}
		longest := 0
		for _, reference := range references {
			longest = max(longest, len(reference))
			status, body := s.get(testKey, contactRequestsPath(reference))
			if status != 200 || len(under(t, []byte(body), "id")) == 0 {
				t.Errorf("%.50q: %d", reference, status)
			}
		}
		if longest <= 4<<10 {
			t.Errorf("the longest has %d bytes", longest)
		}
	})
}

func TestRelistBringsBackWithOldContactRequests(t *testing.T) {
	playing(t, "relist", func(s *stage) {
		before := s.list("A100", "")
		s.until(2 * day)
		s.expect("listed after two days", len(s.list("A100", "")), 7)
		s.until(99 * day)
		after := s.list("A100", "")
		slices.Sort(before)
		slices.Sort(after)
		s.expect("listed in the end", after, before)
		episodes := map[int]int{}
		for _, i := range s.truth().Insertions {
			episodes[len(i.Visible)]++
		}
		s.expect("episodes", episodes, map[int]int{1: 5, 2: 5})
		for _, i := range s.truth().Insertions {
			_, body := s.get(testKey, contactRequestsPath(i.Reference)+"?sortOrder=asc")
			if len(under(t, []byte(body), "id")) < 4 {
				t.Errorf("%s lost its contact requests", i.Reference)
			}
		}
	})
}

func TestMassVanishIsOnceAMistakeAndOnceTrue(t *testing.T) {
	playing(t, "mass-vanish", func(s *stage) {
		counts := func() [2]int { return [2]int{len(s.list("A100", "pageSize=50")), len(s.list("B200", "pageSize=50"))} }
		s.expect("at first", counts(), [2]int{30, 30})
		s.until(21 * time.Minute)
		s.expect("then", counts(), [2]int{0, 12})
		s.until(31 * time.Minute)
		s.expect("in the end", counts(), [2]int{30, 12})
	})
}

func TestGDPRNullErasesOldPeople(t *testing.T) {
	playing(t, "gdpr-null", func(s *stage) {
		s.until(119 * time.Minute)
		redacted := 0
		for _, c := range s.truth().ContactRequests {
			if c.Versions[len(c.Versions)-1].Record.Redacted {
				redacted++
				if !c.CreatedAt.Before(s.began) {
					t.Error("a new one is redacted")
				}
			}
		}
		s.expect("redacted", redacted, 50)
		_, body := s.get(testKey, contactRequestsPath(s.first("A100"))+"?sortOrder=asc")
		if n := bytes.Count([]byte(body), []byte("null")); n < 5*6 {
			t.Errorf("%d nulls", n)
		}
	})
}
