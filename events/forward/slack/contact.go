package slack

import (
	"cmp"
	"strings"
	"time"

	"doorbell/events"
)

// created is what an agent wants to see of a new contact request: who, about what, what they wrote, when.
func (l look) created(p *events.ContactRequestCreated) card {
	who := l.name(p.Contact)
	c := card{title: "🔔 New contact request: " + who, gist: gist(p.Insertion, p.PropertyReferenceID)}
	l.property(&c.body, p.Insertion, p.PropertyReferenceID)
	c.body.section(plain(l.words(p.Contact), maxSection))
	if l.full {
		l.person(&c.body, p.Contact)
	}
	c.links = l.links(p.Contact, p.Insertion)
	c.small = []*text{
		marked(l.written(p.CreatedAt, p.ObservedAt)),
		l.labelled("Score", score(p.Score), "Reference", p.PropertyReferenceID, "Agency", p.AgencyID, "via", p.Contact.Portal),
	}
	if p.Truncated || len(p.Defects) > 0 {
		c.small = append(c.small, marked("⚠️ incomplete: the portal has the whole"))
	}
	return c
}

func (l look) changed(p *events.ContactRequestChanged) card {
	c := card{title: "✏️ Contact request changed: " + l.name(p.Contact), gist: gist(p.Insertion, p.PropertyReferenceID)}
	l.property(&c.body, p.Insertion, p.PropertyReferenceID)
	c.body.section(plain("Changed: "+line(strings.Join(p.ChangedFields, ", ")), l.room.line))
	c.links = l.links(p.Contact, p.Insertion)
	c.small = []*text{marked(l.written(p.CreatedAt, p.ObservedAt)), l.labelled("Reference", p.PropertyReferenceID, "Agency", p.AgencyID)}
	return c
}

// redacted asks people to do what we cannot: a message that was posted cannot be recalled through its webhook.
func (l look) redacted(p *events.ContactRequestRedacted) card {
	c := card{title: "🧹 Personal data erased", gist: line(p.PropertyReferenceID)}
	c.body.section(marked("A person's data is no longer at the portal. *Please erase it here too*: the message about this contact request, and what was copied from it."))
	c.body.section(plain("Erased: "+line(strings.Join(p.RedactedFields, ", ")), l.room.line))
	c.small = []*text{marked(l.written(p.CreatedAt, p.ObservedAt)), l.labelled("Reference", p.PropertyReferenceID, "Agency", p.AgencyID)}
	return c
}

// name is who wrote, as far as it is shown.
func (l look) name(c events.Contact) string {
	first, last, whole := line(c.FirstName), line(c.LastName), line(c.FullName)
	if l.full {
		name := line(c.Salutation + " " + cmp.Or(line(first+" "+last), whole, line(c.Company)))
		return fit(cmp.Or(name, unnamed), 100)
	}
	if first == "" && last == "" {
		first, last = splitName(whole)
	}
	first, _, _ = strings.Cut(first, " ")
	// A family name ends with what tells it from others: of "von Beispiel" that is B.
	words := strings.Fields(last)
	if len(words) > 0 {
		last = initial(words[len(words)-1])
	}
	name := strings.TrimSpace(fit(first, 30) + " " + last)
	if spare(name, "") != name {
		return unnamed // an address or a number, where a name should be
	}
	return cmp.Or(name, unnamed)
}

const unnamed = "somebody"

func splitName(whole string) (first, last string) {
	i := strings.LastIndex(whole, " ")
	if i < 0 {
		return whole, ""
	}
	return whole[:i], whole[i+1:]
}

// words are what the person wrote. With [Short] less is shown, and not who can be reached where.
func (l look) words(c events.Contact) string {
	message := lines(c.Message)
	if message == "" {
		return ""
	}
	limit := l.room.message
	if !l.full {
		limit = min(limit, shortMessage)
		family := c.LastName
		if family == "" {
			_, family = splitName(line(c.FullName))
		}
		message = spare(message, first(line(family), 60))
	}
	return "“" + cutWords(message, limit) + "”"
}

const shortMessage = 400

// cutWords cuts at a space, if one is near.
func cutWords(s string, limit int) string {
	short := first(s, limit)
	if short == s {
		return s
	}
	s = short
	if i := strings.LastIndexAny(s, " \n"); i > len(s)*4/5 {
		s = s[:i]
	}
	return strings.TrimSpace(s) + " …"
}

// person is how to reach somebody.
func (l look) person(b *blocks, c events.Contact) {
	cell := func(label, value string) *text {
		if value = line(value); value == "" {
			return nil
		}
		return plain(label+": "+fit(value, l.room.line), maxField)
	}
	company := c.Company
	if line(c.FirstName+c.LastName+c.FullName) == "" {
		company = "" // it stands in the title
	}
	b.table(cell("E-mail", c.Email), cell("Phone", cmp.Or(c.Phone, c.PhoneRaw)), cell("Company", company), cell("Prefers", c.PreferredContact))
}

// property is what an insertion is: title, place, facts; at least its reference.
func (l look) property(b *blocks, s events.InsertionSummary, reference string) {
	var all []string
	for _, s := range []string{line(s.Title), place(s), facts(s)} {
		if s != "" {
			all = append(all, fit(s, l.room.line))
		}
	}
	if len(all) == 0 {
		all = []string{"Insertion " + fit(line(reference), l.room.line)}
	}
	b.section(plain(strings.Join(all, "\n"), maxSection))
}

// gist is an insertion in one short line, for notifications and lists.
func gist(s events.InsertionSummary, reference string) string {
	all := strings.Trim(line(s.Title)+", "+line(s.Locality), ", ")
	return fit(cmp.Or(all, line(reference)), 200)
}

func (l look) links(c events.Contact, s events.InsertionSummary) markup {
	var all []markup
	add := func(emoji, link markup) {
		if link != "" {
			all = append(all, emoji+" "+link)
		}
	}
	if l.full {
		add("✉️", mailLink(c.Email, s.Title))
		add("📞", callLink(c.Phone))
	}
	add("🏠", insertionLink(s.URL))
	return joined(all, "  ·  ")
}

func joined(all []markup, between string) markup {
	list := make([]string, len(all))
	for i, m := range all {
		list[i] = string(m)
	}
	return markup(strings.Join(list, between))
}

// written is when a contact request was made, or where nobody knows, when we saw it.
func (l look) written(createdAt, observedAt time.Time) markup {
	if createdAt.IsZero() {
		return "Seen " + l.when(observedAt)
	}
	return "Written " + l.when(createdAt)
}

// labelled is pairs of a word and a value, in one line; those without a value are left out.
func (l look) labelled(pairs ...string) *text {
	var all []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if value := line(pairs[i+1]); value != "" {
			all = append(all, "· "+pairs[i]+" "+fit(value, l.room.line))
		}
	}
	return plain(strings.Join(all, " "), maxField)
}
