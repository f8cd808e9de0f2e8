package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"time"

	"doorbell/poller/schedule"
	"doorbell/store"
)

// What the schedule has learned is written every few minutes and at a clean stop, so that a restart goes on where the
// process before it was. It decides only when something is asked: a crash that loses some minutes of it asks a little
// too early, or knows a little too late that an insertion waits for long, and no event is lost or doubled by that.
//
// Chunk 0 holds what was learned of the agency as a whole, the others hold insertions. Each begins with its form.
const (
	memoryEvery = 5 * time.Minute // how often what has changed is written
	memoryChunk = 4000            // insertions in a chunk, and so in a transaction
	memoryForm  = 4               // a chunk of another form is forgotten
)

// saved is an insertion in a chunk.
type saved struct {
	Name     uint64 // a hash of its reference: one that means another, once in a very long time, gives it a wrong rate to begin with
	LastPoll int64  // milliseconds since 1970; 0: not known, as below
	Born     uint32 // seconds since 1970
	Leads    float32
	Expected float32
	Burst    float32
}

var savedSize = binary.Size(saved{})

func savedFrom(reference string, m schedule.Memory) saved {
	return saved{
		savedName(reference), max(0, m.LastPoll.UnixMilli()), uint32(max(0, m.Born.Unix())), m.Leads, m.Expected, m.Burst,
	}
}

func savedName(reference string) uint64 {
	sum := sha256.Sum256([]byte(reference))
	return binary.BigEndian.Uint64(sum[:])
}

// memory is what was saved. The schedule bounds the numbers.
func (s saved) memory() schedule.Memory {
	m := schedule.Memory{Leads: s.Leads, Expected: s.Expected, Burst: s.Burst}
	if s.LastPoll > 0 {
		m.LastPoll = time.UnixMilli(s.LastPoll)
	}
	if s.Born > 0 {
		m.Born = time.Unix(int64(s.Born), 0)
	}
	return m
}

// persisted is what a process before this one wrote of an agency's schedule.
type persisted struct {
	learned []byte
	items   map[uint64]saved // by name
	written written
}

// written is what the store holds: the hash of each chunk, so that nothing is written twice.
type written map[int][sha256.Size]byte

// loadMemory reads what was written of an agency's schedule. Whatever it is, a start goes on. Of an insertion that stands in two
// chunks, because a process was killed between them, the younger one counts.
func loadMemory(tx *store.Tx, agencyID string) persisted {
	m := persisted{items: map[uint64]saved{}, written: written{}}
	tx.Schedule(agencyID, func(n int, chunk []byte) {
		m.written[n] = sha256.Sum256(chunk)
		if len(chunk) == 0 || chunk[0] != memoryForm {
			return
		}
		if n == 0 {
			m.learned = append(m.learned, chunk[1:]...)
			return
		}
		list := make([]saved, len(chunk[1:])/savedSize)
		if _, err := binary.Decode(chunk[1:], binary.BigEndian, list); err != nil {
			return // cannot be: it is no larger
		}
		for _, one := range list {
			if before, twice := m.items[one.Name]; !twice || one.LastPoll > before.LastPoll {
				m.items[one.Name] = one
			}
		}
	})
	return m
}

// lastPoll is when any insertion was polled last, before now; zero if that is not known.
func (m persisted) lastPoll(now time.Time) (last time.Time) {
	for _, one := range m.items {
		if at := one.memory().LastPoll; at.After(last) && !at.After(now) {
			last = at
		}
	}
	return last
}

// resumed is what a start must know of an insertion that is polled; there may be very many.
type resumed struct {
	reference string
	appeared  time.Time
	polled    bool
	urgent    bool // it appeared after the baseline, or its window is open
}

func resumedFrom(i store.Insertion) resumed {
	return resumed{i.Reference, appearedAt(i), i.Polled, !i.Polled && !i.Baseline || !i.OpenSince.IsZero()}
}

// resume is what the schedule is told of an insertion. One whose last poll is not known, or lies in the future because the
// clock has jumped, takes its place at a moment.
func (m persisted) resume(i resumed, now, place time.Time) schedule.Memory {
	one := m.items[savedName(i.reference)].memory()
	if one.Born.IsZero() || one.Born.After(now) {
		one.Born = i.appeared
	}
	if one.LastPoll.After(now) {
		one.LastPoll = time.Time{}
	}
	if one.LastPoll.IsZero() && i.polled {
		one.LastPoll = place
	}
	return one
}

// chunk is chunk n of what is to be remembered, and whether there is one.
func (t *scheduler) chunk(agencyID string, n int) (chunk []byte, is bool) {
	t.view(agencyID, func(s *schedule.Schedule, p *scheduled) {
		chunk = []byte{memoryForm}
		if n == 0 {
			chunk, is = append(chunk, s.Learned(p.handle)...), true
			return
		}
		rest := p.references[min((n-1)*memoryChunk, len(p.references)):]
		var list []saved
		for _, reference := range rest[:min(memoryChunk, len(rest))] {
			if reference != "" {
				list = append(list, savedFrom(reference, s.Memory(p.slots[reference])))
			}
		}
		if b, err := binary.Append(chunk, binary.BigEndian, list); err == nil { // which it always is
			chunk, is = b, len(rest) > 0
		}
	})
	return chunk, is
}

// keepMemories writes what the schedule has learned, until ctx is done.
func (p *Poller) keepMemories(ctx context.Context) error {
	for {
		if err := sleep(ctx, memoryEvery); err != nil {
			return err
		}
		for _, a := range p.watched() {
			keep := func(context.Context) error { return a.keepMemory() }
			if err := a.while(ctx, keep, func() {}); err != nil {
				return err
			}
		}
	}
}

// stopWithin is how long a clean stop may take to remember rates. What there is no time for is some minutes old.
const stopWithin = 3 * time.Second

// keepAllMemories is the last word of a clean stop.
func (p *Poller) keepAllMemories() error {
	began := time.Now()
	for _, a := range p.watched() {
		if time.Since(began) > stopWithin {
			return nil
		}
		if err := a.keepMemory(); err != nil {
			return err
		}
	}
	return nil
}

// keepMemory writes what the schedule has learned since the last time: one chunk in one transaction, and the schedule goes
// on meanwhile. A full disk has no place for it; it can wait.
func (a *agency) keepMemory() error {
	a.remembering.Lock()
	defer a.remembering.Unlock()
	if a.p.full.Load() {
		return nil
	}
	err := a.writeMemory()
	if errors.Is(err, store.ErrNoSpace) {
		return nil
	}
	return err
}

func (a *agency) writeMemory() error {
	n := 0
	for ; ; n++ {
		chunk, is := a.p.scheduler.chunk(a.id, n)
		if !is {
			break
		}
		sum := sha256.Sum256(chunk)
		if before, known := a.written[n]; known && before == sum {
			continue
		}
		if err := a.p.store.Update(func(tx *store.Tx) error { return tx.PutSchedule(a.id, n, chunk) }); err != nil {
			return err
		}
		a.written[n] = sum
	}
	if n == 0 || n >= len(a.written) {
		return nil
	}
	// What stood in the others stands before now.
	err := a.p.store.Update(func(tx *store.Tx) error { return tx.TrimSchedule(a.id, n) })
	if err == nil {
		maps.DeleteFunc(a.written, func(k int, _ [sha256.Size]byte) bool { return k >= n })
	}
	return err
}
