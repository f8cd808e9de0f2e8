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
	gomail.ErrSMTPMailFrom: stepMail, gomail.ErrSMTPRcptTo: stepRecipient,
	gomail.ErrSMTPData: stepData, gomail.ErrWriteContent: stepContent,
	gomail.ErrSMTPDataClose: stepContent,
}

// hints are what to look at after a permanent refusal at a step. That of the content is about the
// account here.
var hints = map[step]string{
	stepAuth:      ": user or password is wrong; no mail is sent until this is corrected",
	stepMail:      ": sending from this address is not allowed; check sender, user and password",
	stepRecipient: ": the server does not accept the recipient; check the address",
	stepContent:   ": it is about the account, not the mail; ask the provider",
}

// setupRetryDelay is the pause after a failure that only a change of the setup can mend: accounts
// are locked after too many tries.
const setupRetryDelay = 5 * time.Minute

// wrongSetup is a failure that stays the same until someone changes the setup.
func wrongSetup(at step, why string) error {
	return &forward.Retry{Receiver: true, After: setupRetryDelay, Reason: string(at) + ": " + why}
}

// outcome returns what an error means for the delivery. Its reason is the step, the codes of the
// answer, and our own words. It never has the text of the server, which quotes addresses, nor that
// of a library, which quotes the server.
func outcome(ctx context.Context, at step, err error) error {
	var sent *gomail.SendError
	var answer *textproto.Error
	code, words, whole := 0, "", false
	switch {
	// its text is "reason: answer, affected …"; it has no other way to the server's words
	case errors.As(err, &sent):
		at, whole = cmp.Or(steps[sent.Reason], at), sent.Reason == gomail.ErrSMTPDataClose
		_, text, _ := strings.Cut(sent.Error(), ": ")
		text, _, _ = strings.Cut(text, ", affected ")
		code = sent.ErrorCode()
		_, words, _ = strings.Cut(text, " ")
		words = strings.Trim(words, `"`) // as net/textproto quotes what is odd
	case errors.As(err, &answer):
		code, words = answer.Code, answer.Msg
	}
	if code < 200 || code > 599 {
		return noAnswer(ctx, at, err, whole)
	}
	enhanced := enhancedCode.FindString(words)
	about, permanent := aboutOf(enhanced, words), code >= 500
	reason := strings.TrimRight(fmt.Sprintf("the server answers %d %s", code, enhanced), " ")
	switch {
	case permanent && at == stepContent && about != ofAccount:
		return &forward.Refused{Reason: string(at) + ": " + reason, Certain: about == ofSize}
	case permanent:
		return wrongSetup(at, reason+hints[at])
	}
	return &forward.Retry{
		Receiver: at != stepContent || about == ofAccount,
		Reason:   string(at) + ": " + reason,
	}
}

// noAnswer is the outcome of an error that is no answer. Whole means that the content was sent to
// its end.
func noAnswer(ctx context.Context, at step, err error, whole bool) error {
	why := forward.Unreachable(cmp.Or(ctx.Err(), err))
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		why = "the server does not speak TLS here; is it the port for STARTTLS?"
	case errors.Is(err, errTooMuch):
		why = "the server does not stop responding"
	case why == forward.BadCertificate:
		return wrongSetup(at, why)
	}
	if whole {
		why += "; it is unknown whether the mail was accepted"
	}
	return &forward.Retry{Receiver: !whole, Unanswered: whole, Reason: string(at) + ": " + why}
}

// cause is what a refusal of the content is about.
type cause int

const (
	ofMail cause = iota
	ofAccount
	ofSize
)

var enhancedCode = regexp.MustCompile(`^[245]\.\d{1,3}\.\d{1,3}\b`)

// The words of servers that give no enhanced code, or the wrong one.
var (
	mailboxWords = regexp.MustCompile(`(?i)\bmailbox\W+(size|storage)\b`)
	sizeWords    = regexp.MustCompile(`(?i)too (large|big)|(message|mail|maximum|fixed).*\bsize\b`)
	accountWords = regexp.MustCompile(
		`(?i)quota|limit|exceed|too many|\brates?\b|relay|sender|authenticat|suspend|disabled|mailbox (is )?full|over ?quota|recipient|not allowed to send`)
)

// aboutOf reads the cause from the enhanced code and the words of an answer.
func aboutOf(enhanced, words string) cause {
	ends := func(codes ...string) bool {
		return slices.ContainsFunc(codes, func(c string) bool { return strings.HasSuffix(enhanced, c) })
	}
	switch {
	case ends(".2.1", ".2.2", ".4.5", ".1.1", ".1.7", ".1.8", ".3.1", ".3.2") ||
		mailboxWords.MatchString(words):
		return ofAccount // also a mailbox whose size is reached
	case ends(".3.4", ".2.3") || sizeWords.MatchString(words):
		return ofSize
	case accountWords.MatchString(words):
		return ofAccount
	}
	return ofMail
}
