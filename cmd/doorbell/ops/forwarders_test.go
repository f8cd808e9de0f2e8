package ops

import (
	"strings"
	"testing"
	"time"

	"doorbell/poller"
)

func TestOfSeveralDestinationsTheOneThatFailsIsNamed(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	s := Status{Forwarders: []ForwarderStatus{
		{Name: "email", Destination: "h-1", Whose: "A100", LastError: "no", LastErrorAt: at},
		{Name: "email", Destination: "h-2", Whose: "all but A100", DeadLetters: 2},
		{Name: "webhook", Destination: "crm-1", LastError: "no", LastErrorAt: at},
	}}
	s.Watch.At, s.DeadLetters, s.NATS.Connected = at, 2, true
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	for _, want := range []string{"h-2 for all but A100  0     none yet  0        2", "2 events permanently rejected by a receiver", "→ doorbell dlq ls"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if got := s.Summary(); got != "2 events permanently rejected by a receiver" {
		t.Errorf("the check says %q", got)
	}
}

// TestDestinationsOfTheSameAgenciesAreToldApart is about a table with several receivers of a kind.
func TestDestinationsOfTheSameAgenciesAreToldApart(t *testing.T) {
	s := Status{Forwarders: []ForwarderStatus{
		{Name: "webhook", Destination: "crm-1", Whose: "all agencies", Attempts: 2, Waiting: 1},
		{Name: "webhook", Destination: "crm-2", Whose: "all agencies"},
	}}
	s.NATS.Connected = true
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	for _, want := range []string{"a message waits (crm-1 for all agencies)", "webhook    crm-1 for all agencies ", "webhook    crm-2 for all agencies "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestAllIsNotWellWhileAMessageWaits(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		f    ForwarderStatus
		want string
	}{
		"first try":   {ForwarderStatus{Attempts: 1, Waiting: 1, WaitingSince: at.Add(-50 * time.Second)}, ""},
		"second try":  {ForwarderStatus{Attempts: 2, Waiting: 1, LastError: "503"}, "slack: a message waits"},
		"paused":      {ForwarderStatus{Waiting: 3, WaitingSince: at.Add(-61 * time.Second)}, "slack: a message waits"},
		"no route":    {ForwarderStatus{Waiting: 1, Lost: 1}, "slack: no route takes a lead"},
		"NATS is off": {ForwarderStatus{Problem: "x"}, "slack: nothing comes from NATS"},
	} {
		c.f.Name = "slack"
		s := Status{NATS: NATSStatus{Connected: true}, Forwarders: []ForwarderStatus{c.f}}
		s.Watch.At, s.Watch.Agencies = at, []poller.AgencyStatus{{AgencyID: "A100", State: "watching"}}
		if s.Summary() != c.want {
			t.Errorf("%s: %q", name, s.Summary())
		}
		if text := strings.Join(s.Lines(TextOptions{}), "\n"); name == "second try" && (!strings.Contains(text, "2 attempts so far") || !strings.Contains(text, "503")) {
			t.Errorf("no count or error in:\n%s", text)
		}
	}
}

// TestAllIsNotWellWhereALeadGoesNowhereOrTheTableIsRefused is about the table of routes as a whole.
func TestAllIsNotWellWhereALeadGoesNowhereOrTheTableIsRefused(t *testing.T) {
	for _, c := range []struct {
		s    Status
		want string
	}{
		{Status{Untaken: 1}, "1 lead: no line of the table of routes fits"},
		{Status{Untaken: 2}, "2 leads: no line of the table of routes fits"},
		{Status{RoutesProblem: "line 3, column 5 (min_score): is not a number"}, "The changed table of routes is refused"},
	} {
		c.s.NATS.Connected, c.s.Watch.Agencies = true, []poller.AgencyStatus{{AgencyID: "A100", State: "watching"}}
		if c.s.Summary() != c.want || strings.HasPrefix(NewHeadline(c.s).Text, "All is well") {
			t.Errorf("%q, want %q", c.s.Summary(), c.want)
		}
		text := strings.Join(c.s.Lines(TextOptions{}), "\n")
		if !strings.Contains(text, c.s.RoutesProblem) {
			t.Errorf("no cause in:\n%s", text)
		}
	}
}

// TestALeadThatNoRouteTakesLeadsToTheTable is about one that waits since before the table changed: a test of the receiver says nothing of it.
func TestALeadThatNoRouteTakesLeadsToTheTable(t *testing.T) {
	s := Status{NATS: NATSStatus{Connected: true}, Forwarders: []ForwarderStatus{{Name: "slack", Destination: "h-1", Waiting: 1, Lost: 1}}}
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	if !strings.Contains(text, "→ doorbell routes ls") || strings.Contains(text, "--test") {
		t.Errorf("no way to the table in:\n%s", text)
	}
}
