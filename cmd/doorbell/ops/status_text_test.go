package ops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"doorbell/poller"
	"doorbell/store"
)

// large is a daemon with 200 agencies, of which a key-wide refusal has halted some and one holds a change.
func large() Status {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := Status{Version: "1", Started: now.Add(-time.Hour), StoreID: "x", Watch: poller.Status{At: now, BaseURL: "https://api.example.org"}}
	for n := range 200 {
		a := poller.AgencyStatus{AgencyID: fmt.Sprintf("A%03d", n), State: "watching", Insertions: 50, Freshness: &poller.Freshness{}}
		switch {
		case n%20 == 7:
			a.State = "halted"
			a.Halts = []poller.HaltStatus{{Scope: "agency", Since: now.Add(-time.Duration(n) * time.Minute), Status: 403, ProbableReason: "key_rejected", Advice: "Ask for the valid key. " + strings.Repeat("And wait. ", 20)}}
		case n == 150:
			a.State, a.Held = "held", &poller.HeldStatus{Reason: "empty_list", Missing: 50, Known: 50, Approve: "doorbell approve A150"}
		case n == 30:
			a.LastError = "walk A030: page 3: no answer"
		}
		s.Watch.Agencies = append(s.Watch.Agencies, a)
	}
	return s
}

func TestWhatWantsALookComesFirst(t *testing.T) {
	var order []string
	for _, a := range InOrder(large().Watch.Agencies)[:13] {
		order = append(order, a.AgencyID)
	}
	want := strings.Fields("A007 A027 A047 A067 A087 A107 A127 A147 A167 A187 A150 A000 A001")
	if !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

func TestARefusalOfManyAgenciesIsToldOnce(t *testing.T) {
	text := strings.Join(large().Lines(TextOptions{}), "\n")
	want := "10 agencies are halted: the API refuses the key, since 2026-11-21T06:23:00Z\n  A007, A027, A047, A067, A087 and 5 more\n  Ask for"
	if !strings.Contains(text, want) || strings.Count(text, "Ask for the valid key") != 1 {
		t.Errorf("no %q in\n%s", want, text)
	}
	if n := strings.Count(text, "\nA"); n != 200+1+2 { // a table with its head, two paragraphs that are not of many
		t.Errorf("%d lines begin with an agency", n)
	}
}

func TestAStatusShowsNoZeroThatIsNotKnownYet(t *testing.T) {
	s := large()
	for n := range s.Watch.Agencies {
		s.Watch.Agencies[n] = poller.AgencyStatus{AgencyID: s.Watch.Agencies[n].AgencyID, State: "starting", Freshness: &poller.Freshness{Insertions: 7, NeverPolled: 7}}
	}
	text := strings.Join(s.Lines(TextOptions{}), "\n")
	if !strings.Contains(text, "A000    first walk  –           none yet        –                  –  ") {
		t.Errorf("%s", text)
	}
	s.Watch.Agencies[7].Insertions, s.Watch.Agencies[8].LastCompleteWalk, s.Watch.Agencies[8].Freshness = 7, s.Watch.At, &poller.Freshness{CapSeconds: 90}
	if text := strings.Join(s.Lines(TextOptions{}), "\n"); !strings.Contains(text, "A007    first walk  7           none yet        0s ") || !strings.Contains(text, "A008    first walk  0           0s ago          – ") {
		t.Errorf("of what is known there is nothing:\n%s", text)
	}
}

func TestAStatusBeginsWithTheNameOfTheInstallation(t *testing.T) {
	s := large()
	s.Instance = "staging"
	if lines := s.Lines(TextOptions{}); !strings.HasPrefix(lines[0], "staging: Needs attention: ") {
		t.Errorf("the first line is %q", lines[0])
	}
}

func TestAStatusFitsWhateverTerminal(t *testing.T) {
	s := large()
	s.Forwarders = []ForwarderStatus{{Name: "slack", Destination: "hooks.slack.com-1", Attempts: 3, LastError: "gone"}}
	for _, width := range []int{200, 80, 40} {
		lines := s.Lines(TextOptions{Width: width})
		for _, l := range lines {
			if utf8.RuneCountInString(l) > width {
				t.Errorf("%d columns: %q is too long", width, l)
			}
		}
		if text := strings.Join(lines, "\n"); width >= 80 {
			for _, want := range []string{"10 agencies are halted", "A007    halted", "slack"} {
				if !strings.Contains(text, want) {
					t.Errorf("%d columns: no %q in\n%s", width, want, text)
				}
			}
		}
	}
}

func TestMembersThatAreLeftOutAreNamed(t *testing.T) {
	s := large()
	s.Watch.Agencies[3].Volatile = []store.Volatile{
		{Operation: "insertions", Path: "/picture"}, {Operation: "contact_requests", Path: "/relay"}, {Operation: "insertions", Path: "/views"},
	}
	const want = "\nA003: changes at each reading and is left out: /picture of insertions, /relay of contact requests, /views of insertions\n"
	if text := strings.Join(s.Lines(TextOptions{}), "\n"); strings.Count(text, "left out") != 1 || !strings.Contains(text, want) {
		t.Errorf("no %q in\n%s", want, text)
	}
}

func TestOnlyATerminalThatWantsThemGetsColours(t *testing.T) {
	s := large()
	if text := strings.Join(s.Lines(TextOptions{Width: 80}), "\n"); strings.Contains(text, "\x1b") {
		t.Error("colours where none are wanted")
	}
	if text := strings.Join(s.Lines(TextOptions{Width: 80, Color: true}), "\n"); !strings.Contains(text, Red+"A007") || !strings.Contains(text, Yellow+"A150") {
		t.Error("what is halted is not red, or what is held not yellow")
	}
}

func TestNothingInAStatusRewritesATerminal(t *testing.T) {
	s := large()
	s.Watch.Agencies[3].LastError = "odd \x1b[2J\u202eanswer"
	s.Forwarders = []ForwarderStatus{{Name: "x\x1b]0;y", Destination: "z\r", LastError: "\x1b[H"}}
	for _, o := range []TextOptions{{}, {Width: 80}, {Width: 80}} {
		if text := strings.Join(s.Lines(o), ""); strings.ContainsAny(text, "\x1b\r\u202e") {
			t.Errorf("%+v: it does: %q", o, text)
		}
	}
}

func TestTroubleIsWhatAPersonShouldLookAt(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	long, lately := now.Add(-61*time.Second), now.Add(-59*time.Second)
	agency := func(id string, since time.Time) poller.AgencyStatus {
		return poller.AgencyStatus{AgencyID: id, State: WaitingForStream, WatchStart: since}
	}
	for want, change := range map[string]func(*Status){
		"":                                       func(*Status) {},
		"NATS is not connected":                  func(s *Status) { s.NATS.Connected = false },
		"NATS does not take events":              func(s *Status) { s.NATS.Problem = "stream is missing" },
		"Events of A100 are not published":       func(s *Status) { s.Relay[0].OldestWaiting, s.Relay[1].OldestWaiting = long, lately },
		"Events of 2 agencies are not published": func(s *Status) { s.Relay[0].OldestWaiting, s.Relay[1].OldestWaiting = long, long },
		"B200 waits for the stream": func(s *Status) {
			s.Watch.Agencies = append(s.Watch.Agencies, agency("B200", long))
		},
		"NATS is not connected; B200 waits for the stream": func(s *Status) {
			s.NATS.Connected, s.Watch.Agencies = false, []poller.AgencyStatus{agency("B200", long)}
		},
	} {
		s := Status{
			NATS: NATSStatus{Connected: true}, Relay: []RelayStatus{{AgencyID: "A100"}, {AgencyID: "B200"}},
			Watch: poller.Status{At: now, Agencies: []poller.AgencyStatus{{AgencyID: "A100", State: "watching"}}},
		}
		change(&s)
		if got := s.Summary(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestALineThatIsTooWideIsBrokenBetweenWords(t *testing.T) {
	for _, tt := range []struct {
		line   string
		indent int
		width  int
		want   []string
	}{
		{"a line", 2, 0, []string{"a line"}},
		{"a line that fits", 2, 16, []string{"a line that fits"}},
		{"one two three", 2, 8, []string{"one two", "  three"}},
		{"  ok    one two", 8, 12, []string{"  ok    one", "        two"}},
		{"https://a.example/very/long next", 2, 10, []string{"https://a.example/very/long", "  next"}},
		{"a b c", 8, 3, []string{"a b", "        c"}},
		{"   ", 2, 2, []string{""}},
	} {
		if got := Fit(tt.line, tt.indent, tt.width); !slices.Equal(got, tt.want) {
			t.Errorf("%q at %d: %q, want %q", tt.line, tt.width, got, tt.want)
		}
	}
}

func TestARowIsOneLineWhateverACellHolds(t *testing.T) {
	rows := table{}
	rows.add(Bold, "HOST", "UP")
	rows.add(Red, "a\nb\tc\fd", "5m")
	if got := rows.lines(TextOptions{}); len(got) != 2 || got[1] != "a\uFFFDb\uFFFDc\uFFFDd  5m" {
		t.Errorf("%q", got)
	}
}
