package email

import (
	"bufio"
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// script is a server that says at each step what it was told to, and else what a good server says. It runs on one end of a
// pipe, in virtual time.
type script struct {
	says  map[string]string // by step: "" greeting, EHLO, MAIL, RCPT, DATA, "." after the content
	rcpt  map[string]string // by recipient
	mails []string          // contents that were taken
	for_  [][]string        // and for whom
}

const (
	cutOff  = "cut"     // the connection ends instead of an answer
	silence = "silence" // it stays open, and that is all
	endless = "endless" // an answer that goes on
)

func (s *script) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return ours, nil
}

func (s *script) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	if !s.say(c, "", "220 mail.agency.example") {
		return
	}
	var to []string
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return
		}
		verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " ")
		answer := "250 2.0.0 fine"
		switch verb {
		case "EHLO":
			answer = "250-mail.agency.example\r\n250 ENHANCEDSTATUSCODES"
		case "HELO":
			verb = "EHLO"
		case "MAIL":
			to = nil
		case "RCPT":
			address := strings.Trim(strings.TrimSpace(text)[len("RCPT TO:"):], "<>")
			if s.rcpt[address] != "" {
				answer = s.rcpt[address]
			}
			if s.says["RCPT"] == "" && strings.HasPrefix(answer, "2") {
				to = append(to, address)
			}
		case "DATA":
			answer = "354 go on"
		case "QUIT":
			answer = "221 bye"
		}
		if !s.say(c, verb, answer) {
			return
		}
		if verb == "DATA" && s.says["DATA"] == "" {
			content, ok := readContent(r)
			if !ok || !s.say(c, ".", "250 2.0.0 taken") {
				return
			}
			if s.says["."] == "" {
				s.mails, s.for_ = append(s.mails, content), append(s.for_, to)
			}
		}
	}
}

// say answers, and is false where the conversation is over.
func (s *script) say(c net.Conn, step, good string) bool {
	answer := good
	if other := s.says[step]; other != "" {
		answer = other
	}
	switch answer {
	case cutOff:
		return false
	case silence:
		_, _ = bufio.NewReader(c).ReadString(0) // until the other side gives up
		return false
	case endless:
		for {
			if _, err := c.Write([]byte("250-" + strings.Repeat("x", 1000) + "\r\n")); err != nil {
				return false
			}
		}
	}
	_, err := c.Write([]byte(answer + "\r\n"))
	return err == nil
}

func readContent(r *bufio.Reader) (string, bool) {
	var b strings.Builder
	for {
		text, err := r.ReadString('\n')
		if err != nil {
			return "", false
		}
		if text == ".\r\n" {
			return b.String(), true
		}
		b.WriteString(strings.TrimPrefix(text, "."))
	}
}

// receiver sends to the script, in plaintext, which is allowed for its host by name.
func (s *script) receiver(t testing.TB, change func(*Options)) *Receiver {
	return newReceiver(t, func(o *Options) {
		o.AllowPlaintext, o.Dial = []string{"MAIL.agency.example"}, s.dial
		if change != nil {
			change(o)
		}
	})
}

const (
	taken      = "taken"
	later      = "later"
	laterSetup = "later, after 5m0s"
	never      = "never"
)

// outcome names what Send answered.
func outcome(err error) string {
	var l *forward.Retry
	var n *forward.Permanent
	switch {
	case err == nil:
		return taken
	case errors.As(err, &l) && l.After > 0:
		return "later, after " + l.After.String()
	case errors.As(err, &l):
		return later
	case errors.As(err, &n):
		return never
	}
	return err.Error()
}

func delivery(t testing.TB) forward.Delivery {
	return forward.Delivery{Events: []events.Event{example(t, events.TypeContactRequestCreated)}}
}

