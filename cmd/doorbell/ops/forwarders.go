package ops

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// ForwarderStatus is how a forwarder of the daemon brings one kind of events to one destination. Counters begin with the process.
type ForwarderStatus struct {
	Name         string    `json:"name"`
	Destination  string    `json:"destination,omitempty"` // a host and a hash; empty: it is not at work
	Whose        string    `json:"whose,omitempty"`       // the agencies that it is for, as they were configured
	Kind         string    `json:"kind,omitempty"`        // leads or alerts
	Waiting      uint64    `json:"waiting"`
	WaitingSince time.Time `json:"waitingSince,omitzero"` // since when something has waited without a delivery being accepted
	Lost         uint64    `json:"lost,omitempty"`        // leads that wait because no route takes them any more
	Sent         uint64    `json:"sent"`                  // messages; a digest is one
	Events       uint64    `json:"events"`                // in these messages
	LastSent     time.Time `json:"lastSent,omitzero"`
	Attempts     int       `json:"attempts,omitempty"` // of the message in hand
	LastError    string    `json:"lastError,omitempty"`
	LastErrorAt  time.Time `json:"lastErrorAt,omitzero"`
	FailingSince time.Time `json:"failingSince,omitzero"` // deliveries fail since then
	DeadLetters  uint64    `json:"deadLetters"`
	Problem      string    `json:"problem,omitempty"` // why nothing comes from NATS
}

// To is where a forwarder goes, as a person knows it: with its destination where another one is for the same agencies.
func (s Status) To(f ForwarderStatus) string {
	if f.Whose != "" && f.Destination != "" && slices.ContainsFunc(s.Forwarders, func(o ForwarderStatus) bool {
		return o.Name == f.Name && o.Kind == f.Kind && o.Whose == f.Whose && o.Destination != "" && o.Destination != f.Destination
	}) {
		return f.Whose + ", " + f.Destination
	}
	return cmp.Or(f.Whose, f.Destination)
}

// ill says whether a person should look at it.
func (f ForwarderStatus) ill(now time.Time) bool {
	return f.Problem != "" || f.Waits(now) || !f.FailingSince.IsZero() && now.Sub(f.FailingSince) > hiccup
}

// Waits reports whether something waits for too long: it was not accepted twice, it has waited for a
// minute, or no route takes it.
func (f ForwarderStatus) Waits(now time.Time) bool {
	return f.Attempts >= 2 || f.Lost > 0 || f.Waiting > 0 && !f.WaitingSince.IsZero() && now.Sub(f.WaitingSince) > patience
}

// tried ends a sentence with the number of attempts.
func (f ForwarderStatus) tried() string {
	if f.Attempts == 0 {
		return "."
	}
	return "; " + Counted(f.Attempts, "attempt") + " so far."
}

// patience is how long a message may wait before that is shown.
const patience = time.Minute

// forwarderTable is empty if there are none.
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
