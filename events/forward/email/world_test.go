package email

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/helptest"
)

var must = helptest.Must

// now is shortly after the examples.
var now = time.Date(2026, 11, 20, 9, 42, 1, 0, time.UTC)

func newReceiver(t testing.TB, change func(*Options)) *Receiver {
	t.Helper()
	zurich, err := time.LoadLocation("Europe/Zurich")
	must(t, err)
	o := Options{
		SMTP: "smtp://mail.agency.example:587", From: "Doorbell <doorbell@agency.example>",
		To: "Lettings <office@agency.example>", OpenImmo: true, Message: message.Options{Location: zurich},
	}
	if change != nil {
		change(&o)
	}
	receiver, err := New(o)
	must(t, err)
	return receiver
}

func delivery(t testing.TB) forward.Delivery {
	return forward.Delivery{Events: []events.Event{forwardtest.Example(t, events.TypeContactRequestCreated)}}
}

// sample is the delivery of a sample.
func sample(t testing.TB, name string) forward.Delivery {
	for _, s := range forwardtest.Samples(t) {
		if s.Name == name {
			return s.Delivery
		}
	}
	t.Fatal("no such sample")
	return forward.Delivery{}
}

// composed is the mail of a delivery before it is sent.
func composed(t testing.TB, o *Receiver, d forward.Delivery) draft {
	t.Helper()
	m, err := o.compose(d, now)
	must(t, err)
	return m
}

// textOf is the mail as it is sent.
func textOf(t testing.TB, o *Receiver, m draft) []byte {
	t.Helper()
	g, err := o.mail(m)
	must(t, err)
	var b bytes.Buffer
	if _, err := g.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const (
	taken      = "taken"
	later      = "later"
	laterSetup = "later, after 5m0s"
	perhaps    = "perhaps taken"
	never      = "never"
	tooLarge   = "never, for certain"
)

// meaning names what Send returned.
func meaning(err error) string {
	var l *forward.Retry
	var n *forward.Refused
	switch {
	case err == nil:
		return taken
	case errors.As(err, &l) && l.Unanswered:
		return perhaps
	case errors.As(err, &l) && l.After > 0:
		return "later, after " + l.After.String()
	case errors.As(err, &l):
		return later
	case errors.As(err, &n) && n.Certain:
		return tooLarge
	case errors.As(err, &n):
		return never
	}
	return err.Error()
}

// tellsNothing fails where an error holds an address, a name, a password or a server's response.
func tellsNothing(t testing.TB, err error) {
	t.Helper()
	for _, secret := range strings.Fields("@ office zurich nora Nora Beispiel hunter2 leads-user greylisted unknown> relaying SMTP,") {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds %q: %v", secret, err)
		}
	}
}

// read takes a mail apart as a receiver does, and fails where it is not well made.
func read(t testing.TB, text []byte) (h mail.Header, parts map[string]string) {
	t.Helper()
	for l := range strings.SplitSeq(string(text), "\r\n") {
		if len(l) > 998 || !ascii(l) {
			t.Fatalf("a line of %d bytes, or with something else than ASCII: %.100q", len(l), l)
		}
	}
	m, err := mail.ReadMessage(bytes.NewReader(text))
	must(t, err)
	parts = map[string]string{}
	readParts(t, m.Header.Get("Content-Type"), m.Body, parts)
	return m.Header, parts
}

func ascii(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r < ' ' })
}

func readParts(t testing.TB, contentType string, body io.Reader, parts map[string]string) {
	t.Helper()
	_, parameters, err := mime.ParseMediaType(contentType)
	must(t, err)
	r := multipart.NewReader(body, parameters["boundary"])
	for {
		p, err := r.NextPart()
		if errors.Is(err, io.EOF) {
			return
		}
		must(t, err)
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if strings.HasPrefix(kind, "multipart/") {
			readParts(t, p.Header.Get("Content-Type"), p, parts)
			continue
		}
		content := io.Reader(p) // without its quoted-printable
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			content = base64.NewDecoder(base64.StdEncoding, p)
		}
		text, err := io.ReadAll(content)
		must(t, err)
		parts[kind] += string(text)
	}
}

// script is a server that responds to each step as scripted, and otherwise as a good server
// does. Without TLS it runs on one end of a pipe, also in virtual time. With methods it wants the password.
type script struct {
	says  map[string]string // by step: "" greeting, EHLO, MAIL, RCPT, DATA, "." after the content
	mails []string          // contents that were taken

	tls                           *tls.Config
	implicit, offersTLS, underTLS bool
	methods                       []string
	envelope                      []string // the envelope of the last mail
}

