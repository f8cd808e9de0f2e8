package relay

import (
	"runtime"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// change appends that an insertion has changed to a record.
func (d *doorbell) change(revision int, record string) {
	d.t.Helper()
	c := &events.InsertionChanged{
		Common:              events.Common{AgencyID: "A100", ObservedAt: time.Now()},
		PropertyReferenceID: "seefeld#1##", Episode: 1, Revision: revision, Record: []byte(record),
	}
	copy(c.Digest[:], record)
	e, err := events.New(c)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.store.Update(func(tx *store.Tx) error { _, err := tx.Append(e); return err }); err != nil {
		d.t.Fatal(err)
	}
	laterThan(time.Now())
}

// laterThan returns when a time of record, which is in milliseconds, is another one.
func laterThan(now time.Time) {
	for time.Now().UnixMilli() == now.UnixMilli() {
		runtime.Gosched()
	}
}

// TestWhatHappensAgainWhileARestoredStoreCannotLookIsTold: a store that was set back finds a state that the stream has told
// before, and another one since. Its own store has told it, so the id is the same, and it is the next one.
func TestWhatHappensAgainWhileARestoredStoreCannotLookIsTold(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(1)
	first.publish()
	backup := first.copyTo() // knows A
	first.change(1, `{"state":"B"}`)
	first.change(2, `{"state":"A"}`)
	first.publish()

	second := b.doorbell(backup)
	second.change(1, `{"state":"B"}`) // once more, before the stream was read
	second.publish()
	all := held(t, b.js, "listings.v1.A100.insertion.changed")
	if n := len(all); n != 3 {
		t.Errorf("%d changes in the stream, want 3", n)
	}
	last, err := events.Decode(all[len(all)-1].Header, all[len(all)-1].Data)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := last.Payload(); err != nil || string(p.(*events.InsertionChanged).Record) != `{"state":"B"}` {
		t.Errorf("the last word of the stream is %s, %v", last.Data, err)
	}
}

// TestALogThatWasSetBackHasWhatTheStreamTold: the payload too, though the poller has found the same before the stream was read.
func TestALogThatWasSetBackHasWhatTheStreamTold(t *testing.T) {
	b := newBell(t)
	first := b.doorbell(t.TempDir())
	first.ring(1)
	first.publish()
	backup := first.copyTo()
	first.ring(2, 3)
	first.publish()
	laterThan(time.Now())

	second := b.doorbell(backup)
	second.ring(2, 4)
	second.publish()
	second.agree(1, 2, 3, 4)
	if c := second.compared("A100"); !c.Well() {
		t.Errorf("log and stream differ: %+v", c)
	}
}
