package poller

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/store"
)

// remembering is a poller that does not run, over a store with so many insertions that were polled.
func remembering(t *testing.T, dir string, insertions int) *Poller {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	err = s.Update(func(tx *store.Tx) error {
		for n := range insertions {
			i := store.Insertion{Reference: fmt.Sprintf("a#%d##", n), Polled: true, FirstSeen: time.Now().Add(-time.Hour)}
			if err := tx.PutInsertion("A100", i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(Options{
		Store: s, API: listings.Options{BaseURL: "http://127.0.0.1:1"}, PollInterval: time.Minute,
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// chunkOf is a chunk of insertions.
func chunkOf(t *testing.T, list ...saved) []byte {
	t.Helper()
	chunk, err := binary.Append([]byte{memoryForm}, binary.BigEndian, list)
	if err != nil {
		t.Fatal(err)
	}
	return chunk
}

// polledBefore is the same, where the process before has polled all of them so long ago.
func polledBefore(t *testing.T, insertions int, ago time.Duration) *Poller {
	t.Helper()
	dir := t.TempDir()
	p := remembering(t, dir, insertions)
	var list []saved
	for n := range insertions {
		list = append(list, savedFrom(fmt.Sprintf("a#%d##", n), schedule.Memory{LastPoll: time.Now().Add(-ago)}))
	}
	chunk := chunkOf(t, list...)
	if err := p.store.Update(func(tx *store.Tx) error { return tx.PutSchedule("A100", 1, chunk) }); err != nil {
		t.Fatal(err)
	}
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	return remembering(t, dir, 0)
}

func (p *Poller) keep(t *testing.T) (commits int64) {
	t.Helper()
	before := p.store.Commits()
	if err := p.agency("A100").keepMemory(); err != nil {
		t.Fatal(err)
	}
	return p.store.Commits() - before
}

func (p *Poller) polledAt(reference string, at time.Time) {
	p.scheduler.changeOne("A100", reference, func(s *schedule.Schedule, i schedule.Insertion) { s.Polled(i, at, nil) })
}

func (p *Poller) memoryOf(reference string) (m schedule.Memory) {
	p.scheduler.changeOne("A100", reference, func(s *schedule.Schedule, i schedule.Insertion) { m = s.Memory(i) })
	return m
}

func TestANonsensicalMemoryOfAnInsertionIsNone(t *testing.T) {
	now := time.Now()
	one := savedFrom("a#1##", schedule.Memory{Born: now.Add(time.Hour), LastPoll: now.Add(time.Hour)})
	r := persisted{items: map[uint64]saved{one.Name: one}}
	first := now.Add(-time.Hour)
	if got := r.resume(resumed{reference: "a#1##", appeared: first}, now, now); !got.Born.Equal(first) || !got.LastPoll.IsZero() {
		t.Errorf("of one that was never polled, with times to come: %+v", got)
	}
}

func (p *Poller) chunks() map[int]int {
	sizes := map[int]int{}
	p.store.View(func(tx *store.Tx) error {
		tx.Schedule("A100", func(n int, chunk []byte) { sizes[n] = len(chunk) })
		return nil
	})
	return sizes
}

func TestARestartKnowsWhatTheScheduleHadLearned(t *testing.T) {
	dir := t.TempDir()
	p := remembering(t, dir, 2*memoryChunk-1500)
	want := schedule.Memory{
		Born: time.Now().Add(-300 * time.Hour).Truncate(time.Second), LastPoll: time.Now().Add(-40 * time.Minute).Truncate(time.Millisecond),
		Leads: 3.5, Expected: 1.25, Burst: 0.125,
	}
	p.scheduler.change("A100", func(s *schedule.Schedule, q *scheduled) {
		i := q.add(s, "learned#1##", want, time.Now())
		s.Seen(i, false, time.Now().Add(time.Minute))
		s.Seen(i, true, time.Now().Add(2*time.Minute))
	})
	p.polledAt("a#6499##", time.Now())
	late := p.memoryOf("a#6499##")
	p.keep(t)
	learned := func() string {
		q := p.scheduler.byID["A100"]
		return string(p.scheduler.schedule.Learned(q.handle))
	}
	whole := learned()
	if err := p.store.Update(func(tx *store.Tx) error {
		return tx.PutInsertion("A100", store.Insertion{Reference: "learned#1##", Polled: true, FirstSeen: time.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	p = remembering(t, dir, 0)
	if got := p.memoryOf("learned#1##"); got.LastPoll.Sub(want.LastPoll).Abs() > time.Millisecond || !got.Born.Equal(want.Born) ||
		got.Leads != want.Leads || got.Expected != want.Expected || got.Burst != want.Burst {
		t.Errorf("resumed %+v, want %+v", got, want)
	}
	if got := learned(); got != whole || !strings.Contains(got, `"Changes":1`) {
		t.Errorf("what is learned of the agency as a whole: %s, want %s", got, whole)
	}
	if got := p.memoryOf("a#6499##"); got.LastPoll.Sub(late.LastPoll).Abs() > time.Millisecond {
		t.Errorf("last poll %s, want %s", got.LastPoll, late.LastPoll)
	}
}

func TestTheMemoryOfTheScheduleIsSmallAndWrittenOnlyWhenSomethingWasLearned(t *testing.T) {
	dir := t.TempDir()
	p := remembering(t, dir, 10_500)
	if n := p.keep(t); n != 4 {
		t.Errorf("%d transactions for four chunks", n)
	}
	total := 0
	for _, size := range p.chunks() {
		total += size
	}
	if total > 33*10_500 {
		t.Errorf("%d bytes for 10,500 insertions", total)
	}
	if n := p.keep(t); n != 0 {
		t.Errorf("%d transactions though nothing was polled", n)
	}
	p.polledAt("a#77##", time.Now().Add(time.Second))
	if n := p.keep(t); n != 2 {
		t.Errorf("%d transactions after one poll, want one for the insertion and one for the agency", n)
	}
	p.polledAt("a#77##", time.Now().Add(2*time.Second))
	p.full.Store(true)
	if n := p.keep(t); n != 0 {
		t.Errorf("%d transactions though the disk is full", n)
	}
	p.full.Store(false)
	for n := range 9_600 {
		p.agency("A100").forget(fmt.Sprintf("a#%d##", n))
	}
	p.keep(t)
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestChunksThatAreNotNeededAnyMoreAreForgotten(t *testing.T) {
	dir := t.TempDir()
	p := remembering(t, dir, memoryChunk+500)
	p.keep(t)
	err := p.store.Update(func(tx *store.Tx) error {
		for n := range memoryChunk + 500 {
			i := store.Insertion{Reference: fmt.Sprintf("a#%d##", n), Polled: true, GoneSince: time.Now().Add(-60 * time.Hour)}
			if n%100 != 0 {
				if err := tx.PutInsertion("A100", i); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	p = remembering(t, dir, 0)
	if n := p.keep(t); n != 2 {
		t.Errorf("%d transactions, want one to write and one to forget", n)
	}
	if got := p.chunks(); len(got) != 2 || got[1] != 1+45*savedSize {
		t.Errorf("the store holds chunks %v", got)
	}
}

func TestGarbageInTheMemoryOfTheScheduleStopsNoStart(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		chunks := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 3*savedSize), 1, 4).Draw(r, "chunks")
		p := remembering(t, dir, 3)
		err := p.store.Update(func(tx *store.Tx) error {
			for n, chunk := range chunks {
				if n > 0 {
					chunk = append([]byte{memoryForm}, chunk...)
					if len(chunk) > 9 && rapid.Bool().Draw(r, "ours") {
						copy(chunk[1:9], chunkOf(t, savedFrom("a#1##", schedule.Memory{}))[1:])
					}
				}
				if err := tx.PutSchedule("A100", n, chunk); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			r.Fatal(err)
		}
		if err := p.store.Close(); err != nil {
			r.Fatal(err)
		}
		p = remembering(t, dir, 0)
		m := p.memoryOf("a#1##")
		for _, f := range []float32{m.Leads, m.Expected, m.Burst} {
			if math.IsNaN(float64(f)) || f < 0 || f > 1e9 {
				r.Errorf("resumed with %+v", m)
			}
		}
		if now := time.Now(); m.LastPoll.After(now) || m.Born.After(now) || m.LastPoll.IsZero() {
			r.Errorf("resumed with %+v", m)
		}
		p.keep(t)
		if err := p.store.Close(); err != nil {
			r.Fatal(err)
		}
	})
}

func TestAClockThatWasSetBackDelaysNoPoll(t *testing.T) {
	p := polledBefore(t, 100, -1000*time.Hour)
	now, places := time.Now(), map[time.Time]bool{}
	for n := range 100 {
		last := p.memoryOf(fmt.Sprintf("a#%d##", n)).LastPoll
		if last.After(now) || now.Sub(last) > p.o.PollInterval+time.Minute {
			t.Fatalf("polled last %s from now", last.Sub(now))
		}
		places[last] = true
	}
	if len(places) != 100 {
		t.Errorf("%d places of 100: a burst", len(places))
	}
}

func TestTheYoungerOfTwoMemoriesOfAnInsertionCounts(t *testing.T) {
	dir := t.TempDir()
	p := remembering(t, dir, 1)
	now := time.Now()
	err := p.store.Update(func(tx *store.Tx) error {
		for n, ago := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
			one := savedFrom("a#0##", schedule.Memory{LastPoll: now.Add(-ago), Leads: float32(n)})
			if err := tx.PutSchedule("A100", n+1, chunkOf(t, one)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.store.Close(); err != nil {
		t.Fatal(err)
	}
	if m := remembering(t, dir, 0).memoryOf("a#0##"); m.Leads != 1 {
		t.Errorf("resumed with %+v", m)
	}
}
