package email

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"errors"
	"flag"
	"html"
	"io"
	"mime"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
)

var update = flag.Bool("update", false, "write the golden mails of testdata again")

func TestMailsMatchTheirGoldenFiles(t *testing.T) {
	o := newReceiver(t, nil)
	forwardtest.Pinned(t, *update, ".eml", func(s forwardtest.Sample) []byte {
		if strings.HasSuffix(s.Name, ".full") { // a mail always shows the whole person
			return nil
		}
		names := map[string]string{} // of boundaries, which change
		return regexp.MustCompile(`[0-9a-f]{60}`).ReplaceAllFunc(textOf(t, o, composed(t, o, s.Delivery)), func(b []byte) []byte {
			if names[string(b)] == "" {
				names[string(b)] = "boundary" + string(rune('A'+len(names)))
			}
			return []byte(names[string(b)])
		})
	})
}

func TestIdsAreTheSameForTheSameDelivery(t *testing.T) {
	o, seen := newReceiver(t, nil), map[string]string{}
	for _, s := range forwardtest.Samples(t) {
		name, d := s.Name, s.Delivery
		if s.Full && name != "test" && name != "hostile" { // another look at the same events
			continue
		}
		m := composed(t, o, d)
		h, _ := read(t, textOf(t, o, m))
		id := h.Get("Message-Id")
		m, err := o.compose(d, now.Add(time.Hour))
		if again, _ := read(t, textOf(t, o, m)); err != nil || again.Get("Message-Id") != id {
			t.Errorf("%s: %s and %s, %v", name, id, again.Get("Message-Id"), err)
		}
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, id)
		}
		seen[id] = name
		if len(id) > 100 || strings.ContainsAny(id[1:len(id)-1], "<> \r\n") || !strings.HasSuffix(id, ".email@agency.example>") {
			t.Errorf("%s: %q", name, id)
		}
	}
}

func TestAReplyGoesToThePersonWherePossible(t *testing.T) {
	o := newReceiver(t, nil)
	for email, want := range map[string]string{
		"nora.beispiel@example.org": "nora.beispiel@example.org", " nora@example.org ": "nora@example.org",
		"": "", "nora": "", "nora@example.org, other@example.org": "", "nora@example.org\r\nBcc: x@example.org": "",
		"Other <nora@example.org>": "", "zoë@example.org": "",
	} {
		e := forwardtest.Request(t, func(p *events.ContactRequestCreated) { p.Contact.Email = email })
		if got := composed(t, o, forward.Delivery{Events: []events.Event{e}}).replyTo; got != want {
			t.Errorf("%q: %q, want %q", email, got, want)
		}
	}
	for _, ofSeveralOrNobody := range []string{"list", "test"} {
		if got := composed(t, o, sample(t, ofSeveralOrNobody)).replyTo; got != "" {
			t.Errorf("%s: %q", ofSeveralOrNobody, got)
		}
	}
}

func TestASubjectIsDecodedToWhatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		"Short and plain": "", "=?utf-8?B?4oCu?=": "= ?utf-8?B?4oCu?=", "Zürich": "", "a_b=c?d": "",
		strings.Repeat("ä long one ", 12): "", strings.Repeat("x", 150): "", "": "",
	} {
		read, err := mail.ReadMessage(bytes.NewReader(textOf(t, newReceiver(t, nil), Letter{Subject: text, Text: "x"}.compose(message.Options{Location: time.UTC}))))
		must(t, err)
		header := read.Header.Get("Subject")
		got, err := new(mime.WordDecoder).DecodeHeader(header)
		if err != nil || got != cmp.Or(want, strings.TrimSpace(text)) || !ascii(header) {
			t.Errorf("%q: %q, decoded %q, %v", text, header, got, err)
		}
	}
}

func TestALetterArrivesWithItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		o := s.receiver(t, func(o *Options) { o.Message.Instance = "staging" })
		l := Letter{
			Key: "week 1", Subject: "Wöchentlich\r\nBcc: x@example.org", Text: "AGENCY   SEEN\nA<b>        1\n",
			FileName: "leads.csv", FileType: "text/csv", File: []byte("\ufeffa;b\r\n1;'=2\r\n"),
		}
		for range 2 {
			must(t, o.SendLetter(t.Context(), l))
		}
		h, parts := read(t, []byte(s.mails[0]))
		page := parts["text/html"]
		if !strings.Contains(parts["text/plain"], "AGENCY   SEEN") || !strings.Contains(page, "<pre>AGENCY   SEEN") || strings.Contains(page, "<b>") {
			t.Errorf("it says %q", parts)
		}
		if file := parts["text/csv"]; file != string(l.File) {
			t.Errorf("the file is %q", file)
		}
		again, _ := read(t, []byte(s.mails[1]))
		if h.Get("Bcc") != "" || !strings.Contains(s.mails[0], "staging") || h.Get("Message-Id") == "" || again.Get("Message-Id") != h.Get("Message-Id") {
			t.Errorf("headers: %v, and then %v", h, again)
		}
		s.says = map[string]string{"RCPT": "550 5.1.1 <office@agency.example> unknown"}
		err := o.SendLetter(t.Context(), l)
		tellsNothing(t, err)
		if meaning(err) == taken {
			t.Error("a refused recipient counts as accepted")
		}
	})
}

var (
	ownTags = strings.Fields("!DOCTYPE html /html head /head meta title /title style /style body /body table /table tr /tr td /td div /div span /span a /a br")
	anyTag  = regexp.MustCompile(`<([^\s>]*)`)
	anyHref = regexp.MustCompile(`href="([^"]*)"`)
	ourHref = regexp.MustCompile(`^(mailto:[^@?]+@[A-Za-z0-9.-]+(\?subject=[^&?]*)?|tel:\+?[0-9]+|https?://[A-Za-z0-9.-]+(:[0-9]+)?([/?].*)?)$`)
	headers = strings.Fields("Auto-Submitted Content-Type Date From Message-Id Mime-Version Reply-To Subject To X-Auto-Response-Suppress")
)

// harmless fails where a mail of ours contains what a stranger wrote: headers, markup, links,
// characters that cannot be seen.
func harmless(t testing.TB, o *Receiver, d forward.Delivery) {
	t.Helper()
	text := textOf(t, o, composed(t, o, d))
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
	for _, name := range []string{"To", "Reply-To"} {
		if to, err := h.AddressList(name); h.Get(name) != "" && (err != nil || len(to) != 1 || unseen(to[0].Name)) {
			t.Errorf("%s %v, %v", name, to, err)
		}
	}
	page := parts["text/html"]
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
	if strings.Contains(page, "ZgotmplZ") || unseen(page) || unseen(parts["text/plain"]) {
		t.Errorf("it holds what it should not: %q", parts)
	}
	for d := xml.NewDecoder(strings.NewReader(parts["application/xml"])); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%v in\n%.500s", err, parts["application/xml"])
		}
	}
}

func unseen(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("\r\n\u200C\u200D", r) && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
	})
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
	for _, data := range []string{"", "null", "[]", `{"contact":5}`, "\xff"} { // what cannot be read is a mail all the same
		for _, kind := range []events.Type{events.TypeContactRequestCreated, "access.halted", "watch.tomorrow", "insertion.moved", ""} {
			e := forwardtest.Example(t, events.TypeContactRequestCreated)
			e.Type, e.Data = kind, []byte(data)
			harmless(t, o, forward.Delivery{Events: []events.Event{e}})
		}
	}
	harmless(t, o, forward.Delivery{Events: make([]events.Event, 2)})
}

