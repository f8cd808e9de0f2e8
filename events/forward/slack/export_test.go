package slack

import (
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// Render is what a receiver would post.
func Render(full bool, d forward.Delivery) []byte {
	o := message.Options{Short: !full, Location: time.FixedZone("CET", 3600)}
	return render(message.Write(d.Events, d.Test, o))
}
