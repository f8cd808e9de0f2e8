package ops

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ForwarderStatus is the state of one worker of the daemon's forwarders: for one kind of events and
// one destination. Counters start at 0 with the process.
type ForwarderStatus struct {
	Name         string    `json:"name"`
	Destination  string    `json:"destination,omitempty"` // a host and a hash; empty: the forwarder does not run
	Whose        string    `json:"whose,omitempty"`       // its agencies, as they were configured
	Kind         string    `json:"kind,omitempty"`        // leads or alerts
	Waiting      uint64    `json:"waiting"`
	WaitingSince time.Time `json:"waitingSince,omitzero"` // since when messages have waited without a delivery being accepted
	Lost         uint64    `json:"lost,omitempty"`        // leads that wait because no route takes them any more
	Events       uint64    `json:"events"`                // that were delivered
	LastSent     time.Time `json:"lastSent,omitzero"`
	Attempts     int       `json:"attempts,omitempty"` // of the current delivery
	LastError    string    `json:"lastError,omitempty"`
	LastErrorAt  time.Time `json:"lastErrorAt,omitzero"`
	FailingSince time.Time `json:"failingSince,omitzero"` // since when all deliveries have failed
	DeadLetters  uint64    `json:"deadLetters"`
	// Failed counts attempts to deliver that failed, by reason.
	Failed  map[string]uint64 `json:"failed,omitempty"`
	Problem string            `json:"problem,omitempty"` // why no events come from NATS
}

// To names the destination of a forwarder for people, with its address where another one is for the
// same agencies.
func (s Status) To(f ForwarderStatus) string {
	if f.Whose != "" && f.Destination != "" && slices.ContainsFunc(s.Forwarders, func(o ForwarderStatus) bool {
		return o.Name == f.Name && o.Kind == f.Kind && o.Whose == f.Whose && o.Destination != "" && o.Destination != f.Destination
	}) {
		return f.Whose + ", " + f.Destination
	}
	return cmp.Or(f.Whose, f.Destination)
}

// ill reports whether it needs a person's attention.
func (f ForwarderStatus) ill(now time.Time) bool {
	return f.Problem != "" || f.Waits(now) || !f.FailingSince.IsZero() && now.Sub(f.FailingSince) > hiccup
}

// Waits reports whether a message waits for too long: at least its second attempt is under way, or
// it has waited for a minute, or no route takes it.
func (f ForwarderStatus) Waits(now time.Time) bool {
	return f.Attempts >= 2 || f.Lost > 0 || f.Waiting > 0 && !f.WaitingSince.IsZero() && now.Sub(f.WaitingSince) > patience
}

// tried ends a sentence, with the number of attempts if there were any.
func (f ForwarderStatus) tried() string {
	if f.Attempts == 0 {
		return "."
	}
	return "; " + Counted(f.Attempts, "attempt") + " so far."
}

// patience is how long a message may wait before it is shown as a problem.
const patience = time.Minute

// forwarderTable returns the lines of the table of forwarders, none if there are no forwarders.
func (s Status) forwarderTable(o TextOptions) []string {
	if len(s.Forwarders) == 0 {
		return nil
	}
	t := table{}
	t.add(Bold, "FORWARDER", "KIND", "FOR", "SENT", "LAST", "WAITING", "REJECTED")
	for _, f := range s.Forwarders {
		if f.Destination == "" {
			continue
		}
		style := styleNone
		if f.ill(s.Watch.At) {
			style = Red
		}
		t.add(style, f.Name, f.Kind, s.To(f), fmt.Sprint(f.Events), ago(f.LastSent, s.Watch.At), fmt.Sprint(f.Waiting), fmt.Sprint(f.DeadLetters))
	}
	return append([]string{""}, t.lines(o)...)
}
