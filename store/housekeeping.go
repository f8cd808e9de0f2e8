package store

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"
)

// How often Housekeeping trims, and looks at the size.
const (
	trimEvery = time.Hour
	lookEvery = 5 * time.Second
)

// Shares of the most that the store may hold, in percent: from which on there is an alarm, and down
// to which room is made.
const (
	alarmFrom  = 80
	roomDownTo = 95
)

// HousekeepingOptions configure NewHousekeeping. Store and Retention are required.
type HousekeepingOptions struct {
	Store     *Store
	Retention time.Duration // how long acknowledged events are kept
	Max       int64         // the most bytes in use; 0: no bound
	Changed   func(Space)   // is called when Alarm or Full has changed; may be nil
}

// Space is how much the store holds of what it may hold.
type Space struct {
	InUse int64 `json:"inUseBytes"`
	Max   int64 `json:"maxBytes,omitempty"` // 0: no bound
	Alarm bool  `json:"alarm,omitempty"`    // from 80 % on
	// it holds all that it may: nothing is asked until there is room
	Full bool `json:"full,omitempty"`
}

// Housekeeping keeps the store from growing without end: it trims the event log, and watches the
// size. A store that holds all that it may loses its oldest acknowledged events before their time.
// Where that is not enough, because the rest is not acknowledged or is the snapshot, the store is
// full, see Store.Full: the poller sends no request until there is room. Everything else commits as
// before, up to the limit of the file.
type Housekeeping struct {
	o      HousekeepingOptions
	is     atomic.Value // Space
	turned atomic.Value // time.Time
}

// NewHousekeeping does nothing yet.
func NewHousekeeping(o HousekeepingOptions) *Housekeeping {
	h := &Housekeeping{o: o}
	h.is.Store(Space{Max: o.Max})
	h.turned.Store(time.Time{})
	return h
}

// Run trims immediately and every hour, and looks at the size every few seconds, until ctx is done;
// then it returns nil. After any other error the process must end: see ErrUnknownOutcome.
func (h *Housekeeping) Run(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for trimmed := (time.Time{}); ; {
		if now := time.Now(); now.Sub(trimmed) >= trimEvery {
			if _, err := h.o.Store.Trim(h.o.Store.now().Add(-h.o.Retention),
				math.MaxInt); err != nil {
				return err
			}
			trimmed = now
		}
		if err := errors.Join(h.makeRoom(ctx), h.Look()); err != nil {
			return err
		}
		h.turned.Store(time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
		}
	}
}

// Look measures the store, and reports what has changed. It is called before Run too, so that a
// store that is full at the start is so before anything is requested.
func (h *Housekeeping) Look() error {
	inUse, err := h.o.Store.InUse()
	if err != nil {
		return err
	}
	most := h.o.Max
	is := Space{
		InUse: inUse, Max: most, Alarm: most > 0 && inUse >= most/100*alarmFrom,
		Full: most > 0 && inUse >= most,
	}
	was := h.is.Swap(is).(Space)
	h.o.Store.full.Store(is.Full)
	if h.o.Changed != nil && (is.Alarm != was.Alarm || is.Full != was.Full) {
		h.o.Changed(is)
	}
	return nil
}

// Space is the result of the last measurement.
func (h *Housekeeping) Space() Space { return h.is.Load().(Space) }

// Turned is the time of the last loop iteration of Run, every few seconds or after each of many
// small steps; zero before the first.
func (h *Housekeeping) Turned() time.Time { return h.turned.Load().(time.Time) }

// makeRoom trims the oldest acknowledged events of a store that holds all that it may, whatever
// their age, until there is room or none is left.
func (h *Housekeeping) makeRoom(ctx context.Context) error {
	s, target := h.o.Store, h.o.Max/100*roomDownTo
	inUse, err := s.InUse()
	if h.o.Max == 0 || inUse < h.o.Max {
		return err
	}
	for n := 1; err == nil && n > 0 && inUse > target && ctx.Err() == nil; {
		most := min(max(1, (inUse-target)/largeEvent), trimEvents)
		if n, err = s.Trim(s.now().Add(time.Hour), int(most)); err == nil {
			inUse, err = s.InUse()
		}
		h.turned.Store(time.Now())
	}
	return err
}

// largeEvent says how many events go before the size is looked at again: no more than needed, if
// they are not larger.
const largeEvent = 64 << 10

// trimEvents and trimBytes bound one transaction of Trim: others wait for it.
const (
	trimEvents = 1000
	trimBytes  = 8 << 20
)

// Trim removes acknowledged events that were recorded before a moment, the oldest first, at most a
// given number of them. The event of the cursor stays: the relay looks at it. What was seen of
// insertions and contact requests stays as well, so nothing is announced again.
//
// It works in small transactions, between which others commit. After an error, or the end of the
// process, the next call continues.
func (s *Store) Trim(before time.Time, most int) (trimmed int, err error) {
	for trimmed < most {
		n := 0
		if err := s.Update(func(tx *Tx) error {
			old := tx.trimmable(before, min(most-trimmed, trimEvents))
			for _, k := range old {
				if err := tx.delete(bucketLog, k); err != nil {
					return err
				}
			}
			if n = len(old); n == 0 {
				return ErrUnchanged
			}
			return nil
		}); err != nil || n == 0 {
			return trimmed, err
		}
		trimmed += n
	}
	return trimmed, nil
}

// trimmable returns the keys of the events that may go.
func (tx *Tx) trimmable(before time.Time, most int) (old [][]byte) {
	keep, size := tx.cursor().Position, 0
	for k, v := range tx.ascend(bucketLog, nil, logKey(0)) {
		l := entry(k, v)
		if l.position >= keep || len(old) >= most || size >= trimBytes ||
			!l.event().RecordedTime.Before(before) {
			break
		}
		old, size = append(old, logKey(l.position)), size+len(v)
	}
	return old
}
