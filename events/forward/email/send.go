package email

import (
	"context"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"doorbell/events/forward"
)

// sendLimit bounds a delivery where ctx does not.
const sendLimit = 5 * time.Minute

// Send sends a delivery. See the package for what the answers mean.
func (o *Receiver) Send(ctx context.Context, d forward.Delivery) error {
	if len(d.Events) == 0 {
		return &forward.Refused{Reason: "a delivery without an event", Certain: true}
	}
	return o.deliver(ctx, o.compose(d, time.Now()))
}

// deliver sends a mail.
func (o *Receiver) deliver(ctx context.Context, m draft) error {
	text, err := m.bytes()
	if err != nil {
		return &forward.Refused{Reason: "the mail cannot be written", Certain: true}
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	s, err := o.open(ctx)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	defer s.close()
	if err := transaction(s.client, o.from.Address, addresses(o.to), text); err != nil {
		return outcomeOf(ctx, err)
	}
	return nil
}

// transaction sends one mail.
func transaction(c *smtp.Client, from string, to []string, text []byte) error {
	if err := c.Mail("<" + from + ">"); err != nil {
		return failed(stepMail, err)
	}
	for _, address := range to {
		if err := c.Rcpt("<" + address + ">"); err != nil {
			return failed(stepRecipient, err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return failed(stepData, err)
	}
	if _, err := w.Write(text); err != nil {
		return failed(stepContent, err)
	}
	if err := w.Close(); err != nil {
		f := failed(stepContent, err)
		f.whole = true
		return f
	}
	return nil
}
