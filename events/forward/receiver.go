package forward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"doorbell/events"
)

// Delivery is what a receiver sends as one message.
type Delivery struct {
	// Events has at least one event. More than one is a digest: they waited together, are of one kind (all contact requests
	// and insertions, or all alerts), and stand in the order of the stream.
	Events []events.Event
	// Test marks a made-up event, which a person sends to see whether the receiver works. The message says so.
	Test bool
	// Had is what a *Permanent said of those who have it already, where a dead letter is sent again.
	Had []string
}

// Receiver is a place outside that takes messages: a Slack channel, recipients of mail, a webhook.
//
// Send is called for one delivery at a time. It renders, sends, and waits for the answer, at most as long as ctx allows. Nil
// means that the receiver has taken the message. A *[Retry], *[Permanent] or *[Gone] says what the answer means; any other error is
// as good as a Retry without a time. Errors hold no person's data and no secret, which a receiver's address may be.
//
// Whether a message was taken is unknown where the answer is lost: then it is sent once more. What the receiver can tell it by
// (Message-ID, webhook-id) must therefore be the same for the same delivery.
type Receiver interface {
	Send(ctx context.Context, d Delivery) error
	// Traits do not change.
	Traits() Traits
}

// Traits are what the pipeline has to know of a receiver.
type Traits struct {
	// Destination tells receivers apart, without being a secret: a host and a short hash, say. It is part of a consumer's name:
	// letters, digits, _ and - only.
	Destination string
	// Pace is the least time between two messages.
	Pace time.Duration
	// Digest is how many events one message can hold; below 2 there are no digests. One delivery may be larger where there are
	// digests: access.halted of many agencies with one key and reason comes as one, however many there are.
	Digest int
}

// Destination names a receiver: its host, and a hash of what makes it another one than others there. The hash is long enough that no two of
// thousands share it: the second would get nothing, and the first the people of both.
func Destination(host, identity string) string {
	host = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(host))
	sum := sha256.Sum256([]byte(identity))
	return host[:min(len(host), 40)] + "-" + hex.EncodeToString(sum[:8])
}

// Retry: try again, not before After if that is longer than the pipeline's own back-off.
type Retry struct {
	After  time.Duration
	Reason string // for log, status and dead letters; no person's data
}

func (e *Retry) Error() string { return fmt.Sprintf("not taken now: %s", e.Reason) }

// Permanent: this delivery can never be taken, others may.
type Permanent struct {
	Reason string
	// Partly: some of those whom the receiver serves have it. A digest is not sent to them once more in pieces.
	Partly bool
	// Had tells by names that show nobody who has it. It stands in the dead letter, and comes back in Delivery.Had.
	Had []string
}

func (e *Permanent) Error() string { return fmt.Sprintf("refused: %s", e.Reason) }

// Gone: the receiver is gone or no longer wanted; nothing more is sent to it until the configuration changes.
type Gone struct{ Reason string }

func (e *Gone) Error() string { return fmt.Sprintf("switched off: %s", e.Reason) }
