package email

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"doorbell/events"
)

// request is what is shown of a contact request.
type request struct {
	reference         string
	contact           events.Contact
	insertion         events.InsertionSummary
	created, observed time.Time
	score             json.RawMessage
	defects           []string
	truncated         bool
}

// request tells who wrote, how to reach them, what they wrote, and about what.
func (w writer) request(r request) item {
	c, place := r.contact, placeOf(r.insertion)
	i := item{Heading: or(nameOf(c), "Somebody without a name"), Under: "about " + or(place, or(line(r.reference, maxTitle), "an unknown property"))}
	var cutMessage bool
	i.Quote, cutMessage = lines(c.Message, w.most)
	if cutMessage {
		i.Note = "The message is longer than this; the whole of it is in your portal."
	}
	i.Facts = append(w.reach(c, &i, place), facts(
		fact{Label: "Wrote", Text: w.when(r.created)},
		fact{Label: "Seen", Text: onlyIf(r.created.IsZero(), w.when(r.observed))},
		fact{Label: "Score", Text: scalar(r.score)},
	)...)
	i.Facts = append(append(i.Facts, about(c)...), w.property(r.insertion)...)
	if c.Email == "" && c.Phone == "" && c.PhoneRaw == "" {
		i.Note = joined(" ", i.Note, "The portal told no way to reach this person; look there.")
	}
	if r.truncated {
		i.Note = joined(" ", i.Note, "Parts were left out, because the whole was too large to send.")
	}
	if len(r.defects) > 0 {
		i.Note = joined(" ", i.Note, "The portal sent a record with faults; parts of this may be missing.")
	}
	return i
}

// reach are the ways to a person; those that work at a touch are buttons too.
func (w writer) reach(c events.Contact, i *item, place string) []fact {
	mail, call := mailLink(c.Email, place), telLink(c.Phone, c.PhoneRaw)
	if mail != "" {
		i.Actions = append(i.Actions, link{Text: "Write a mail", URL: mail})
	}
	if call != "" {
		i.Actions = append(i.Actions, link{Text: "Call", URL: call})
	}
	return facts(
		fact{Label: "E-mail", Text: line(c.Email, maxAddress), URL: mail},
		fact{Label: "Phone", Text: line(or(c.PhoneRaw, c.Phone), maxWord), URL: call},
		fact{Label: "Prefers", Text: line(c.PreferredContact, maxWord)},
	)
}

// about is what else is known of a person.
func about(c events.Contact) []fact {
	address := ""
	if a := c.Address; a != nil {
		address = line(joined(", ", a.Street, joined(" ", a.PostalCode, a.Locality), a.Country), maxTitle)
	}
	return facts(
		fact{Label: "Company", Text: line(c.Company, maxWord)},
		fact{Label: "Lives at", Text: address},
		fact{Label: "Speaks", Text: language(c.Language)},
		fact{Label: "Portal", Text: line(c.Portal, maxWord)},
	)
}

func onlyIf(yes bool, s string) string {
	if yes {
		return s
	}
	return ""
}

var languages = map[string]string{"de": "German", "fr": "French", "it": "Italian", "rm": "Romansh", "en": "English"}

func language(tag string) string {
	short, _, _ := strings.Cut(strings.ToLower(tag), "-")
	return or(languages[short], line(tag, 32))
}

// nameOf is how a person is called: salutation and names, else the whole name, else the company.
func nameOf(c events.Contact) string {
	name := joined(" ", line(c.FirstName, maxWord), line(c.LastName, maxWord))
	if name == "" {
		name = line(c.FullName, maxWord)
	}
	if name == "" {
		return line(c.Company, maxWord)
	}
	return joined(" ", line(c.Salutation, 30), name)
}

// placeOf is how a property is called: its title and where it is.
func placeOf(s events.InsertionSummary) string {
	where := line(joined(" ", s.PostalCode, s.Locality), maxWord)
	title := line(s.Title, 100)
	if title == "" {
		title = line(s.Street, maxWord)
	}
	return joined(", ", title, where)
}

