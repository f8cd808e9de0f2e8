// Package slack is the receiver for Slack's incoming webhooks: it lays out the texts of package message,
// posts them, and classifies the response. Package forward decides when to send, how often to try and
// what to remember.
//
// One contact request is a card: who, about which property, what they wrote, facts, and links. With [Short] the name is cut to first name
// and initial, and no address or number is shown, nor what looks like one in the message. Several that waited together are one message,
// a list by property. Alerts have a coloured bar, what it means, what to do and what to type.
//
// Texts of strangers stand in plain_text, in which nothing is markup. Only links that package message has made, and commands without a
// character that means anything to Slack, are mrkdwn. Nobody is pinged, nothing is unfurled, and no message is larger than Slack takes.
// Links are no buttons: a click on a button is also sent to the app that posted it, and an incoming webhook has none that answers, so
// that Slack marks the button as failed.
//
// Whoever knows the webhook's address can post to the channel. It is in no error, no log and no Traits; an error names the host at
// most, and of an answer only words that Slack documents.
package slack

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// People says how much of a person a message shows.
type People string

const (
	// Short shows first name and initial.
	Short People = "short"
	// Full shows the whole name, e-mail address and phone number, and links to write and to call.
	Full People = "full"
)

// Options are what a receiver is made of.
type Options struct {
	// URL is the address of the incoming webhook: https, unless its host is loopback or in AllowPlaintext. It is a secret.
	URL string
	// People is how much of a person is shown; empty is Short.
	People People
	// AllowPlaintext are host names that may be spoken to without TLS.
	AllowPlaintext []string
	// Zone is the time zone of all times; nil is UTC.
	Zone *time.Location
	// Language is that of an agency's leads, AgencyName what it is called; nil: English, its id.
	Language   func(agency string) message.Language
	AgencyName func(agency string) string
	// UserAgent names us to the other side; empty is "doorbell".
	UserAgent string
}

const (
	// pace is what Slack asks for: one message a second for each webhook.
	pace = time.Second
	// digest is how many events are listed in one message. Each of them gets its line, whatever they hold.
	digest = 20
	// timeout is how long an answer may take, where the caller gives more.
	timeout = 30 * time.Second
)

// Receiver posts to one incoming webhook. It is safe for concurrent use.
type Receiver struct {
	forward.Poster
	agent  string
	reader message.Options
	traits forward.Traits
}

// New makes a receiver and asks nothing of the network. The error is an address that is no webhook's, or an unknown People; it
// names the host at most.
func New(o Options) (*Receiver, error) {
	poster, err := forward.NewPoster(o.URL, o.AllowPlaintext)
	if err == nil {
		err = checkPath(o.URL)
	}
	if err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	if o.People != Short && o.People != Full && o.People != "" {
		return nil, fmt.Errorf("slack: people are shown %q or %q, nothing else", Short, Full)
	}
	agent := o.UserAgent
	if agent == "" {
		agent = "doorbell"
	}
	return &Receiver{
		Poster: poster, agent: agent,
		reader: message.Options{Language: o.Language, Name: o.AgencyName, Location: o.Zone, Short: o.People != Full, Operators: true},
		traits: forward.Traits{Destination: poster.Destination(), Pace: pace, Digest: digest},
	}, nil
}

// Traits: a message a second, lists of at most 20, and a name that is a hash of the address.
func (o *Receiver) Traits() forward.Traits { return o.traits }

// Send posts the delivery as one message. Slack cannot tell a message that is sent twice.
func (o *Receiver) Send(ctx context.Context, d forward.Delivery) error {
	if len(d.Events) == 0 {
		return &forward.Refused{Reason: "a delivery without an event", Certain: true}
	}
	body, err := render(message.Write(d.Events, d.Test, o.reader), message.IsAlert(d.Events[0].Type))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	response, err := o.Post(ctx, http.Header{"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {o.agent}}, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return outcomeOf(response, time.Now())
}
