package poller_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// underWay is a transport that counts polls under way. Each response takes some time.
type underWay struct {
	under     http.RoundTripper
	now, peak atomic.Int64
	takes     time.Duration
}

func (u *underWay) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Has("sortBy") {
		defer u.now.Add(-1)
		if n := u.now.Add(1); n > u.peak.Load() {
			u.peak.Store(n)
		}
	}
	select {
	case <-time.After(u.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	return u.under.RoundTrip(r)
}

func TestTheBudgetIsSpentHoweverLongResponsesTake(t *testing.T) {
	for _, x := range []struct {
		perSecond float64
		takes     time.Duration
		most      int64
	}{
		{5, 10 * time.Millisecond, 1},
		{5, time.Second, 6},
		{5, 2 * time.Second, 11},
		{5, 8 * time.Second, 41},
		{5, 10 * time.Second, 51},
		{0.5, 8 * time.Second, 5},
		{60, 500 * time.Millisecond, 31},
	} {
		if raced && x.most != 51 {
			continue
		}
		t.Run(fmt.Sprintf("%g a second, %s", x.perSecond, x.takes), func(t *testing.T) {
			inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", references(160)...)
				u := &underWay{under: w.options.API.Transport, takes: x.takes}
				w.options.API.Transport = u
				w.options.RequestsPerSecond, w.options.PollInterval = x.perSecond, time.Second
				settling, measured := 2*time.Minute, time.Minute
				if x.perSecond > 10 { // as many requests, sooner
					settling, measured = settling/4, measured/4
				}
				w.start()
				w.pass(settling)
				before := w.model.Requests(sandbox.Filter{})
				w.pass(measured)
				if got, want := float64(w.model.Requests(sandbox.Filter{})-before)/measured.Seconds(), x.perSecond; got < 0.95*want || got > 1.05*want {
					t.Errorf("%.2f requests a second, want %g", got, want)
				}
				if got := u.peak.Load(); got > x.most {
					t.Errorf("%d concurrent polls, want at most %d", got, x.most)
				}
				if n := peak(w.model.Log(sandbox.Filter{}), 10*time.Second); float64(n) > 10*x.perSecond+1 {
					t.Errorf("%d requests within 10 s, at %g a second", n, x.perSecond)
				}
			})
		})
	}
}

// manyAgencies are 50 ids in each round.
func manyAgencies() (ids []string) {
	for n := range 50 * *rounds {
		ids = append(ids, fmt.Sprintf("A%d", n))
	}
	return ids
}

// TestAnAPIThatAnswersAfter29SecondsStarvesNobody lets 50 agencies share one key at 12 requests a second, or more in more rounds.
func TestAnAPIThatAnswersAfter29SecondsStarvesNobody(t *testing.T) {
	long(t)
	ids, perSecond := manyAgencies(), 12**rounds
	inWorld(t, sandbox.Options{KeepLog: true}, sandbox.Flat(), ids, func(w *world) {
		for _, id := range ids {
			w.publish(id, id+"#1##", id+"#2##")
		}
		w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Delay: 29 * time.Second} })
		w.options.RequestsPerSecond = float64(perSecond)
		w.start()
		w.pass(15 * time.Minute)
		log := w.model.Log(sandbox.Filter{})
		if n := peak(log, time.Second); n > perSecond {
			t.Errorf("%d requests within a second, at %d a second", n, perSecond)
		}
		pages, polls := map[string]int{}, map[string]int{}
		for _, c := range log {
			if c.Operation == sandbox.OperationInsertions {
				pages[c.AgencyID]++
			} else {
				polls[c.Reference]++
			}
		}
		for _, id := range ids {
			if pages[id] < 6 || polls[id+"#1##"] < 2 || polls[id+"#2##"] < 2 {
				t.Errorf("%s was walked with %d requests, and polled %d and %d times", id, pages[id], polls[id+"#1##"], polls[id+"#2##"])
			}
			if s := w.status(id); s.LastError != "" {
				t.Errorf("%s: %s", id, s.LastError)
			}
		}
	})
}

// TestManyAgenciesOfOneKeyStarveNoInsertion lets 50 agencies share a key at 12.5 requests a second; with
// -rounds 4 it is 200 at 50, which have 10,000 insertions.
func TestManyAgenciesOfOneKeyStarveNoInsertion(t *testing.T) {
	long(t)
	ids, each, perSecond := manyAgencies(), 50, 12.5*float64(*rounds)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), ids, func(w *world) {
		for _, id := range ids {
			w.publish(id, references(each)...)
		}
		w.options.RequestsPerSecond = perSecond
		w.start()
		w.pass(6 * time.Minute)
		walked := map[string]time.Time{}
		for _, id := range ids {
			s := w.status(id)
			walked[id] = s.LastCompleteWalk
			if s.Freshness.Insertions != each || s.Freshness.NeverPolled > 0 || s.Freshness.PastCap > 0 {
				t.Errorf("%s in the first minutes: %+v", id, s.Freshness)
			}
		}
		w.pass(3 * time.Minute)
		for _, id := range ids {
			if s := w.status(id); s.LastCompleteWalk.Equal(walked[id]) || s.Freshness.PastCap > 0 {
				t.Errorf("%s was walked at %s and at %s: %+v", id, walked[id], s.LastCompleteWalk, s.Freshness)
			}
		}
		if n := w.model.Requests(sandbox.Filter{}); float64(n) > 9*60*perSecond {
			t.Errorf("%d requests", n)
		}
	})
}

// TestADeadKeyIsBlamedOnNoAgency deactivates the one key of many agencies: each of them has been answered well a moment before.
func TestADeadKeyIsBlamedOnNoAgency(t *testing.T) {
	ids := manyAgencies()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), ids, func(w *world) {
		for _, id := range ids {
			w.publish(id, "a#1##", "a#2##")
		}
		w.options.RequestsPerSecond = 50
		w.start()
		w.pass(5 * time.Minute)
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		reasons := map[any]int{}
		for _, id := range ids {
			halted := w.since(id, 1)
			w.wants(halted, events.TypeAccessHalted)
			reasons[halted[0].body["probableReason"]]++
			if n := w.lists(id, "", 403); n != 1 {
				t.Errorf("%s was asked for %d times although refused", id, n)
			}
		}
		if reasons["key_rejected"] != len(ids)-1 || reasons["unknown"] != 1 { // the first one
			t.Errorf("%v", reasons)
		}
	})
}

func TestNoRequestBeginsWhileAnotherProcessMayWork(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		var forbidden atomic.Bool
		w.options.Allowed = func() bool { return !forbidden.Load() }
		w.start()
		w.pass(10 * time.Minute)
		asked := w.model.Requests(sandbox.Filter{})
		forbidden.Store(true)
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{}) - asked; n > 0 {
			t.Errorf("%d requests", n)
		}
		forbidden.Store(false)
		w.pass(5 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{}) - asked; n < 5 {
			t.Errorf("%d requests afterwards", n)
		}
	})
}
