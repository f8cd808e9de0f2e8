package relay

import (
	"testing"

	"doorbell/events"
)

// anybody wants all of an agency's people erased.
func anybody(e events.Event) bool { return e.HoldsPerson() }

func wantErased(t *testing.T, r *Relay, want int) {
	t.Helper()
	if n, err := r.Erase(t.Context(), "A100", anybody); n != want || err != nil {
		t.Fatalf("%d erased, want %d: %v", n, want, err)
	}
}

func TestWhatWasErasedIsNotOfferedAgain(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 3)
	r := b.relay()
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.log.erase(1, 2, 3)
	wantErased(t, r, 3)
	wantErased(t, r, 0)
	b.makeAnew() // whose server has forgotten the ids
	b.log.ring(t, "A100", 1)
	b.deliver()
	exactlyOnce(t, b.js, b.log, "A100", 3)
}

// unheard reads one event at a time.
type unheard struct{ *memLog }

func (l unheard) Events(after uint64, limit, maxBytes int) ([]events.Event, error) {
	list, err := l.memLog.Events(after, limit, maxBytes)
	return list[:min(1, len(list))], err
}

// TestAnEventWithoutAnAcknowledgementIsErased: a copy that is on its way would arrive after the erasure.
func TestAnEventWithoutAnAcknowledgementIsErased(t *testing.T) {
	b := newBell(t)
	b.o.Log = unheard{b.log}
	r := b.relay()
	b.log.ring(t, "A100", 1)
	late := b.log.list("A100")[0]
	if err := r.prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.session.doubt = true // it was sent, and the connection broke
	b.log.erase(1)
	wantErased(t, r, 0)
	m := r.message(late) // the copy arrives
	ack, err := b.js.PublishMsg(t.Context(), m)
	if err != nil || !ack.Duplicate {
		t.Errorf("the late copy is stored: %+v, %v", ack, err)
	}
	for _, m := range held(t, b.js, "listings.v1.>") {
		if e, err := events.Decode(m.Header, m.Data); err != nil || e.HoldsPerson() {
			t.Errorf("the stream holds a person: %v", err)
		}
	}
}
