package relay

import (
	"context"
	"path/filepath"
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

func (d *dying) Unsent(agency string, maxEvents, maxBytes int) ([]events.Event, error) {
	if d.left--; d.left < 0 {
		d.end()
	}
	return d.Store.Unsent(agency, maxEvents, maxBytes)
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
	if c := first.compared("A100"); len(c.Missing) > 0 {
		t.Errorf("missing %v, but all are there", c.Missing)
	}
	if n, err := first.relay().Resend(t.Context(), "A100"); n > 0 || err != nil {
		t.Errorf("%d sent again on request, %v", n, err)
	}
}

// TestForeignEventsUnderSequencesOfOursAreRememberedPageByPage: each commit is an fsync, and nothing else goes on meanwhile.
func TestForeignEventsUnderSequencesOfOursAreRememberedPageByPage(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	d := b.doorbell(t.TempDir())
	d.ring(upTo(1, 1000)...)
	d.publish()
	other := b.doorbell(t.TempDir()) // did not look first, and went on beyond
	r := other.relay()
	for n := 1; n <= 1200; n++ {
		m := r.message(contactRequest(t, "A100", 5000+n, "Guten Tag").Stamp(uint64(n), time.Now(), other.store.ID()).WithSequence(uint64(n)), 1<<20, false)
		if _, err := b.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	before := d.store.Commits()
	d.publish()
	if n := d.store.Commits() - before; n > 20 {
		t.Errorf("%d commits for 1,000 strangers and 200 that continue the log", n)
	}
	d.ring(upTo(5001, 5200)...) // told already
	d.ring(upTo(7000, 7010)...)
	d.publish()
	d.wantOnce(append(append(upTo(1, 1000), upTo(5001, 6200)...), upTo(7000, 7010)...)...)
	if last, _ := d.store.Last("A100"); last < 1200 {
		t.Errorf("the log ends with %d", last)
	}
}

// TestAnEventThatTheStreamHasLostTwiceAndHoldsBehindOursIsKept: another doorbell has found it again. The cursor names it then.
func TestAnEventThatTheStreamHasLostTwiceAndHoldsBehindOursIsKept(t *testing.T) {
	b, folder := newFolderBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(1, 2, 3)
	first.publish()
	restore := b.backup(folder)
	other := b.doorbell(t.TempDir())
	other.ring(4)
	other.publish()
	first.publish() // knows 4 from the stream
	restore()
	third := b.doorbell(t.TempDir())
	third.ring(upTo(101, 110)...)
	third.ring(4)
	third.publish()
	first.publish()
	want := append(upTo(1, 4), upTo(101, 110)...)
	first.wantOnce(want...)
	first.wantSound()
	if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
		t.Fatal(err)
	}
	first.publish()
	third.publish() // of some of them, first knows the ids alone
	first.ring(5)
	first.publish()
	first.wantOnce(append(want, 5)...)
	first.wantSound()
}

// wantSound verifies the store, and that log and stream hold the same.
func (d *doorbell) wantSound() {
	d.t.Helper()
	if r, err := store.Verify(d.t.Context(), filepath.Join(d.copyTo(), "doorbell.db")); err != nil || r.Damage() != nil {
		d.t.Errorf("the store: %v, %v", err, r.Damage())
	}
	if c := d.compared("A100"); len(c.Missing) > 0 {
		d.t.Errorf("log and stream: %+v", c)
	}
	if n, err := d.relay().Resend(d.t.Context(), "A100"); n > 0 || err != nil {
		d.t.Errorf("%d sent again on request, %v", n, err)
	}
}

// TestAStreamThatIsMadeAnewInTheMiddleOfARepairIsFilled: the newest event was passed over, because another doorbell has told it, so
// it has no place of ours; and then the process dies, and the stream is deleted.
func TestAStreamThatIsMadeAnewInTheMiddleOfARepairIsFilled(t *testing.T) {
	t.Parallel()
	for cut := range 12 {
		b, folder := newFolderBell(t)
		first := b.doorbell(t.TempDir())
		other := b.doorbell(t.TempDir())
		first.ring(1, 2, 3)
		first.publish()
		other.publish()
		restore := b.backup(folder)
		first.ring(4)
		first.publish()
		restore()
		other.ring(104, 4)
		other.publish()
		ctx, cancel := context.WithCancel(t.Context())
		first.o.Log = &dying{first.store, cancel, cut}
		_ = first.relay().RunOnce(ctx)
		cancel()
		first.o.Log = first.store
		if err := b.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
			t.Fatal(err)
		}
		first.publish()
		first.wantOnce(1, 2, 3, 4)
		if t.Failed() {
			t.Fatalf("the process died after %d questions", cut)
		}
	}
}

// TestALostTailBringsNoSecondImportOfWhatTheLogHasForgotten: what stands before the lost tail was read before.
func TestALostTailBringsNoSecondImportOfWhatTheLogHasForgotten(t *testing.T) {
	b, folder := newFolderBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(upTo(1, 10)...)
	first.publish()
	second := b.doorbell(t.TempDir()) // the first store is lost
	second.publish()
	second.ring(20)
	second.publish()
	if n, err := second.store.Trim(time.Now().Add(time.Hour), 8); n != 8 || err != nil {
		t.Fatalf("%d trimmed: %v", n, err)
	}
	restore := b.backup(folder)
	second.ring(upTo(21, 25)...)
	second.publish()
	restore()
	second.publish()
	second.wantOnce(append(upTo(1, 10), upTo(20, 25)...)...)
	second.wantReported("imported 1-10 sent 0", "tail_lost 13-17 sent 5")
}
