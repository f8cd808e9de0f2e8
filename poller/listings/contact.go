package listings

import (
	"cmp"
	"slices"
	"strings"
)

// Contact is the person behind a contact request: personal data. What the record does not say is absent. Fields, order
// and types are those of the event.
type Contact struct {
	Salutation       string
	Gender           string
	FirstName        string
	LastName         string
	FullName         string
	Company          string
	Email            string
	Phone            string // E.164, if the number is clearly one
	PhoneRaw         string // as sent
	Address          *Address
	Language         string
	Message          string
	PreferredContact string
	Portal           string
}

// Address is where a person lives.
type Address struct {
	Street     string
	PostalCode string
	Locality   string
	Country    string
}

// person is the record seen as one object: members of what holds the person first, then its own. A customer is whoever has
// a contract, so that one counts only where nobody else is there.
func (o object) person() object {
	var all object
	for _, name := range personNames {
		inner := o.object(name)
		if inner == nil {
			continue
		}
		for _, deeper := range personNames {
			all = append(all, inner.object(deeper)...)
		}
		all = append(all, inner...)
	}
	all = append(all, o...)
	if all.email() == "" && all.phone() == "" && all.text(slices.Concat(firstNames, lastNames, fullNames)...) == "" {
		all = append(all, o.object("customer")...)
	}
	return all
}

// Contact picks the person out of the record by common names, flat or one or two levels down.
func (c ContactRequest) Contact() Contact {
	o := c.object()
	p := o.person()
	name := p.object("name")
	contact := Contact{
		Salutation: p.text(salutationNames...), Gender: p.text("gender"),
		FirstName: cmp.Or(p.text(firstNames...), name.text("first", "firstname", "given")),
		LastName:  cmp.Or(p.text(lastNames...), name.text("last", "lastname", "family")),
		FullName:  p.text(fullNames...),
		Company:   p.text(companyNames...),
		Email:     p.email(),
		PhoneRaw:  p.phone(),
		Address:   p.home(),
		Language:  p.text(languageNames...),
		Message:   p.message(),

		PreferredContact: p.preferred(),
		Portal:           slices.Concat(p, o.object("metadata")).text("portal", "sourceportal", "source", "platform"),
	}
	contact.Phone = E164(contact.PhoneRaw)
	return contact
}

// email is a text, or what stands in an object or in the first element of a list.
func (o object) email() string {
	inner := []string{"address", "email", "value"}
	return cmp.Or(o.text(emailNames...), o.object(emailNames...).text(inner...), o.firstListed(emailLists, inner))
}

func (o object) preferred() string {
	return cmp.Or(o.text(append(preferenceNames, "preferences")...), o.object("preferences").text(preferenceNames...))
}

// phone is the first number that there is: a text, a number, or the first of a list of them or of objects around them.
func (o object) phone() string {
	inner := append([]string{"number", "value"}, phoneNames...)
	return cmp.Or(o.scalar(phoneNames...), o.firstListed(phoneLists, inner), o.object(phoneNames...).scalar(inner...))
}

// firstListed is the first text of the first list that is not empty, or of the objects in it.
func (o object) firstListed(names, inner []string) string {
	for v := range o.all(names...) {
		if !v.isArray() || v.isEmpty() {
			continue
		}
		for e := range v.elements() {
			if s, ok := e.scalar(); ok && strings.TrimSpace(s) != "" {
				return strings.TrimSpace(s)
			}
			if s := e.object().scalar(inner...); s != "" {
				return s
			}
		}
		return ""
	}
	return ""
}

// message is kept as it is, white space included.
func (o object) message() string {
	for v := range o.all(messageNames...) {
		if s, ok := v.text(); ok && strings.TrimSpace(s) != "" {
			return s
		}
		if s := v.object().text("text", "body", "content", "message"); s != "" {
			return s
		}
	}
	return ""
}

// home is the person's address; nil if there is none. The record's own members count only if they are an address: what
// lies there flat may belong to the property.
func (o object) home() *Address {
	in := o.object(homeNames...)
	a := Address{
		Street:     in.street(),
		PostalCode: in.scalar("postalcode", "zipcode", "zip", "plz", "postcode"),
		Locality:   in.text("locality", "city", "town"),
		Country:    in.text("country", "countrycode"),
	}
	if a == (Address{}) {
		return nil
	}
	return &a
}

// swissAreas are the first two digits after the 0 of Swiss numbers of persons and firms.
const swissAreas = " 21 22 24 26 27 31 32 33 34 41 43 44 51 52 55 56 58 61 62 71 74 75 76 77 78 79 81 91 "

// E164 writes a phone number as +41790000123 if it is clearly a Swiss or an international one; else it is empty.
func E164(raw string) string {
	s := strings.Replace(raw, "(0)", "", 1)
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune(" .-/()\t\u00a0\u2009\u202f\u2010\u2011\u2012\u2013", r) {
			return -1
		}
		return r
	}, s)
	if rest, ok := strings.CutPrefix(s, "00"); ok {
		s = "+" + rest
	}
	if rest, ok := strings.CutPrefix(s, "+"); ok {
		return international(rest)
	}
	if national, ok := strings.CutPrefix(s, "0"); ok && isSwiss(national) {
		return "+41" + national
	}
	return ""
}

func international(digits string) string {
	if !allDigits(digits) || len(digits) < 8 || len(digits) > 15 || digits[0] == '0' {
		return ""
	}
	if national, ok := strings.CutPrefix(digits, "41"); ok {
		if national = strings.TrimPrefix(national, "0"); len(national) != 9 {
			return ""
		}
		return "+41" + national
	}
	return "+" + digits
}

func isSwiss(national string) bool {
	return len(national) == 9 && allDigits(national) && strings.Contains(swissAreas, " "+national[:2]+" ")
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
