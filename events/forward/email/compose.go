package email

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"mime"
	"net/mail"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// draft is a mail before it is sent.
type draft struct {
	id       string // without its brackets
	from     mail.Address
	to       mail.Address
	replyTo  *mail.Address
	page     page
	date     time.Time
	feedback []byte  // empty: there is none
	letter   *Letter // instead of page
}

// compose makes the mail of a delivery.
func (o *Receiver) compose(d forward.Delivery, now time.Time) draft {
	host := o.from.Address[strings.LastIndexByte(o.from.Address, '@')+1:]
	m := draft{
		id: messageID(d, o.Name) + "@" + host, from: o.from, to: o.to, date: now.In(o.Location),
		page: page{message.Write(d.Events, d.Test, message.Options{
			Language: o.Language, Name: o.AgencyName, Location: o.Location, Instance: o.Instance,
		})},
		replyTo: replyTo(d),
	}
	if o.OpenImmo && len(d.Events) == 1 { // leads are sent in no digest then
		m.feedback = feedbackOf(d.Events[0], d.Test, now.In(o.Location))
	}
	return m
}

// messageID is the same for the same delivery: the id of its event, or a hash over those of a
// digest. What is sent again on request is another mail: some mailboxes drop what they know.
func messageID(d forward.Delivery, forwarder string) string {
	var ids []string
	for _, e := range d.Events {
		ids = append(ids, e.ID)
	}
	id := ids[0]
	if len(ids) > 1 || !message.IsDomain(id) || len(id) > 63 {
		id = hash(append([]string{"delivery"}, ids...)...)
	}
	switch {
	case d.Test:
		id += ".test"
	case d.Events[0].Origin == events.OriginReplay:
		id += ".replay"
	}
	return id + "." + forwarder
}

// hash is 128 bits of SHA-256 over length-prefixed parts, in characters that may stand in an id.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:16]))
}

// replyTo is the person, where a mail tells of one and their address can be written to.
func replyTo(d forward.Delivery) *mail.Address {
	if len(d.Events) != 1 || d.Test {
		return nil
	}
	p, _ := d.Events[0].Payload()
	var c events.Contact
	switch p := p.(type) {
	case *events.ContactRequestCreated:
		c = p.Contact
	case *events.ContactRequestChanged:
		c = p.Contact
	}
	address := message.Address(c.Email)
	if address == "" {
		return nil
	}
	return &mail.Address{Address: address}
}

// mail is what is sent.
func (m draft) mail() (*gomail.Msg, error) {
	g := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithEncoding(gomail.EncodingQP))
	if err := g.From(m.from.String()); err != nil {
		return nil, err
	}
	if err := g.To(m.to.String()); err != nil {
		return nil, err
	}
	if m.replyTo != nil {
		if err := g.ReplyTo(m.replyTo.String()); err != nil {
			return nil, err
		}
	}
	g.SetDateWithValue(m.date)
	g.SetMessageIDWithValue(m.id)
	g.SetGenHeader("Auto-Submitted", "auto-generated")
	g.SetGenHeader("X-Auto-Response-Suppress", "All") // Exchange does not know the line above
	if m.letter != nil {
		return g, m.letter.write(g)
	}
	g.SetGenHeaderPreformatted(gomail.HeaderSubject, subject(m.page.Subject))
	html, err := m.page.html()
	if err != nil {
		return nil, err
	}
	g.SetBodyString(gomail.TypeTextPlain, m.page.text())
	g.AddAlternativeString(gomail.TypeTextHTML, html)
	if len(m.feedback) > 0 {
		err = g.AttachReader("openimmo_feedback.xml", bytes.NewReader(m.feedback), gomail.WithFileContentType("application/xml"))
	}
	return g, err
}

// subject is the value of the header, in encoded words (RFC 2047) where it is not ASCII, one a line.
// A text must hold nothing that looks like one: it would be decoded to unchecked characters. By
// itself, the library begins the value on a line of its own, which some readers show as a space.
func subject(s string) string {
	s = strings.ReplaceAll(message.Line(s, message.MaxSubject+32), "=?", "= ?")
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", s), "?= =?", "?=\r\n =?")
}
