package slack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
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

// maxBody is more than any word; of what is longer, a captive portal's page say, the rest is not read.
const maxBody = 4 << 10

// outcomeOf says what an answer means. Slack's word decides where there is one: what is wrong with the message concerns it alone,
// what is wrong with the webhook all messages. Without a word the answer is perhaps not Slack's at all but that of something
// in between, and only the statuses that mean the same from everybody are believed to be final.
func outcomeOf(response *http.Response, now time.Time) error {
	// A body that breaks off is no word; the status speaks for itself then.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody))
	word := strings.TrimSpace(string(body))
	status := response.StatusCode
	if status == http.StatusOK {
		if word == "ok" {
			return nil
		}
		if words[word] == 0 {
			return &forward.Retry{Reason: "status 200, but the answer is not Slack's; is there a proxy or a log-in page in between?"}
		}
	}
	reason := fmt.Sprintf("status %d", status)
	if words[word] != 0 {
		reason += ", " + word
	}
	switch {
	case status == http.StatusTooManyRequests || status >= 500:
		return &forward.Retry{After: forward.RetryAfter(response, now), Reason: reason}
	case words[word] == ofWebhook:
		return &forward.Gone{Reason: reason + ": the webhook does not work any more; make a new one in Slack"}
	case status == http.StatusGone:
		return &forward.Gone{Reason: reason + ": the webhook is gone; make a new one in Slack"}
	case words[word] == ofMessage, final(status):
		return &forward.Permanent{Reason: reason}
	case status >= 300 && status < 400:
		return &forward.Retry{Reason: reason + ": a redirect, which is not followed"}
	}
	return &forward.Retry{After: forward.RetryAfter(response, now), Reason: reason}
}

// final are the statuses that speak about the message, whoever sends them.
func final(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnsupportedMediaType || status == http.StatusUnprocessableEntity
}
