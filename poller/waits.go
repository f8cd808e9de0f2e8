package poller

import (
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
)

// judgeWaits raises the alarm of contact requests where at least a tenth of an agency's insertions is late, at every look
// for as long as silence would have to last. There are good answers, but not enough of them: the API is slow, or lets us
// ask too little. That it has asked for patience is no excuse, as it is none for silence: we do not see.
//
// Time away is: in the first cap after a start, or after a halt, everything may be late because nobody asked. Insertions
// that fail by themselves are not counted, each of them becomes a gap that is told.
//
// An alarm that is on, whatever for, ends when less than a tenth is late and an answer was good since.
func (a *agency) judgeWaits(now time.Time) error {
	op := listings.OperationContactRequests
	if a.isHalted(listings.Request{Operation: op, AgencyID: a.id}) || !a.asksInsertions() {
		return nil // judgeSilence keeps calm
	}
	s := a.standing(now)
	a.mu.Lock()
	h := a.hearings[op]
	h.behind = s.behind()
	away := now.Sub(a.began) < s.cap || now.Sub(h.calm) < s.cap
	if !h.behind || away || h.timely.IsZero() {
		h.timely = now
	}
	due := h.StaleSince.IsZero() && now.Sub(h.timely) >= a.patienceWithSilence(op)
	over := !h.StaleSince.IsZero() && !h.behind && h.good.After(h.StaleSince)
	errs := append([]events.StaleError(nil), h.errors...)
	a.mu.Unlock()
	switch {
	case over:
		return a.endAlarms(op, true, false, now)
	case due:
		err := a.tellStale(op, now, s.complain(errs, now))
		if err == nil {
			a.p.log.Error("too many insertions wait for too long", "agency", a.id, "late", s.late, "of", s.answerable, "cap", s.cap)
		}
		return err
	}
	return nil
}

// complain adds what is wrong to the last errors.
func (s standing) complain(errs []events.StaleError, now time.Time) []events.StaleError {
	errs = append(errs, events.StaleError{
		At: now, Operation: string(listings.OperationContactRequests), Class: "late",
		Text: fmt.Sprintf("%d of %d insertions wait for longer than %s", s.late, s.answerable, s.cap.Round(time.Second)),
	})
	return errs[max(0, len(errs)-maxErrors):]
}
