package slack_test

import (
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

func show(t *testing.T, full bool, change func(*events.ContactRequestCreated)) string {
	t.Helper()
	return string(chat.Body(t, full, forward.Delivery{Events: []events.Event{forwardtest.Request(t, change)}}))
}

func TestShortShowsFirstNameAndInitial(t *testing.T) {
	for want, c := range map[string]events.Contact{
		"Nora B.":     {FirstName: "Nora", LastName: "Beispiel"},
		"Nora C.":     {FirstName: "Nora Maria", LastName: "von Curti"},
		"Élodie É.":   {FirstName: "Élodie", LastName: "étienne"},
		"Max M.":      {FullName: "Max Peter Muster"},
		"Cher":        {FullName: "Cher"},
		"D.":          {LastName: "Dupont"},
		"Somebody":    {Company: "Nora Beispiel GmbH"},
		"Somebody\"":  {FirstName: "nora@example.org"},
		"Somebody\",": {FirstName: "0790000123"},
		"<!here>":     {FirstName: "<!here>"},
	} {
		body := show(t, false, func(p *events.ContactRequestCreated) { p.Contact = c })
		if !strings.Contains(body, "New contact request: "+want) {
			t.Errorf("%+v is not shown as %s: %s", c, want, body)
		}
	}
}

func TestShortShowsNoAddressAndNoNumber(t *testing.T) {
	body := show(t, false, func(p *events.ContactRequestCreated) {
		p.Contact = events.Contact{
			FirstName: "Nora", LastName: "Beispiel", Email: "nora@example.org", Phone: "+41790000123", PhoneRaw: "079 000 01 23", Company: "Beispiel AG",
			Message: "Wir sind zu zweit.\nAb 1.2.2027.",
		}
	})
	for _, hidden := range []string{"Beispiel\"", "example.org", "@", "079", "000", "mailto", "tel:", "Beispiel AG"} {
		if strings.Contains(body, hidden) {
			t.Errorf("%s is shown: %s", hidden, body)
		}
	}
	for _, kept := range []string{"Wir sind zu zweit. Ab 1.2.2027.", "CHF 2’890 a month", "Score: 72.5", "seefeld#1203#H2#0305"} {
		if !strings.Contains(body, kept) {
			t.Errorf("%s is missing: %s", kept, body)
		}
	}
	list := string(chat.Body(t, false, forward.Delivery{Events: forwardtest.Requests(t)}))
	if strings.Contains(list, "@") || strings.Contains(list, "+41") || strings.Contains(list, "Muster") {
		t.Errorf("the list shows too much: %s", list)
	}
}

func TestOnlyWebAddressesBecomeLinks(t *testing.T) {
	for address, want := range map[string]string{
		"https://portal.example/d/1":        "<https://portal.example/d/1|portal.example>",
		"http://portal.example/?a=1&b=*x*":  "<http://portal.example/?a=1&amp;b=%2Ax%2A|portal.example>",
		"https://portal.example/a|b>c<!x y": "<https://portal.example/a%7Cb%3Ec%3C%21x%20y|portal.example>",
		"javascript:alert(1)":               "",
		"slack://channel?id=1":              "",
		"//portal.example/":                 "",
		"https://пример.example/":           "",
		"https://a_b*c*.example/":           "",
		"https://":                          "",
	} {
		body := show(t, false, func(p *events.ContactRequestCreated) { p.Insertion.URL = address })
		if want == "" && strings.Contains(body, "🔗") || !strings.Contains(body, want) {
			t.Errorf("%s became %s", address, body)
		}
	}
}

func TestALeadWhosePersonWasLeftOutOrErasedSaysSo(t *testing.T) {
	const portal, erased = "your portal has all of it", "was erased before this was sent"
	for _, full := range []bool{false, true} {
		none := func(p *events.ContactRequestCreated) {
			p.Contact, p.Record, p.Truncated = events.Contact{}, nil, true
		}
		body := show(t, full, none)
		if !strings.Contains(body, "New contact request: Somebody") || !strings.Contains(body, portal) {
			t.Errorf("full %v, without the person: %s", full, body)
		}
		body = show(t, full, func(p *events.ContactRequestCreated) { p.Contact.Message, p.Record, p.Truncated = "", nil, true })
		if !strings.Contains(body, "Nora") || !strings.Contains(body, portal) {
			t.Errorf("full %v, without the message: %s", full, body)
		}
		e := forwardtest.Request(t, func(*events.ContactRequestCreated) {}).Erase()
		body = string(chat.Body(t, full, forward.Delivery{Events: []events.Event{e}}))
		if !strings.Contains(body, "New contact request: Somebody") || !strings.Contains(body, erased) || strings.Contains(body, portal) || strings.Contains(body, "Nora") {
			t.Errorf("full %v, erased: %s", full, body)
		}
	}
}
