package email

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// script is a server that says at each step what it was told to, and else what a good server says. It runs on one end of a
// pipe, in virtual time.
type script struct {
	says  map[string]string // by step: "" greeting, EHLO, MAIL, RCPT, DATA, content (cut only), "." after it
	mails []string          // contents that were taken
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
		case "DATA":
			answer = "354 go on"
		case "QUIT":
			answer = "221 bye"
		}
		if !s.say(c, verb, answer) {
			return
		}
		if verb == "DATA" && s.says["DATA"] == "" {
			if s.says["content"] == cutOff {
				return
			}
			content, ok := readContent(r)
			if !ok || !s.say(c, ".", "250 2.0.0 taken") {
				return
			}
			if s.says["."] == "" {
				s.mails = append(s.mails, content)
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
	var n *forward.Refused
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
	return forward.Delivery{Events: []events.Event{forwardtest.Example(t, events.TypeContactRequestCreated)}}
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
		{"500 what", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"501 5.1.3 bad address", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"503 5.5.1 bad sequence", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"521 no mail here", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"530 5.7.0 authentication required", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"550 5.1.1 <office@agency.example> unknown", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"550 5.4.5 daily user sending limit exceeded", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"554 quota of this account", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"550 no enhanced code", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"550 5.7.1 relaying denied", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"552 5.2.2 mailbox full", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"552 5.2.2 mailbox size limit exceeded", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"552 maximum mailbox size reached", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, laterSetup}},
		{"554 5.7.1 against our corporate rules", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"552 5.3.4 too large", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
		{"554 5.6.0 no", [6]string{laterSetup, laterSetup, laterSetup, laterSetup, laterSetup, never}},
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

func TestAConnectionThatBreaksIsSaid(t *testing.T) {
	for _, step := range []string{"", "EHLO", "MAIL", "RCPT", "DATA", "content", "."} {
		for says, want := range map[string]string{cutOff: "the connection broke", endless: "the server does not stop answering", "this is no SMTP": "does not follow the protocol"} {
			if step == "content" && says != cutOff {
				continue
			}
			synctest.Test(t, func(t *testing.T) {
				err := (&script{says: map[string]string{step: says}}).receiver(t, nil).Send(t.Context(), delivery(t))
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s at %q: %v", says, step, err)
				}
			})
		}
	}
}

func TestACancelEndsASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		err := (&script{says: map[string]string{"RCPT": silence}}).receiver(t, nil).Send(ctx, delivery(t))
		if took := time.Since(begun); outcome(err) != later || !strings.Contains(err.Error(), "interrupted") || took > 2*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
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
