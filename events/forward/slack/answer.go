package slack

import "doorbell/events/forward"

// words are Slack's error words: the body of a response is one of them and nothing else. Only these
// are ever quoted.
// https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks#handling_errors and,
// for what is wrong with blocks, what chat.postMessage documents.
var words = map[string]forward.About{
	"invalid_payload":       forward.OfMessage,
	"invalid_blocks":        forward.OfMessage,
	"invalid_blocks_format": forward.OfMessage,
	"invalid_attachments":   forward.OfMessage,
	"msg_blocks_too_long":   forward.OfMessage,
	"msg_too_long":          forward.OfMessage,
	"no_text":               forward.OfMessage,

	"missing_text_or_fallback_or_attachments": forward.OfMessage,

	"too_many_attachments": forward.OfMessage,

	"action_prohibited":                 forward.OfWebhook,
	"channel_is_archived":               forward.OfWebhook,
	"channel_not_found":                 forward.OfWebhook,
	"invalid_token":                     forward.OfWebhook,
	"no_active_hooks":                   forward.OfWebhook,
	"no_service":                        forward.OfWebhook,
	"no_service_id":                     forward.OfWebhook,
	"no_team":                           forward.OfWebhook,
	"posting_to_general_channel_denied": forward.OfWebhook,
	"team_disabled":                     forward.OfWebhook,
	"user_not_found":                    forward.OfWebhook,

	"rate_limited": forward.OfMoment,
	"ratelimited":  forward.OfMoment,
	"rollup_error": forward.OfMoment,
}
