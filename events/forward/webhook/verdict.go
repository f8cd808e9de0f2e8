package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"doorbell/events/forward"
)

// longestWait bounds Retry-After: a receiver that asks for a year is asked again tomorrow.
const longestWait = 24 * time.Hour

// verdict says what an answer means. Nothing of its body is looked at, let alone quoted.
//
// A redirect is not followed, for the person's data would go where nobody has configured it. It says something about the
// address and nothing about the event: with a corrected address, or when whoever is in between has gone, the event is taken.
// So it is tried again, as far as the pipeline's patience goes.
func verdict(status int, retryAfter string, now time.Time) error {
	reason := "the webhook answers " + strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		reason += " " + text
	}
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 300 && status < 400:
		return &forward.Later{Reason: reason + ", a redirect, which is not followed; set the address that it leads to"}
	case status == http.StatusGone:
		return &forward.Off{Reason: reason + ": it is no longer wanted there"}
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status >= 500:
		return &forward.Later{After: wait(retryAfter, now), Reason: reason}
	case status >= 400:
		return &forward.Never{Reason: reason}
	}
	return &forward.Later{Reason: fmt.Sprintf("the webhook answers with status %d, which is none", status)}
}

// wait reads Retry-After: seconds, or a moment. What is past or cannot be read is 0.
func wait(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header != "" && strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 64)
		if err != nil || seconds > int64(longestWait/time.Second) {
			return longestWait
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(0, at.Sub(now)), longestWait)
}

// trouble says in our words why there was no answer: errors of the network quote addresses.
func trouble(err error) string {
	var (
		certificate *tls.CertificateVerificationError
		name        *net.DNSError
		network     net.Error
		op          *net.OpError
	)
	switch {
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy of HTTPS_PROXY cannot be reached"
	case errors.As(err, &certificate):
		return "the certificate of the webhook is not good for its host"
	case errors.As(err, &name):
		return "the host of the webhook is not found"
	case errors.Is(err, context.Canceled):
		return "stopped before the webhook answered"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "the webhook does not answer in time"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nobody listens at the webhook's address"
	}
	return "the connection to the webhook failed"
}
