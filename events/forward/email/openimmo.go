package email

import (
	"cmp"
	"encoding/xml"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/forward/message"
)

// Maximum lengths of the texts in a feedback.
const (
	maxWord    = 100
	maxTitle   = 200
	maxMessage = 10000
)

// OpenImmo feedback is how portals hand contact requests to the CRMs of this market. Version 1.2.5
// is written, with the elements that 1.2.3 knows too and in the order that both want; the older one
// allows a single bevorzugt and a single wunsch, so there are no more.

type feedback struct {
	XMLName xml.Name `xml:"openimmo_feedback"`
	Version string   `xml:"version"`
	Sender  sender   `xml:"sender"`
	Objekt  objekt   `xml:"objekt"`
}

type sender struct {
	Name     string `xml:"name"`
	Datum    string `xml:"datum"`
	MaklerID string `xml:"makler_id"`
}

type objekt struct {
	OobjID          string      `xml:"oobj_id"`
	ExposeURL       string      `xml:"expose_url,omitempty"`
	Vermarktungsart string      `xml:"vermarktungsart,omitempty"`
	Bezeichnung     string      `xml:"bezeichnung,omitempty"`
	Strasse         string      `xml:"strasse,omitempty"`
	Ort             string      `xml:"ort,omitempty"`
	Preis           string      `xml:"preis,omitempty"`
	Wae             string      `xml:"wae,omitempty"`
	Interessent     interessent `xml:"interessent"`
}

type interessent struct {
	IntID     string `xml:"int_id,omitempty"`
	Anrede    string `xml:"anrede,omitempty"`
	Vorname   string `xml:"vorname,omitempty"`
	Nachname  string `xml:"nachname,omitempty"`
	Firma     string `xml:"firma,omitempty"`
	Strasse   string `xml:"strasse,omitempty"`
	Plz       string `xml:"plz,omitempty"`
	Ort       string `xml:"ort,omitempty"`
	Tel       string `xml:"tel,omitempty"`
	Mobil     string `xml:"mobil,omitempty"`
	Email     string `xml:"email,omitempty"`
	Bevorzugt string `xml:"bevorzugt"` // EMAIL, TEL, MOBIL, FAX or BRIEF
	Wunsch    string `xml:"wunsch"`    // BESICHTIGUNG, ANRUF or DETAIL
	Anfrage   string `xml:"anfrage,omitempty"`
}

// feedbackOf is the file for an event; empty if it is no new contact request.
func feedbackOf(e events.Event, test bool, now time.Time) []byte {
	p, err := e.Payload()
	created, is := p.(*events.ContactRequestCreated)
	// a CRM would make a person of nothing
	if err != nil || !is || created.Truncated && created.Contact == (events.Contact{}) {
		return nil
	}
	text, err := xml.MarshalIndent(feedback{
		Version: "1.2.5", Objekt: objektOf(created, mark(e, test)),
		Sender: sender{
			Name:  cmp.Or(message.Line(created.Contact.Portal, maxWord), "doorbell"),
			Datum: now.Format("02.01.2006"), MaklerID: message.Line(e.AgencyID, maxWord),
		},
	}, "", "  ")
	if err != nil { // does not happen: it holds nothing but texts
		return nil
	}
	return append([]byte(xml.Header), append(text, '\n')...)
}

// mark opens the request of what is no news: a CRM shows nothing else of the mail.
func mark(e events.Event, test bool) string {
	switch {
	case test:
		return "[TEST, nobody wrote] "
	case e.Origin == events.OriginReplay:
		return "[replayed] "
	}
	return ""
}

func objektOf(p *events.ContactRequestCreated, mark string) objekt {
	s := p.Insertion
	page := message.Page(s.URL)
	o := objekt{
		OobjID: message.Line(p.PropertyReferenceID, maxTitle), ExposeURL: string(page),
		Vermarktungsart: vermarktungsart[s.OfferType], Bezeichnung: message.Line(s.Title, maxTitle),
		Strasse: message.Line(s.Street, maxWord), Ort: message.Line(s.Locality, maxWord),
		Interessent: interessentOf(p, mark),
	}
	if s.Price != nil {
		o.Preis, o.Wae = message.Line(s.Price.Amount.String(), 32), message.Line(s.Price.Currency, 8)
	}
	return o
}

var vermarktungsart = map[string]string{"RENT": "Miete", "BUY": "Kauf", "SALE": "Kauf"}

func interessentOf(p *events.ContactRequestCreated, mark string) interessent {
	c := p.Contact
	text, _ := message.Lines(c.Message, maxMessage)
	i := interessent{
		IntID: message.Line(p.ContactRequestID, maxWord), Anrede: message.Line(c.Salutation, 30),
		Vorname:  message.Line(c.FirstName, maxWord),
		Nachname: cmp.Or(message.Line(c.LastName, maxWord), message.Line(c.FullName, maxWord)),
		Firma:    message.Line(c.Company, maxWord), Email: message.Line(c.Email, maxAddress),
		Bevorzugt: "BRIEF", Wunsch: "DETAIL", Anfrage: mark + strings.Join(text, "\n"),
	}
	if a := c.Address; a != nil {
		i.Strasse, i.Plz, i.Ort = message.Line(a.Street, maxWord), message.Line(a.PostalCode, 16),
			message.Line(a.Locality, maxWord)
	}
	begins := func(prefix string) bool { return strings.HasPrefix(c.Phone, prefix) }
	switch number := message.Line(cmp.Or(c.Phone, c.PhoneRaw), 40); {
	case number == "":
	case slices.ContainsFunc(mobiles, begins):
		i.Mobil, i.Bevorzugt = number, "MOBIL"
	default:
		i.Tel, i.Bevorzugt = number, "TEL"
	}
	if i.Email != "" {
		i.Bevorzugt = "EMAIL"
	}
	return i
}

// mobiles are how the mobile numbers of Switzerland and its neighbours begin.
var mobiles = []string{
	"+4174", "+4175", "+4176", "+4177", "+4178", "+4179", "+4915",
	"+4916", "+4917", "+436", "+336", "+337", "+393",
}
