// Package ops observes and controls a running doorbell: one Status value with its renderings, and
// the admin verbs. They are served over the unix socket in the data directory, which only its owner
// may open: that needs no port, no token and no NATS. The package contains no rules; its caller
// supplies what the verbs do.
package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"doorbell/events/forward"
	"doorbell/poller"
	"doorbell/store"
)

// Status is the daemon at one moment. It holds no person's data and no secret.
type Status struct {
	Version  string         `json:"version"`
	Instance string         `json:"instance,omitempty"` // name of this installation
	Standby  *StandbyStatus `json:"standby,omitempty"`  // of one of several doorbells
	Started  time.Time      `json:"started,omitzero"`
	StoreID  string         `json:"storeId"`
	DataDir  string         `json:"dataDir"`
	Page     string         `json:"page,omitempty"` // address of the status page
	NATS     NATSStatus     `json:"nats"`
	Store    store.Space    `json:"store"`
	Watch    poller.Status  `json:"watch"`
	Relay    []RelayStatus  `json:"relay"`
	// Forwarders are the workers of the forwarder that the daemon runs.
	Forwarders []forward.WorkerStatus `json:"forwarders,omitempty"`
	// RoutesProblem is why the table of routes that was written last is not in force.
	RoutesProblem string `json:"routesProblem,omitempty"`
	// leads that no line of the table takes
	Untaken     uint64       `json:"untaken,omitempty"`
	DeadLetters uint64       `json:"deadLetters,omitempty"` // that wait for a person now
	Events      []EventCount `json:"events,omitempty"`
	// PublishFailures counts attempts to publish that failed, by what that means: full, gone, busy,
	// unknown and others.
	PublishFailures map[string]uint64 `json:"publishFailures,omitempty"`
	Ready           *bool             `json:"ready,omitempty"` // as /readyz
}

// StandbyStatus is which one of several doorbells works.
type StandbyStatus struct {
	Pair   string    `json:"pair"`
	Works  bool      `json:"works"`            // this one
	Holder string    `json:"holder,omitempty"` // the name of the one that works; empty: unknown
	Since  time.Time `json:"since,omitzero"`   // when it took over
}

// waits reports whether another doorbell works in place of this one, which then has no problems of
// its own.
func (s Status) waits() bool { return s.Standby != nil && !s.Standby.Works }

// text says what a doorbell does that does not work.
func (s StandbyStatus) text() string {
	if s.Holder == "" {
		return fmt.Sprintf("Waiting: it is not known yet which doorbell of %s is active.", s.Pair)
	}
	return fmt.Sprintf(
		"Waiting: %s has been the active doorbell of %s since %s; "+
			"this one takes over when it ends.",
		s.Holder, s.Pair, s.Since.Local().Format("2 Jan 15:04:05"))
}

// Shared returns a function that calls status at most once a second, and otherwise returns the last
// result.
func Shared(status func() (Status, error)) func() (Status, error) {
	var (
		mu   sync.Mutex
		last Status
		err  error
		at   time.Time
	)
	return func() (Status, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(at) >= time.Second {
			last, err = status()
			at = time.Now()
		}
		return last, err
	}
}

// NATSStatus is where events go.
type NATSStatus struct {
	URL       string `json:"url,omitempty"` // without credentials; empty: in process only
	Embedded  bool   `json:"embedded"`
	Connected bool   `json:"connected"`
	Stream    string `json:"stream,omitempty"`
	Problem   string `json:"problem,omitempty"`
	// of the embedded server, because it took nothing; since the start of the process
	Restarts int `json:"restarts,omitempty"`
	// agencies of which another doorbell published an event in the last hour
	Rivals []string `json:"rivals,omitempty"`
}

// RelayStatus is how far an agency's event log is published.
type RelayStatus struct {
	AgencyID string `json:"agencyId"`
	store.Progress
}

// EventCount counts events of one type since the process connected to NATS.
type EventCount struct {
	Type      string `json:"type"`      // other: one that this version does not know
	Published uint64 `json:"published"` // taken by the stream, for the first time
}

// SpaceAdvice says what to do about a store that becomes full.
const SpaceAdvice = "raise DOORBELL_STORE_MAX if the disk has room, or lower DOORBELL_RETENTION; " +
	"events that wait for NATS stay until they are published"

// Level is how much something wants a person: all is well, it only takes its time, it wants a look,
// or something does not work.
type Level string

// The levels; the page's style sheet knows them by these names.
const (
	Well Level = "well"
	Busy Level = "busy"
	Warn Level = "warn"
	Bad  Level = "bad"
)

// WaitingForStream is the state of an agency whose watch has begun, and of which nothing is asked
// before the stream was read.
const WaitingForStream = "waiting_for_stream"

// AgencyState is a state of an agency in the words of page and terminal.
type AgencyState struct {
	Name  string // in the status as JSON, in metrics and in heartbeats
	Word  string
	Level Level
	Means string
}

// states are the states of agencies, those that want a person first.
var states = []AgencyState{
	{"halted", "halted", Bad, "The API refuses access, so nothing is requested."},
	{"stale", "no good response", Bad, "The API has failed for a while. doorbell keeps trying."},
	{"held", "change held", Warn, "Too much has vanished at once to be believed yet."},
	{"backing_off", "API fails", Warn, "doorbell waits longer after each failure and retries by itself."},
	{WaitingForStream, "waits for NATS", Warn, "Polling begins when the stream has been read."},
	{"starting", "first walk", Busy, "The list of insertions is being read for the first time."},
	{"baselining", "learning", Busy, "What already exists is learned, not announced."},
	{"watching", "watching", Well, "Anything new is announced."},
}

