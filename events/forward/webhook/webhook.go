// Package webhook is the receiver that posts each event to an address, signed as Standard Webhooks
// specifies (https://www.standardwebhooks.com).
//
// The body is the event's payload as it is, byte for byte, and the ce-* headers are those of the
// event: CloudEvents in HTTP binary mode. webhook-id is the ce-id, so a receiver can recognise a
// delivery that is repeated. The header doorbell-test marks a test that a person sent.
//
// A service that needs a format of its own gets it from a [Template]: a JSON document whose strings
// are Go templates over the event. A leaf is rendered to text and then encoded, so that nothing
// that a stranger wrote can change the document or its headers.
package webhook

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// Headers that are ours.
const (
	headerID        = "webhook-id"
	headerTimestamp = "webhook-timestamp"
	headerSignature = "webhook-signature"
	headerTest      = "doorbell-test"
)

const (
	// pace keeps a replay from flooding a receiver that responds fast.
	pace = 20 * time.Millisecond
	// templatePace is what chats and CRMs allow.
	templatePace = time.Second
)

// ErrSecret is that of New for other secrets; it quotes nothing.
var ErrSecret = errors.New("the secret of the webhook is not valid; write whsec_ and 24 to 64 bytes in base64, or two of them with a space between")

// Options configure New. URL is required.
type Options struct {
	// URL is where events are posted: https, unless the host is this machine or one of
	// AllowPlaintext. It is a secret.
	URL string
	// Secrets are one or two secrets, "whsec_" and base64, with a space between: both sign while
	// one replaces the other. Without one nothing is signed.
	Secrets string
	// Template is what is sent; nil: the event's payload.
	Template       *Template
	AllowPlaintext []string // lower-case host names
	Version        string   // of this program, for User-Agent
}

// Receiver posts events. It may be used by one goroutine at a time.
type Receiver struct {
	forward.Poster
	o    Options
	keys [][]byte
}

// New checks the options and sends nothing.
func New(o Options) (*Receiver, error) {
	poster, err := forward.NewPoster(o.URL, o.AllowPlaintext)
	if err != nil {
		return nil, fmt.Errorf("webhook: %w", err)
	}
	keys, err := parseSecrets(o.Secrets)
	if err != nil {
		return nil, err
	}
	return &Receiver{o: o, Poster: poster, keys: keys}, nil
}

// Traits implements forward.Receiver. There are no digests: a program reads what we send.
func (w *Receiver) Traits() forward.Traits {
	t := forward.Traits{Destination: w.Destination(), Pace: pace, Digest: 1}
	if w.o.Template != nil {
		t.Pace = templatePace
	}
	return t
}

// Send implements forward.Receiver.
func (w *Receiver) Send(ctx context.Context, d forward.Delivery) error {
	if len(d.Events) != 1 {
		return &forward.Refused{Certain: true, Reason: "a webhook accepts one event at a time"}
	}
	e, method, body := d.Events[0], http.MethodPost, []byte(d.Events[0].Data)
	header, done := cloudEvent(e), []int(nil)
	if t := w.o.Template; t != nil {
		var err error
		if header, body, err = t.request(e, d.Test); err != nil {
			return err
		}
		method, done = t.method, t.done
	}
	w.complete(header, e.ID, body, d.Test)
	r, err := w.Post(ctx, method, header, body)
	if err != nil {
		return err
	}
	if slices.Contains(done, r.Status) {
		return nil
	}
	r.Header.Set("Retry-After", cmp.Or(r.Header.Get("Retry-After"), retryOfTelegram(r.Body)))
	return r.Outcome()
}

// cloudEvent is the header of an event whose payload is the body.
func cloudEvent(e events.Event) http.Header {
	h := http.Header{}
	for name, values := range e.Header() {
		if strings.HasPrefix(name, "ce-") {
			h.Set(name, values[0])
		}
	}
	// in HTTP this one attribute is no ce- header
	h.Set("Content-Type", h.Get("ce-datacontenttype"))
	h.Del("ce-datacontenttype")
	return h
}

// complete adds what all requests have, and signs the body.
func (w *Receiver) complete(h http.Header, id string, body []byte, test bool) {
	h.Set("User-Agent", strings.TrimRight("doorbell/"+w.o.Version, "/"))
	if test {
		h.Set(headerTest, "true")
	}
	timestamp := strconv.FormatInt(time.Now().Unix(), 10)
	h.Set(headerID, id)
	h.Set(headerTimestamp, timestamp)
	if len(w.keys) > 0 {
		h.Set(headerSignature, sign(w.keys, id, timestamp, body))
	}
}

// retryOfTelegram finds the time to wait that Telegram writes into the body; empty: there is none.
func retryOfTelegram(body []byte) string {
	var answer struct {
		Parameters struct {
			RetryAfter json.Number `json:"retry_after"`
		} `json:"parameters"`
	}
	_ = json.Unmarshal(body, &answer)
	return answer.Parameters.RetryAfter.String()
}
