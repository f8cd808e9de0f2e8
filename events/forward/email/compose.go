package email

import (
	"bytes"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"html"
	"mime"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// draft is a mail before it is sent.
type draft struct {
	id      string // its Message-ID, without the host
	date    time.Time
	replyTo string // empty: no address
	subject string
	text    string
	html    string

	file               []byte // empty: nothing is attached
	fileName, fileType string
}

// compose makes the mail of a delivery.
func (o *Receiver) compose(d forward.Delivery, now time.Time) (m draft, err error) {
	p := page{message.Write(d.Events, d.Test, o.Message)}
	m = draft{
		id: messageID(d), date: now.In(o.Message.Location), subject: p.Subject, text: p.text(),
		replyTo: replyTo(d),
	}
	if o.OpenImmo && len(d.Events) == 1 { // leads are sent in no digest then
		m.file, m.fileName, m.fileType = feedbackOf(d.Events[0], d.Test, m.date),
			"openimmo_feedback.xml", "application/xml"
	}
	m.html, err = p.html()
	return m, err
}

// Letter is a mail that is about no event.
type Letter struct {
	// Key makes its Message-ID: the same letter that is sent again has the same.
	Key     string
	Subject string
	Text    string // in lines that are not to be broken
	// File is attached as FileName, if it is not empty.
	FileName, FileType string
	File               []byte
}

// compose makes the mail of a letter. Its columns need a font of a fixed width.
func (l Letter) compose(o message.Options) draft {
	if o.Instance != "" {
		l.Subject = "[" + o.Instance + "] " + l.Subject
	}
	return draft{
		id: hash("letter", l.Key), date: time.Now().In(o.Location), subject: l.Subject,
		text: l.Text, html: "<pre>" + html.EscapeString(l.Text) + "</pre>",
		file: l.File, fileName: l.FileName, fileType: l.FileType,
	}
}

// messageID is the same for the same delivery: the id of its event, or a hash over those of a
// digest. What is sent again on request is another mail: some mailboxes drop what they know.
func messageID(d forward.Delivery) string {
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
	return id
}

// hash is 128 bits of SHA-256 over length-prefixed parts, in characters that may stand in an id.
func hash(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		h.Write([]byte{byte(len(p) >> 24), byte(len(p) >> 16), byte(len(p) >> 8), byte(len(p))})
		h.Write([]byte(p))
	}
	return strings.ToLower(
		base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil)[:16]))
}

// replyTo is the person, where a mail tells of one and their address can be written to.
func replyTo(d forward.Delivery) string {
	var p struct{ Contact events.Contact }
	if len(d.Events) != 1 || d.Test || json.Unmarshal(d.Events[0].Data, &p) != nil {
		return ""
	}
	return message.Address(p.Contact.Email)
}

// mail is what is sent.
func (o *Receiver) mail(m draft) (*gomail.Msg, error) {
	g := gomail.NewMsg(gomail.WithNoDefaultUserAgent(), gomail.WithEncoding(gomail.EncodingQP))
	if err := g.From(o.from.String()); err != nil {
		return nil, err
	}
	if err := g.To(o.to.String()); err != nil {
		return nil, err
	}
	if m.replyTo != "" {
		if err := g.ReplyTo(m.replyTo); err != nil {
			return nil, err
		}
	}
	host := o.from.Address[strings.LastIndexByte(o.from.Address, '@')+1:]
	g.SetDateWithValue(m.date)
	g.SetMessageIDWithValue(m.id + "." + o.Name + "@" + host)
	g.SetGenHeader("Auto-Submitted", "auto-generated")
	g.SetGenHeader("X-Auto-Response-Suppress", "All") // Exchange does not know the line above
	g.SetGenHeaderPreformatted(gomail.HeaderSubject, subject(m.subject))
	g.SetBodyString(gomail.TypeTextPlain, m.text)
	g.AddAlternativeString(gomail.TypeTextHTML, m.html)
	if len(m.file) == 0 {
		return g, nil
	}
	return g, g.AttachReader(m.fileName, bytes.NewReader(m.file),
		gomail.WithFileContentType(gomail.ContentType(m.fileType)))
}

// subject is the value of the header, in encoded words (RFC 2047) where it is not ASCII, one a
// line. A text must hold nothing that looks like one: it would be decoded to unchecked characters.
// By itself, the library begins the value on a line of its own, which some readers show as a space.
func subject(s string) string {
	s = strings.ReplaceAll(message.Line(s, message.MaxSubject+32), "=?", "= ?")
	return strings.ReplaceAll(mime.QEncoding.Encode("utf-8", s), "?= =?", "?=\r\n =?")
}
