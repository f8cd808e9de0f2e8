package relay

import (
	"testing"

	"doorbell/events"
)

// TestACrashAfterAnErasureDoublesNothing: nats-server forgets all ids when the last message of its file was erased before a crash.
func TestACrashAfterAnErasureDoublesNothing(t *testing.T) {
	for name, embedded := range map[string]bool{"embedded": true, "external": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t)
			b := p.bell()
			b.o.Embedded = embedded
			b.log.ring(t, "A100", 5)
			r := b.relay()
			must(t, r.RunOnce(t.Context()))
			last := b.log.list("A100")[4].ID
			b.log.erase(5)
			if n, err := r.erase(t.Context(), "A100", func(e events.Event) bool { return e.ID == last }); n != 1 || err != nil {
				t.Fatal(n, err)
			}
			p.kill()
			p.start()
			must(t, b.log.Acknowledge(events.Cursor{}, nil)) // as of a store that was set back
			eventually(t, "offered again", func() bool { return b.relay().RunOnce(t.Context()) == nil })
			b.log.ring(t, "A100", 1)
			b.deliver()
			must(t, b.log.Acknowledge(events.Cursor{}, nil))
			b.deliver()
			seen := map[string]int{}
			for _, m := range held(t, b.js, "listings.v1.>") {
				seen[m.Header.Get("ce-id")]++
			}
			for n, e := range b.log.list("A100") {
				if times := seen[e.ID]; times != 1 && n != 4 || times != 0 && n == 4 {
					t.Errorf("event %d is %d times in the stream", n+1, times)
				}
			}
		})
	}
}

// TestACrashDoesNotDoubleWhatAnotherDoorbellPublishedFirst has another doorbell whose event comes before the last
// acknowledged one of ours, and is found by us after the server has forgotten its id.
func TestACrashDoesNotDoubleWhatAnotherDoorbellPublishedFirst(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	b := p.bell()
	b.log.ring(t, "A100", 1)
	b.deliver()
	other, found := p.bell(), contactRequest(t, "A100", 9, "Guten Tag")
	other.log.append(found)
	other.deliver()
	b.log.ring(t, "A100", 2)
	r := b.relay()
	must(t, r.RunOnce(t.Context()))
	last := b.log.list("A100")[2].ID
	b.log.erase(3)
	if n, err := r.erase(t.Context(), "A100", func(e events.Event) bool { return e.ID == last }); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	p.kill()
	p.start()
	b.log.append(found)
	eventually(t, "offered", func() bool { return b.relay().RunOnce(t.Context()) == nil })
	times := map[string]int{}
	for _, m := range held(t, b.js, "listings.v1.>") {
		times[m.Header.Get("ce-id")]++
	}
	if len(times) != 3 || times[found.ID] != 1 {
		t.Errorf("the stream holds %v", times)
	}
}
