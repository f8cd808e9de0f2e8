package email

import (
	"bytes"
	"cmp"
	"mime"
	"net/mail"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

func TestIdsAreTheSameForTheSameDelivery(t *testing.T) {
	o, seen := newReceiver(t, nil), map[string]string{}
	for _, s := range forwardtest.Samples(t) {
		name, d := s.Name, s.Delivery
		if s.Full && name != "test" && name != "hostile" { // another look at the same events
			continue
		}
		id := o.compose(d, now).id
		if again := o.compose(d, now.Add(time.Hour)).id; again != id {
			t.Errorf("%s: %s and %s", name, id, again)
		}
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, id)
		}
		seen[id] = name
		if len(id) > 100 || strings.ContainsAny(id, "<> \r\n") || !strings.HasSuffix(id, ".email@agency.example") {
			t.Errorf("%s: %q", name, id)
		}
	}
}

func TestAnAnswerGoesToThePersonIfItCan(t *testing.T) {
	o := newReceiver(t, nil)
	for email, want := range map[string]string{
		"nora.beispiel@example.org": `<nora.beispiel@example.org>`, " nora@example.org ": `<nora@example.org>`,
		"": "", "nora": "", "nora@example.org, other@example.org": "", "nora@example.org\r\nBcc: x@example.org": "", "Other <nora@example.org>": "", "zoë@example.org": "",
	} {
		e := forwardtest.Request(t, func(p *events.ContactRequestCreated) { p.Contact.Email = email })
		got := ""
		if r := o.compose(forward.Delivery{Events: []events.Event{e}}, now).replyTo; r != nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", email, got, want)
		}
	}
	if r := o.compose(sample(t, "list"), now).replyTo; r != nil {
		t.Error("a digest is of several people")
	}
	if r := o.compose(sample(t, "test"), now).replyTo; r != nil {
		t.Error("a test is of nobody")
	}
}

func TestASubjectIsDecodedToWhatWasMeant(t *testing.T) {
	for text, want := range map[string]string{
		"Short and plain": "", "=?utf-8?B?4oCu?=": "= ?utf-8?B?4oCu?=", "Zürich": "", "a_b=c?d": "",
		strings.Repeat("ä long one ", 12): "", strings.Repeat("x", 150): "", "": "",
	} {
		d := draft{from: mail.Address{Address: "a@b.example"}, to: mail.Address{Address: "c@d.example"}, letter: &Letter{Subject: text, Text: "x"}}
		read, err := mail.ReadMessage(bytes.NewReader(textOf(t, d)))
		if err != nil {
			t.Fatal(err)
		}
		header := read.Header.Get("Subject")
		got, err := new(mime.WordDecoder).DecodeHeader(header)
		if err != nil || got != cmp.Or(want, strings.TrimSpace(text)) || !ascii(header) {
			t.Errorf("%q: %q, decoded %q, %v", text, header, got, err)
		}
	}
}
