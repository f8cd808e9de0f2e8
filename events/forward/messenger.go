package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"doorbell/events/forward/message"
)

// This file is the receiver for webhooks of chats. A chat service adds only its form of a message
// and its words for errors.

// Hook is the address of a webhook that posts into a chat.
type Hook struct {
	// URL is https, unless its host is loopback or in AllowPlaintext. It is a secret.
	URL            string
	AllowPlaintext []string
	// UserAgent names us to the other side; empty is "doorbell".
	UserAgent string
}

// Service is what is particular to a chat service.
type Service struct {
	Render func(Delivery) []byte // nil: a message of it would be too large for the service
	// Check refuses an address that cannot be one of the service. Its errors quote nothing of it
	// but the host.
	Check func(*url.URL) error
	// Word finds the service's own word for what went wrong in the body of a response, and Words
	// is what each of these is about. No other word is ever quoted.
	Word  func(body []byte) string
	Words map[string]About
	// Renew is what to do about a webhook that no longer works.
	Renew string
}

// About is what went wrong, by the word of a service. Without a word the status decides.
type About int

const (
	OfMessage About = iota + 1
	OfWebhook
	OfMoment
)

// Messenger is the receiver for one webhook of a chat: each delivery is one message. It is safe for
// concurrent use.
type Messenger struct {
	Poster
	service Service
	agent   string
}

// NewMessenger makes a receiver. No network call is made.
func NewMessenger(h Hook, s Service) (*Messenger, error) {
	poster, err := NewPoster(h.URL, h.AllowPlaintext)
	if err != nil {
		return nil, err
	}
	if strings.Contains(h.URL, "#") {
		return nil, errors.New("the address must not contain #")
	}
	if err := s.Check(poster.address); err != nil {
		return nil, err
	}
	if strings.Trim(poster.address.Path, "/") == "" {
		return nil, errors.New("the part of the address that names the webhook is missing; " +
			"copy all of it")
	}
	return &Messenger{poster, s, cmp.Or(h.UserAgent, "doorbell")}, nil
}

// Traits returns a pace of a message a second, which is what Slack asks for and far below what
// slows down a workflow of Teams, and a name that is a hash of the address.
func (m *Messenger) Traits() Traits {
	return Traits{Destination: m.Destination(), Pace: time.Second, Digest: message.MaxRows}
}

// Send posts the delivery as one message. A chat cannot tell that a message is sent twice.
func (m *Messenger) Send(ctx context.Context, d Delivery) error {
	body := m.service.Render(d)
	if body == nil { // the events of a digest are sent one by one
		return &Refused{Reason: "the message is too large for the chat", Certain: true}
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}, "User-Agent": {m.agent}}
	r, err := m.Post(ctx, http.MethodPost, header, body)
	if err != nil {
		return err
	}
	return m.outcome(r)
}

// outcome returns what a response means. The service's own word decides where there is one.
func (m *Messenger) outcome(r *Response) error {
	word := m.service.Word(r.Body)
	about, reason := m.service.Words[word], fmt.Sprintf("status %d", r.Status)
	if about != 0 {
		reason += ", " + word
	}
	switch {
	case about == OfWebhook, r.Status == http.StatusGone:
		reason += ": the webhook no longer works; " + m.service.Renew
		return &Retry{Receiver: true, Reason: reason}
	case about == OfMoment:
		return &Retry{After: r.RetryAfter(), Receiver: true, Reason: reason}
	case about == OfMessage && r.Status < 500 && r.Status != http.StatusTooManyRequests:
		return &Refused{Reason: reason, Certain: r.Status == http.StatusRequestEntityTooLarge}
	}
	return r.Outcome()
}
