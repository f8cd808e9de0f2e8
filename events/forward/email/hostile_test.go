package email

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
)

// read takes a mail apart as a receiver does, and fails where it is not well made.
func read(t testing.TB, text []byte) (h mail.Header, parts map[string]string) {
	t.Helper()
	for l := range strings.SplitSeq(string(text), "\r\n") {
		if len(l) > 998 || strings.ContainsAny(l, "\r\n") {
			t.Fatalf("a line of %d bytes, or with half a line end: %.100q", len(l), l)
		}
	}
	if !ascii(string(text)) {
		t.Error("not all of it is ASCII")
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
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' || r < ' ' && r != '\r' && r != '\n' })
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
		var content io.Reader = p
		switch {
		case strings.HasPrefix(kind, "multipart/"):
			readParts(t, p.Header.Get("Content-Type"), p, parts)
			continue
		case p.Header.Get("Content-Transfer-Encoding") == "quoted-printable":
			content = quotedprintable.NewReader(p)
		default:
			content = base64Reader(p)
		}
		text, err := io.ReadAll(content)
		if err != nil {
			t.Fatal(err)
		}
		parts[kind] += string(text)
	}
}

var (
	ownTags = strings.Fields("!DOCTYPE html /html head /head meta title /title style /style body /body table /table tr /tr td /td div /div span /span a /a br")
	anyTag  = regexp.MustCompile(`<([^\s>]*)`)
	anyHref = regexp.MustCompile(`href="([^"]*)"`)
	ourHref = regexp.MustCompile(`^(mailto:[^@?]+@[A-Za-z0-9.-]+(\?subject=[^&?]*)?|tel:\+?[0-9]+|https?://[A-Za-z0-9.-]+(:[0-9]+)?([/?].*)?)$`)
	headers = strings.Fields("Auto-Submitted Content-Type Date From In-Reply-To Message-Id Mime-Version References Reply-To Subject To X-Auto-Response-Suppress")
)

// harmless fails where a mail of ours holds what nobody of us wrote: headers, markup, links, characters that cannot be seen.
func harmless(t testing.TB, o *Receiver, d forward.Delivery) {
	t.Helper()
	m := o.compose(d, now)
	text := textOf(t, m)
	if len(text) > 1<<20 && len(d.Events) < 10 {
		t.Errorf("a mail of %d bytes", len(text))
	}
	h, parts := read(t, text)
	for name, values := range h {
		if !slices.Contains(headers, name) || len(values) != 1 {
			t.Errorf("header %s: %q", name, values)
		}
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(h.Get("Subject"))
	if err != nil || len([]rune(subject)) > message.MaxSubject+32 || unseen(subject) {
		t.Errorf("subject %q, %v", subject, err)
	}
	if to, err := h.AddressList("To"); err != nil || len(to) != 1 {
		t.Errorf("To %v, %v", to, err)
	}
	if h.Get("Reply-To") != "" {
		if to, err := h.AddressList("Reply-To"); err != nil || len(to) != 1 || unseen(to[0].Name) {
			t.Errorf("Reply-To %v, %v", to, err)
		}
	}
	if plain := strings.ReplaceAll(strings.ReplaceAll(parts["text/plain"], "\r\n", " "), "\n", " "); unseen(plain) {
		t.Errorf("the text part holds what cannot be seen: %q", plain)
	}
	htmlIsOurs(t, parts["text/html"])
	wellFormed(t, parts["application/xml"])
}

func htmlIsOurs(t testing.TB, page string) {
	t.Helper()
	for _, tag := range anyTag.FindAllStringSubmatch(page, -1) {
		if !slices.Contains(ownTags, tag[1]) {
			t.Errorf("the page holds <%s", tag[1])
		}
	}
	for _, href := range anyHref.FindAllStringSubmatch(page, -1) {
		if !ourHref.MatchString(html.UnescapeString(href[1])) {
			t.Errorf("the page links to %q", href[1])
		}
	}
	if strings.Contains(page, "ZgotmplZ") || unseen(strings.ReplaceAll(strings.ReplaceAll(page, "\r\n", " "), "\n", " ")) {
		t.Error("the page holds what it should not")
	}
}

func unseen(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return r != '\u200C' && r != '\u200D' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	})
}

func wellFormed(t testing.TB, text string) {
	t.Helper()
	if text == "" {
		return
	}
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%v in\n%.500s", err, text)
		}
	}
}

func TestNothingThatAStrangerWritesDoesHarm(t *testing.T) {
	o := newReceiver(t, nil)
	for _, text := range append(forwardtest.Hostile, "A & B?body=x&cc=victim@example.org") {
		reachable := forwardtest.Request(t, func(p *events.ContactRequestCreated) {
			p.Contact.FirstName, p.Contact.Message, p.Insertion.Title = text, text, text
		})
		harmless(t, o, forward.Delivery{Events: []events.Event{reachable}})
		for _, kind := range events.Types {
			harmless(t, o, forwardtest.Everywhere(t, text, kind))
		}
		harmless(t, o, forwardtest.Everywhere(t, text, events.TypeContactRequestCreated, events.TypeContactRequestChanged, events.TypeInsertionChanged))
		harmless(t, o, forwardtest.Everywhere(t, text, events.TypeAccessHalted, events.TypeWatchStale, events.TypeWatchChangeHeld))
	}
}

func TestAnEventThatCannotBeReadIsToldAllTheSame(t *testing.T) {
	o := newReceiver(t, nil)
	for _, data := range []string{"", "null", "[]", `{"contact":5}`, "\xff"} {
		for _, kind := range []events.Type{events.TypeContactRequestCreated, "access.halted", "watch.tomorrow", "insertion.moved", ""} {
			e := forwardtest.Example(t, events.TypeContactRequestCreated)
			e.Type, e.Data = kind, []byte(data)
			harmless(t, o, forward.Delivery{Events: []events.Event{e}})
		}
	}
	harmless(t, o, forward.Delivery{Events: make([]events.Event, 2)})
}

func FuzzAnyTextIsHarmless(f *testing.F) {
	for _, text := range forwardtest.Hostile {
		f.Add(text[:min(len(text), 1000)], uint8(4))
	}
	for i := range events.Types {
		f.Add("Nora", uint8(i))
	}
	o := newReceiver(f, nil)
	f.Fuzz(func(t *testing.T, text string, kind uint8) {
		harmless(t, o, forwardtest.Everywhere(t, text, events.Types[int(kind)%len(events.Types)]))
	})
}

func FuzzAnyPayloadMakesAMail(f *testing.F) {
	for i, kind := range events.Types {
		f.Add(string(forwardtest.Example(f, kind).Data), uint8(i))
	}
	o := newReceiver(f, nil)
	f.Fuzz(func(t *testing.T, data string, kind uint8) {
		e := forwardtest.Example(t, events.TypeContactRequestCreated)
		e.Type, e.Data = events.Types[int(kind)%len(events.Types)], []byte(data)
		harmless(t, o, forward.Delivery{Events: []events.Event{e}})
		harmless(t, o, forward.Delivery{Events: []events.Event{e, e}, Test: true})
	})
}

func base64Reader(r io.Reader) io.Reader {
	return base64.NewDecoder(base64.StdEncoding, r)
}
