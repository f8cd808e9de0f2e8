package slack

import (
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// Render is what a receiver would post.
func Render(p People, d forward.Delivery) ([]byte, error) {
	o := message.Options{Short: p == Short, Location: time.FixedZone("CET", 3600), Operators: true}
	return render(message.Write(d.Events, d.Test, o), message.IsAlert(d.Events[0].Type))
}
