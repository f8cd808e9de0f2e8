package forward

import (
	"time"

	"doorbell/events"
)

// Delivered is whether a receiver has an event.
type Delivered struct {
	Receiver string // forwarder and destination, as in a dead letter, with a dot between
	// Done means that the receiver accepted the event, or that it became a dead letter.
	Done bool
	// At is when that was. Zero: only the newest deliveries are listed with their time.
	At time.Time
}

// Delivered returns the receivers that an event of the log was for by the table in force when it
// was recorded, and whether their workers have passed it. An event that was recorded before the
// first table, or is not live, was for none. It may be called at any time.
func (f *Forwarder) Delivered(e events.Event) (list []Delivered) {
	if e.Origin != events.OriginLive {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, receiver := range f.tables.then(e, true).to(e) {
		// a worker that has retired has left nothing behind
		d := Delivered{Receiver: receiver, Done: true}
		for _, w := range f.workers {
			if w.name == receiver {
				d.Done, d.At = w.passed(e)
			}
		}
		// The worker of a receiver that was removed drops what goes nowhere else.
		if to, lost := f.tables.home(e, receiver, true); d.Done || len(to) > 0 || lost {
			list = append(list, d)
		}
	}
	return list
}

// passed reports whether the worker is done with an event, and when that was if it still knows.
func (w *worker) passed(e events.Event) (done bool, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.done.Done[doneKey(e)]
	if c == nil || !c.has(e, false) {
		return w.retired, at
	}
	for _, done := range c.Recent {
		if done.ID == e.ID {
			at = done.At
		}
	}
	return true, at
}
