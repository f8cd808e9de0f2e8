package relay

import (
	"testing"
	"time"

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

// TestAnEventWithoutAnAcknowledgementIsErased: a copy that is on its way would arrive after the erasure.
func TestAnEventWithoutAnAcknowledgementIsErased(t *testing.T) {
	for name, lost := range map[string]bool{"stream as it was": false, "stream made again": true} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t)
			b.o.Embedded = false
			b.log.ring(t, "A100", 2)
			r := b.relay()
			if err := r.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			b.log.ring(t, "A100", 1)
			late := b.log.list("A100")[2]
			r.session.doubt = map[uint64]bool{3: true} // it was sent, and the connection broke
			r.session.prepared = time.Time{}
			if lost {
				b.makeAnew() // the cursor goes back
			}
			b.log.erase(3)
			wantErased(t, r, map[bool]int{false: 2, true: 0}[lost])
			ack, err := b.js.PublishMsg(t.Context(), r.message(late)) // the copy arrives
			if err != nil || !ack.Duplicate {
				t.Errorf("the late copy is stored: %+v, %v", ack, err)
			}
			for _, m := range held(t, b.js, "listings.v1.>") {
				if e, err := events.Decode(m.Header, m.Data); err != nil || e.HoldsPerson() {
					t.Errorf("the stream holds a person: %v", err)
				}
			}
		})
	}
}
