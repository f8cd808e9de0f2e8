// Package slack is the receiver for Slack's incoming webhooks: it lays out the messages of package
// message as Slack's blocks, and knows Slack's words for errors. Package forward posts, decides
// when to send, how often to try and what to remember.
//
// Texts of strangers are in plain_text, in which nothing is markup. Only links that package message
// has made, and commands without characters that Slack interprets, are mrkdwn. No one is pinged,
// nothing is unfurled, and no message is larger than Slack accepts. Links are not buttons: Slack
// also sends a click on a button to the app that posted it, and as an incoming webhook has no app
// that responds, Slack marks the button as failed.
//
// Whoever knows the webhook's address can post to the channel. It is in no error, no log and no
// Traits; an error names the host at most, and of a response only words that Slack documents.
package slack

import (
	"fmt"
	"strings"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// New makes a receiver, without a network call. It fails if the address is not that of a webhook;
// the error names the host at most.
func New(h forward.Hook, o message.Options) (*forward.Messenger, error) {
	m, err := forward.NewMessenger(h, forward.Service{
		Words: words, Renew: "create a new one in Slack",
		Word:   func(body []byte) string { return strings.TrimSpace(string(body)) },
		Render: func(d forward.Delivery) []byte { return render(message.Write(d.Events, d.Test, o)) },
		Check:  checkAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	return m, nil
}
