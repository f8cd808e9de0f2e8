package email

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/mail"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	gomail "github.com/wneessen/go-mail"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// draft is a mail before it is sent.
type draft struct {
	id       string // without its brackets
	thread   string // likewise; empty where there is none
	from     mail.Address
	to       mail.Address
	replyTo  *mail.Address
	page     page
	date     time.Time
	feedback [][]byte
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
	if t := thread(d); t != "" {
		m.thread = t + "@" + host
	}
	if o.OpenImmo {
		m.feedback = feedbacks(d, now, o.Location)
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
	if o := d.Events[0].Origin; o != events.OriginLive && o != "" && !strings.ContainsFunc(string(o), notPlain) {
		id += "." + message.Cut(string(o), maxName)
	}
	if d.Test {
		id += ".test"
	}
	return id + "." + forwarder
}

// thread is a name for what a delivery is about, if that is one thing: an insertion, or the watch
// over an agency. It tells nothing of it.
func thread(d forward.Delivery) string {
	name := ""
	for i, e := range d.Events {
		n := hash("insertion", e.AgencyID, e.Reference)
		if message.IsAlert(e.Type) {
			n = hash("watch", e.AgencyID)
		}
		if i > 0 && n != name {
			return ""
		}
		name = n
	}
	return name + ".thread"
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
	return &mail.Address{Name: plainName(strings.TrimSpace(c.FirstName + " " + c.LastName)), Address: address}
}

// plainName is a name if it looks like one, else nothing: a name that looks like an address would
// hide the real one.
func plainName(name string) string {
	name = message.Line(name, 64)
	for _, r := range name {
		if !unicode.IsLetter(r) && !unicode.IsMark(r) && !strings.ContainsRune(" -'’", r) {
			return ""
		}
	}
	return name
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
	if m.thread != "" {
		g.SetGenHeader(gomail.HeaderReferences, "<"+m.thread+">")
		g.SetGenHeader(gomail.HeaderInReplyTo, "<"+m.thread+">")
	}
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
	for _, xml := range m.feedback {
		if err := g.AttachReader("openimmo_feedback.xml", bytes.NewReader(xml), gomail.WithFileContentType("application/xml")); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// maxPlain is the longest subject that stands on one line as it is.
const maxPlain = 66

// subject is the value of the header. Everything but short plain text is written in encoded words,
// one a line; so is what looks like one, which would be decoded to unchecked characters.
// It is done here because the library begins the value on a line of its own, which some readers show
// as a space.
func subject(s string) string {
	s = message.Line(s, message.MaxSubject+32)
	if len(s) <= maxPlain && !strings.Contains(s, "=?") && !strings.ContainsFunc(s, func(r rune) bool { return r > '~' }) {
		return s
	}
	var words []string
	word := ""
	for _, r := range s {
		next := encoded(string(r))
		if len(word)+len(next) > maxPlain-len("=?utf-8?q??=") {
			words, word = append(words, word), ""
		}
		word += next
	}
	return "=?utf-8?q?" + strings.Join(append(words, word), "?=\r\n =?utf-8?q?") + "?="
}

// encoded is text as Q-encoding has it.
func encoded(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		switch {
		case c == ' ':
			b.WriteByte('_')
		case c < utf8.RuneSelf && !notPlain(rune(c)) && c != '_', c == '.', c == ',', c == ':':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "=%02X", c)
		}
	}
	return b.String()
}
