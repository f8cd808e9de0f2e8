package relay

import (
	"context"
	"errors"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
)

// erase erases an agency's messages for which match returns true, as what is pending.
func (r *Relay) erase(ctx context.Context, agency string, match func(events.Event) bool) (n int, err error) {
	pending := r.o.Pending
	defer func() { r.o.Pending = pending }()
	r.o.Pending = func() func(context.Context, func()) error {
		return func(ctx context.Context, progress func()) (err error) {
			n, err = r.stream.Erase(ctx, events.Subject(r.o.Prefix, agency, "contact_request.>"), func(m *stream.Message) bool {
				progress()
				e, err := events.Decode(m.Header, m.Data)
				return err == nil && match(e)
			})
			return err
		}
	}
	err = r.Prepare(ctx)
	return n, err
}

func wantErased(t *testing.T, r *Relay, want int) {
	t.Helper()
	if n, err := r.erase(t.Context(), "A100", events.Event.HoldsPerson); n != want || err != nil {
		t.Fatalf("%d erased, want %d: %v", n, want, err)
	}
}

func TestWhatWasErasedIsNotOfferedAgain(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 3)
	r := b.relay()
	must(t, r.RunOnce(t.Context()))
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
			must(t, r.RunOnce(t.Context()))
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

// TestNothingIsPublishedBeforePendingTasksAreDone has a task that fails once.
func TestNothingIsPublishedBeforePendingTasksAreDone(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	failures := 1
	b.o.Pending = func() func(context.Context, func()) error {
		return func(context.Context, func()) error {
			if failures--; failures >= 0 {
				return errors.New("not erased yet")
			}
			return nil
		}
	}
	r := b.relay()
	if err := r.RunOnce(t.Context()); err == nil || len(held(t, b.js, "listings.v1.>")) > 0 {
		t.Fatalf("published: %v", err)
	}
	must(t, r.RunOnce(t.Context()))
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

func TestWhoIsErasedWhileTheirEventIsReplayedIsNotInTheStreamOfReplays(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 2)
	b.deliver()
	there := 0
	for _, erased := range []bool{false, true} {
		asked := 0
		o := ReplayOptions{
			Conn: b.o.Conn, Prefix: "listings", Stream: stream.Replays("LISTINGS"), Job: "x", Embedded: true,
			Erased: func(events.Event) (bool, error) {
				asked++
				return erased && asked == 2, nil // after the first message
			},
		}
		list := func(yield func(events.Event, error) bool) {
			for _, e := range b.log.list("A100") {
				if !yield(e, nil) {
					return
				}
			}
		}
		want := 2
		if erased {
			o.Job, want = "y", 1
		}
		done, err := Replay(t.Context(), o, list)
		must(t, err)
		s, err := b.js.Stream(t.Context(), o.Stream)
		must(t, err)
		there += want
		if n := s.CachedInfo().State.Msgs; done.Published != want || n != uint64(there) {
			t.Errorf("erased %t: %d published, and the stream holds %d", erased, done.Published, n)
		}
	}
}
