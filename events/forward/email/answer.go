package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"doorbell/events/forward"
)

// step is where in the conversation something went wrong.
type step string

const (
	stepConnect   step = "connecting"
	stepTLS       step = "TLS"
	stepSession   step = "opening a session"
	stepAuth      step = "authentication"
	stepMail      step = "sender"
	stepRecipient step = "recipient"
	stepData      step = "DATA"
	stepContent   step = "content"
)

// steps are those that go-mail tells apart.
var steps = map[gomail.SendErrReason]step{
	gomail.ErrSMTPMailFrom: stepMail, gomail.ErrSMTPRcptTo: stepRecipient, gomail.ErrSMTPData: stepData,
	gomail.ErrWriteContent: stepContent, gomail.ErrSMTPDataClose: stepContent,
}

// failure is what may be shown of an error: the step, the codes of the response, our own words. It
// never has the text of the server, which quotes addresses, nor that of a library, which quotes the
// server.
type failure struct {
	step     step
	code     int    // of the answer; 0: there was none
	enhanced string // 5.1.1, as far as there is one
	words    string // instead of an answer
	setup    bool   // it stays the same until someone changes the setup
	whole    bool   // the content was sent to its end
	about    cause
}

// cause is what a refusal of the content is about, as far as its words say so.
type cause int

const (
	ofMail cause = iota
	ofAccount
	ofSize
)

// The words of servers that give no enhanced code, or the wrong one.
var (
	mailboxWords = regexp.MustCompile(`(?i)\bmailbox\W+(size|storage)\b`)
	sizeWords    = regexp.MustCompile(`(?i)too (large|big)|(message|mail|maximum|fixed).*\bsize\b`)
	accountWords = regexp.MustCompile(`(?i)quota|limit|exceed|too many|\brates?\b|relay|sender|authenticat|suspend|disabled|mailbox (is )?full|over ?quota|recipient|not allowed to send`)
)

func (f *failure) Error() string {
	if f.code == 0 {
		return string(f.step) + ": " + f.words
	}
	return strings.TrimRight(fmt.Sprintf("%s: the server answers %d %s", f.step, f.code, f.enhanced), " ")
}

var enhancedCode = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)

// failed keeps of an error what may be shown.
func failed(s step, err error) *failure {
	f := &failure{step: s}
	var sent *gomail.SendError
	var answer *textproto.Error
	said := ""
	switch {
	case errors.As(err, &sent): // its text is "reason: answer, affected …"; it has no other way to the server's words
		f.step, f.whole = cmp.Or(steps[sent.Reason], s), sent.Reason == gomail.ErrSMTPDataClose
		_, text, _ := strings.Cut(sent.Error(), ": ")
		text, _, _ = strings.Cut(text, ", affected ")
		f.code = sent.ErrorCode()
		_, said, _ = strings.Cut(text, " ")
		said = strings.Trim(said, `"`) // as net/textproto quotes what is odd
	case errors.As(err, &answer):
		f.code, said = answer.Code, answer.Msg
	}
	if f.code < 200 || f.code > 599 {
		f.code, f.words = 0, words(err)
		f.setup = f.words == forward.BadCertificate
		return f
	}
	f.enhanced = enhancedCode.FindString(said)
	switch {
	case f.ends(".2.1", ".2.2", ".4.5", ".1.1", ".1.7", ".1.8", ".3.1", ".3.2") || mailboxWords.MatchString(said):
		f.about = ofAccount // also a mailbox whose size is reached
	case f.ends(".3.4", ".2.3") || sizeWords.MatchString(said):
		f.about = ofSize
	case accountWords.MatchString(said):
		f.about = ofAccount
	}
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
	return forward.Unreachable(err)
}

// setupRetryDelay is the pause after a failure that only a change of the setup can mend: accounts
// are locked after too many tries.
const setupRetryDelay = 5 * time.Minute

// hints are what to look at after a permanent refusal at a step. That of the content is about the
// account here.
var hints = map[step]string{
	stepAuth:      ": user or password are wrong; no mail is sent until they are changed",
	stepMail:      ": sending from this address is not allowed; check sender, user and password",
	stepRecipient: ": the server does not accept the recipient; check the address",
	stepContent:   ": it is about the account, not the mail; ask the provider",
}

// outcomeOf returns what a failure means for the delivery.
func outcomeOf(ctx context.Context, f *failure) error {
	if f.code == 0 && ctx.Err() != nil {
		f.words = forward.Unreachable(ctx.Err())
	}
	permanent := 500 <= f.code && f.code <= 599
	switch {
	case f.code == 0 && f.whole:
		return &forward.Retry{Unanswered: true, Reason: f.Error() + "; whether the mail was taken is unknown"}
	case f.step == stepContent && permanent && f.about != ofAccount:
		return &forward.Refused{Reason: f.Error(), Certain: f.about == ofSize}
	case f.setup || permanent:
		return &forward.Retry{Receiver: true, After: setupRetryDelay, Reason: f.Error() + hints[f.step]}
	}
	return &forward.Retry{Receiver: f.step != stepContent || f.code == 0 || f.about == ofAccount, Reason: f.Error()}
}

// ends reports whether the enhanced code ends so.
func (f *failure) ends(codes ...string) bool {
	return slices.ContainsFunc(codes, func(c string) bool { return strings.HasSuffix(f.enhanced, c) })
}
