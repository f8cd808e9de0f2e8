package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"doorbell/events"
)

// recent is how many of the last events done a checkpoint lists, if there are as many.
const recent = 256

// checkpoint records which events of one agency and store a worker has done. The last ones are
// listed by id, which is exact whatever happens to the stream. Older ones are within the bound:
// both their position and their recorded time are at or below it. The position alone would swallow
// new events: a store that was set back while NATS was away repeats positions at later times.
//
// The bound never passes the consumer's ack floor: a message that waits while others are tried, or
// was lost on its way from the server, is neither listed nor within the bound.
type checkpoint struct {
	Bound bound `json:"bound,omitzero"`
	// Earlier is the bound that an earlier stream left. A stream that was created again is filled
	// with events that carry doorbell-resent; those that the earlier stream delivered are within
	// it.
	Earlier bound   `json:"earlier,omitzero"`
	Recent  []entry `json:"recent,omitempty"` // oldest first
}

// bound is a position in the store's log and a time.
type bound struct {
	Position uint64    `json:"position"`
	Recorded time.Time `json:"recorded"`
}

// entry is an event that is done.
type entry struct {
	ID    string    `json:"id"`
	Place uint64    `json:"place,omitempty"` // its sequence in the present stream
	At    time.Time `json:"at,omitzero"`     // when it was done
	bound
}

func (b bound) covers(e events.Event) bool {
	return e.Sequence <= b.Position && !e.RecordedTime.After(b.Recorded)
}

// raise extends the bound over another one.
func (b *bound) raise(other bound) {
	b.Position = max(b.Position, other.Position)
	if other.Recorded.After(b.Recorded) {
		b.Recorded = other.Recorded
	}
}

// has reports whether an event is done. Resent means that the stream had lost the event. That may
// have been before its delivery, with later events done since, so the present bound does not count
// for it.
func (c *checkpoint) has(e events.Event, resent bool) bool {
	switch {
	case c == nil:
		return false
	case slices.ContainsFunc(c.Recent, func(done entry) bool { return done.ID == e.ID }):
		return true
	case resent:
		return c.Earlier.covers(e)
	}
	return c.Bound.covers(e)
}

// add lists an event that is done. Everything in the stream up to floor is done too, so listed
// events from there can move into the bound to make room.
func (c *checkpoint) add(e events.Event, place, floor uint64) {
	c.Recent = append(c.Recent,
		entry{e.ID, place, time.Now().UTC().Truncate(time.Millisecond), bound{e.Sequence, e.RecordedTime}})
	over := len(c.Recent) - recent
	c.Recent = slices.DeleteFunc(c.Recent, func(done entry) bool {
		if over <= 0 || done.Place > floor {
			return false
		}
		over--
		c.Bound.raise(done.bound)
		return true
	})
}

// progress is what a worker remembers. Its file is written after each delivery and before the
// acknowledgement.
type progress struct {
	Version int `json:"version"`
	// Worker is the worker's name. Consumer is the name that its consumer was created with, even if
	// it would get another one today.
	Worker   string `json:"worker"`
	Consumer string `json:"consumer"`
	// Stream is when the stream was created. Early means that the consumer begins before the worker
	// did, so the recorded time of an event decides whether it is the worker's.
	Stream time.Time              `json:"stream,omitzero"`
	Early  bool                   `json:"early,omitempty"`
	Done   map[string]*checkpoint `json:"done"` // by agency and store
}

// doneKey names a checkpoint. Positions of another store say nothing about this one's.
func doneKey(e events.Event) string { return e.AgencyID + "/" + e.StoreID }

func (p *progress) has(e events.Event, resent bool) bool { return p.Done[doneKey(e)].has(e, resent) }

func (p *progress) add(e events.Event, place, floor uint64) {
	c := p.Done[doneKey(e)]
	if c == nil {
		c = &checkpoint{}
		p.Done[doneKey(e)] = c
	}
	c.add(e, place, floor)
}

// isLong reports whether a list is so long that a higher floor is needed to shorten it.
func (p *progress) isLong() bool {
	for _, c := range p.Done {
		if len(c.Recent) >= 2*recent {
			return true
		}
	}
	return false
}

// streamIs records which stream the worker reads. Sequences of the former stream mean nothing in
// it.
func (p *progress) streamIs(made time.Time) {
	if p.Stream.Equal(made) {
		return
	}
	for _, c := range p.Done {
		c.Earlier.raise(c.Bound)
		for n := range c.Recent {
			c.Recent[n].Place = 0
		}
	}
	p.Stream = made
}

var (
	// ErrBusy means that another process forwards under this name with this directory.
	ErrBusy = errors.New("a forwarder of this name is already running")
	// ErrState means that a file of the forwarder cannot be used. It is left unchanged.
	ErrState = errors.New("a file of the forwarder cannot be used")
)

const stateVersion = 3

// folder holds the files of all forwarders.
func folder(dir string) string { return filepath.Join(dir, "forward") }

// lock takes a forwarder's lock, until the file is closed or the process ends. The file stays:
// removing it would let two processes have its lock.
func lock(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(folder(dir), 0o700); err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", name, err)
	}
	f, err := os.OpenFile(filepath.Join(folder(dir), name+".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", name, err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("%w: %s in %s; give the second one another name, or stop the first",
			ErrBusy, name, dir)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// read reads a file strictly: state that is only half read would repeat events or lose some. It
// returns false if there is no file.
func read[T any](path string, whole func(T) bool) (v T, there bool, err error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("%w: %w", ErrState, err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if err = d.Decode(&v); err != nil || d.More() || !whole(v) {
		return v, false,
			fmt.Errorf("%w: %s is damaged, or another version of doorbell wrote it. Restore it from a backup; "+
				"or move it away: the forwarder then continues where its NATS consumer stopped",
				ErrState, path)
	}
	return v, true, nil
}

// write replaces a file atomically. The new content is on the disk when it returns.
func write(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	// makes the rename durable; not every file system can
	if d, err := os.Open(filepath.Dir(path)); err == nil {
		_ = d.Sync()
		d.Close()
	}
	return nil
}
