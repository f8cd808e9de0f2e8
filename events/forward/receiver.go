package forward

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"doorbell/events"
)

// Delivery is what a receiver sends as one message.
type Delivery struct {
	// Events has at least one event. Several are a digest: they waited together, are of one kind
	// (leads or alerts), and are in the order of the stream.
	Events []events.Event
	// Test marks a made-up event, sent to see whether the receiver works. The message says so.
	Test bool
}

// Receiver is one address outside doorbell: a Slack channel, a mailbox, a webhook.
//
// Send is called for one delivery at a time. It renders and sends the message and waits for the
// response, at most as long as ctx allows. Nil means that the receiver has accepted the message. A
// *[Retry] or *[Refused] classifies the failure; any other error counts as a Retry. Errors contain
// no person's data and no secret, which a receiver's address may be.
//
// A delivery whose response is lost is sent again. Its id at the receiver (Message-ID, webhook-id)
// must therefore be the same each time.
type Receiver interface {
	Send(ctx context.Context, d Delivery) error
	// Traits returns the same value each time.
	Traits() Traits
}

// Traits are what the pipeline needs to know about a receiver.
type Traits struct {
	// Destination tells receivers apart and is no secret: a host and a short hash, for example. It
	// is part of a consumer's name: letters, digits, _ and - only.
	Destination string
	// Pace is the minimum time between two messages.
	Pace time.Duration
	// Digest is the maximum number of events in one message; below 2 there are no digests.
	// LeadsAlone means that there are none of leads, because a program reads them.
	Digest     int
	LeadsAlone bool
}

// Destination names a receiver by its host and a hash of its whole address. The hash is long enough
// that no two of thousands collide: the second receiver would get nothing, and the first the
// messages of both.
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

// Retry means that the receiver did not accept the delivery this time. It is tried again, after the
// pipeline's own back-off or After, whichever is longer.
type Retry struct {
	After  time.Duration
	Reason string // for log, status and dead letters; no person's data
	// Receiver means that the cause is the receiver, its account or the network, and not the
	// message. Such a failure never makes a dead letter, however often it occurs.
	Receiver bool
	// Unanswered means that the message was sent completely and no response came. The receiver may
	// have accepted it, so it is tried three times in all.
	Unanswered bool
}

func (e *Retry) Error() string { return fmt.Sprintf("not taken now: %s", e.Reason) }

// Refused means that the receiver rejects this delivery. It becomes a dead letter once the receiver
// has accepted another one and then refuses this one again.
type Refused struct {
	Reason string
	// Certain means that the message itself is the cause, for example because it is too large. No
	// comparison with another one is needed.
	Certain bool
}

func (e *Refused) Error() string { return fmt.Sprintf("refused: %s", e.Reason) }

// destination is a receiver with its pace, shared by all workers that send to it.
type destination struct {
	receiver Receiver
	traits   Traits

	sending chan struct{} // a semaphore of one
	next    time.Time     // when the next message may be sent; guarded by sending
}

func newDestination(r Receiver) *destination {
	return &destination{receiver: r, traits: r.Traits(), sending: make(chan struct{}, 1)}
}

// longestAfter bounds the Retry.After of a receiver.
const longestAfter = time.Hour

// turn waits until the pace of the receiver allows a delivery. That may take an hour, so the caller
// chooses only then what to send. It calls done afterwards.
func (d *destination) turn(ctx context.Context) (done func(), err error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case d.sending <- struct{}{}:
	}
	if !sleep(ctx, time.Until(d.next)) {
		<-d.sending
		return nil, ctx.Err()
	}
	return func() { <-d.sending }, nil
}

// send sends a delivery; the caller has the turn. Cutting off a send would leave open whether it
// was accepted. So it continues for drain after the end of ctx, and to its end if only the routes
// changed.
func (d *destination) send(ctx context.Context, delivery Delivery) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if !errors.Is(context.Cause(ctx), errChanged) {
			time.AfterFunc(drain, cancel)
		}
	})()
	err := send(limited, d.receiver, delivery)
	d.next = time.Now().Add(max(d.traits.Pace, after(err)))
	return err
}

// send hands a delivery to a receiver. If rendering it panics it is refused: it would panic again.
func send(ctx context.Context, r Receiver, d Delivery) (err error) {
	defer func() {
		if p := recover(); p != nil { // the value may quote a person
			err = &Refused{
				Reason:  fmt.Sprintf("it cannot be rendered: a bug in doorbell, %T", p),
				Certain: true,
			}
		}
	}()
	return r.Send(ctx, d)
}

// after returns the Retry.After of an error, bounded.
func after(err error) time.Duration {
	if retry, is := errors.AsType[*Retry](err); is {
		return min(retry.After, longestAfter)
	}
	return 0
}

// sleep returns false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return ctx.Err() == nil
	}
}

// pause returns our own back-off after N attempts: 1 s, 2 s … 5 min, give or take a fifth.
func pause(attempts int) time.Duration {
	const longest = 5 * time.Minute
	d := longest
	if attempts < 10 {
		d = min(longest, time.Second<<max(0, attempts-1))
	}
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}

