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

// outcomeOf is what an answer means. Slack's word decides where there is one: what is wrong with the
// message concerns it alone, what is wrong with the webhook all messages. Any other 2xx is a yes:
// others speak Slack's language too, and say it in their own words.
func outcomeOf(response *http.Response, now time.Time) error {
	// A body that breaks off is no word; the status speaks for itself then.
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxBody))
	word := strings.TrimSpace(string(body))
	status, about := response.StatusCode, words[word]
	if status >= 200 && status < 300 && about == 0 {
		return nil
	}
	reason := fmt.Sprintf("status %d", status)
	if about != 0 {
		reason += ", " + word
	}
	switch {
	case about == ofWebhook, status == http.StatusGone:
		return &forward.Retry{Receiver: true, Reason: reason + ": the webhook does not work any more; make a new one in Slack"}
	case about == ofMessage && status < 500 && status != http.StatusTooManyRequests, final(status):
		return &forward.Refused{Reason: reason, Certain: status == http.StatusRequestEntityTooLarge}
	case status >= 300 && status < 400:
		reason += ": a redirect, which is not followed"
	}
	return &forward.Retry{After: forward.RetryAfter(response, now), Receiver: about == ofMoment || forward.OfReceiver(status), Reason: reason}
}

// final are the statuses that speak about the message, whoever sends them.
func final(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusRequestEntityTooLarge ||
		status == http.StatusUnsupportedMediaType || status == http.StatusUnprocessableEntity
}