func TestEveryAnswerHasItsMeaning(t *testing.T) {
	// What a server may say at any step, and what it means there: greeting, EHLO, MAIL, RCPT, DATA, after the content.
	steps := []string{"", "EHLO", "MAIL", "RCPT", "DATA", "."}
	table := []struct {
		says string
		want [6]string
	}{
		{"", [6]string{taken, taken, taken, taken, taken, taken}},
		{"421 4.3.2 going down", [6]string{later, later, later, later, later, later}},
		{"450 4.2.1 greylisted for office@agency.example", [6]string{later, later, later, later, later, later}},
		{"451 4.3.0 try again", [6]string{later, later, later, later, later, later}},
		{"452 4.2.2 mailbox full", [6]string{later, later, later, later, later, later}},
		{"454 4.7.0 not now", [6]string{later, later, later, later, later, later}},
		{"500 what", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"501 5.1.3 bad address", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"503 5.5.1 bad sequence", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"521 no mail here", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"530 5.7.0 authentication required", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"550 5.1.1 <office@agency.example> unknown", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"550 no enhanced code", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"550 5.7.1 relaying denied", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"552 5.2.2 mailbox full", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"552 5.3.4 too large", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"554 5.6.0 no", [6]string{laterSetup, laterSetup, laterSetup, never, never, never}},
		{"300 what now", [6]string{later, later, later, later, later, later}},
		{"this is no SMTP", [6]string{later, later, later, later, later, later}},
		{"99 neither", [6]string{later, later, later, later, later, later}},
		{cutOff, [6]string{later, later, later, later, later, later}},
		{silence, [6]string{later, later, later, later, later, later}},
		{endless, [6]string{later, later, later, later, later, later}},
	}
	for _, row := range table {
		for i, step := range steps {
			synctest.Test(t, func(t *testing.T) {
				s := &script{says: map[string]string{step: row.says}}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				begun := time.Now()
				err := s.receiver(t, nil).Send(ctx, delivery(t))
				if got := outcome(err); got != row.want[i] {
					t.Errorf("%q at %q: %s, want %s (%v)", row.says, step, got, row.want[i], err)
				}
				if took := time.Since(begun); took > 36*time.Second {
					t.Errorf("%q at %q: took %s, ctx allows 30s", row.says, step, took)
				}
				tellsNothing(t, err)
				if mails := len(s.mails); (mails == 1) != (err == nil) {
					t.Errorf("%q at %q: %d mails and %v", row.says, step, mails, err)
				}
			})
		}
	}
}

// tellsNothing fails where an error holds an address, a name, a password or what a server said.
func tellsNothing(t testing.TB, err error) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range []string{"@", "office", "zurich", "nora", "Nora", "Beispiel", "hunter2", "leads-user", "greylisted", "unknown>", "relaying denied", "no SMTP"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds %q: %v", secret, err)
		}
	}
}

func TestAfterTheContentTheReasonSaysThatItIsUnknown(t *testing.T) {
	for _, says := range []string{cutOff, silence} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := (&script{says: map[string]string{".": says}}).receiver(t, nil).Send(ctx, delivery(t))
			if err == nil || !strings.Contains(err.Error(), "unknown") {
				t.Errorf("%s: %v", says, err)
			}
		})
	}
}

func TestALostAnswerIsSentAgainUnderTheSameMessageID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{says: map[string]string{".": cutOff}}
		o := s.receiver(t, nil)
		if got := outcome(o.Send(t.Context(), delivery(t))); got != later {
			t.Fatal(got)
		}
		time.Sleep(time.Hour)
		s.says = nil
		if err := o.Send(t.Context(), delivery(t)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(s.mails[0], "Message-ID: <uiztpjutghje6ctysbx22p2x4w.email@agency.example>\r\n") {
			t.Errorf("another Message-ID:\n%.600s", s.mails[0])
		}
	})
}

func TestWithoutALimitASilentServerHoldsUsForFiveMinutesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		err := (&script{says: map[string]string{"MAIL": silence}}).receiver(t, nil).Send(t.Context(), delivery(t))
		if took := time.Since(begun); took > sendLimit+10*time.Second || outcome(err) != later {
			t.Errorf("%v after %s", err, took)
		}
	})
}

func TestACancelEndsASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		err := (&script{says: map[string]string{"RCPT": silence}}).receiver(t, nil).Send(ctx, delivery(t))
		if outcome(err) != later || !strings.Contains(err.Error(), "interrupted") {
			t.Error(err)
		}
	})
}

func TestWhoTookAMailDoesNotGetItTwice(t *testing.T) {
	const one, two = "office@agency.example", "zurich@agency.example"
	for _, row := range []struct {
		says, first, note string
		again             string
	}{
		{"450 4.2.1 later", later, "1 of 2 recipients have it", taken},
		{"550 5.1.1 unknown", never, "1 of 2 recipients have it", taken},
		{"550 5.7.1 denied", laterSetup, "1 of 2 recipients have it", taken},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{rcpt: map[string]string{two: row.says}}
			o := s.receiver(t, nil)
			err := o.Send(t.Context(), delivery(t))
			if outcome(err) != row.first || !strings.Contains(err.Error(), row.note) {
				t.Errorf("%s: %v", row.says, err)
			}
			tellsNothing(t, err)
			if len(s.for_) != 1 || len(s.for_[0]) != 1 || s.for_[0][0] != one {
				t.Errorf("%s: the other one must have it: %v", row.says, s.for_)
			}
			if got := outcome(o.Send(t.Context(), delivery(t))); got != row.first {
				t.Errorf("%s again: %s", row.says, got)
			}
			if len(s.for_) != 1 {
				t.Errorf("%s: sent twice: %v", row.says, s.for_)
			}
			s.rcpt = nil
			if got := outcome(o.Send(t.Context(), delivery(t))); got != row.again {
				t.Errorf("%s, then good: %s", row.says, got)
			}
			if len(s.for_) != 2 || s.for_[1][0] != two || len(s.for_[1]) != 1 {
				t.Errorf("%s: want the second alone: %v", row.says, s.for_)
			}
			if err := o.Send(t.Context(), delivery(t)); err != nil || len(s.for_) != 3 || len(s.for_[2]) != 2 {
				t.Errorf("what everybody has is sent again if somebody asks: %v, %v", err, s.for_)
			}
		})
	}
}

func TestADeadLetterIsSentToThoseAloneWhoDoNotHaveIt(t *testing.T) {
	const one, two = "office@agency.example", "zurich@agency.example"
	synctest.Test(t, func(t *testing.T) {
		s := &script{rcpt: map[string]string{two: "550 5.1.1 unknown"}}
		var refused *forward.Permanent
		if err := s.receiver(t, nil).Send(t.Context(), delivery(t)); !errors.As(err, &refused) || len(refused.Had) != 1 || strings.Contains(refused.Had[0], "office") {
			t.Fatalf("%+v", refused)
		}
		s.rcpt = nil
		d := delivery(t)
		d.Had = refused.Had
		if err := s.receiver(t, nil).Send(t.Context(), d); err != nil { // another process: it remembers nothing
			t.Fatal(err)
		}
		if len(s.for_) != 2 || !slices.Equal(s.for_[0], []string{one}) || !slices.Equal(s.for_[1], []string{two}) {
			t.Errorf("%v", s.for_)
		}
	})
}

func TestOfTwoRefusalsTheHopefulOneDecides(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{rcpt: map[string]string{"office@agency.example": "550 5.1.1 unknown", "zurich@agency.example": "450 4.2.1 later"}}
		if got := outcome(s.receiver(t, nil).Send(t.Context(), delivery(t))); got != later {
			t.Error(got)
		}
	})
}

