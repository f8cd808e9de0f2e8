// Package ops is how a running doorbell is seen and steered: one Status value with its renderings, and the admin verbs.
// They are served over the unix socket in the data directory, which only its owner may open: no port, no token, and no
// NATS needed. The package holds no rules; what the verbs do is given to it.
package ops

import (
	"time"

	"doorbell/poller"
)

// Status is the daemon at one moment. It holds no person's data and no secret.
type Status struct {
	Version    string            `json:"version"`
	Running    bool              `json:"running"` // false: read from the store of a stopped daemon
	Started    time.Time         `json:"started,omitzero"`
	StoreID    string            `json:"storeId"`
	DataDir    string            `json:"dataDir"`
	Page       string            `json:"page,omitempty"` // address of the status page
	NATS       NATSStatus        `json:"nats"`
	Store      StoreStatus       `json:"store"`
	Watch      poller.Status     `json:"watch"`
	Relay      []RelayStatus     `json:"relay"`
	Forwarders []ForwarderStatus `json:"forwarders,omitempty"`
	Hours      []AgencyHours     `json:"hours,omitempty"` // of a daemon that runs
	Events     []EventCount      `json:"events,omitempty"`
	// PublishFailures counts attempts to publish that failed, by what that means: full, gone, busy, unknown and others.
	PublishFailures map[string]uint64 `json:"publishFailures,omitempty"`
	Ready           *bool             `json:"ready,omitempty"` // as /readyz; nil: of a daemon that does not run
}

// WaitingForStream is the state of an agency whose watch has begun, and of which nothing is asked before the stream was read.
const WaitingForStream = "waiting_for_stream"

// NATSStatus is where events go.
type NATSStatus struct {
	URL       string `json:"url,omitempty"` // without credentials; empty: in process only
	Embedded  bool   `json:"embedded"`
	Connected bool   `json:"connected"`
	Stream    string `json:"stream,omitempty"`
	Problem   string `json:"problem,omitempty"`

	StreamMax int64       `json:"streamMaxBytes,omitempty"` // of the embedded server's
	Server    *NATSServer `json:"server,omitempty"`         // the embedded one
}

// RelayStatus is how far an agency's event log is published.
type RelayStatus struct {
	AgencyID     string `json:"agencyId"`
	Acknowledged uint64 `json:"acknowledged"` // sequence of the newest event in the stream
	Pending      uint64 `json:"pending"`      // events that wait
	Foreign      int    `json:"foreign,omitempty"`
	Problem      string `json:"problem,omitempty"`

	OldestWaiting time.Time `json:"oldestWaiting,omitzero"` // when the oldest of those that wait was recorded
}

// Troubled says whether anything is halted, held, full, not published or does not answer, or an outlet takes nothing.
func (s Status) Troubled() bool { return s.Trouble() != "" }
