package listings

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"
)

// Failure is what went wrong with a request, in words without the insertion that was asked for, and by kind.
type Failure struct {
	Text   string
	Status int // 0: no answer
	down   bool
	wait   bool
}

// FailureOf describes an error of this package.
func FailureOf(err error) Failure {
	var status *StatusError
	var transport *TransportError
	var drift *DriftError
	var other *RequestError
	switch {
	case errors.As(err, &status):
		return failureOfStatus(status)
	case errors.As(err, &transport):
		down := transport.Stage != StageRead && transport.Stage != StageTimeout && transport.Stage != StageCanceled
		return Failure{Text: fmt.Sprintf("no answer (%s: %v)", transport.Stage, transport.Err), down: down}
	case errors.As(err, &drift):
		return Failure{Text: fmt.Sprintf("not the answer of this API: expected %s, found %s", drift.Expected, drift.Found), Status: drift.Status}
	case errors.As(err, &other):
		return Failure{Text: other.Err.Error()}
	}
	return Failure{Text: "failed"}
}

func failureOfStatus(e *StatusError) Failure {
	text := strings.TrimSpace(fmt.Sprintf("status %d %s", e.Status, http.StatusText(e.Status)))
	switch e.Body {
	case BodyChallenge:
		text += ", with a bot challenge"
	case BodyHTML:
		text += ", as HTML"
	}
	if e.RetryAfter > 0 {
		text += fmt.Sprintf(", to be asked again after %s", e.RetryAfter.Round(time.Second))
	}
	return Failure{Text: text, Status: e.Status, wait: e.RetryAfter > 0}
}

// Refused says whether access was refused.
func (f Failure) Refused() bool {
	return f.Status == http.StatusForbidden || f.Status == http.StatusUnauthorized
}

// Busy says whether the API asks for patience.
func (f Failure) Busy() bool {
	return f.Status == http.StatusTooManyRequests || f.Status == http.StatusServiceUnavailable && f.wait
}

// Down says whether nobody answers at the base URL.
func (f Failure) Down() bool { return f.down }

// createdForm names how creation times are written.
func createdForm(list []ContactRequest) string {
	form := ""
	for _, r := range list {
		f := r.object().createdForm()
		if form != "" && f != form {
			return "mixed"
		}
		form = f
	}
	return form
}

func (o object) createdForm() string {
	scopes := []object{o}
	for _, name := range wrapperNames {
		scopes = append(scopes, o.object(name))
	}
	form := "absent"
	for _, scope := range scopes {
		for v := range scope.all(creationNames...) {
			if v.isEmpty() {
				continue
			}
			if form = instantForm(v); form != "unreadable" {
				return form
			}
		}
	}
	return form
}

var hasOffset = regexp.MustCompile(`(?:[Zz]|[+-]\d\d(?::?\d\d)?)$`)

func instantForm(v value) string {
	if instant(v, time.UTC).IsZero() {
		return "unreadable"
	}
	digits, _ := v.scalar()
	digits = strings.TrimSpace(digits)
	if t := epoch(digits); !t.IsZero() {
		whole, _, _ := strings.Cut(digits, ".")
		if n, _ := natural(whole); n > 99_999_999_999 {
			return "milliseconds"
		}
		return "seconds"
	}
	if len(digits) > 10 && hasOffset.MatchString(digits[10:]) {
		return "rfc3339"
	}
	return "zoneless"
}