func TestContentThatIsRefusedForSomeIsRememberedForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{rcpt: map[string]string{"zurich@agency.example": "450 4.2.1 later"}, says: map[string]string{".": "451 4.3.0 later"}}
		o := s.receiver(t, nil)
		if got := outcome(o.Send(t.Context(), delivery(t))); got != later {
			t.Error(got)
		}
		s.rcpt, s.says = nil, nil
		if err := o.Send(t.Context(), delivery(t)); err != nil || len(s.for_[0]) != 2 {
			t.Errorf("%v, %v", err, s.for_)
		}
	})
}

func TestTheMemoryOfWhoHasAMailIsBounded(t *testing.T) {
	var m memory
	for i := range 3 * maxRemembered {
		m.add(string(rune('a'+i%26))+strings.Repeat("x", i), []string{"one@agency.example"})
	}
	if len(m.have) != maxRemembered || len(m.order) != maxRemembered {
		t.Errorf("%d and %d remembered", len(m.have), len(m.order))
	}
}

func TestPlaintextIsRefusedUnlessTheHostIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		err := s.receiver(t, func(o *Options) { o.AllowPlaintext = []string{"other.agency.example"} }).Send(t.Context(), delivery(t))
		if outcome(err) != laterSetup || !strings.Contains(err.Error(), "STARTTLS; use smtps://, or name the host in DOORBELL_ALLOW_PLAINTEXT") || len(s.mails) != 0 {
			t.Errorf("%v, %d mails", err, len(s.mails))
		}
	})
}

func TestAPasswordIsNeverShownInPlaintext(t *testing.T) {
	for _, offer := range []string{"AUTH PLAIN LOGIN", "AUTH=PLAIN", "SIZE"} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{says: map[string]string{"EHLO": "250-mail.agency.example\r\n250 " + offer, "AUTH": "235 welcome"}}
			err := s.receiver(t, func(o *Options) {
				o.SMTP, o.Password = "smtp://leads-user@mail.agency.example", "hunter2"
			}).Send(t.Context(), delivery(t))
			if outcome(err) != laterSetup || len(s.mails) != 0 {
				t.Errorf("%s: %v, %d mails", offer, err, len(s.mails))
			}
			tellsNothing(t, err)
		})
	}
}

func TestOneMailboxThatTakesNothingHoldsUpTheOthersForAnHourAtMost(t *testing.T) {
	const one, two = "office@agency.example", "zurich@agency.example"
	for _, says := range []string{"452 4.2.2 mailbox full", "552 5.2.2 mailbox full", "550 5.7.1 denied", "450 4.2.1 later"} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{rcpt: map[string]string{two: says}}
			o := s.receiver(t, nil)
			next := delivery(t)
			next.Events[0].ID = "another"
			for begun := time.Now(); ; time.Sleep(5 * time.Minute) {
				err := o.Send(t.Context(), delivery(t))
				if outcome(err) == never {
					break
				}
				if time.Since(begun) > 65*time.Minute {
					t.Fatalf("%s: a mail that one of two has waits for ever: %v", says, err)
				}
			}
			err := o.Send(t.Context(), next)
			if outcome(err) != never || len(s.for_) != 2 || s.for_[1][0] != one {
				t.Errorf("%s: the next one: %v, %v", says, err, s.for_)
			}
			tellsNothing(t, err)
			s.rcpt = nil
			if err := o.Send(t.Context(), next); err != nil {
				t.Errorf("%s: %v", says, err)
			}
			s.rcpt = map[string]string{two: says}
			next.Events[0].ID = "a third"
			if got := outcome(o.Send(t.Context(), next)); got == never {
				t.Errorf("%s: who took a mail in between has an hour again: %s", says, got)
			}
		})
	}
}

func TestAServerThatTakesNothingForAnybodyIsWaitedForHoweverLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{says: map[string]string{"RCPT": "452 4.2.2 mailbox full"}}
		o := s.receiver(t, nil)
		for range 50 {
			if got := outcome(o.Send(t.Context(), delivery(t))); got != later {
				t.Fatal(got)
			}
			time.Sleep(5 * time.Minute)
		}
	})
}
