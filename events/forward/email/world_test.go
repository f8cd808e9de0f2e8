package email

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// now is shortly after what the examples tell of.
var now = time.Date(2026, 11, 20, 9, 42, 1, 0, time.UTC)

func newReceiver(t testing.TB, change func(*Options)) *Receiver {
	t.Helper()
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		SMTP: "smtp://mail.agency.example:587", From: "Doorbell <doorbell@agency.example>",
		To: "Lettings <office@agency.example>", OpenImmo: true, Location: zurich,
	}
	if change != nil {
		change(&o)
	}
	receiver, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// textOf is the mail as it is sent.
func textOf(t testing.TB, o *Receiver, m draft) []byte {
	t.Helper()
	g, err := o.mail(m)
	if err != nil {
		t.Fatal(err)
	}
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

// outcome names what Send returned.
func outcome(err error) string {
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

// tellsNothing fails where an error holds an address, a name, a password or what a server said.
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
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	r := multipart.NewReader(body, parameters["boundary"])
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		kind, _, _ := mime.ParseMediaType(p.Header.Get("Content-Type"))
		if strings.HasPrefix(kind, "multipart/") {
			readParts(t, p.Header.Get("Content-Type"), p, parts)
			continue
		}
		content := io.Reader(quotedprintable.NewReader(p))
		if p.Header.Get("Content-Transfer-Encoding") == "base64" {
			content = base64.NewDecoder(base64.StdEncoding, p)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		parts[kind] += string(text)
	}
}

// script is a server that says at each step what it was told to, and otherwise what a good server
// says. It runs on one end of a pipe, in virtual time.
type script struct {
	says  map[string]string // by step: "" greeting, EHLO, MAIL, RCPT, DATA, "." after the content
	mails []string          // contents that were taken
}

const (
	cutOff  = "cut"     // the connection ends instead of an answer
	silence = "silence" // it stays open, and that is all
	endless = "endless" // an answer that goes on
)

func (s *script) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	go s.serve(theirs)
	return ours, nil
}

func (s *script) serve(c net.Conn) {
	defer c.Close()
	good := map[string]string{
		"": "220 mail.agency.example", "EHLO": "250-mail.agency.example\r\n250 ENHANCEDSTATUSCODES",
		"DATA": "354 go on", "QUIT": "221 bye",
	}
	for r, verb := bufio.NewReader(c), ""; s.say(c, verb, good[verb]); {
		if verb == "DATA" && s.says["DATA"] == "" {
			content := ""
			for !strings.HasSuffix(content, "\r\n.\r\n") {
				text, err := r.ReadString('\n')
				if err != nil {
					return
				}
				content += text
			}
			if !s.say(c, ".", "") {
				return
			}
			if s.says["."] == "" {
				s.mails = append(s.mails, content)
			}
		}
		text, err := r.ReadString('\n')
		if err != nil {
			return
		}
		verb, _, _ = strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " ")
		verb = strings.Replace(verb, "HELO", "EHLO", 1)
	}
}

// say answers, and is false where the conversation is over.
func (s *script) say(c net.Conn, step, good string) bool {
	answer := s.says[step]
	switch answer {
	case "":
		answer = good
		if answer == "" {
			answer = "250 2.0.0 fine"
		}
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
