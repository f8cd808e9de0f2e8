package ops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"doorbell/events/forward"
	"doorbell/poller"
	"doorbell/store"
)

// large is a daemon with 200 agencies, of which a key-wide refusal has halted some and one holds a
// change. Texts from outside would rewrite a terminal.
func large() Status {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := Status{
		Version: "1", Instance: "staging", Started: now.Add(-time.Hour), StoreID: "x",
		Watch: poller.Status{
			At: now, BaseURL: "https://api.example.org", RequestsPerSecond: 5, Effective: 2.5, LastMinute: 17, Requests: 812,
		},
	}
	for n := range 200 {
		a := poller.AgencyStatus{AgencyID: fmt.Sprintf("A%03d", n), State: "watching", Insertions: 50, Freshness: &poller.Freshness{}}
		switch {
		case n%20 == 7:
			a.State = "halted"
			a.Halts = []poller.HaltStatus{{
				Scope: "agency", Since: now.Add(-time.Duration(n) * time.Minute), Status: 403, ProbableReason: "key_rejected",
				Advice: "Ask for the valid key. " + strings.Repeat("And wait. ", 20),
			}}
		case n == 150:
			a.State, a.Held = "held", &poller.HeldStatus{Reason: "empty_list", Missing: 50, Known: 50, Approve: "doorbell approve A150"}
		case n == 3:
			a.LastError = "odd \x1b[2J\u202eanswer"
			a.LastWalk = poller.WalkStatus{At: now.Add(-2 * time.Minute), Reason: "fewer_than_total", Pages: 203, Insertions: 9999}
			a.Volatile = []store.Volatile{{Operation: "insertions", Path: "/picture"}, {Operation: "contact_requests", Path: "/relay"}}
		case n == 4:
			a.Freshness = &poller.Freshness{
				Insertions: 8, OldestSeconds: 28.2, Latency: poller.Latency{ContactRequests: 20, MedianSeconds: 15},
			}
		case n == 5: // its first walk is under way
			a.State, a.Insertions, a.Freshness = "starting", 0, &poller.Freshness{Insertions: 7, NeverPolled: 7, OldestSeconds: 6}
		}
		s.Watch.Agencies = append(s.Watch.Agencies, a)
	}
	s.Forwarders = []forward.WorkerStatus{
		{Forwarder: "slack", Destination: "hooks-1", Attempts: 3, LastError: "gone \x1b[H", Waiting: 12},
		{Forwarder: "x\x1b]0;y", Destination: "z\r", Whose: "A100", Waiting: 1, Lost: 1},
	}
	return s
}

func TestTheStatusReportsTheStateOfEverything(t *testing.T) {
	text := large().Render(TextOptions{})
	for _, want := range []string{
		"staging: Needs attention: 5 problems.\n",
		"\n10 agencies are halted: the API refuses the key, since 2026-11-21T06:23:00Z\n" +
			"  A007, A027, A047, A067, A087 and 5 more\n  Ask for",
		"\nA003: the last walk was not complete: fewer than total\n",
		"\nA003: changes at each reading and is left out: /picture of the list of insertions\n",
		"812 requests (17 in the last minute), at most 5 (2.5 now, throttled by the API) a second, " +
			"to https://api.example.org\n",
		"\nA004    watching     50          none yet        28 s               15 s           0\n",
		"\nA005    first walk   –           none yet        –                  –              0\n",
		"\nslack: a message is waiting (hooks-1)\n  Last error: gone \uFFFD[H\n" +
			"  12 events waiting. doorbell retries by itself; 3 attempts so far.\n" +
			"  → doorbell forward slack --test\n",
		"  → doorbell routes ls\n", // of the worker whose lead no route takes
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if n := strings.Count(text, "Ask for the valid key"); n != 1 {
		t.Errorf("the advice is given %d times", n)
	}
	if strings.ContainsAny(text, "\x1b\r\u202e") {
		t.Errorf("it rewrites a terminal: %q", text)
	}
	var order []string
	for _, a := range large().Agencies()[:13] {
		order = append(order, a.ID)
	}
	want := strings.Fields("A007 A027 A047 A067 A087 A107 A127 A147 A167 A187 A150 A005 A000")
	if !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestAStatusFitsTheTerminalAndHasColoursThere(t *testing.T) {
	s := large()
	s.Watch.Agencies[9].Alarms = []poller.Alarm{{Kind: "gap_detected"}} // it is watched all the same
	for _, width := range []int{200, 80, 40} {
		for line := range strings.Lines(s.Render(TextOptions{Width: width})) {
			if line = strings.TrimSpace(line); utf8.RuneCountInString(line) > width {
				t.Errorf("%d columns: %q is too long", width, line)
			}
		}
	}
	text := s.Render(TextOptions{Width: 80, Color: true})
	for _, want := range []string{Red + "A007", Yellow + "A150", Yellow + "A009    "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestALineThatIsTooWideIsBrokenBetweenWords(t *testing.T) {
	for _, tt := range []struct {
		line          string
		indent, width int
		want          string
	}{
		{"a line", 2, 0, "a line"},
		{"a line that fits", 2, 16, "a line that fits"},
		{"one two three", 2, 8, "one two\n  three"},
		{"  ok    one two", 8, 12, "  ok    one\n        two"},
		{"https://a.example/very/long next", 2, 10, "https://a.example/very/long\n  next"},
	} {
		if got := (TextOptions{Width: tt.width}).Wrap(tt.line, tt.indent); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.line, tt.width, got, tt.want)
		}
	}
}

func TestASharedStatusIsReadOnceASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		status := Shared(func() (Status, error) { read++; return Status{}, nil })
		for range 3 {
			for range 100 {
				if _, err := status(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		if read != 3 {
			t.Errorf("it was read %d times in 3 seconds", read)
		}
	})
}
