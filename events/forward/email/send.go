package email

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"doorbell/events/forward"
)

// sendLimit bounds a delivery where ctx does not.
const sendLimit = 5 * time.Minute

// Send sends a delivery to those recipients that do not have it yet. See the package for what the answers mean.
func (o *Receiver) Send(ctx context.Context, d forward.Delivery) error {
	if len(d.Events) == 0 {
		return &forward.Permanent{Reason: "a delivery without an event"}
	}
	m := o.compose(d, time.Now())
	text, err := m.bytes()
	if err != nil {
		return &forward.Permanent{Reason: "the mail cannot be written"}
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	o.taken.add(m.id, o.named(d.Had))
	missing := o.taken.missing(m.id, addresses(o.to))
	if len(missing) == 0 {
		return nil
	}
	s, err := o.open(ctx)
	if err != nil {
		return outcomeOf(ctx, err)
	}
	defer s.close()
	took, refused := transaction(s.client, o.from.Address, missing, text)
	o.taken.add(m.id, took)
	return o.settle(ctx, m.id, refused)
}

// nameOf is an address in a dead letter, which names nobody.
func nameOf(address string) string {
	sum := sha256.Sum256([]byte(address))
	return hex.EncodeToString(sum[:8])
}

// had are the names of those who have a mail.
func (o *Receiver) had(id string) (names []string) {
	missing := o.taken.missing(id, addresses(o.to))
	for _, a := range addresses(o.to) {
		if !slices.Contains(missing, a) {
			names = append(names, nameOf(a))
		}
	}
	return names
}

// named are the recipients with these names.
func (o *Receiver) named(names []string) []string {
	return slices.DeleteFunc(addresses(o.to), func(a string) bool { return !slices.Contains(names, nameOf(a)) })
}

// refusal is why a recipient does not get a mail; without an address, why nobody does.
type refusal struct {
	to  string
	err error
}

// transaction sends one mail to whom the server takes it for. It returns who that is, and why others are not.
func transaction(c *smtp.Client, from string, to []string, text []byte) (took []string, refused []refusal) {
	if err := c.Mail("<" + from + ">"); err != nil {
		return nil, []refusal{{err: failed(stepMail, err)}}
	}
	for _, address := range to {
		err := c.Rcpt("<" + address + ">")
		if err == nil {
			took = append(took, address)
			continue
		}
		f := failed(stepRecipient, err)
		refused = append(refused, refusal{to: address, err: f})
		if f.code == 0 || f.code == closing { // nothing more can be said here
			return nil, []refusal{{err: f}}
		}
	}
	if len(took) == 0 {
		return nil, refused
	}
	if err := content(c, text); err != nil {
		return nil, []refusal{{err: err}}
	}
	return took, refused
}

func content(c *smtp.Client, text []byte) error {
	w, err := c.Data()
	if err != nil {
		return failed(stepData, err)
	}
	if _, err := w.Write(text); err != nil {
		return failed(stepContent, err)
	}
	if err := w.Close(); err != nil {
		return failed(stepContent, err)
	}
	return nil
}

// settle says what is to be done about recipients that were refused. Those who may take it later decide: it is tried
// again, for them and for those who permanently rejected it. But what others have does not wait for ever for a mailbox that is full.
func (o *Receiver) settle(ctx context.Context, id string, refused []refusal) error {
	if len(refused) == 0 {
		o.taken.forget(id)
		return nil
	}
	have := len(o.to) - len(o.taken.missing(id, addresses(o.to)))
	var worst error
	for _, r := range refused {
		v := outcomeOf(ctx, r.err)
		if retry, is := v.(*forward.Retry); is && have > 0 && r.to != "" && o.taken.refusing(r.to, time.Now()) >= refusingLong {
			v = &forward.Permanent{Reason: retry.Reason + ", for more than an hour"}
		}
		if _, later := v.(*forward.Retry); later || worst == nil {
			worst = v
		}
	}
	if have == 0 {
		return worst
	}
	note := fmt.Sprintf(" (%d of %d recipients have it)", have, len(o.to))
	switch v := worst.(type) {
	case *forward.Retry:
		return &forward.Retry{After: v.After, Reason: v.Reason + note}
	case *forward.Permanent:
		return &forward.Permanent{Reason: v.Reason + note, Partly: true, Had: o.had(id)}
	}
	return worst
}
