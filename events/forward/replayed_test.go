package forward

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward/message"
)

func each(list []events.Event, end error) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
		if end != nil {
			yield(events.Event{}, end)
		}
	}
}

// past are events that are in no stream.
func past(t *testing.T, agencies ...string) (all []events.Event) {
	t.Helper()
	for n, a := range agencies {
		e, err := events.New(&events.ContactRequestCreated{
			Common: events.Common{AgencyID: a, ObservedAt: time.Now()}, ContactRequestID: strings.Repeat("x", n+1),
		})
		must(t, err)
		all = append(all, e.Stamp(uint64(n+1), time.Now(), "s"))
	}
	return all
}

// no person was erased.
func nobody(events.Event) (bool, error) { return false, nil }

func TestReplayedEventsGoThroughTheReceiversAtTheirPace(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, b := newScript("a", 3), newScript("b", 0)
		routes := []Route{leadsTo(a), leadsTo(b, "B200"), leadsTo(a, "A100")}
		list := past(t, "A100", "B200", "A100", "A100", "B200")
		begin := time.Now()
		r, err := SendReplayed(t.Context(), routes, each(list, nil), nobody, func(error) {})
		if err != nil || r != (Replayed{Events: 7}) {
			t.Errorf("%+v %v", r, err)
		}
		wantIDs(t, a, list)
		wantIDs(t, b, []events.Event{list[1], list[4]})
		if d := time.Since(begin); d < 4*time.Second {
			t.Error(d)
		}
		for _, d := range a.deliveries() {
			if e := d.Events[0]; e.Origin != events.OriginReplay || !strings.Contains(string(e.Data), `"origin":"replay"`) || d.Test {
				t.Error(e.Origin)
			}
		}
	})
}

func TestAReplayContinuesAfterARefusalAndEndsWhenNothingIsAccepted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a := newScript("a", 3)
		list := past(t, "A", "A", "A", "A")
		a.will(func(d Delivery) error {
			for _, e := range d.Events {
				if e.ID == list[1].ID {
					return &Refused{Reason: "no"}
				}
			}
			return nil
		})
		r, err := SendReplayed(t.Context(), []Route{leadsTo(a)}, each(list, nil), nobody, func(error) {})
		if err != nil || r != (Replayed{Events: 3, Refused: 1}) {
			t.Errorf("%+v %v", r, err)
		}
		a.down()
		var failed []string
		if r, err = SendReplayed(t.Context(), []Route{leadsTo(a)}, each(list, nil), nobody, func(err error) { failed = append(failed, err.Error()) }); err == nil || len(failed) != replayTries-1 || r.Events != 0 {
			t.Errorf("%+v %v", r, err)
		}
		a.up()
		broken := errors.New("the log is broken")
		if r, err = SendReplayed(t.Context(), []Route{leadsTo(a)}, each(list, broken), nobody, func(error) {}); !errors.Is(err, broken) || r.Events != 4 {
			t.Errorf("%+v %v", r, err)
		}
	})
}

func TestAPersonErasedBetweenTwoAttemptsIsNotSent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		a, list := newScript("a", 3), past(t, "A", "A", "A")
		erased, unreadable := "", error(nil)
		a.will(func(d Delivery) error {
			if d.Events[0].ID == list[1].ID {
				erased = list[1].ID
				return &Retry{Reason: "busy"}
			}
			return nil
		})
		gone := func(e events.Event) (bool, error) { return e.ID == erased, unreadable }
		r, err := SendReplayed(t.Context(), []Route{leadsTo(a)}, each(list, nil), gone, func(error) {})
		if err != nil || r != (Replayed{Events: 2}) || a.called() != 3 {
			t.Errorf("%+v %v, %d attempts", r, err, a.called())
		}
		unreadable = errors.New("the log cannot be read")
		if r, err = SendReplayed(t.Context(), []Route{leadsTo(a)}, each(list, nil), gone, func(error) {}); !errors.Is(err, unreadable) || a.called() != 3 {
			t.Errorf("%+v %v, %d attempts", r, err, a.called())
		}
	})
}

func TestATestIsMarkedAndHasNoRealPerson(t *testing.T) {
	a := newScript("a", 3)
	for _, alert := range []bool{false, true} {
		must(t, SendTest(t.Context(), a, TestAgency, alert))
	}
	for n, d := range a.deliveries() {
		if !d.Test || message.IsAlert(d.Events[0].Type) != (n == 1) {
			t.Errorf("%+v", d)
		}
		if _, err := d.Events[0].Payload(); err != nil {
			t.Error(err)
		}
		if _, err := events.Decode(d.Events[0].Header(), d.Events[0].Data); err != nil {
			t.Error(err)
		}
	}
	a.will(func(Delivery) error { return &Refused{Reason: "no"} })
	var permanent *Refused
	if err := SendTest(t.Context(), a, TestAgency, false); !errors.As(err, &permanent) {
		t.Error(err)
	}
}

// clumsy is a receiver with a fault.
type clumsy struct{ err error }

func (c clumsy) Traits() Traits { return Traits{Destination: "clumsy"} }

func (c clumsy) Send(context.Context, Delivery) error {
	if c.err == nil {
		panic("Nora")
	}
	return c.err
}

func TestAReceiverThatPanicsRefusesTheDelivery(t *testing.T) {
	errs := []error{SendTest(t.Context(), clumsy{}, TestAgency, false), newDestination(clumsy{}).send(t.Context(), Delivery{})}
	for _, err := range errs {
		if !errors.As(err, new(*Refused)) || strings.Contains(err.Error(), "Nora") {
			t.Errorf("it is %v", err)
		}
	}
}
