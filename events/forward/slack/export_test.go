package slack

import (
	"time"

	"doorbell/events/forward"
)

// Render is what an outlet would post.
func Render(p People, d forward.Delivery) ([]byte, error) {
	return look{full: p == Full, zone: time.FixedZone("CET", 3600)}.render(d)
}
