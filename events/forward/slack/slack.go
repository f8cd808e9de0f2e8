package slack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"doorbell/events/forward"
)

// People says how much of a person a message shows.
type People string

const (
	// Short shows first name and initial.
	Short People = "short"
	// Full shows the whole name, e-mail address and phone number, and links to write and to call.
	Full People = "full"
)

// Options are what an outlet is made of.
type Options struct {
	// URL is the address of the incoming webhook: https, unless its host is loopback or in AllowPlaintext. It is a secret.
	URL string
	// People is how much of a person is shown; empty is Short.
	People People
	// AllowPlaintext are host names that may be spoken to without TLS.
	AllowPlaintext []string
	// Zone is the time zone of times that Slack does not write in the reader's own; nil is UTC.
	Zone *time.Location
	// UserAgent names us to the other side; empty is "doorbell".
	UserAgent string
}

const (
	// pace is what Slack asks for: one message a second for each webhook.
	pace = time.Second
	// digest is how many events are listed in one message. Each of them gets its line, whatever they hold.
	digest = 20
	// patience is how long an answer may take, where the caller has more.
	patience = 30 * time.Second
)

// Outlet posts to one incoming webhook. It is safe for concurrent use.
type Outlet struct {
	address string
	agent   string
	client  *http.Client
	look    look
	traits  forward.Traits
}

// New makes an outlet and asks nothing of the network. The error is an address that is no webhook's, or an unknown People; it
// names the host at most.
func New(o Options) (*Outlet, error) {
	address, err := parseAddress(o.URL, o.AllowPlaintext)
	if err != nil {
		return nil, fmt.Errorf("slack: %w", err)
	}
	l := look{zone: time.UTC}
	switch o.People {
	case Short, "":
	case Full:
		l.full = true
	default:
		return nil, fmt.Errorf("slack: people are shown %q or %q, nothing else", Short, Full)
	}
	if o.Zone != nil {
		l.zone = o.Zone
	}
	agent := o.UserAgent
	if agent == "" {
		agent = "doorbell"
	}
	return &Outlet{
		address: address.String(), agent: agent, client: newClient(), look: l,
		traits: forward.Traits{Destination: destination(address), Pace: pace, Digest: digest},
	}, nil
}

// destination tells webhooks apart without telling them.
func destination(address *url.URL) string {
	sum := sha256.Sum256([]byte(address.String()))
	return "slack-" + hex.EncodeToString(sum[:6])
}

// Traits: a message a second, lists of at most 20, and a name that is a hash of the address.
func (o *Outlet) Traits() forward.Traits { return o.traits }

// Send posts the delivery as one message. Besides what [forward.Outlet] says: an event of a type that this version cannot show
// is a Never where it stands alone, and a line in a list. Slack cannot tell a message that is sent twice.
func (o *Outlet) Send(ctx context.Context, d forward.Delivery) error {
	body, err := o.look.render(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.address, bytes.NewReader(body))
	if err != nil {
		return &forward.Never{Reason: "the request cannot be made"} // the address was parsed before: does not happen
	}
	request.Header.Set("Content-Type", "application/json; charset=utf-8")
	request.Header.Set("User-Agent", o.agent)
	response, err := o.client.Do(request)
	if err != nil {
		return &forward.Later{Reason: unreachable(err)}
	}
	defer response.Body.Close()
	return judge(response, time.Now())
}
