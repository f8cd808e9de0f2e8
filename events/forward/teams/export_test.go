package teams

import (
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// Render is what a receiver would post.
func Render(full bool, d forward.Delivery) []byte {
	return render(message.Write(d.Events, d.Test, message.Options{
		Short: !full, Location: time.FixedZone("CET", 3600),
	}))
}
