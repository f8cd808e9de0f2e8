package listings

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
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

// personNames are members that hold the person, or all of the contact request.
var personNames = []string{
	"contact", "sender", "person", "applicant", "requester", "inquirer", "enquirer", "seeker", "prospect", "customer", "user",
	"contactrequest", "request", "lead",
}

// person is the record seen as one object: members of what holds the person first, then its own.
func (o object) person() object {
	var all object
	for _, name := range personNames {
		inner := o.object(name)
		for _, deeper := range personNames {
			all = append(all, inner.object(deeper)...)
		}
		all = append(all, inner...)
	}
	return append(all, o...)
}

// Contact picks the person out of the record by common names, flat or one or two levels down.
func (c ContactRequest) Contact() Contact {
	o := parse(jsontext.Value(c.Record))
	p := o.person()
	contact := Contact{
		Salutation: p.text("salutation", "formofaddress"), Gender: p.text("gender"),
		FirstName: p.text("firstname", "givenname", "forename"),
		LastName:  p.text("lastname", "familyname", "surname"),
		FullName:  p.text("fullname", "displayname", "name"),
		Company:   p.text("company", "companyname", "organization", "organisation"),
		Email:     p.text("email", "emailaddress", "mail"),
		PhoneRaw:  p.phone(),
		Address:   p.home(),
		Language:  p.text("language", "preferredlanguage", "languagecode", "lang", "locale"),
		Message:   p.message(),

		PreferredContact: p.text("preferredcontact", "preferredcontactmethod", "contactpreference", "preferredcontacttype"),
		Portal:           either(p, o.object("metadata")).text("portal", "sourceportal", "source", "platform"),
	}
	contact.Phone = e164(contact.PhoneRaw)
	return contact
}

var phoneNames = []string{
	"phone", "phonenumber", "mobile", "mobilephone", "mobilenumber", "mobilephonenumber", "telephone", "telephonenumber", "tel",
}

// phone is the first number that there is: a text, a number, or the first of a list of them or of objects around them.
func (o object) phone() string {
	if s := o.scalar(phoneNames...); s != "" {
		return s
	}
	for raw := range elements(o.get("phonenumbers", "phones", "telephones")) {
		if s, ok := scalar(raw); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
		if s := parse(raw).scalar(append([]string{"number", "value"}, phoneNames...)...); s != "" {
			return s
		}
	}
	return o.object("phone", "phonenumber", "telephone").scalar("number", "value")
}

var messageNames = []string{"message", "messagetext", "text", "body", "comment", "comments", "remarks", "inquiry"}

// message is kept as it is, white space included.
func (o object) message() string {
	for value := range o.all(messageNames...) {
		if s, ok := text(value); ok && strings.TrimSpace(s) != "" {
			return s
		}
		if s := parse(value).text("text", "body", "content"); s != "" {
			return s
		}
	}
	return ""
}

// home is the person's address; nil if there is none. The record's own members count only if they are an address: what
// lies there flat may belong to the property.
func (o object) home() *Address {
	in := o.object("address")
	a := Address{
		Street:     street(in, nil),
		PostalCode: in.scalar("postalcode", "zipcode", "zip", "plz", "postcode"),
		Locality:   in.text("locality", "city", "town"),
		Country:    in.text("country", "countrycode"),
	}
	if a == (Address{}) {
		return nil
	}
	return &a
}
