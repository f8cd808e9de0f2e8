package forward

import (
	"testing"
	"time"

	"doorbell/events"
)

func TestAnAlertAmongManyHaltsOfOneAgencyIsNotSwallowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Outlet: s})
		refused := func(n int) {
			w.publish(w.stamp(&events.AccessHalted{
				Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Scope: events.ScopeInsertion, ProbableReason: "insertion_not_allowed",
				PropertyReferenceID: string(rune('a' + n)), Key: events.KeyRef{Slot: "current", Fingerprint: "sha256:1"},
			}, "A100"))
		}
		w.run(20*time.Minute, func() {
			refused(0)
			w.publish(w.stamp(&events.WatchStale{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Operation: "insertions"}, "A100"))
			for n := range named + 10 { // more than are known by name: they are done before the alert among them
				refused(n + 1)
			}
		})
		if len(s.ids()) != len(w.history) {
			t.Errorf("%d of %d alerts came", len(s.ids()), len(w.history))
		}
	})
}

func TestALeadThatCannotBeBuriedOutlivesThoseThatWereSentToFindOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		w.o.Tries, w.o.Manage = 2, false // nobody has made the stream of dead letters
		var poison events.Event
		bad := func(d Delivery) error {
			if d.Events[0].ID == poison.ID {
				return &Later{Reason: "odd"}
			}
			return nil
		}
		s.will(bad)
		w.run(8*time.Hour, func() {
			poison = w.lead("A100")
			for range 3 * named {
				w.lead("A100")
			}
		}, func() { time.Sleep(6 * time.Hour) }, s.up)
		if len(s.ids()) != len(w.history) {
			t.Errorf("%d of %d leads came; none is among the dead letters", len(s.ids()), len(w.history))
		}
	})
}
