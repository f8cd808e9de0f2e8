package ops

import (
	"fmt"
	"testing"
	"time"

	"doorbell/events/forward"
	"doorbell/poller"
)

// TestAllIsWellOnlyIfEverythingIs is about the headline, which is what `status --check`, the page and
// the ping go by: it names what is wrong, the most pressing first, and nothing that is not.
func TestAllIsWellOnlyIfEverythingIs(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	long, lately := at.Add(-61*time.Second), at.Add(-59*time.Second)
	worker := func(w forward.WorkerStatus) func(*Status) {
		w.Forwarder = "slack"
		return func(s *Status) { s.Forwarders = []forward.WorkerStatus{w} }
	}
	for _, tt := range []struct {
		want   string
		change func(*Status)
	}{
		{"", func(*Status) {}},
		{"B200 is halted: the API refuses access", func(s *Status) {
			s.Watch.Agencies[1].State, s.Watch.Agencies[1].Halts = "halted", []poller.HaltStatus{{}}
		}},
		{"B200 is halted: the API refuses access; A100: 0 of 0 insertions are missing", func(s *Status) {
			s.Watch.Agencies[0].Held, s.Watch.Agencies[1].Halts = &poller.HeldStatus{}, []poller.HaltStatus{{}}
		}},
		{"4 agencies are halted: the API refuses access", func(s *Status) {
			for n := range 4 {
				a := poller.AgencyStatus{AgencyID: fmt.Sprint("Z", n+1), State: "halted", Halts: []poller.HaltStatus{{}}}
				s.Watch.Agencies = append(s.Watch.Agencies, a)
			}
		}},
		{"A100: no good response about contact requests", func(s *Status) {
			s.Watch.Agencies[0].Alarms = []poller.Alarm{{Kind: "stale", Operation: "contact_requests"}}
		}},
		{"A100: the API fails", func(s *Status) { s.Watch.Agencies[0].State = "stale" }}, // its alarm is not raised yet
		{"2 times: not everything can be seen (contact requests)", func(s *Status) {
			s.Watch.Agencies[0].Alarms = []poller.Alarm{
				{Kind: "gap_detected", Operation: "contact_requests", PropertyReferenceID: "a#1"},
				{Kind: "gap_detected", Operation: "contact_requests", PropertyReferenceID: "a#2"},
			}
		}},
		{"A100: not everything can be seen (the list of insertions)", func(s *Status) {
			s.Watch.Agencies[0].Alarms = []poller.Alarm{{Kind: "gap_detected", Operation: "insertions"}}
		}},
		{"A100: responses about the list of insertions have changed their form", func(s *Status) {
			s.Watch.Agencies[0].Alarms = []poller.Alarm{{Kind: "schema_drifted", Operation: "insertions"}}
		}},
		{"A100: the API fails", func(s *Status) { s.Watch.Agencies[0].State = "backing_off" }},
		{"The API does not answer", func(s *Status) { s.Watch.Down, s.Watch.Agencies[0].State = "in 3s", "backing_off" }},
		{"No agency is watched", func(s *Status) { s.Watch.Agencies = nil }},
		{"B200 waits for the stream", func(s *Status) {
			s.Watch.Agencies[1] = poller.AgencyStatus{AgencyID: "B200", State: WaitingForStream, WatchStart: long}
		}},
		{"NATS is not connected; B200 waits for the stream", func(s *Status) {
			s.NATS.Connected = false
			s.Watch.Agencies[1] = poller.AgencyStatus{AgencyID: "B200", State: WaitingForStream, WatchStart: lately}
		}},

		{"The store is nearly full", func(s *Status) { s.Store.Alarm = true }},
		{"The store is full: polling stopped until there is room", func(s *Status) { s.Store.Full, s.Store.Alarm = true, true }},
		{"NATS is not connected", func(s *Status) { s.NATS.Connected = false }},
		{"NATS does not accept events", func(s *Status) { s.NATS.Problem = "stream is missing" }},
		{"A second doorbell also publishes A100", func(s *Status) { s.NATS.Rivals = []string{"A100"} }},
		{"2 agencies are also published by a second doorbell", func(s *Status) { s.NATS.Rivals = []string{"A100", "B200"} }},
		{"", func(s *Status) { s.Relay[0].OldestWaiting = lately }},
		{"Events are not published", func(s *Status) { s.Relay[0].OldestWaiting, s.Relay[1].OldestWaiting = long, lately }},

		{"", worker(forward.WorkerStatus{Attempts: 1, Waiting: 1, WaitingSince: lately, FailingSince: lately})},
		{"slack: delivery fails", worker(forward.WorkerStatus{Attempts: 2, Waiting: 1, FailingSince: long})},
		{"slack: a message is waiting", worker(forward.WorkerStatus{Attempts: 2, Waiting: 1, LastError: "503"})},
		{"slack: a message is waiting", worker(forward.WorkerStatus{Waiting: 3, WaitingSince: long})},
		{"slack: no route takes a lead", worker(forward.WorkerStatus{Waiting: 1, Lost: 1})},
		{"slack: no events arrive from NATS (h-1 for A100)", worker(forward.WorkerStatus{Destination: "h-1", Whose: "A100", Problem: "x"})},
		{"1 lead: no line of the table of routes matches", func(s *Status) { s.Untaken = 1 }},
		{"The changed table of routes is refused", func(s *Status) { s.RoutesProblem = "line 3" }},
		{"2 events permanently rejected by a receiver", func(s *Status) { s.DeadLetters = 2 }},
	} {
		s := Status{
			NATS: NATSStatus{Connected: true}, Relay: []RelayStatus{{AgencyID: "A100"}, {AgencyID: "B200"}},
			Watch: poller.Status{At: at, Agencies: []poller.AgencyStatus{{AgencyID: "A100", State: "watching"}, {AgencyID: "B200", State: "watching"}}},
		}
		tt.change(&s)
		if got := s.Summary(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}
