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

// payload has the members of the payloads of leads and insertions, by their names.
type payload struct {
	ContactRequestID      string
	ObservedAt, CreatedAt time.Time
	Score                 json.RawMessage
	Contact               events.Contact
	Insertion             events.InsertionSummary
	RedactedFields        []string
	Changes               []events.Change
	LastSeenAt            time.Time // of one that disappeared
	DisappearedAt         time.Time // of one that is back
	Erased, Truncated     bool
}

// titles say what happened.
var titles = map[events.Type]string{
	events.TypeContactRequestCreated:  "New contact request",
	events.TypeContactRequestChanged:  "Contact request changed",
	events.TypeContactRequestRedacted: "Contact request erased",
	events.TypeInsertionAppeared:      "Insertion appeared",
	events.TypeInsertionChanged:       "Insertion changed",
	events.TypeInsertionDisappeared:   "Insertion disappeared",
	events.TypeInsertionReappeared:    "Insertion is back",
}

// item is one event that is no alert, in words, and the place that it is about. What cannot be read
// is shown as far as the envelope knows it: no lead is lost because it is odd.
func (w writer) item(e events.Event) (i Item, place string) {
	var p payload
	if json.Unmarshal(e.Data, &p) != nil || titles[e.Type] == "" {
		i = Item{Label: string(e.Type), Note: w.t(incomplete), Facts: facts(w.fact("Seen", w.when(e.Time)))}
	} else {
		place = w.placeOf(p.Insertion)
		switch e.Type {
		case events.TypeContactRequestCreated, events.TypeContactRequestChanged:
			i = w.request(p, cmp.Or(place, Line(e.Reference, maxTitle), w.t("an unknown property")))
		case events.TypeContactRequestRedacted:
			i.Advice = w.t("The portal has erased the data of this person. " +
				"Erase it too: in your mail, your CRM and your notes.")
			fields := strings.Join(p.RedactedFields[:min(len(p.RedactedFields), 50)], ", ")
			i.Facts = facts(
				w.fact("Contact request", Line(p.ContactRequestID, maxWord)),
				w.fact("Wrote", w.when(p.CreatedAt)),
				w.fact("Erased fields", Line(fields, maxTitle)),
				w.fact("Seen", w.when(p.ObservedAt)))
		default:
			i = w.insertion(p)
		}
		i.Label = w.t(titles[e.Type])
	}
	i.Tone = Quiet
	if e.Type == events.TypeContactRequestCreated {
		i.Tone = Lead
	}
	place = cmp.Or(place, Line(e.Reference, maxTitle), w.t("Agency")+" "+w.agency(e.AgencyID))
	i.Label = Line(i.Label, maxWord)
	i.Heading, i.Line = cmp.Or(i.Heading, place), cmp.Or(i.Line, i.Label)
	return i, place
}

const incomplete = "Not everything is shown here; your portal has all of it."

// request says who wrote, how to reach them, what they wrote, and about what.
func (w writer) request(p payload, about string) Item {
	c := p.Contact
	i := Item{Heading: cmp.Or(w.nameOf(c), w.t("Somebody"))}
	if !w.list { // in a list, the group says it
		i.Under = w.t("about") + " " + about
	}
	text, wasCut := Untagged(c.Message), false
	if w.Short {
		text = Line(text, maxShort)
	}
	i.Quote, wasCut = Lines(text, w.most)
	if !w.Short {
		mail, call := mailLink(c.Email, w.placeOf(p.Insertion)), telLink(c.Phone, c.PhoneRaw)
		if mail != "" {
			i.Actions = append(i.Actions, Link{w.t("Write an e-mail"), mail})
		}
		if call != "" {
			i.Actions = append(i.Actions, Link{w.t("Call"), call})
		}
		i.Facts = []Fact{
			{w.t("E-mail"), Line(c.Email, maxAddress), mail},
			{w.t("Phone"), Line(cmp.Or(c.PhoneRaw, c.Phone), maxWord), call},
			w.fact("Prefers", Line(c.PreferredContact, maxWord)),
		}
	}
	written, score := w.fact("Wrote", w.when(p.CreatedAt)), scalar(p.Score)
	if p.CreatedAt.IsZero() {
		written = w.fact("Seen", w.when(p.ObservedAt))
	}
	i.Facts = facts(append(i.Facts, written, w.fact("Score", score))...)
	i.Facts = append(append(i.Facts, w.about(c)...), w.property(p.Insertion)...)
	i.Line = joined(" · ", Fit(i.Heading, 60), written.Text, labelled(w.t("Score"), Fit(score, 20)))
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
		address = Line(joined(", ", a.Street, joined(" ", a.PostalCode, a.Locality), a.Country),
			maxTitle)
	}
	return facts(w.fact("Company", Line(c.Company, maxWord)), w.fact("Lives at", address))
}

// nameOf is how a person is called: salutation and names, else the whole name, else the company. In
// short it is the first name and the initial of the family name, which ends with what tells it from
// others: of "von Beispiel" that is B.
func (w writer) nameOf(c events.Contact) string {
	first, last, whole := Line(c.FirstName, maxWord), Line(c.LastName, maxWord),
		Line(c.FullName, maxWord)
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
	name := joined(" ", Fit(first, 30), last)
	if strings.ContainsAny(name, "@0123456789") { // an address or a number, where a name should be
		return ""
	}
	return name
}

// placeOf is how a property is called: its title and where it is.
func (w writer) placeOf(s events.InsertionSummary) string {
	return joined(", ", cmp.Or(Line(s.Title, 100), Line(s.Street, maxWord)),
		Line(joined(" ", s.PostalCode, s.Locality), maxWord))
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
		w.fact("Where", joined(", ", Line(s.Street, maxWord),
			Line(joined(" ", s.PostalCode, s.Locality), maxWord))),
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

// maxChanges is how many changes of an insertion are shown.
const maxChanges = 20

func (w writer) insertion(p payload) Item {
	all := append([]Fact{w.fact("Seen", w.when(p.ObservedAt))}, w.property(p.Insertion)...)
	for _, c := range p.Changes[:min(len(p.Changes), maxChanges)] {
		all = append(all,
			Fact{Label: Member(c.Path), Text: value(c.Before) + " → " + value(c.After)})
	}
	if more := len(p.Changes) - maxChanges; more > 0 {
		all = append(all, Fact{Label: "…", Text: fmt.Sprintf("+ %d", more)})
	}
	all = append(all, w.fact("Last seen", w.when(p.LastSeenAt)),
		w.fact("Gone since", w.when(p.DisappearedAt)))
	return Item{Facts: facts(all...)}
}

// value is one before or after a change.
func value(raw json.RawMessage) string {
	return cmp.Or(Line(cmp.Or(scalar(raw), string(raw)), 80), "–")
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