func FuzzAnyPayloadMakesAHarmlessMail(f *testing.F) {
	for i, kind := range events.Types {
		f.Add(string(forwardtest.Example(f, kind).Data), uint8(i))
	}
	for i, text := range append(forwardtest.Hostile, "Nora") {
		f.Add(text[:min(len(text), 1000)], uint8(i))
	}
	o := newReceiver(f, nil)
	f.Fuzz(func(t *testing.T, data string, kind uint8) { // as a payload, and as every text of one
		harmless(t, o, forwardtest.Everywhere(t, data, events.Types[int(kind)%len(events.Types)]))
		e := forwardtest.Example(t, events.TypeContactRequestCreated)
		e.Type, e.Data = events.Types[int(kind)%len(events.Types)], []byte(data)
		harmless(t, o, forward.Delivery{Events: []events.Event{e}})
		harmless(t, o, forward.Delivery{Events: []events.Event{e, e}, Test: true})
	})
}

func TestBadOptionsAreRefusedInAClearSentence(t *testing.T) {
	const server, address = "SMTP server: want smtp://", "want one address"
	for _, row := range []struct{ smtp, password, from, to, want string }{
		{smtp: "-", want: server},
		{smtp: "mail.secret.example:587", want: server},
		{smtp: "https://mail.secret.example", want: server},
		{smtp: "smtp://secret\x7f", want: server},
		{smtp: "smtp://:587", want: server},
		{smtp: "smtp://leads@mail.example", password: "secret\n", want: "line break"},
		{from: "-", want: "mail sender: " + address},
		{from: "secret@a.example, secret@b.example", want: "mail sender: " + address},
		{from: "secret@a.example\r\nBcc: x@b.example", want: "mail sender: " + address},
		{to: "secret", want: "mail recipient: " + address},
		{to: "secret@bücher.example", want: "xn--"},
		{to: "secret@-", want: address},
		{to: strings.Repeat("s", 65) + "@agency.example", want: address},
	} {
		_, err := New(Options{
			SMTP: cmp.Or(row.smtp, "smtp://mail.agency.example"), Password: row.password,
			From: cmp.Or(row.from, "doorbell@agency.example"), To: cmp.Or(row.to, "office@agency.example"),
		})
		if err == nil || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), "secret") || !ascii(err.Error()) {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

func TestServersAreReadAsPeopleWriteThem(t *testing.T) {
	for address, want := range map[string]server{
		"smtp://mail.agency.example":                        {host: "mail.agency.example", port: "587"},
		" smtps://MAIL.agency.example/ ":                    {host: "mail.agency.example", port: "465", implicit: true},
		"smtp://me@agency.example@mail.agency.example:25":   {host: "mail.agency.example", port: "25", user: "me@agency.example"},
		"smtp://me%40agency.example@mail.agency.example:25": {host: "mail.agency.example", port: "25", user: "me@agency.example"},
		"smtp://[::1]:1025":                                 {host: "::1", port: "1025", loopback: true, plaintext: true},
		"smtp://localhost.agency.example":                   {host: "localhost.agency.example", port: "587"},
		"smtp://mail.house":                                 {host: "mail.house", port: "587", plaintext: true},
		"smtp://mail.house.example":                         {host: "mail.house.example", port: "587"},
	} {
		if got, err := parseServer(address, "", []string{"other", "Mail.House"}); err != nil || got != want {
			t.Errorf("%s: %+v, %v", address, got, err)
		}
	}
}

func TestADestinationNamesTheHostAndNobody(t *testing.T) {
	traits := func(change func(*Options)) forward.Traits { return newReceiver(t, change).Traits() }
	one := traits(nil)
	if !regexp.MustCompile(`^mail_agency_example-[0-9a-f]{16}$`).MatchString(one.Destination) || one.Pace <= 0 || one.Digest < 2 {
		t.Errorf("%+v", one)
	}
	same := traits(func(o *Options) { o.OpenImmo, o.RootCAs = false, nil })
	if same.Destination != one.Destination || same.LeadsAlone || !one.LeadsAlone {
		t.Errorf("%+v and %+v", one, same)
	}
	if traits(func(o *Options) { o.To = "office@other.example" }).Destination == one.Destination {
		t.Error("two receivers, one destination")
	}
	if traits(func(o *Options) { o.Password = "two" }) != one {
		t.Error("a new password changes the destination")
	}
}
