package relay

import (
	"log/slog"
	"testing"
	"time"
)

const rivalWarning = "another doorbell publishes this agency"

func (d *doorbell) waiting() int {
	n, err := d.store.CountUnsent("A100")
	if err != nil {
		d.t.Error(err)
	}
	return n
}

// logging lets the doorbell's relays log where a test can read it.
func (d *doorbell) logging() *lines {
	var log lines
	d.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	return &log
}

// TestTwoDoorbellsOfOneAgencyBothPublishToTheEnd lets them collide again and again, on leads of their own
// and on leads that both find.
func TestTwoDoorbellsOfOneAgencyBothPublishToTheEnd(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	first, second := b.doorbell(t.TempDir()), b.doorbell(t.TempDir())
	second.o.Conn = b.connect()
	first.o.BatchEvents, second.o.BatchEvents = 3, 5
	logs := []*lines{first.logging(), second.logging()}
	stopFirst, stopSecond := first.start(first.relay()), second.start(second.relay())
	published := func() bool { return first.waiting()+second.waiting() == 0 }
	const rounds = 60
	for n := range rounds {
		first.ring(1000+n, 3000+n, 4000+n)
		second.ring(2000+n, 4000+n, 3000+n)
		if n%3 == 0 {
			eventually(t, "published", published)
		}
	}
	for n := range 2 { // each writes behind the other
		first.ring(1000 + rounds + n)
		eventually(t, "published", published)
		second.ring(2000 + rounds + n)
		eventually(t, "published", published)
	}
	stopFirst()
	stopSecond()
	for n, log := range logs {
		if got := log.count(rivalWarning); got != 1 {
			t.Errorf("doorbell %d warns %d times:\n%s", n, got, log)
		}
	}
	for range 2 {
		first.publish()
		second.publish()
	}
	first.publish()
	want := append(upTo(1000, 1001+rounds), upTo(2000, 2001+rounds)...)
	want = append(append(want, upTo(3000, 2999+rounds)...), upTo(4000, 3999+rounds)...)
	first.agree(want...)
	second.agree(want...)
}

func TestWhatAProcessFindsAtItsStartIsNoOtherDoorbell(t *testing.T) {
	b := newBell(t)
	d := b.doorbell(t.TempDir())
	for n := range 6 { // each time an older backup is restored
		d.ring(10 + n)
		d.publish()
		backup := d.copyTo()
		d.ring(100 + n)
		d.publish()
		d = b.doorbell(backup)
		log := d.logging()
		stop := d.start(d.relay())
		d.ring(200 + n)
		eventually(t, "published", func() bool { return d.waiting() == 0 })
		if stop(); log.count(rivalWarning) > 0 {
			t.Fatalf("it warns of itself:\n%s", log)
		}
	}
}

func TestAnotherDoorbellIsWarnedOfEveryTenMinutes(t *testing.T) {
	var log lines
	l := &worker{r: &Relay{o: Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}}, agency: "A100"}
	began := time.Now()
	for n := range 25 {
		l.warn(began.Add(time.Duration(n) * time.Minute))
	}
	if n := log.count(rivalWarning); n != 3 {
		t.Errorf("%d warnings within 24 minutes:\n%s", n, &log)
	}
}
