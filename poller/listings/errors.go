package listings

import (
	"errors"
	"fmt"
	"net/http"
	"time"
)

// ErrBodyTooLarge is wrapped by the error for a body that is larger than Options.MaxBody, as it comes or unpacked.
var ErrBodyTooLarge = errors.New("body is larger than allowed")

// RequestError wraps what came of a request and has no type of its own: ErrReference, ErrBodyTooLarge, a key that cannot
// be sent, an error of Options.Before.
type RequestError struct {
	Request
	Err error
}

func (e *RequestError) Error() string { return e.Request.String() + ": " + e.Err.Error() }
func (e *RequestError) Unwrap() error { return e.Err }

// StatusError is an answer with a status that is not 2xx. Redirects are among them: none is followed.
type StatusError struct {
	Request
	Status     int
	RetryAfter time.Duration // as sent, however long; 0 if there was none
	Body       BodyKind
	Date       time.Time // the API's clock; zero if it did not say
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("%s: status %d", e.Request, e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Body == BodyChallenge {
		text += " (a bot challenge, not the API itself)"
	}
	return text
}

// BodyKind says what the body of an error answer looked like. The words are those of the contract.
type BodyKind string

// Kinds of bodies.
const (
	BodyNone      BodyKind = "none"
	BodyJSON      BodyKind = "json"
	BodyHTML      BodyKind = "html"
	BodyChallenge BodyKind = "challenge" // somebody in between wants proof that we are human
	BodyOther     BodyKind = "other"
)

// Stage says where a request broke.
const (
	StageDNS      = "dns"
	StageDial     = "dial"
	StageRefused  = "refused"
	StageTLS      = "tls"
	StageTimeout  = "timeout"
	StageRead     = "read" // headers or body
	StageCanceled = "canceled"
)

// TransportError is a request without a whole answer. Err is one of the well-known errors (context.Canceled, io.EOF, a
// system call's) or a text of ours: what net/http says may quote what it read.
type TransportError struct {
	Request
	Stage string
	Err   error
}

func (e *TransportError) Error() string { return fmt.Sprintf("%s: %s: %v", e.Request, e.Stage, e.Err) }
func (e *TransportError) Unwrap() error { return e.Err }

// DriftError is an answer with status 2xx that is not what the operation answers: no list, not to be read as JSON, or
// about something else. It is never taken for "none".
type DriftError struct {
	Request
	Expected string // paths and JSON types, never values
	Found    string
	Status   int
}

func (e *DriftError) Error() string {
	return fmt.Sprintf("%s: expected %s, found %s", e.Request, e.Expected, e.Found)
}
