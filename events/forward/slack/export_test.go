package slack

import (
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// People is how much of a person is shown.
type People string

const (
	Short People = "short"
	Full  People = "full"
)

// Render is what a receiver would post.
func Render(p People, d forward.Delivery) ([]byte, error) {
	o := message.Options{Short: p == Short, Full: "DOORBELL_SLACK_PEOPLE=full", Location: time.FixedZone("CET", 3600), Operators: true}
	return render(message.Write(d.Events, d.Test, o))
}
