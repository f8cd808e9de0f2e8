package ops

import (
	"strings"
	"testing"
	"time"
)

func TestOfSeveralDestinationsTheOneThatFailsIsNamed(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	s := Status{Forwarders: []ForwarderStatus{
		{Name: "email", Kind: "leads", Destination: "mail-1", LastError: "no", LastErrorAt: at},
		{Name: "email", Kind: "leads", Destination: "mail-2", DeadLetters: 2},
		{Name: "webhook", Kind: "leads", Destination: "crm-1", LastError: "no", LastErrorAt: at},
	}}
	s.Watch.At = at
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	for _, want := range []string{"\nemail leads to mail-1: no, ", "\nemail leads to mail-2: 2 permanently rejected since the start; ", "\nwebhook leads to crm-1: no, "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
