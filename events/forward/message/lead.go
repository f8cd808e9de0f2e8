package message

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"doorbell/events"
)

// item is one event that is no alert, in words, and the place that it is about. What cannot be read
// is shown as far as the envelope knows it: no lead is lost because it is odd.
func (w writer) item(e events.Event) (i Item, place string) {
	p, _ := e.Payload()
	switch p := p.(type) {
	case *events.ContactRequestCreated:
		i = w.request(p)
		place = w.placeOf(p.Insertion)
	case *events.ContactRequestChanged:
		i = w.request(&events.ContactRequestCreated{
			Common: p.Common, PropertyReferenceID: p.PropertyReferenceID, Contact: p.Contact,
			Insertion: p.Insertion, CreatedAt: p.CreatedAt,
			Score: p.Score, Defects: p.Defects, Erased: p.Erased,
		})
		i.Label, i.Tone, place = w.t("Contact request changed"), Quiet, w.placeOf(p.Insertion)
	case *events.ContactRequestRedacted:
		i = Item{
			Label:  w.t("Contact request erased"),
			Advice: w.t("The portal has erased the data of this person. Erase it too: in your mail, your CRM and your notes."),
			Facts: facts(
				w.fact("Contact request", Line(p.ContactRequestID, maxWord)),
				w.fact("Wrote", w.when(p.CreatedAt)), w.fact("Erased fields", names(p.RedactedFields)),
				w.fact("Seen", w.when(p.ObservedAt))),
		}
	case *events.InsertionAppeared:
		i, place = w.insertion(w.t("Insertion appeared"), p.Insertion, p.ObservedAt, nil)
	case *events.InsertionChanged:
		i, place = w.insertion(w.t("Insertion changed"), p.Insertion, p.ObservedAt, p.Changes)
	case *events.InsertionDisappeared:
		i, place = w.insertion(w.t("Insertion disappeared"), p.Insertion, p.ObservedAt, nil)
		i.Facts = append(i.Facts, facts(w.fact("Last seen", w.when(p.LastSeenAt)))...)
	case *events.InsertionReappeared:
		i, place = w.insertion(w.t("Insertion is back"), p.Insertion, p.ObservedAt, p.Changes)
		i.Facts = append(i.Facts, facts(w.fact("Was gone since", w.when(p.DisappearedAt)))...)
	default:
		i = Item{Label: Line(string(e.Type), maxWord), Facts: facts(w.fact("Seen", w.when(e.Time)))}
		i.Note = w.t(incomplete)
	}
	if i.Tone == "" {
		i.Tone = Quiet
	}
	place = cmp.Or(place, cmp.Or(Line(e.Reference, maxTitle), w.t("Agency")+" "+w.agency(e.AgencyID)))
	i.Heading = cmp.Or(i.Heading, place)
	i.Line = cmp.Or(i.Line, i.Label)
	return i, place
}

const incomplete = "Not everything is shown here; your portal has all of it."

// request says who wrote, how to reach them, what they wrote, and about what.
func (w writer) request(p *events.ContactRequestCreated) Item {
	c, place := p.Contact, w.placeOf(p.Insertion)
	name := w.nameOf(c)
	i := Item{
		Label: w.t("New contact request"), Tone: Lead, Heading: cmp.Or(name, w.t("Somebody")),
		Under: w.t("about") + " " + cmp.Or(place, cmp.Or(Line(p.PropertyReferenceID, maxTitle), w.t("an unknown property"))),
	}
	if w.list { // the group says it
		i.Under = ""
	}
	text, wasCut := Untagged(c.Message), false
	if w.Short {
		text = Line(text, maxShort)
	}
	i.Quote, wasCut = Lines(text, w.most)
	written := p.CreatedAt
	if written.IsZero() {
		written = p.ObservedAt
	}
	mail, call := mailLink(c.Email, place), telLink(c.Phone, c.PhoneRaw)
	if !w.Short {
		if mail != "" {
			i.Actions = append(i.Actions, Link{w.t("Write a mail"), mail})
		}
		if call != "" {
			i.Actions = append(i.Actions, Link{w.t("Call"), call})
		}
		i.Facts = facts(
			Fact{w.t("E-mail"), Line(c.Email, maxAddress), mail}, Fact{w.t("Phone"), Line(cmp.Or(c.PhoneRaw, c.Phone), maxWord), call},
			w.fact("Prefers", Line(c.PreferredContact, maxWord)))
	}
	label := w.t("Wrote")
	if p.CreatedAt.IsZero() {
		label = w.t("Seen")
	}
	score := scalar(p.Score)
	i.Facts = append(i.Facts, facts(Fact{Label: label, Text: w.when(written)}, w.fact("Score", score))...)
	i.Facts = append(append(i.Facts, w.about(c)...), w.property(p.Insertion)...)
	i.Line = joined(" · ", Cut(i.Heading, 60), w.when(written), labelled(w.t("Score"), Cut(score, 20)))
	switch {
	case p.Erased:
		i.Note = w.t("The data of this person was erased before this was sent.")
	case wasCut, p.Truncated, !w.Short && c.Email+c.Phone+c.PhoneRaw == "":
		i.Note = w.t(incomplete)
	}
	return i
}

