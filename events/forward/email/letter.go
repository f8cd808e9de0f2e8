package email

import (
	"bytes"
	"context"
	"html"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
)

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

// SendLetter sends a letter. The error is like that of [Receiver.Send], and quotes nothing of it.
func (o *Receiver) SendLetter(ctx context.Context, l Letter) error {
	host := o.from.Address[strings.LastIndexByte(o.from.Address, '@')+1:]
	if o.Instance != "" {
		l.Subject = "[" + o.Instance + "] " + l.Subject
	}
	return o.send(ctx, draft{
		id: hash("letter", l.Key) + "." + o.Name + "@" + host, from: o.from, to: o.to, date: time.Now().In(o.Location), letter: &l,
	})
}

// write completes a mail that has its headers.
func (l *Letter) write(g *gomail.Msg) error {
	g.SetGenHeaderPreformatted(gomail.HeaderSubject, subject(l.Subject))
	g.SetBodyString(gomail.TypeTextPlain, l.Text)
	g.AddAlternativeString(gomail.TypeTextHTML, "<pre>"+html.EscapeString(l.Text)+"</pre>") // columns need a fixed width
	if len(l.File) == 0 {
		return nil
	}
	return g.AttachReader(l.FileName, bytes.NewReader(l.File), gomail.WithFileContentType(gomail.ContentType(l.FileType)))
}
