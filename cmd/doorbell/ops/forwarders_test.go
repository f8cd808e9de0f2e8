package ops

import (
	"strings"
	"testing"
	"time"
)

func TestOfSeveralDestinationsTheOneThatFailsIsNamed(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	s := Status{Forwarders: []ForwarderStatus{
		{Name: "email", Kind: "leads", Destination: "h-1", Whose: "A100", LastError: "no", LastErrorAt: at},
		{Name: "email", Kind: "leads", Destination: "h-2", Whose: "all but A100", DeadLetters: 2},
		{Name: "webhook", Kind: "leads", Destination: "crm-1", LastError: "no", LastErrorAt: at},
	}}
	s.Watch.At, s.Running, s.DeadLetters, s.NATS.Connected = at, true, 2, true
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	for _, want := range []string{"\nemail leads for A100: no, ", "all but A100  0     none yet  0        2", "2 events permanently rejected by a receiver", "→ doorbell dlq ls", "\nwebhook leads for crm-1: no, "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if h := NewHeadline(s); h.Text != "2 events permanently rejected by a receiver" || s.Summary() != "" {
		t.Errorf("%+v; %s", h, s.Summary())
	}
}

func TestOneReceiverThatIsOffIsOneTrouble(t *testing.T) {
	s := Status{Running: true, NATS: NATSStatus{Connected: true}, Forwarders: []ForwarderStatus{
		{Name: "slack", Kind: "leads", Destination: "hooks.slack.com-1", Off: true}, {Name: "slack", Kind: "alerts", Destination: "hooks.slack.com-1", Off: true},
	}}
	if h := NewHeadline(s); h.Text != s.Summary() || s.Summary() != "slack is switched off, for leads and alerts" {
		t.Errorf("%+v; %s", h, s.Summary())
	}
}

func TestAForwarderThatGetsNothingFromNATSIsMindedByTheCheck(t *testing.T) {
	s := Status{Running: true, NATS: NATSStatus{Connected: true}, Forwarders: []ForwarderStatus{
		{Name: "slack", Kind: "leads", Destination: "hooks_slack_com-1", Problem: "consumer doorbell-slack-leads: permissions violation"},
	}}
	if s.Summary() != "slack leads gets nothing from NATS (hooks_slack_com-1)" {
		t.Errorf("the check says %q", s.Summary())
	}
}

func TestWhatDoesNotRunIsNotCalledWell(t *testing.T) {
	if lines := (Status{DataDir: "data"}).Lines(TextOptions{}); !strings.HasPrefix(lines[0], "doorbell is not running, so nothing is watched.") {
		t.Errorf("it begins with %q", lines[0])
	}
}
