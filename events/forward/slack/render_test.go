package slack_test

import (
	"flag"
	"testing"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/slack"
)

var chat = forwardtest.Chat{
	New: func(url string) (*forward.Messenger, error) {
		return slack.New(forward.Hook{URL: url}, message.Options{})
	},
	Path: secretPath, Render: slack.Render, Check: checkMessage,
}

var update = flag.Bool("update", false, "write the payloads in testdata again")

func TestEveryKindOfMessageLooksAsItIsPinned(t *testing.T) { chat.Pinned(t, *update) }
