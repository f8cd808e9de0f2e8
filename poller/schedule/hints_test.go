package schedule_test

import (
	"testing"
	"time"

	"doorbell/poller/schedule"
)

// walked lets a list of one page be read every ten seconds. Each of a hundred insertions gets a contact request every so often.
// Its record changes with each where it is a counter, and on every reading where it is a stamp.
func walked(turns int, every time.Duration, counter, stamp bool) (*drive, schedule.Agency, []schedule.Insertion) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	list := d.add(a, 100, 0, polled(-1))
	latest := func(i schedule.Insertion, t time.Time) time.Time {
		phase := time.Duration(i.Slot) * every / 100
		return epoch.Add(t.Sub(epoch.Add(phase)).Truncate(every) + phase)
	}
	seen := map[schedule.Insertion]time.Time{}
	for n := range turns {
		d.now = d.now.Add(200 * time.Millisecond)
		turn, _ := d.s.Next(d.now)
		d.whys[turn.Why]++
		if i := turn.Insertion; turn.Why != schedule.Walk && turn.Why != schedule.None {
			var created []time.Time
			if x := latest(i, d.now); x.After(d.last[i]) {
				created = append(created, x)
			}
			d.last[i] = d.now
			d.s.Polled(i, d.now, created)
		}
		if n%50 > 0 {
			continue
		}
		for _, i := range list {
			x := latest(i, d.now)
			d.s.Seen(i, stamp || counter && x.After(seen[i]), d.now)
			seen[i] = d.now
		}
		d.s.Read(a, 0, 1, d.now)
	}
	return d, a, list
}

func TestRecordsThatBetrayContactRequestsAreActedOn(t *testing.T) {
	d, a, list := walked(20_000, 10*time.Minute, true, false)
	h := d.s.Hints(a)
	if !h.Acting || h.Recall < 0.8 || h.Rate > 0.1 {
		t.Fatalf("hints are %+v", h)
	}
	d.now = d.now.Add(time.Second)
	d.s.Seen(list[0], false, d.now)
	d.now = d.now.Add(time.Second)
	if turn, _ := d.s.Next(d.now); turn.Why == schedule.Hint && turn.Insertion == list[0] {
		t.Fatal("an insertion is urgent whose record has not changed")
	}
	d.s.Seen(list[0], true, d.now.Add(time.Second))
	d.now = d.now.Add(2 * time.Second)
	next(t, d.s, d.now, schedule.Hint, list[0])
	again := schedule.New(schedule.Options{})
	if after := again.Hints(again.Enter(d.s.Learned(a))); !after.Acting || after.Trials < h.Trials {
		t.Fatalf("after a restart hints are %+v", after)
	}
}

// A list that is never read betrays nothing.
func TestTheListIsReadEveryFewSecondsWhereRecordsBetrayContactRequests(t *testing.T) {
	for betrays, want := range map[bool][2]int{true: {100, 300}, false: {0, 0}} {
		d, a, _ := walked(20_000, 10*time.Minute, betrays, !betrays)
		pages := 0
		for range 10 * 60 * 5 { // ten minutes
			d.now = d.now.Add(200 * time.Millisecond)
			switch turn, _ := d.s.Next(d.now); turn.Why {
			case schedule.None:
			case schedule.Walk:
				pages++
				d.s.Read(a, 0, 1, d.now)
			default:
				d.s.Polled(turn.Insertion, d.now, nil)
			}
		}
		if pages < want[0] || pages > want[1] {
			t.Errorf("read %d times in ten minutes where records betray is %t, want %d to %d", pages, betrays, want[0], want[1])
		}
	}
}

func TestRecordsThatChangeOnEveryReadingAreNotActedOn(t *testing.T) {
	for _, counter := range []bool{false, true} {
		d, a, _ := walked(20_000, 10*time.Minute, counter, true)
		if h := d.s.Hints(a); h.Acting || d.whys[schedule.Hint] > 0 || h.Trials != 0 && h.Recall != 0 {
			t.Fatalf("hints are %+v, turns %v", h, d.whys)
		}
	}
}

func TestChangesThatContactRequestsExplainAreNoNoise(t *testing.T) {
	d, a, _ := walked(20_000, 40*time.Second, true, false) // at a quarter of the readings
	if h := d.s.Hints(a); !h.Acting || h.Recall < 0.8 || h.Rate > 0.1 {
		t.Fatalf("hints are %+v", h)
	}
}