// property are the facts of an insertion, in a list all on one line.
func (w writer) property(s events.InsertionSummary) []fact {
	page, host := webLink(s.URL)
	all := facts(
		fact{Label: "Where", Text: joined(", ", line(s.Street, maxWord), line(joined(" ", s.PostalCode, s.Locality), maxWord))},
		fact{Label: "Size", Text: joined(", ", count1(line(s.Rooms.String(), 16), "room", "rooms"), suffixed(line(s.LivingSpace.String(), 16), " m²"))},
		fact{Label: "Price", Text: price(s.Price)},
		fact{Label: "Offer", Text: joined(", ", offer(s.OfferType), prefixed("ranked ", strings.ToLower(line(s.RankType, 32))))},
	)
	if !w.list {
		return append(all, facts(fact{Label: "Page", Text: onlyIf(page != "", host), URL: page})...)
	}
	var texts []string
	for _, f := range all {
		texts = append(texts, f.Text)
	}
	return facts(fact{Label: "Property", Text: joined(" · ", texts...), URL: page})
}

func count1(n, one, many string) string {
	switch n {
	case "":
		return ""
	case "1":
		return "1 " + one
	}
	return n + " " + many
}

func suffixed(s, suffix string) string {
	if s == "" {
		return ""
	}
	return s + suffix
}

func offer(kind string) string {
	switch kind {
	case "RENT":
		return "to rent"
	case "BUY", "SALE":
		return "for sale"
	}
	return strings.ToLower(line(kind, 32))
}

var intervals = map[string]string{"MONTH": "a month", "YEAR": "a year", "WEEK": "a week", "DAY": "a day", "ONETIME": ""}

// price is an amount of money as it is written in Switzerland: CHF 2’890.– a month.
func price(p *events.Price) string {
	if p == nil || p.Amount == "" {
		return ""
	}
	interval, known := intervals[p.Interval]
	if !known {
		interval = prefixed("per ", strings.ToLower(line(p.Interval, 32)))
	}
	return joined(" ", line(p.Currency, 8), amount(p.Amount.String()), interval)
}

// changedRequest is short: the names of what changed, and the person as they are now.
func (w writer) changedRequest(p *events.ContactRequestChanged) item {
	i := w.request(request{
		reference: p.PropertyReferenceID, contact: p.Contact, insertion: p.Insertion, created: p.CreatedAt, observed: p.ObservedAt,
		score: p.Score, defects: p.Defects, truncated: p.Truncated,
	})
	i.Label = "Contact request changed"
	i.Facts = append(facts(fact{Label: "Changed", Text: names(p.ChangedFields)}), i.Facts...)
	return i
}

// redacted asks for what the law wants of receivers.
func (w writer) redacted(p *events.ContactRequestRedacted) item {
	return item{
		Label:  "Contact request erased",
		Advice: "The portal has erased the data of this person. Erase it too: in your mail, your CRM and your notes.",
		Facts: facts(
			fact{Label: "Contact request", Text: line(p.ContactRequestID, maxWord)},
			fact{Label: "Wrote", Text: w.when(p.CreatedAt)},
			fact{Label: "Erased fields", Text: names(p.RedactedFields)},
			fact{Label: "Seen", Text: w.when(p.ObservedAt)},
		),
	}
}

// names lists names of fields.
func names(list []string) string {
	return line(strings.Join(list[:min(len(list), 50)], ", "), maxTitle)
}

func (w writer) insertion(s events.InsertionSummary, label string, observed time.Time) item {
	return item{Label: label, Heading: placeOf(s), Facts: append(facts(fact{Label: "Seen", Text: w.when(observed)}), w.property(s)...)}
}

// maxChanges is how many changes of an insertion are told.
const maxChanges = 20

// changes tell what was and what is.
func changes(list []events.Change) []fact {
	var told []fact
	for _, c := range list[:min(len(list), maxChanges)] {
		told = append(told, fact{Label: member(c.Path), Text: difference(c)})
	}
	if more := len(list) - maxChanges; more > 0 {
		told = append(told, fact{Label: "And", Text: count(more, "more change", "more changes")})
	}
	return told
}

// member is the end of a pointer in words: /prices/rent/gross is rent gross.
func member(pointer string) string {
	parts := strings.Split(line(pointer, maxTitle), "/")
	var b strings.Builder
	for _, r := range strings.Join(parts[max(0, len(parts)-2):], " ") {
		if unicode.IsUpper(r) {
			b.WriteByte(' ')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return line(b.String(), 60)
}

func difference(c events.Change) string {
	before, after := short(c.Before), short(c.After)
	switch {
	case before == "" && after == "":
		return "changed"
	case before == "":
		return "new: " + after
	case after == "":
		return "removed, was: " + before
	}
	return before + " → " + after
}

// short is a JSON value on one line.
func short(raw json.RawMessage) string { return line(or(scalar(raw), string(raw)), 80) }
