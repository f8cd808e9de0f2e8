package slack

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"doorbell/events/forward"
)

// meaning is what Slack's word says about: this message, or the webhook.
type meaning int

const (
	ofMessage meaning = iota + 1
	ofWebhook
	ofMoment
)

// words are Slack's error words: the body of an answer is one of them and nothing else. Only these are ever repeated.
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors and, for what is wrong with
// blocks, what chat.postMessage documents.
var words = map[string]meaning{
	"invalid_payload":       ofMessage,
	"invalid_blocks":        ofMessage,
	"invalid_blocks_format": ofMessage,
	"invalid_attachments":   ofMessage,
	"msg_blocks_too_long":   ofMessage,
	"msg_too_long":          ofMessage,
	"no_text":               ofMessage,

	"missing_text_or_fallback_or_attachments": ofMessage,

	"too_many_attachments": ofMessage,

	"action_prohibited":                 ofWebhook,
	"channel_is_archived":               ofWebhook,
	"channel_not_found":                 ofWebhook,
	"invalid_token":                     ofWebhook,
	"no_active_hooks":                   ofWebhook,
	"no_service":                        ofWebhook,
	"no_service_id":                     ofWebhook,
	"no_team":                           ofWebhook,
	"posting_to_general_channel_denied": ofWebhook,
	"team_disabled":                     ofWebhook,
	"user_not_found":                    ofWebhook,

	"rate_limited": ofMoment,
	"ratelimited":  ofMoment,
	"rollup_error": ofMoment,
}

const (
	// maxBody is more than any word; of what is longer, a captive portal's page say, the rest is not read.
	maxBody = 4 << 10
	// longestWait bounds Retry-After, which could otherwise switch the outlet off for good.
	longestWait = time.Hour
)

// judge says what an answer means. Slack's word decides where there is one: what is wrong with the message concerns it alone,
// what is wrong with the webhook all messages. Without a word the answer is perhaps not Slack's at all but that of something
// in between, and only the statuses that mean the same from everybody are believed to be final.
func judge(response *http.Response, now time.Time) error {
	// A body that breaks off is no word; the status speaks for itself then.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody))
	word := strings.TrimSpace(string(body))
	status := response.StatusCode
	if status == http.StatusOK {
		if word == "ok" {
			return nil
		}
		if words[word] == 0 {
			return &forward.Later{Reason: "status 200, but the answer is not Slack's; is there a proxy or a log-in page in between?"}
		}
	}
	reason := fmt.Sprintf("status %d", status)
	if words[word] != 0 {
		reason += ", " + word
	}
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return &forward.Later{After: retryAfter(response.Header.Get("Retry-After"), now), Reason: reason}
	case words[word] == ofWebhook:
		return &forward.Off{Reason: reason + ": the webhook does not work any more; make a new one in Slack"}
	case status == http.StatusGone:
		return &forward.Off{Reason: reason + ": the webhook is gone; make a new one in Slack"}
	case words[word] == ofMessage, final(status):
		return &forward.Never{Reason: reason}
	case status >= 300 && status < 400:
		return &forward.Later{Reason: reason + ": a redirect, which is not followed"}
	}
	return &forward.Later{After: retryAfter(response.Header.Get("Retry-After"), now), Reason: reason}
}

// final are the statuses that speak about the message, whoever sends them.
func final(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnsupportedMediaType || status == http.StatusUnprocessableEntity
}

// retryAfter reads seconds or a date. Zero is one that cannot be read, or that has passed.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if !(seconds > 0) {
			return 0
		}
		if seconds > longestWait.Seconds() {
			return longestWait
		}
		return time.Duration(seconds * float64(time.Second))
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), longestWait)
}

// unreachable says why there is no answer, in words of ours: the error itself holds the address.
func unreachable(err error) string {
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var unknown x509.UnknownAuthorityError
	var timeout net.Error
	var op *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "stopped while sending"
	case errors.As(err, &op) && op.Op == "proxyconnect":
		return "the proxy of HTTPS_PROXY cannot be reached"
	case errors.As(err, &dns):
		return "the host is not found"
	case errors.As(err, &certificate), errors.As(err, &unknown):
		return "the host's certificate is not trusted"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "the connection is refused"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return "no answer in time"
	}
	return "the connection failed"
}
