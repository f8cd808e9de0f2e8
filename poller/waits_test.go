package poller

import (
	"fmt"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/store"
)

// polledBefore is a poller that does not run, over insertions that were all polled so long ago.
func polledBefore(t *testing.T, insertions int, ago time.Duration, perSecond float64) *Poller {
	t.Helper()
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	p, err := New(Options{
		Store: s, API: listings.Options{BaseURL: "http://127.0.0.1:1"}, RequestsPerSecond: perSecond, PollInterval: time.Minute,
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.scheduler.change(func(s *schedule.Schedule) {
		for n := range insertions {
			now := time.Now()
			s.Add("A100", fmt.Sprintf("a#%d##", n), time.Time{}, now.Add(-ago), now)
		}
	})
	return p
}

// checks lets the staleness monitor check an agency of a hundred insertions for a while, of which so many wait and all others are
// polled in time.
func (p *Poller) checks(t *testing.T, waiting int, from time.Time, minutes int) (list []events.Type) {
	t.Helper()
	a := p.byID["A100"]
	for n := range minutes {
		now := from.Add(time.Duration(n) * time.Minute)
		for k := waiting; k < 100; k++ {
			p.scheduler.polled("A100", fmt.Sprintf("a#%d##", k), now, nil)
		}
		a.mu.Lock()
		a.health["contact_requests"].Good = now
		a.mu.Unlock()
		if err := a.checkStale("contact_requests", now); err != nil {
			t.Fatal(err)
		}
	}
	all, err := p.store.Events(0, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		list = append(list, e.Type)
	}
	return list
}

func TestATenthOfTheInsertionsThatIsLateForLongIsStale(t *testing.T) {
	p := polledBefore(t, 100, 20*time.Minute, 5)
	a := p.byID["A100"]
	now := time.Now()
	a.began = now.Add(-24 * time.Hour)
	if got := p.checks(t, 9, now, 30); len(got) != 0 {
		t.Errorf("nine of a hundred: %v", got)
	}
	now = now.Add(30 * time.Minute)
	if got := p.checks(t, 10, now, 7); len(got) != 0 { // the tenth is late after three
		t.Errorf("for less than five minutes: %v", got)
	}
	if f := a.status(now.Add(6 * time.Minute)).Freshness; f.PastCap != 10 || f.Insertions != 100 || f.CapSeconds != 180 {
		t.Errorf("%+v", f)
	}
	if got := p.checks(t, 10, now.Add(7*time.Minute), 21); fmt.Sprint(got) != "[watch.stale]" {
		t.Errorf("ten of a hundred: %v", got)
	}
	if got := p.checks(t, 9, now.Add(28*time.Minute), 1); fmt.Sprint(got) != "[watch.stale watch.recovered]" {
		t.Errorf("and nine again: %v", got)
	}
}

func TestInsertionsThatFailByThemselvesAreNotLateBesides(t *testing.T) {
	p := polledBefore(t, 100, 20*time.Minute, 5)
	a := p.byID["A100"]
	now := time.Now()
	a.began = now.Add(-24 * time.Hour)
	for n := range 12 {
		switch reference := fmt.Sprintf("a#%d##", n); n % 3 {
		case 0:
			a.retry(reference).failed(reference, now, now)
		case 1:
			refused := a.access().With(store.Halt{Scope: events.ScopeInsertion, Reference: reference, Silent: true})
			a.allowed.Store(&refused)
		case 2:
			halted := a.access().With(store.Halt{Scope: events.ScopeInsertion, Reference: reference})
			a.allowed.Store(&halted)
		}
	}
	if got := p.checks(t, 20, now, 30); len(got) != 0 { // eight of the others
		t.Errorf("%v", got)
	}
	if got := p.checks(t, 21, now.Add(30*time.Minute), 30); fmt.Sprint(got) != "[watch.stale]" { // nine of 88
		t.Errorf("%v", got)
	}
}

func TestTimeInWhichNobodyAskedMakesNothingLate(t *testing.T) {
	for name, away := range map[string]func(a *agency, until time.Time){
		"a start": func(a *agency, until time.Time) { a.began = until },
		"a halt":  func(a *agency, until time.Time) { a.health["contact_requests"].Calm = until },
	} {
		t.Run(name, func(t *testing.T) {
			p := polledBefore(t, 100, 20*time.Hour, 0.2) // a sweep takes 500 s, the cap is four times that
			a := p.byID["A100"]
			now := time.Now()
			a.began = now.Add(-24 * time.Hour)
			away(a, now)
			if got := p.checks(t, 100, now, 33); len(got) != 0 {
				t.Errorf("%v within the cap", got)
			}
			if got := p.checks(t, 100, now.Add(33*time.Minute), 10); fmt.Sprint(got) != "[watch.stale]" {
				t.Errorf("%v beyond it", got)
			}
		})
	}
}

func TestTheLastMinuteIsSixtySeconds(t *testing.T) {
	var m lastMinute
	begin := time.Unix(1_800_000_000, 0)
	for n := range 300 {
		m.add(begin.Add(time.Duration(n) * 500 * time.Millisecond))
	}
	if got := m.sum(begin.Add(149 * time.Second)); got != 120 {
		t.Errorf("%d, want 120", got)
	}
	if got := m.sum(begin.Add(179 * time.Second)); got != 60 {
		t.Errorf("half a minute later %d, want 60", got)
	}
	if got := m.sum(begin.Add(time.Hour)); got != 0 {
		t.Errorf("an hour later %d", got)
	}
}

func TestAMachineThatSleptWasAway(t *testing.T) {
	checked := time.Now()
	if wasAway(checked, checked.Add(2*checkEvery)) || !wasAway(checked, checked.Add(4*checkEvery)) {
		t.Error("two minutes between two checks are no sleep, four are")
	}
	wall := checked.Round(0)
	if !wasAway(checked, wall.Add(time.Hour)) {
		t.Error("an hour by the clock of the wall")
	}
}