// StateOf returns the state of an agency.
func StateOf(a poller.AgencyStatus) AgencyState {
	for _, s := range states {
		if s.Name == a.State {
			return s
		}
	}
	return AgencyState{Name: a.State, Word: a.State, Level: Warn}
}

// level is that of the state of an agency, or of what else there is about it.
func level(a poller.AgencyStatus) Level {
	is := StateOf(a).Level
	if is == Well && (len(a.Halts) > 0 || a.Held != nil || len(a.Alarms) > 0) {
		return Warn
	}
	return is
}

// InOrder returns the agencies as people see them, on the page and in the terminal: those first
// that need attention, and otherwise as they are configured.
func InOrder(agencies []poller.AgencyStatus) []poller.AgencyStatus {
	order := []Level{Bad, Warn, Busy, Well}
	return slices.SortedStableFunc(slices.Values(agencies), func(x, y poller.AgencyStatus) int {
		return cmp.Compare(slices.Index(order, level(x)), slices.Index(order, level(y)))
	})
}

// AgencyRow is an agency as page and terminal show it.
type AgencyRow struct {
	ID    string
	State AgencyState
	// Insertions is how many are listed, Longest how long the one has waited that waits the longest
	// for a poll, Latency the median time from a lead to its event.
	Insertions, Longest, Latency string
	LastSync                     time.Time // the last complete walk
	Waiting                      uint64    // events that wait for NATS
	Remarks                      []string  // what was odd lately and is no problem
}

// unknown is shown where nothing is known yet.
const unknown = "–"

// Agencies returns a row for each agency, those that need attention first.
func (s Status) Agencies() (rows []AgencyRow) {
	waiting := map[string]uint64{}
	for _, r := range s.Relay {
		waiting[r.AgencyID] = r.Pending
	}
	for _, a := range InOrder(s.Watch.Agencies) {
		r := AgencyRow{
			ID: a.AgencyID, State: StateOf(a), Insertions: unknown, Longest: unknown,
			Latency: unknown, LastSync: a.LastCompleteWalk, Waiting: waiting[a.AgencyID],
			Remarks: remarks(a),
		}
		r.State.Level = level(a)
		// a walk was complete, or the store remembers
		if a.Insertions > 0 || !a.LastCompleteWalk.IsZero() {
			r.Insertions = Number(a.Insertions)
			if f := a.Freshness; f != nil && f.Insertions > 0 {
				r.Longest = Seconds(f.OldestSeconds)
			}
			if f := a.Freshness; f != nil && f.Latency.ContactRequests > 0 {
				r.Latency = Seconds(f.Latency.MedianSeconds)
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// remarks are what was odd lately at an agency and is no problem.
func remarks(a poller.AgencyStatus) (list []string) {
	if l := a.LastWalk; !l.Complete && l.Reason != "" {
		list = append(list,
			"the last walk was not complete: "+strings.ReplaceAll(l.Reason, "_", " "))
	}
	if is := level(a); a.LastError != "" && (is == Well || is == Busy) {
		list = append(list, "last error: "+a.LastError)
	}
	for _, v := range a.Volatile {
		member := Short(v.Path, 80) + " of " + operation(v.Operation)
		list = append(list, "changes at each reading and is left out: "+member)
	}
	return list
}

// Facts are what holds for all, a line each.
func (s Status) Facts() []string {
	ceiling := fmt.Sprintf("%g", s.Watch.RequestsPerSecond)
	if s.Watch.Effective < 0.999*s.Watch.RequestsPerSecond { // both are rounded
		ceiling += fmt.Sprintf(" (%.4g now, throttled by the API)", s.Watch.Effective)
	}
	kind, state := "external", "connected"
	if s.NATS.Embedded {
		kind = "embedded"
	}
	if !s.NATS.Connected {
		state = "not connected"
	}
	nats := []string{kind, state, "stream " + s.NATS.Stream}
	if s.NATS.URL != "" {
		nats = append(nats, s.NATS.URL)
	}
	return []string{
		fmt.Sprintf("doorbell %s, up %s, %s (%d in the last minute), at most %s a second, to %s",
			s.Version,
			Span(s.Watch.At.Sub(s.Started)), Counted(int(s.Watch.Requests), "request"),
			s.Watch.LastMinute, ceiling, s.Watch.BaseURL),
		"NATS: " + strings.Join(nats, ", "),
		"Store: " + share(s.Store) + " in " + s.DataDir,
	}
}

// share says how much of what it may the store holds.
func share(s store.Space) string {
	if s.Max == 0 {
		return BytesText(s.InUse)
	}
	return BytesText(s.InUse) + " of " + BytesText(s.Max)
}

// Destination names where a worker delivers, for people: "hooks.slack.com 3fa1c2 for A100".
func Destination(w forward.WorkerStatus) string {
	if w.Whose == "" {
		return w.Destination
	}
	return w.Destination + " for " + w.Whose
}

const deliveryFails = "delivery fails"

// Trouble is what is wrong with a worker of the forwarder, in words; empty: it works. A first
// attempt that fails is no trouble yet.
func Trouble(w forward.WorkerStatus, now time.Time) string {
	long := func(since time.Time) bool { return !since.IsZero() && now.Sub(since) > patience }
	switch {
	case long(w.FailingSince):
		return deliveryFails
	case w.Problem != "":
		return "no events arrive from NATS"
	case w.Lost > 0:
		return "no route takes a lead"
	case w.Attempts >= 2, w.Waiting > 0 && long(w.WaitingSince):
		return "a message is waiting"
	}
	return ""
}
