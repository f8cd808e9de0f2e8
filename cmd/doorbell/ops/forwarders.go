package ops

import "time"

// ForwarderStatus is the state of one worker of the daemon's forwarders, which delivers to one
// destination. Counters start at 0 with the process.
type ForwarderStatus struct {
	Name         string    `json:"name"`
	Destination  string    `json:"destination,omitempty"` // a host and a hash; empty: the forwarder does not run
	Whose        string    `json:"whose,omitempty"`       // its agencies, as they were configured
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

// To names its destination for people: "hooks.slack.com 3fa1c2 for A100".
func (f ForwarderStatus) To() string {
	if f.Whose == "" {
		return f.Destination
	}
	return f.Destination + " for " + f.Whose
}

const deliveryFails = "delivery fails"

// Trouble is what is wrong with a forwarder, in words; empty: it works. A first attempt that fails
// is no trouble yet.
func (f ForwarderStatus) Trouble(now time.Time) string {
	long := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) > patience }
	switch {
	case long(f.FailingSince):
		return deliveryFails
	case f.Problem != "":
		return "nothing comes from NATS"
	case f.Lost > 0:
		return "no route takes a lead"
	case f.Attempts >= 2, f.Waiting > 0 && long(f.WaitingSince):
		return "a message waits"
	}
	return ""
}
