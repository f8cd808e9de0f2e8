package poller

import (
	"doorbell/events"
	"doorbell/store"
)

// commit makes one transaction of what is decided about the agency and what says so, and repeats in the log what events say of the
// watch. Who keeps what was decided in memory, too, holds committing from its reading to that.
func (a *agency) commit(decide func(*store.Tx) ([]events.Payload, error)) error {
	var list []events.Payload
	err := a.p.store.Update(func(tx *store.Tx) (err error) {
		if list, err = decide(tx); err != nil {
			return err
		}
		return appendEvents(tx, list)
	})
	if err == nil {
		a.told(list)
	}
	return err
}

// appendEvents puts events into the log, in order.
func appendEvents(tx *store.Tx, list []events.Payload) error {
	for _, p := range list {
		if err := appendEvent(tx, p); err != nil {
			return err
		}
	}
	return nil
}

func appendEvent(tx *store.Tx, p events.Payload) error {
	e, err := events.New(p)
	if err != nil {
		return err
	}
	_, err = tx.Append(e)
	return err
}

// told says in the log what events have said of the watch, once they are committed.
func (a *agency) told(list []events.Payload) {
	if len(list) == 0 {
		return
	}
	log := a.p.log.With("agency", a.id)
	for _, p := range list {
		switch e := p.(type) {
		case *events.AccessHalted:
			log.Error("access halted", "scope", string(e.Scope), "since", e.ObservedAt, "status", e.Status, "reason", e.ProbableReason, "advice", e.Advice)
		case *events.AccessResumed:
			log.Info("access resumed", "scope", string(e.Scope), "since", e.HaltedAt, "cause", e.Cause)
		case *events.AccessKeySwitched:
			log.Warn("access goes on with the other key", "refused", e.From.Slot, "works", e.To.Slot)
		case *events.WatchSchemaDrifted:
			log.Warn("the answers have another shape", "operation", e.Operation, "expected", e.Expected, "found", e.Found)
		case *events.WatchBaselined:
			log.Info("baselined: from here on what appears is news", "insertions", e.Insertions, "complete", e.Complete)
		case *events.WatchChangeHeld:
			log.Warn("a change too large to believe is held", "missing", e.Missing, "known", e.Known)
		case *events.WatchGapDetected:
			switch e.Reason {
			case "walk_incomplete":
				log.Warn("the list of insertions cannot be read to its end", "insertions", e.Reached)
			case "window_full":
				log.Warn("not all contact requests of an insertion can be seen", "reached", e.Reached)
			case "unreadable":
				log.Warn("the contact requests of an insertion cannot be read", "reference", e.PropertyReferenceID, "since", e.From)
			}
		case *events.WatchRecovered:
			log.Info("an alarm is over", "operation", e.Operation, "reference", e.PropertyReferenceID, "ends", e.Ends, "since", e.Since)
		}
	}
}
