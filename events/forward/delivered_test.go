package forward

import (
	"slices"
	"testing"
	"time"

	"doorbell/events"
)

// stands says in a word how each receiver stands to an event.
func stands(f *Forwarder, e events.Event) (list []string) {
	for _, d := range f.Delivered(e) {
		word := "waits"
		switch {
		case d.Done && d.At.IsZero():
			word = "done"
		case d.Done:
			word = "listed"
		}
		list = append(list, d.Receiver+" "+word)
	}
	return list
}

func wantStands(t *testing.T, f *Forwarder, e events.Event, want ...string) {
	t.Helper()
	if got := stands(f, e); !slices.Equal(got, want) {
		t.Errorf("event %d stands as %q, want %q", e.Sequence, got, want)
	}
}

func TestDeliveredIsWhatEveryReceiverHasTaken(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("one", 1), newScript("two", 1)
		w := newWorld(t, leadsTo(one), leadsTo(two, "A100"))
		before := w.lead("A100")
		time.Sleep(time.Second)
		two.down()
		f, stop := w.start()
		lead, other, halt := w.lead("A100"), w.lead("B200"), w.halt("A100", "x")
		waiting := w.stampLead("A100") // recorded, and not published
		time.Sleep(time.Minute)
		wantStands(t, f, before)
		wantStands(t, f, lead, "slack.one listed", "slack.two waits")
		wantStands(t, f, other, "slack.one listed")
		wantStands(t, f, halt)
		wantStands(t, f, waiting, "slack.one waits", "slack.two waits")
		wantStands(t, f, lead.WithOrigin(events.OriginBaseline))
		if at := f.Delivered(lead)[0].At; at.Before(lead.RecordedTime) || time.Since(at) < 50*time.Second {
			t.Errorf("recorded %s, delivered %s", lead.RecordedTime, at)
		}
		two.will(func(Delivery) error { return &Refused{Reason: "too large", Certain: true} })
		time.Sleep(10 * time.Minute)
		wantStands(t, f, lead, "slack.one listed", "slack.two listed")
		w.must(stop())

		// Another process reads it from the files.
		f = w.forwarder()
		wantStands(t, f, lead, "slack.one listed", "slack.two listed")
		wantStands(t, f, before)
		f.Close()
	})
}

func TestDeliveredIsKnownBeyondTheListedOnes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("one", 20)
		s.traits.Pace = 0
		w := newWorld(t, leadsTo(s))
		f, _ := w.start()
		for range 3 * recent {
			w.lead("A100")
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		next := w.stampLead("A100")
		for n, e := range w.history {
			if got := f.Delivered(e); len(got) != 1 || !got[0].Done || n > 2*recent && got[0].At.IsZero() {
				t.Fatalf("event %d of %d: %+v", n, len(w.history), got)
			}
		}
		if !f.Delivered(w.history[0])[0].At.IsZero() {
			t.Error("the oldest is listed still")
		}
		wantStands(t, f, next, "slack.one waits")
	})
}

func TestDeliveredFollowsAChangeOfRoutes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kept, left, added := newScript("kept", 1), newScript("left", 1), newScript("added", 1)
		w := newWorld(t, leadsTo(kept), leadsTo(left))
		left.down()
		f, _ := w.start()
		old := w.lead("A100")
		time.Sleep(time.Minute)
		wantStands(t, f, old, "slack.kept listed", "slack.left waits")
		w.must(f.Change([]Route{leadsTo(kept), leadsTo(added)}, time.Now()))
		time.Sleep(10 * time.Minute)
		next := w.lead("A100")
		time.Sleep(time.Minute)
		wantStands(t, f, old, "slack.kept listed", "slack.left listed") // it went to the one added
		wantStands(t, f, next, "slack.kept listed", "slack.added listed")
		w.must(f.Change([]Route{leadsTo(kept)}, time.Now()))
		time.Sleep(time.Hour)
		w.must(f.Change([]Route{leadsTo(kept, "A100")}, time.Now()))
		time.Sleep(time.Minute)
		wantStands(t, f, next, "slack.kept listed", "slack.added done") // its worker has gone
	})
}

func TestDeliveredLeavesOutAReceiverThatWasRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		kept, left := newScript("kept", 1), newScript("left", 1)
		w := newWorld(t, leadsTo(kept), leadsTo(left))
		f, _ := w.start()
		took := w.lead("A100")
		time.Sleep(time.Minute)
		left.down()
		waits := w.lead("A100")
		time.Sleep(time.Minute)
		w.must(f.Change([]Route{leadsTo(kept)}, time.Now()))
		time.Sleep(5 * time.Minute)
		wantStands(t, f, took, "slack.kept listed", "slack.left listed")
		wantStands(t, f, waits, "slack.kept listed") // it goes nowhere else
	})
}
