package forward

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// The memory has three parts. A [checkpoint] for each kind, agency and store says what was done of it, wherever it was sent. A [period] says what
// the routes took at a time. A [workerState] is a place in the stream, where a worker goes on.
//
// So an agency that moves from one destination to another needs nothing of its own: its checkpoint stays. All workers of the kind go back to
// where the last of them stands, and what is done, or was not wanted when it was recorded, is passed over.

const (
	// recent is how many events of an agency a checkpoint knows by id. Those before them are known by number and time.
	recent = 32
	// mostBounds is how many beginnings of a store's positions are told apart.
	mostBounds = 8
)

// checkpoint is what is done of the events of one kind of one agency and store. The newest are known by id, which is exact whatever happened
// to the stream: positions that a restored store uses again, events that the relay sends again late. An older one is known by position in
// the store's log and time of record: it is done if neither is higher than in one of the bounds. A store that was set back while NATS is
// away repeats positions, at later times. There is one bound for each time that this happened; a single one would swallow new events,
// since all events of one commit have one time.
type checkpoint struct {
	// Below are the highest of those that are no longer in Recent, the latest last.
	Below []bound `json:"below,omitempty"`
	// Recent are sequence, recorded time in milliseconds, and half of the id; in the order in which they were done.
	Recent []string `json:"recent,omitempty"`
}

type bound struct {
	Sequence     uint64    `json:"sequence"`
	RecordedTime time.Time `json:"recordedTime"`
}

func entryOf(e events.Event) string {
	return fmt.Sprintf("%d %d %.13s", e.Sequence, e.RecordedTime.UnixMilli(), e.ID)
}

// has says whether an event is done.
func (c *checkpoint) has(e events.Event) bool {
	if c == nil {
		return false
	}
	return slices.Contains(c.Recent, entryOf(e)) ||
		slices.ContainsFunc(c.Below, func(b bound) bool { return b.covers(bound{e.Sequence, e.RecordedTime}) })
}

// add remembers an event.
func (c *checkpoint) add(e events.Event) {
	if c.has(e) {
		return
	}
	c.Recent = append(c.Recent, entryOf(e))
	if len(c.Recent) > recent {
		c.raise(boundOf(c.Recent[0]))
		c.Recent = slices.Delete(c.Recent, 0, 1)
	}
}

// raise remembers one whose id is no longer known.
func (c *checkpoint) raise(b bound) {
	if slices.ContainsFunc(c.Below, func(other bound) bool { return other.covers(b) }) {
		return
	}
	if n := len(c.Below); n > 0 && c.Below[n-1].Sequence < b.Sequence {
		last := &c.Below[n-1]
		last.Sequence = b.Sequence
		if b.RecordedTime.After(last.RecordedTime) {
			last.RecordedTime = b.RecordedTime
		}
		return
	}
	c.Below = append(c.Below, b)
	c.Below = c.Below[max(0, len(c.Below)-mostBounds):] // better one doubled than one lost
}

func (b bound) covers(other bound) bool {
	return other.Sequence <= b.Sequence && !other.RecordedTime.After(b.RecordedTime)
}

func boundOf(entry string) (b bound) {
	parts := strings.SplitN(entry, " ", 3)
	b.Sequence, _ = strconv.ParseUint(parts[0], 10, 64)
	if len(parts) > 1 {
		ms, _ := strconv.ParseInt(parts[1], 10, 64)
		b.RecordedTime = time.UnixMilli(ms).UTC()
	}
	return b
}

// period is what the routes took from a moment on, until the next period. Only what they took when it was recorded is sent: an agency, a type
// or a score that is added brings nothing old.
type period struct {
	From    time.Time `json:"from,omitzero"` // of the first one by the server's clock; zero: the forwarder has not begun
	Filters []Filter  `json:"filters"`
}

// took says whether the routes took an event when it was recorded.
func (m *memory) took(e events.Event) bool {
	for _, p := range slices.Backward(m.Periods) {
		if !e.RecordedTime.Before(p.From) {
			return slices.ContainsFunc(p.Filters, func(f Filter) bool { return f.wants(e) })
		}
	}
	return false
}

