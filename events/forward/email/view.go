package email

import (
	"html/template"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// page is what a mail says, before it is text and HTML.
type page struct {
	Subject string
	Label   string // what kind of mail this is, in a few words
	Tone    tone
	Mark    string // why this is no news: a test, a replay
	Heading string // of a list
	Items   []item
	Foot    []string
}

// tone is the colour of a mail.
type tone template.CSS

const (
	toneLead  tone = "#1a5fb4" // a person wrote
	toneQuiet tone = "#5e5c64" // something to know
	toneGood  tone = "#1e7b4b" // something is well again
	toneAlert tone = "#c01c28" // somebody has to do something
)

// Loud says that somebody has to do something.
func (p page) Loud() bool { return p.Tone == toneAlert }

// item is one event, or several that say the same.
type item struct {
	Label   string // in a list, what happened
	Heading string
	Under   string // a line below the heading
	Actions []link
	Quote   []string // what a person wrote
	Note    string   // below the quote
	Advice  string
	Command string
	Facts   []fact
}

type link struct {
	Text string
	URL  template.URL
}

type fact struct {
	Label, Text string
	URL         template.URL // what the text leads to, if anything
}

// facts leaves out those without a text.
func facts(all ...fact) []fact {
	return slices.DeleteFunc(all, func(f fact) bool { return f.Text == "" })
}

// writer turns events into a page.
type writer struct {
	location *time.Location
	now      time.Time
	commands bool // say what to type
	most     int  // characters of a message
	list     bool // several events on one page: each is told in short
}

// view makes the page of a delivery.
func (w writer) view(d forward.Delivery) page {
	w.most = maxMessage
	if len(d.Events) > 1 {
		w.list, w.most = true, max(200, maxInDigest-4*len(d.Events))
	}
	var p page
	switch {
	case forward.IsAlert(d.Events[0].Type):
		p = w.alerts(d.Events)
	case len(d.Events) == 1:
		p = w.single(d.Events[0])
	default:
		p = w.digest(d.Events)
	}
	return marked(p, d)
}

// marked says at the top what is no news.
func marked(p page, d forward.Delivery) page {
	prefix := ""
	switch {
	case d.Test:
		prefix, p.Mark = "[TEST] ", "This is a test of doorbell. Nobody wrote, and nothing happened."
	case all(d.Events, events.OriginReplay):
		prefix, p.Mark = "[replayed] ", "This was sent again on request. It may be old, and somebody may have answered already."
	case all(d.Events, events.OriginBaseline):
		prefix, p.Mark = "[not new] ", "This was there before the watch began. It may be old, and somebody may have answered already."
	case slices.ContainsFunc(d.Events, func(e events.Event) bool { return e.Origin != events.OriginLive && e.Origin != "" }):
		p.Mark = "Some of this is not new: it was sent again on request, or was there before the watch began."
	}
	p.Subject = prefix + p.Subject
	return p
}

func all(list []events.Event, origin events.Origin) bool {
	return !slices.ContainsFunc(list, func(e events.Event) bool { return e.Origin != origin })
}

func (w writer) single(e events.Event) page {
	i, place := w.item(e)
	p := page{
		Subject: cut(joined(": ", i.Label, place), maxSubject), Label: i.Label, Tone: toneQuiet, Items: []item{i},
		Foot: []string{joined(" · ", prefixed("Reference ", line(e.Reference, maxTitle)), "Agency "+line(e.AgencyID, maxWord)), "Event " + line(e.ID, maxWord)},
	}
	if e.Type == events.TypeContactRequestCreated {
		p.Tone = toneLead
	}
	p.Items[0].Label = "" // the page says it
	return p
}

// digest is many events on one page.
func (w writer) digest(all []events.Event) page {
	p := page{Label: "Digest", Tone: toneQuiet, Foot: []string{"These waited together and are one mail, so that they do not flood you."}}
	written, places := 0, map[string]bool{}
	place := ""
	for _, e := range all {
		var i item
		i, place = w.item(e)
		places[e.AgencyID+"\x00"+e.Reference] = true
		if e.Type == events.TypeContactRequestCreated {
			written++
			p.Tone = toneLead
		}
		i.Facts = append(i.Facts, fact{Label: "Reference", Text: joined(" · ", line(e.Reference, maxTitle), "Agency "+line(e.AgencyID, maxWord))})
		p.Items = append(p.Items, i)
	}
	if len(places) > 1 {
		place = ""
	}
	p.Heading = joined(" and ", nonZero(written, "new contact request", "new contact requests"), nonZero(len(all)-written, "change", "changes"))
	p.Subject = cut(joined(": ", p.Heading, place), maxSubject)
	return p
}

func nonZero(n int, one, many string) string {
	if n == 0 {
		return ""
	}
	return count(n, one, many)
}

// item tells one event that is no alert, and the place that it is about, as a subject names it. Whatever cannot be read is
// told as far as the envelope knows it: no lead is lost because it is odd.
func (w writer) item(e events.Event) (i item, place string) {
	p, _ := e.Payload()
	switch p := p.(type) {
	case *events.ContactRequestCreated:
		i = w.request(request{
			reference: p.PropertyReferenceID, contact: p.Contact, insertion: p.Insertion, created: p.CreatedAt, observed: p.ObservedAt,
			score: p.Score, defects: p.Defects, truncated: p.Truncated,
		})
		i.Label, place = "New contact request", placeOf(p.Insertion)
	case *events.ContactRequestChanged:
		i, place = w.changedRequest(p), placeOf(p.Insertion)
	case *events.ContactRequestRedacted:
		i = w.redacted(p)
	case *events.InsertionAppeared:
		i = w.insertion(p.Insertion, "Insertion appeared", p.ObservedAt)
		place = placeOf(p.Insertion)
	case *events.InsertionChanged:
		i = w.insertion(p.Insertion, "Insertion changed", p.ObservedAt)
		i.Facts, place = append(i.Facts, changes(p.Changes)...), placeOf(p.Insertion)
	case *events.InsertionDisappeared:
		i = w.insertion(p.Insertion, "Insertion disappeared", p.ObservedAt)
		i.Facts = append(i.Facts, facts(fact{Label: "Last seen", Text: w.when(p.LastSeenAt)})...)
		place = placeOf(p.Insertion)
	case *events.InsertionReappeared:
		i = w.insertion(p.Insertion, "Insertion is back", p.ObservedAt)
		i.Facts = append(i.Facts, facts(fact{Label: "Was gone since", Text: w.when(p.DisappearedAt)})...)
		i.Facts, place = append(i.Facts, changes(p.Changes)...), placeOf(p.Insertion)
	default:
		i = item{Label: line(string(e.Type), maxWord), Facts: facts(fact{Label: "When", Text: w.when(e.Time)})}
		i.Note = "This version of doorbell cannot show more of it; the event itself holds everything."
	}
	if place == "" {
		place = or(line(e.Reference, maxTitle), "agency "+line(e.AgencyID, maxWord))
	}
	if i.Heading == "" {
		i.Heading = place
	}
	return i, place
}

// when is a time and how long ago it is; empty for none.
func (w writer) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return moment(t, w.location) + " (" + since(t, w.now) + ")"
}
