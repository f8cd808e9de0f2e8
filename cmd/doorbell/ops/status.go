// Package ops is how a running doorbell is seen and steered: one Status value with its renderings, and the admin verbs.
// They are served over the unix socket in the data directory, which only its owner may open: no port, no token, and no
// NATS needed. The package holds no rules; what the verbs do is given to it.
package ops

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
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
	Ready           *bool             `json:"ready,omitempty"` // as /readyz; nil: nobody has asked
}

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

// Troubled says whether anything is halted, held, full or does not answer, or an outlet takes nothing.
func (s Status) Troubled() bool {
	if s.Watch.Down != "" || s.Watch.NoSpace || s.Store.Alarm || s.Store.Full {
		return true
	}
	for _, a := range s.Watch.Agencies {
		if len(a.Halts) > 0 || a.Held != nil || len(a.Alarms) > 0 || a.State == "backing_off" {
			return true
		}
	}
	return slices.ContainsFunc(s.Forwarders, func(f ForwarderStatus) bool { return f.ill(s.Watch.At) })
}

// WriteText renders the status for a terminal.
func (s Status) WriteText(w io.Writer) error {
	if !s.Running {
		fmt.Fprintf(w, "doorbell is not running; this is what %s remembers\n", s.DataDir)
	} else {
		fmt.Fprintf(w, "doorbell %s, up %s, %d requests (%d in the last minute), at most %s a second, to %s\n",
			s.Version, age(s.Started, s.Watch.At), s.Watch.Requests, s.Watch.LastMinute, s.ceiling(), s.Watch.BaseURL)
		fmt.Fprintln(w, s.NATS.text())
		if s.Page != "" {
			fmt.Fprintln(w, "Page: "+s.Page)
		}
	}
	fmt.Fprint(w, s.Store.text())
	if s.Watch.NoSpace && !s.Store.Full {
		fmt.Fprintf(w, "The disk is full: nothing is asked until there is space for %s\n", s.DataDir)
	}
	if s.Watch.Down != "" {
		fmt.Fprintf(w, "The API does not answer; next try %s\n", s.Watch.Down)
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENCY\tSTATE\tINSERTIONS\tLAST COMPLETE WALK\tEVENTS\tWAITING")
	for _, a := range s.Watch.Agencies {
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\n", a.AgencyID, a.State, a.Insertions,
			ago(a.LastCompleteWalk, s.Watch.At), a.LastSequence, s.pending(a.AgencyID))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := s.writeFreshness(w); err != nil {
		return err
	}
	if err := s.writeForwarders(w); err != nil {
		return err
	}
	return s.writeTroubles(w)
}

// alarmWords say in plain words what a watch event has told.
var alarmWords = map[string]string{
	"stale":          "nothing good is heard",
	"schema_drifted": "the answers are not what they were",
	"gap_detected":   "not everything can be seen",
}

func (s Status) writeTroubles(w io.Writer) error {
	var b strings.Builder
	for _, a := range s.Watch.Agencies {
		for _, h := range a.Halts {
			fmt.Fprintf(&b, "\n%s is halted (%s%s) since %s: %d, %s\n  %s\n", a.AgencyID, h.Scope, of(h.PropertyReferenceID),
				h.Since.Format(time.RFC3339), h.Status, h.ProbableReason, h.Advice)
		}
		if h := a.Held; h != nil {
			fmt.Fprintf(&b, "\n%s holds a change: %d of %d insertions are missing (%s); believed at %s if it stays, or by: %s\n",
				a.AgencyID, h.Missing, h.Known, h.Reason, h.Until.Format(time.RFC3339), h.Approve)
		}
		for _, l := range a.Alarms {
			fmt.Fprintf(&b, "\n%s, %s%s: %s since %s\n", a.AgencyID, strings.ReplaceAll(l.Operation, "_", " "),
				of(l.PropertyReferenceID), alarmWords[l.Kind], l.Since.Format(time.RFC3339))
		}
		if l := a.LastWalk; !l.Complete && l.Reason != "" {
			fmt.Fprintf(&b, "\n%s: the last walk, %s, was not complete (%s): %d insertions in %d requests\n", a.AgencyID, ago(l.At, s.Watch.At),
				strings.ReplaceAll(l.Reason, "_", " "), l.Insertions, l.Pages)
		}
		if a.LastError != "" {
			fmt.Fprintf(&b, "\n%s: last error: %s\n", a.AgencyID, a.LastError)
		}
	}
	for _, r := range s.Relay {
		if r.Problem != "" {
			fmt.Fprintf(&b, "\n%s: publishing: %s\n", r.AgencyID, r.Problem)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s Status) pending(agencyID string) uint64 {
	for _, r := range s.Relay {
		if r.AgencyID == agencyID {
			return r.Pending
		}
	}
	return 0
}

func (n NATSStatus) text() string {
	kind, state := "external", "connected"
	if n.Embedded {
		kind = "embedded"
	}
	if !n.Connected {
		state = "not connected"
	}
	text := fmt.Sprintf("NATS: %s, %s, stream %s", kind, state, n.Stream)
	if n.URL != "" {
		text += ", " + n.URL
	}
	if n.Problem != "" {
		text += "; " + n.Problem
	}
	return text
}

func of(reference string) string {
	if reference == "" {
		return ""
	}
	return fmt.Sprintf(" %q", reference)
}

func age(since, now time.Time) string { return now.Sub(since).Round(time.Second).String() }

func ago(at, now time.Time) string {
	if at.IsZero() {
		return "none yet"
	}
	return age(at, now) + " ago"
}