const (
	cutOff  = "cut"     // the connection ends instead of an answer
	silence = "silence" // it stays open, and that is all
	endless = "endless" // an answer without an end
)

func (s *script) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	if ctx.Err() != nil { // as a net.Dialer does: a pipe may take a whole mail before ctx closes it
		return nil, ctx.Err()
	}
	serve := func(c net.Conn) {
		defer c.Close()
		s.serve(c)
	}
	if s.tls == nil {
		ours, theirs := net.Pipe()
		go serve(theirs)
		return ours, nil
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // where only one side speaks TLS, both may write first
	if err != nil {
		return nil, err
	}
	go func() {
		defer l.Close()
		if c, err := l.Accept(); err == nil {
			serve(c)
		}
	}()
	return net.Dial("tcp", l.Addr().String())
}

// serve is a conversation, which may become one under TLS.
func (s *script) serve(c net.Conn) {
	s.underTLS, s.envelope = s.implicit, nil
	if s.implicit {
		c = tls.Server(c, s.tls)
	}
	known := len(s.methods) == 0
	r := bufio.NewReader(c)
	line := func() string {
		text, err := r.ReadString('\n')
		if err != nil {
			return "" // no verb either
		}
		return text
	}
	decoded := func(text string) string {
		raw, _ := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
		return string(raw)
	}
	for ok := s.say(c, "", "220 mail.agency.example"); ok; {
		text := line()
		verb, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " ")
		verb = strings.Replace(verb, "HELO", "EHLO", 1)
		good := "250 2.0.0 fine"
		switch verb {
		case "":
			return
		case "EHLO":
			good = "250-mail.agency.example\r\n"
			if s.offersTLS && !s.underTLS {
				good += "250-STARTTLS\r\n"
			}
			if s.methods != nil {
				good += "250-AUTH " + strings.Join(s.methods, " ") + "\r\n"
			}
			good += "250 ENHANCEDSTATUSCODES"
		case "AUTH":
			user, password := "", ""
			if _, first, plain := strings.Cut(text, "PLAIN "); plain {
				if parts := strings.Split(decoded(first), "\x00"); len(parts) == 3 {
					user, password = parts[1], parts[2]
				}
			} else if s.say(c, "LOGIN", "334 VXNlcm5hbWU6") {
				user = decoded(line())
				s.say(c, "LOGIN", "334 UGFzc3dvcmQ6")
				password = decoded(line())
			}
			known = user == "leads-user" && password == "hunter2"
			if good = "235 2.7.0 welcome"; !known {
				good = "535 5.7.8 no such user as " + user
			}
		case "MAIL", "RCPT":
			s.envelope = append(s.envelope, strings.TrimSpace(text))
			if !known {
				good = "530 5.7.0 who are you"
			}
		case "STARTTLS":
			good = "220 2.0.0 go on"
		case "DATA":
			good = "354 go on"
		case "QUIT":
			good = "221 bye"
		}
		ok = s.say(c, verb, good)
		switch {
		case verb == "STARTTLS":
			c = tls.Server(c, s.tls)
			r, s.underTLS = bufio.NewReader(c), true
		case ok && verb == "DATA" && s.says["DATA"] == "":
			content := ""
			for !strings.HasSuffix(content, "\r\n.\r\n") {
				if text = line(); text == "" {
					return
				}
				content += text
			}
			if ok = s.say(c, ".", "250 2.0.0 fine"); s.says["."] == "" {
				s.mails = append(s.mails, content)
			}
		}
	}
}

// say responds, and is false when the conversation is over.
func (s *script) say(c net.Conn, step, good string) bool {
	answer := s.says[step]
	switch answer {
	case "":
		answer = good
	case cutOff:
		return false
	case silence:
		_, _ = bufio.NewReader(c).ReadString(0) // until the other side gives up
		return false
	case endless:
		for {
			if _, err := c.Write([]byte("250-" + strings.Repeat("x", 1000) + "\r\n")); err != nil {
				return false
			}
		}
	}
	_, err := c.Write([]byte(answer + "\r\n"))
	return err == nil
}

// receiver sends to the script, in plaintext, which is allowed for its host by name.
func (s *script) receiver(t testing.TB, change func(*Options)) *Receiver {
	return newReceiver(t, func(o *Options) {
		o.AllowPlaintext, o.Dial = []string{"MAIL.agency.example"}, s.dial
		if change != nil {
			change(o)
		}
	})
}
