package slack

import (
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// Render is what a receiver would post.
func Render(full bool, d forward.Delivery) []byte {
	o := message.Options{Short: !full, Full: "DOORBELL_SLACK_PEOPLE=full", Location: time.FixedZone("CET", 3600), Operators: true}
	return render(message.Write(d.Events, d.Test, o))
}