// begunBy sets right what begins later than the forwarder did by the server's clock, because ours was ahead when the routes changed: what is
// recorded until then would not be sent to an agency's new destination.
func (m *memory) begunBy(began time.Time) {
	if last := &m.Periods[len(m.Periods)-1]; last.From.After(began) {
		last.From = began.UTC().Truncate(time.Millisecond)
	}
}

// begun says whether the forwarder has ever begun.
func (m *memory) begun() bool { return len(m.Periods) > 0 && !m.Periods[0].From.IsZero() }

// doneKey names a checkpoint. Positions and clocks of another store say nothing about this one's.
func doneKey(k Kind, e events.Event) string { return string(k) + "/" + e.AgencyID + "/" + e.StoreID }

// done says whether an event of a kind is done.
func (m *memory) done(k Kind, e events.Event) bool { return m.Done[doneKey(k, e)].has(e) }

// add remembers that it is.
func (m *memory) add(k Kind, e events.Event) {
	key := doneKey(k, e)
	if m.Done[key] == nil {
		m.Done[key] = &checkpoint{}
	}
	m.Done[key].add(e)
}

// reroute brings the memory into line with today's routes. Where they are others than at the last start a new period begins, and each worker
// goes back to where the last of its kind stands, also one that is no more. A kind that had no worker begins with what is new.
func (m *memory) reroute(workers []*worker, now time.Time, retention time.Duration) {
	same := len(workers) == len(m.Workers)
	for _, l := range workers {
		same = same && m.Workers[l.key] != nil && equal(m.Workers[l.key].Filters, l.filters)
	}
	if same {
		return
	}
	before := m.Workers
	m.Workers = map[string]*workerState{}
	begins := period{From: now.UTC().Truncate(time.Millisecond)} // recorded times have no more digits
	for _, l := range workers {
		s := &workerState{Filters: l.filters}
		for key, other := range before {
			switch {
			case !strings.HasSuffix(key, workerKey("", l.kind)) || other.Since.IsZero():
			case s.Since.IsZero():
				s.Since, s.Position, s.Early = other.Since, other.Position, true
				if other.Consumer == l.consumer { // the only one of its kind so far: its consumer may stand further on than the state
					s.Consumer = other.Consumer
				}
			default:
				s.Consumer = ""
				s.Position = s.Position.earlier(other.Position)
				if other.Since.Before(s.Since) {
					s.Since = other.Since
				}
			}
		}
		m.Workers[l.key] = s
		begins.Filters = append(begins.Filters, l.filters...)
	}
	for _, s := range before {
		if s.Consumer != "" {
			m.Leftover = append(m.Leftover, s.Consumer)
		}
	}
	slices.Sort(m.Leftover)
	m.Leftover = slices.DeleteFunc(slices.Compact(m.Leftover), func(c string) bool {
		return slices.ContainsFunc(workers, func(l *worker) bool { return l.consumer == c })
	})
	if !m.begun() {
		m.Periods, begins.From = nil, time.Time{}
	}
	m.Periods = append(m.Periods, begins)
	for retention > 0 && len(m.Periods) > 1 && m.Periods[1].From.Before(now.Add(-retention)) { // the stream holds nothing so old
		m.Periods = m.Periods[1:]
	}
}

func equal(a, b []Filter) bool {
	one, err := json.Marshal(a)
	other, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(one) == string(other)
}

// position is a message up to which, and with which, all is done.
type position struct {
	Sequence uint64    `json:"sequence"`
	ID       string    `json:"id"`
	Stream   time.Time `json:"stream,omitzero"` // when its stream was made
}

// earlier is the position from which on neither misses anything; nil is the begin of the stream. The numbers of two streams say nothing
// of each other.
func (p *position) earlier(other *position) *position {
	if p == nil || other == nil || !p.Stream.Equal(other.Stream) {
		return nil
	}
	if other.Sequence < p.Sequence {
		return other
	}
	return p
}
