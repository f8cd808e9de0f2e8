package schedule_test

import (
	"testing"
	"time"

	"doorbell/poller/schedule"
)

// born is when an insertion is taken to have been born whose first answer shows contact requests so many days ago.
func born(days ...float64) schedule.Memory {
	s := schedule.New(schedule.Options{})
	i := s.Add(s.Enter(nil), schedule.Memory{}, epoch)
	var created []time.Time
	for _, d := range days {
		created = append(created, epoch.Add(-time.Duration(d*24*float64(time.Hour))))
	}
	s.Polled(i, epoch, created)
	return s.Memory(i)
}

func TestTheBirthIsGuessedFromTheFirstAnswer(t *testing.T) {
	none, fresh := born(), born(.1, .3, .4, .5)
	var few, even []float64 // as many as an answer shows
	for n := range 20 {
		few = append(few, 20/(1+float64(n)/10))
		even = append(even, float64(n+1))
	}
	few[19] = 1
	thinning, steady := born(few...), born(even...)
	for name, m := range map[string]schedule.Memory{"none": none, "thinning": thinning, "fresh": fresh, "steady": steady} {
		if age := epoch.Sub(m.Born); !m.Guessed || age < 24*time.Hour/2 || age > 100*24*time.Hour {
			t.Errorf("%s: born %s ago, guessed %t", name, age, m.Guessed)
		}
	}
	if fresh.Born.Before(none.Born) || thinning.Born.After(epoch.AddDate(0, 0, -20)) {
		t.Errorf("fresh %s, none %s, thinning %s", fresh.Born, none.Born, thinning.Born)
	}
	if !steady.Born.Before(thinning.Born.AddDate(0, 0, -1)) {
		t.Errorf("one that gets fewer and fewer was born %s, one that does not %s", thinning.Born, steady.Born)
	}
}

func TestAGuessIsNotKeptAsABirth(t *testing.T) {
	s := schedule.New(schedule.Options{})
	a := s.Enter(nil)
	m := born(5, 6, 7)
	if got := s.Memory(s.Add(a, m, epoch)); got != m {
		t.Errorf("%+v became %+v", m, got)
	}
	if got := s.Memory(s.Add(a, schedule.Memory{LastPoll: at(-5)}, epoch)); !got.Guessed || !got.Born.Before(at(-5)) {
		t.Errorf("without anything known: %+v", got)
	}
	if got := s.Memory(s.Add(a, polled(-5), epoch)); got.Guessed {
		t.Errorf("a birth that is known became a guess: %+v", got)
	}
}
