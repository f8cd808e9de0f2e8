package relay

import (
	"context"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// timesInStream is how often each lead stands in the stream.
func (d *doorbell) timesInStream() map[string]int {
	d.t.Helper()
	times := map[string]int{}
	for _, m := range held(d.t, d.js, "listings.v1.A100.contact_request.created") {
		times[m.Header.Get("ce-id")]++
	}
	return times
}

// wantOnce fails unless the stream holds each of these leads once.
func (d *doorbell) wantOnce(leads ...int) {
	d.t.Helper()
	times := d.timesInStream()
	for _, n := range leads {
		if got := times[contactRequest(d.t, "A100", n, "").ID]; got != 1 {
			d.t.Errorf("lead %d stands %d times in the stream", n, got)
		}
	}
}

// dying is a log with which a process ends after so many readings.
type dying struct {
	*store.Store
	end  context.CancelFunc
	left int
}

func (d *dying) Read(agency string, after uint64, maxEvents, maxBytes int) ([]events.Event, error) {
	if d.left--; d.left < 0 {
		d.end()
	}
	return d.Store.Read(agency, after, maxEvents, maxBytes)
}

// TestARestoredStoreSendsItsEventsAgainBesideThoseOfItsSubstitute: store and stream were lost, another doorbell has begun
// anew, and then a backup of the first store was found.
func TestARestoredStoreSendsItsEventsAgainBesideThoseOfItsSubstitute(t *testing.T) {
	for name, told := range map[string]int{"that told less": 5, "that told more": 20} {
		t.Run(name, func(t *testing.T) {
			b := newBell(t)
			first := b.doorbell(t.TempDir())
			first.ring(upTo(1, 10)...)
			first.publish()
			backup := first.copyTo()
			if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
				t.Fatal(err)
			}
			substitute := b.doorbell(t.TempDir())
			substitute.ring(upTo(101, 100+told)...)
			substitute.publish()
			second := b.doorbell(backup)
			second.o.BatchEvents = 3
			second.ring(201, 202)
			for cut := range 12 { // each process dies after so many questions and batches
				ctx, cancel := context.WithCancel(t.Context())
				second.o.Log = &dying{second.store, cancel, cut}
				_ = second.relay().RunOnce(ctx)
				cancel()
			}
			second.o.Log = second.store
			second.publish()
			second.wantOnce(append(append(upTo(1, 10), upTo(101, 100+told)...), 201, 202)...)
			second.ring(upTo(101, 100+told)...) // found again
			second.publish()
			second.wantOnce(append(append(upTo(1, 10), upTo(101, 100+told)...), 201, 202)...)
		})
	}
}

// TestWhatASubstituteToldIsRememberedWhereTheLogIsTrimmed: as before, but the log has forgotten its first events.
func TestWhatASubstituteToldIsRememberedWhereTheLogIsTrimmed(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 10)...)
	first.publish()
	if n, err := first.store.Trim(time.Now().Add(time.Hour), 8); n != 8 || err != nil {
		t.Fatalf("%d trimmed: %v", n, err)
	}
	backup := first.copyTo()
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	substitute := b.doorbell(t.TempDir())
	substitute.ring(upTo(101, 105)...)
	substitute.publish()
	b.o.AckWait = time.Second
	second := b.doorbell(backup)
	second.publish()
	second.ring(upTo(101, 106)...) // found again
	for range 3 {
		second.publish()
	}
	second.wantOnce(append([]int{9, 10}, upTo(101, 106)...)...)
}

// TestATailThatAnotherDoorbellHasToldMeanwhileIsNotDoubled: the stream lost its tail, and who came first found the same lead.
func TestATailThatAnotherDoorbellHasToldMeanwhileIsNotDoubled(t *testing.T) {
	for name, others := range map[string][]int{"in the same place": {4}, "in a later place": {104, 4}, "in an earlier place": {6}} {
		t.Run(name, func(t *testing.T) {
			b, folder := newFolderBell(t)
			first, dir := b.doorbell(t.TempDir()), t.TempDir()
			first.ring(1, 2, 3)
			first.publish()
			other := b.doorbell(dir)
			other.publish()
			restore := b.backup(folder)
			first.ring(4, 5, 6)
			first.publish()
			restore()
			other.ring(others...)
			other.publish()
			first.publish()
			first.wantOnce(append(upTo(1, 6), others[:len(others)-1]...)...)
			if c := first.compared("A100"); len(c.Missing) > 0 {
				t.Errorf("missing %v, but all are there", c.Missing)
			}
			if n, err := first.relay().Resend(t.Context(), "A100"); n > 0 || err != nil {
				t.Errorf("%d sent again on request, %v", n, err)
			}
		})
	}
}

// TestALogThatHoldsALeadTwiceSendsItAgainOnce: another store has told it under a later sequence, from where it was taken over.
func TestALogThatHoldsALeadTwiceSendsItAgainOnce(t *testing.T) {
	b, folder := newFolderBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(1, 2, 3)
	first.publish()
	other := b.doorbell(t.TempDir())
	other.publish()
	restore := b.backup(folder)
	first.ring(4, 5, 6)
	first.publish()
	restore()
	other.ring(101, 102, 103, 4)
	other.publish()
	first.publish()
	list, err := first.store.Read("A100", 7, 1, 1)
	if err != nil || len(list) == 0 || list[0].StoreID != other.store.ID() {
		t.Fatalf("what waited was sent under a sequence that the stream held: %v", err)
	}
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	first.publish()
	first.wantOnce(upTo(1, 6)...)
}
