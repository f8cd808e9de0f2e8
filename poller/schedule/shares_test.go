package schedule_test

import (
	"testing"
	"time"

	"doorbell/poller/schedule"
)

func TestWhatFailedGetsEveryOtherTurn(t *testing.T) {
	d := newDrive(schedule.Options{})
	a := d.s.Enter(nil)
	d.add(a, 300, 1, polled(-1))
	for _, i := range d.add(a, 300, 1, polled(-1)) {
		d.s.Put(i, at(0))
	}
	d.run(200)
	if n := d.whys[schedule.Retry]; n < 98 || n > 102 {
		t.Fatalf("%d of 200 turns were for what failed: %v", n, d.whys)
	}
}

// listed lets a long list be read, and then a time pass in which pages become worth more than any poll.
func listed(learned []byte, newcomers int) (*drive, schedule.Agency) {
	const pages = 500
	d := newDrive(schedule.Options{Staleness: 24 * time.Hour})
	a := d.s.Enter(learned)
	d.add(a, 20, 0.01, polled(-1))
	for n := range pages {
		d.s.Read(a, n, pages, d.now)
	}
	for _, i := range d.add(a, newcomers, 0.01, schedule.Memory{Born: d.now}) {
		d.s.Polled(i, d.now, nil)
	}
	d.now = d.now.Add(2 * time.Hour)
	page := 0
	for n := range 400 {
		if n == 100 { // all that waited as long as the pages was polled
			clear(d.whys)
		}
		if turn := d.step(); turn.Why == schedule.Walk {
			d.s.Read(a, page, pages, d.now)
			page++
		}
	}
	return d, a
}

func TestPagesOnWhichInsertionsAppearGetAThirdOfTheTurns(t *testing.T) {
	d, a := listed(nil, 40)
	if n := d.whys[schedule.Walk]; n < 98 || n > 102 {
		t.Fatalf("%d of 300 turns were for pages: %v", n, d.whys)
	}
	if again, _ := listed(d.s.Learned(a), 0); again.whys[schedule.Walk] < 90 {
		t.Fatalf("after a restart nobody knows that insertions appear: %v", again.whys)
	}
	if never, _ := listed(nil, 0); never.whys[schedule.Walk] > 0 {
		t.Fatalf("pages are read on which nothing appears: %v", never.whys)
	}
}
