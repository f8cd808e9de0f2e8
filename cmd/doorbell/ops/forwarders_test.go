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
	s.Watch.At = at
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	for _, want := range []string{"\nemail leads for A100: no, ", "\nemail leads for all but A100: 2 permanently rejected since the start; ", "\nwebhook leads for crm-1: no, "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