// about is what else is known of a person.
func (w writer) about(c events.Contact) []Fact {
	if w.Short {
		return nil
	}
	address := ""
	if a := c.Address; a != nil {
		address = Line(joined(", ", a.Street, joined(" ", a.PostalCode, a.Locality), a.Country), maxTitle)
	}
	return facts(w.fact("Company", Line(c.Company, maxWord)), w.fact("Lives at", address))
}

// nameOf is how a person is called: salutation and names, else the whole name, else the company. In
// short it is the first name and the initial of the family name, which ends with what tells it from
// others: of "von Beispiel" that is B.
func (w writer) nameOf(c events.Contact) string {
	first, last, whole := Line(c.FirstName, maxWord), Line(c.LastName, maxWord), Line(c.FullName, maxWord)
	if !w.Short {
		name := cmp.Or(joined(" ", first, last), whole)
		if name == "" {
			return Line(c.Company, maxWord)
		}
		return joined(" ", Line(c.Salutation, 30), name)
	}
	if first+last == "" {
		first, last = splitName(whole)
	}
	first, _, _ = strings.Cut(first, " ")
	if all := strings.Fields(last); len(all) > 0 {
		last = initial(all[len(all)-1])
	}
	name := joined(" ", Cut(first, 30), last)
	if strings.ContainsAny(name, "@0123456789") { // an address or a number, where a name should be
		return ""
	}
	return name
}

// placeOf is how a property is called: its title and where it is.
func (w writer) placeOf(s events.InsertionSummary) string {
	return joined(", ", cmp.Or(Line(s.Title, 100), Line(s.Street, maxWord)), Line(joined(" ", s.PostalCode, s.Locality), maxWord))
}

// property are the facts of an insertion; in a digest all in one.
func (w writer) property(s events.InsertionSummary) []Fact {
	page, host := webLink(s.URL)
	rooms, space := Line(s.Rooms.String(), 16), Line(s.LivingSpace.String(), 16)
	if rooms != "" {
		rooms += " " + w.t("rooms")
	}
	if space != "" {
		space += " m²"
	}
	all := facts(
		w.fact("Where", joined(", ", Line(s.Street, maxWord), Line(joined(" ", s.PostalCode, s.Locality), maxWord))),
		w.fact("Size", joined(", ", rooms, space)),
		w.fact("Price", w.price(s.Price)),
	)
	if !w.list {
		return append(all, facts(Fact{w.t("Page"), host, page})...)
	}
	var texts []string
	for _, f := range all {
		texts = append(texts, f.Text)
	}
	return facts(Fact{w.t("Property"), joined(" · ", texts...), page})
}

func (w writer) insertion(label string, s events.InsertionSummary, observed time.Time, list []events.Change) (Item, string) {
	place := w.placeOf(s)
	i := Item{Label: label, Heading: place, Facts: append(facts(w.fact("Seen", w.when(observed))), w.property(s)...)}
	const most = 20
	for _, c := range list[:min(len(list), most)] {
		i.Facts = append(i.Facts, Fact{Label: Member(c.Path), Text: difference(c)})
	}
	if len(list) > most {
		i.Facts = append(i.Facts, Fact{Label: "…", Text: fmt.Sprintf("+ %d", len(list)-most)})
	}
	return i, place
}

// Member is the end of a pointer in words: /prices/rent/gross is rent gross.
func Member(pointer string) string {
	parts := strings.Split(Line(pointer, maxTitle), "/")
	var b strings.Builder
	for _, r := range strings.Join(parts[max(0, len(parts)-2):], " ") {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return cmp.Or(Line(b.String(), 60), "…")
}

func difference(c events.Change) string {
	value := func(raw json.RawMessage) string { return cmp.Or(Line(cmp.Or(scalar(raw), string(raw)), 80), "–") }
	return value(c.Before) + " → " + value(c.After)
}

func names(list []string) string {
	return Line(strings.Join(list[:min(len(list), 50)], ", "), maxTitle)
}