// reason returns what may be quoted of an error. Of an error that is not ours it is only the type:
// the text may contain an address, which may be a secret.
func reason(err error) string {
	var retry *Retry
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		return plain(refused.Reason)
	case errors.As(err, &retry):
		return plain(retry.Reason)
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.Is(err, context.Canceled):
		return "cut short"
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return fmt.Sprintf("an error of type %T", err)
}

// plain makes a text fit for a header and a log line: printable ASCII, at most 300 characters.
func plain(s string) string {
	s = strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	return s[:min(len(s), 300)]
}

// TestAgency is the agency of a made-up event for no agency in particular.
const TestAgency = "TEST"

// SendTest sends a made-up event of an agency through a receiver, marked as a test: a contact
// request, or an alert. It tries once and returns the receiver's error.
func SendTest(ctx context.Context, o Receiver, agency string, alert bool) error {
	e, err := sample(agency, alert, time.Now())
	if err != nil {
		return err
	}
	return send(ctx, o, Delivery{Events: []events.Event{e}, Test: true})
}

// sample returns an event with an invented person, address and phone number.
func sample(agency string, alert bool, now time.Time) (events.Event, error) {
	common := events.Common{AgencyID: agency, ObservedAt: now, ObservedAfter: now.Add(-30 * time.Second)}
	var p events.Payload = &events.ContactRequestCreated{
		Common: common, PropertyReferenceID: "test#1##",
		ContactRequestID: fmt.Sprintf("test-%d", now.UnixNano()), Identity: events.IdentityID,
		CreatedAt: now.Add(-10 * time.Second), Score: json.RawMessage("72.5"),
		Contact: events.Contact{
			Salutation: "Frau", FirstName: "Nora", LastName: "Beispiel",
			Email: "nora.beispiel@example.org", Phone: "+41790000123", PhoneRaw: "079 000 01 23",
			Language: "de",
			Message:  "This is a test of doorbell. Nobody wrote this.\r\nGrüezi, <b>& so weiter</b>?",
		},
		Insertion: events.InsertionSummary{
			Title:      "Test insertion, does not exist",
			PostalCode: "8008", Locality: "Zürich",
		},
		Record: json.RawMessage(`{"test":true}`),
	}
	if alert {
		p = &events.AccessHalted{
			Common: common, Scope: events.ScopeAgency, Operation: "insertions", Status: 403,
			ProbableReason: "unknown", Evidence: events.Evidence{Body: "none"},
			Key:    events.KeyRef{Fingerprint: "sha256:00000000"},
			Advice: "This is a test of doorbell. Nothing was refused, and there is nothing to do.",
			Resume: "doorbell resume " + agency,
		}
	}
	e, err := events.New(p)
	return e.Stamp(1, now, "test"), err
}

// Replayed counts what SendReplayed has sent. Events that no route takes are not counted.
type Replayed struct {
	Events  int `json:"events"`  // that were accepted, each once for each receiver
	Refused int `json:"refused"` // by the receiver
}

// replayTries is how often a delivery of a replay is tried, which takes about ten minutes. A
// failing receiver needs the person who runs the replay, so for that receiverTries are enough.
const (
	replayTries   = 10
	receiverTries = 3
)

// SendReplayed sends past events to the receivers that the routes name for them, each as a message
// of its own, at the pace of the receivers, with origin replay. It remembers nothing and makes no
// dead letters: it counts what a receiver refuses. Before each attempt it calls erased, which
// reports whether the person was erased from the event since it was read, and then skips the event.
// It calls failed when a delivery is retried. The error is that of the list, of erased, of ctx, or
// of a receiver that keeps failing; what was sent until then is in the result.
func SendReplayed(ctx context.Context, routes []Route, list iter.Seq2[events.Event, error],
	erased func(events.Event) (bool, error), failed func(error),
) (sum Replayed, err error) {
	destinations := map[string]*destination{}
	for _, r := range routes {
		if destinations[r.key()] == nil {
			destinations[r.key()] = newDestination(r.Receiver)
		}
	}
	rules := tableOf(routes)
	for e, err := range list {
		if err != nil {
			return sum, err
		}
		for _, name := range rules.to(e) {
			err := resend(ctx, destinations[name], e, erased, failed)
			switch {
			case errors.Is(err, errErased):
			case err == nil:
				sum.Events++
			case errors.As(err, new(*Refused)):
				sum.Refused++
			default:
				return sum, err
			}
		}
	}
	return sum, ctx.Err()
}

var errErased = errors.New("the event was erased in the meantime")

// resend sends an event to one receiver, with retries, unless the event is erased meanwhile.
func resend(ctx context.Context, d *destination, e events.Event,
	erased func(events.Event) (bool, error), failed func(error),
) error {
	again := Delivery{Events: []events.Event{e.WithOrigin(events.OriginReplay)}}
	for n := 1; ; n++ {
		done, err := d.turn(ctx)
		if err != nil {
			return err
		}
		gone, err := erased(e)
		if gone {
			err = errErased
		}
		if err != nil {
			done()
			return err
		}
		err = d.send(ctx, again)
		done()
		switch {
		case err == nil, errors.As(err, new(*Refused)):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case n == replayTries, n >= receiverTries && ofReceiver(err):
			return fmt.Errorf("%s: %s", d.traits.Destination, reason(err))
		}
		failed(err)
		if !sleep(ctx, pause(n)) {
			return ctx.Err()
		}
	}
}
