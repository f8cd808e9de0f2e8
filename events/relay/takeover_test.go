package relay

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// pair are two doorbells of one agency, with stores of their own, that both run.
func pair(t *testing.T) (first, second *doorbell, one, other *Relay) {
	b := newBell(t)
	first = b.doorbell(t.TempDir())
	first.ring(1)
	first.publish()
	second = b.doorbell(t.TempDir())
	second.o.Conn = b.connect()
	one, other = first.relay(), second.relay()
	t.Cleanup(first.start(one))
	t.Cleanup(second.start(other))
	return first, second, one, other
}

func contested(r *Relay) bool {
	s := r.Status()
	return len(s.Agencies) > 0 && s.Agencies[0].Contested
}

func (d *doorbell) waiting() int {
	n, err := d.store.CountUnsent("A100")
	if err != nil {
		d.t.Error(err)
	}
	return n
}

func TestOfTwoDoorbellsOneLeavesTheAgencyToTheOtherUntilItIsTakenOver(t *testing.T) {
	first, second, one, other := pair(t)
	n := 10
	for ; !contested(one) && !contested(other); n++ {
		if n > 200 {
			t.Fatal("both go on")
		}
		first.ring(n)
		second.ring(1000 + n)
		eventually(t, "published", func() bool {
			return (first.waiting() == 0 || contested(one)) && (second.waiting() == 0 || contested(other))
		})
	}
	loser, winner, left := first, second, one
	if contested(other) {
		loser, winner, left = second, first, other
	}
	if contested(one) && contested(other) {
		t.Error("both leave it to the other")
	}
	before := loser.waiting()
	loser.ring(2000, 2001)
	winner.ring(3000, 3001)
	eventually(t, "the other goes on", func() bool { return winner.waiting() == 0 })
	if s := left.Status().Agencies[0]; loser.waiting() < before+2 || !strings.HasSuffix(s.Problem, "run: doorbell takeover A100") {
		t.Errorf("%d wait, %+v", loser.waiting(), s)
	}
	if err := left.Drain(t.Context()); err != nil {
		t.Errorf("the end of the process waits for a person: %v", err)
	}
	if sent, err := left.Resend(t.Context(), "A100"); sent > 0 || !errors.Is(err, errContested) {
		t.Errorf("what is left to the other is sent again: %d, %v", sent, err)
	}
	if !left.TakeOver("A100") || left.TakeOver("A100") {
		t.Error("it was left to the other once")
	}
	eventually(t, "taken over", func() bool { return loser.waiting() == 0 })
	want := append(append(upTo(10, n-1), upTo(1010, 999+n)...), 2000, 2001, 3000, 3001)
	loser.agree(want...)
}

func TestWhatAProcessFindsAtItsStartIsNoOtherDoorbell(t *testing.T) {
	b := newBell(t)
	d := b.doorbell(t.TempDir())
	for n := range 2 * contestedAfter { // each time an older backup is restored
		d.ring(10 + n)
		d.publish()
		backup := d.copyTo()
		d.ring(100 + n)
		d.publish()
		d = b.doorbell(backup)
		r := d.relay()
		stop := d.start(r)
		d.ring(200 + n)
		eventually(t, "published", func() bool { return d.waiting() == 0 })
		if stop(); contested(r) {
			t.Fatal("left to nobody")
		}
	}
}

func TestRefusalsThatLieHoursApartLeaveNothing(t *testing.T) {
	var v rival
	now := time.Now()
	for range 10 {
		if now = now.Add(61 * time.Minute); v.again(now) {
			t.Fatal("left to another")
		}
	}
	for n := range contestedAfter - 1 {
		if now = now.Add(time.Minute); v.again(now) != (n == contestedAfter-2) {
			t.Errorf("after %d", n)
		}
	}
	if !v.contested.Load() {
		t.Error("not left")
	}
}
