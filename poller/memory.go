package poller

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"time"

	"doorbell/poller/schedule"
	"doorbell/store"
)

// What the schedule has learned is written every few minutes and at a clean stop, so that a restart goes on where the
// process before it was. It decides only when something is asked: a crash that loses some minutes of it asks a little
// too early, or knows a little too late that an insertion waits for long, and no event is lost or doubled by that.

const (
	// memoryEvery is how often it is written, if anything was learned.
	memoryEvery = 5 * time.Minute
	// memoryChunk is how many insertions stand in one chunk, memoryBatch how many chunks in one transaction.
	memoryChunk = 1000
	memoryBatch = 4
	// memorySize is that of one insertion.
	memorySize = 32
	// maxChunks bounds what is believed of the number of a chunk.
	maxChunks = 10_000
	// maxLearned bounds what the schedule may want to know of an agency as a whole.
	maxLearned = 64 << 10
)

// memoryForm is the first byte of each chunk. A chunk of another form is forgotten.
const memoryForm = 3

// recollection is what a process before this one wrote of an agency's schedule.
type recollection struct {
	learned []byte
	items   map[uint64]inscription // by name
	written written
}

// lastPoll is when any insertion was polled last, before now; zero if that is not known.
func (m recollection) lastPoll(now time.Time) (last time.Time) {
	for _, b := range m.items {
		if one, _ := readRemembrance(b[:]); one.LastPoll.After(last) && !one.LastPoll.After(now) {
			last = one.LastPoll
		}
	}
	return last
}

// written is a hash of each chunk in the store, 0 where unknown, so that nothing is written twice.
type written []uint64

func (w *written) note(n int, chunk []byte) {
	for n >= len(*w) {
		*w = append(*w, 0)
	}
	(*w)[n] = hashOf(chunk)
}

func (w written) holds(n int, chunk []byte) bool { return n < len(w) && w[n] == hashOf(chunk) }

func hashOf(b []byte) uint64 {
	sum := sha256.Sum256(b)
	return binary.BigEndian.Uint64(sum[:])
}

// remembrance is one insertion in a chunk. Its name is a hash of its reference: one that means another insertion, once in
// a very long time, gives that a wrong rate to begin with.
type remembrance struct {
	name uint64
	schedule.Memory
}

// inscription is a remembrance as it is written. A start reads very many: they stay where they were read.
type inscription *[memorySize]byte

func memoryName(reference string) uint64 { return hashOf([]byte(reference)) }

