package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"strings"
	"time"

	"doorbell/events/forward"
)

// step is where in the conversation something went wrong.
type step string

const (
	stepConnect   step = "connecting"
	stepTLS       step = "TLS"
	stepGreeting  step = "greeting"
	stepHello     step = "EHLO"
	stepAuth      step = "authentication"
	stepMail      step = "sender"
	stepRecipient step = "recipient"
	stepData      step = "DATA"
	stepContent   step = "content"
)

// failure is what may be shown of an error: the step, the codes of the answer, words of ours. Never what the server said,
// which quotes addresses, nor what a library says, which quotes the server.
type failure struct {
	step     step
	code     int    // of the answer; 0: there was none
	enhanced string // 5.1.1, as far as there is one
	words    string // instead of an answer
	setup    bool   // it will be the same until somebody changes something
}

func (f *failure) Error() string {
	if f.code == 0 {
		return string(f.step) + ": " + f.words
	}
	return strings.TrimRight(fmt.Sprintf("%s: the server answers %d %s", f.step, f.code, f.enhanced), " ")
}

// closing is the answer of a server that ends the session, at any step.
const closing = 421

var enhancedCode = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)

// failed keeps of an error what may be shown.
func failed(s step, err error) *failure {
	var answer *textproto.Error
	if errors.As(err, &answer) && 200 <= answer.Code && answer.Code <= 599 {
		return &failure{step: s, code: answer.Code, enhanced: enhancedCode.FindString(answer.Msg)}
	}
	f := &failure{step: s, words: words(err)}
	f.setup = f.words == forward.BadCertificate
	return f
}

// words describe an error that is no answer.
func words(err error) string {
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		return "the server does not speak TLS here; is it the port for STARTTLS?"
	case errors.Is(err, errTooMuch):
		return "the server does not stop answering"
	}
	return cmp.Or(forward.Unreachable(err), "the server does not follow the protocol")
}

// setupRetryDelay is how long a wrong setup is left alone: somebody has to change it, and accounts are locked after too many tries.
const setupRetryDelay = 5 * time.Minute

// outcomeOf says what a failure means for the delivery.
func outcomeOf(ctx context.Context, err error) error {
	var f *failure
	if !errors.As(err, &f) {
		return &forward.Retry{Reason: "sending failed"}
	}
	if f.code == 0 && ctx.Err() != nil {
		f.words = "no answer in time"
		if errors.Is(ctx.Err(), context.Canceled) {
			f.words = "interrupted"
		}
	}
	if f.code == 0 && f.step == stepContent {
		f.words += "; whether the mail was taken is unknown"
	}
	switch {
	case f.permanent() && f.aboutUs():
		return &forward.Retry{After: setupRetryDelay, Reason: f.Error() + f.hint()}
	case f.permanent():
		return &forward.Permanent{Reason: f.Error()}
	case f.setup:
		return &forward.Retry{After: setupRetryDelay, Reason: f.Error()}
	}
	return &forward.Retry{Reason: f.Error()}
}

func (f *failure) permanent() bool { return 500 <= f.code && f.code <= 599 }

// aboutUs is true where another mail would be refused as well, now, and this one would be taken once something is changed: by
// us (password, sender), by the provider (who may send what), or in the mailbox (it is full).
func (f *failure) aboutUs() bool {
	switch f.step {
	case stepRecipient, stepData:
		return f.code == 530 || f.subject("7") || f.mailboxFull()
	case stepContent:
		return f.mailboxFull()
	}
	return true
}

// subject compares the middle of an enhanced code: 7 is security or policy.
func (f *failure) subject(want string) bool {
	_, rest, _ := strings.Cut(f.enhanced, ".")
	got, _, _ := strings.Cut(rest, ".")
	return got == want
}

func (f *failure) mailboxFull() bool { return strings.HasSuffix(f.enhanced, ".2.2") }

// hint says what to look at.
func (f *failure) hint() string {
	switch {
	case f.code == 530:
		return ": it requires a user and a password"
	case f.step == stepAuth:
		return ": user or password are wrong; no mail is sent until they are changed"
	case f.step == stepMail:
		return ": sending from this address is not allowed; check sender and user"
	case f.mailboxFull():
		return ": a mailbox is full"
	case f.subject("7"):
		return ": the server refuses to send to a recipient; check user and password, or ask the provider"
	}
	return ""
}