func (r remembrance) append(b []byte) []byte {
	b = binary.BigEndian.AppendUint64(b, r.name)
	b = binary.BigEndian.AppendUint64(b, uint64(milliseconds(r.LastPoll)))
	b = binary.BigEndian.AppendUint32(b, uint32(max(0, milliseconds(r.Born)/1000)))
	for _, f := range []float32{r.Leads, r.Expected, r.Burst} {
		b = binary.BigEndian.AppendUint32(b, math.Float32bits(f))
	}
	return b
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func moment(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// readRemembrance reads what append wrote, and says whether it can be meant.
func readRemembrance(b []byte) (r remembrance, ok bool) {
	r.name = binary.BigEndian.Uint64(b)
	r.LastPoll = moment(int64(binary.BigEndian.Uint64(b[8:])))
	r.Born = moment(int64(binary.BigEndian.Uint32(b[16:])) * 1000)
	for n, f := range []*float32{&r.Leads, &r.Expected, &r.Burst} {
		*f = math.Float32frombits(binary.BigEndian.Uint32(b[20+4*n:]))
		if !(*f >= 0 && *f < 1e9) {
			return r, false
		}
	}
	return r, true
}

// recallMemory reads what was written of an agency's schedule. Whatever it is, a start goes on.
func recallMemory(tx *store.Tx, agencyID string) (m recollection) {
	var chunks [][]byte
	count := 0
	tx.Schedule(agencyID, func(n int, chunk []byte) {
		if n > maxChunks {
			return
		}
		m.written.note(n, chunk)
		if len(chunk) == 0 || chunk[0] != memoryForm {
			return
		}
		if chunk = chunk[1:]; n == 0 {
			m.learned = slices.Clone(chunk[:min(len(chunk), maxLearned)])
			return
		}
		chunks = append(chunks, slices.Clone(chunk))
		count += len(chunk) / memorySize
	})
	m.items = make(map[uint64]inscription, count)
	for _, chunk := range chunks {
		for ; len(chunk) >= memorySize; chunk = chunk[memorySize:] {
			m.add(inscription(chunk))
		}
	}
	return m
}

// add takes what can be meant. Of one that stands in two chunks, because a process was killed between them, the younger
// one counts.
func (m recollection) add(b inscription) {
	one, ok := readRemembrance(b[:])
	if !ok {
		return
	}
	if other, twice := m.items[one.name]; twice {
		if before, _ := readRemembrance(other[:]); !one.LastPoll.After(before.LastPoll) {
			return
		}
	}
	m.items[one.name] = b
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
func (m recollection) resume(i resumed, now, place time.Time) (one schedule.Memory) {
	if b, found := m.items[memoryName(i.reference)]; found {
		r, _ := readRemembrance(b[:])
		one = r.Memory
	}
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

// memories are those of the insertions of chunk n, from 1, and whether there is such a chunk. What chunk 0 holds is
// learned.
func (t *turns) memories(agencyID string, n int) (references []string, all []schedule.Memory, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byID[agencyID]
	first := (n - 1) * memoryChunk
	if p == nil || first >= len(p.references) {
		return nil, nil, false
	}
	for _, reference := range p.references[first:min(first+memoryChunk, len(p.references))] {
		if reference != "" {
			references = append(references, reference)
			all = append(all, t.schedule.Memory(p.slots[reference]))
		}
	}
	return references, all, true
}

// chunk is chunk n of what is to be remembered, and whether there is one.
func (t *turns) chunk(agencyID string, n int) ([]byte, bool) {
	b := []byte{memoryForm}
	if n == 0 {
		learned := t.learned(agencyID)
		if len(learned) > maxLearned {
			return b, true
		}
		return append(b, learned...), true
	}
	references, all, ok := t.memories(agencyID, n)
	for i, reference := range references {
		b = remembrance{memoryName(reference), all[i]}.append(b)
	}
	return b, ok
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

// keepMemory writes what the schedule has learned since the last time: few chunks in one transaction, and the schedule goes
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

// numbered is a chunk that is to be written.
type numbered struct {
	n     int
	bytes []byte
}

func (a *agency) writeMemory() error {
	var batch []numbered
	for n := 0; ; n++ {
		b, ok := a.p.turns.chunk(a.id, n)
		if ok && !a.written.holds(n, b) {
			batch = append(batch, numbered{n, b})
		}
		if len(batch) == memoryBatch || !ok && len(batch) > 0 {
			if err := a.putMemory(batch); err != nil {
				return err
			}
			batch = nil
		}
		if !ok {
			return a.trimMemory(n)
		}
	}
}

func (a *agency) putMemory(batch []numbered) error {
	err := a.p.store.Update(func(tx *store.Tx) error {
		for _, c := range batch {
			if err := tx.PutSchedule(a.id, c.n, c.bytes); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		for _, c := range batch {
			a.written.note(c.n, c.bytes)
		}
	}
	return err
}

// trimMemory forgets chunks from n on, once all others are written: what stood there stands before now.
func (a *agency) trimMemory(n int) error {
	if n >= len(a.written) {
		return nil
	}
	err := a.p.store.Update(func(tx *store.Tx) error { return tx.TrimSchedule(a.id, n) })
	if err == nil {
		a.written = a.written[:n]
	}
	return err
}
