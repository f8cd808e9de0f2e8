package listings

import (
	"slices"
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
	"contact", "sender", "person", "applicant", "requester", "inquirer", "enquirer", "seeker", "prospect", "user",
	"contactdetails", "contactdata", "contactinformation", "personaldata", "usercontactdetails", "userinformation",
	"contactrequest", "request", "lead", "inquiry", "enquiry", "node", "attributes", "item",
}

// person is the record seen as one object: members of what holds the person first, then its own. A customer is whoever has
// a contract, so that one counts only where nobody else is there.
func (o object) person() object {
	if !slices.ContainsFunc(o, func(f field) bool { return f.value.Kind() == jsontext.KindBeginObject }) {
		return o
	}
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

// Names of what a person has. All of them are personal data.
var (
	salutationNames = []string{"salutation", "formofaddress"}
	firstNames      = []string{"firstname", "givenname", "forename", "senderfirstname", "contactfirstname"}
	lastNames       = []string{"lastname", "familyname", "surname", "senderlastname", "contactlastname"}
	fullNames       = []string{"fullname", "displayname", "name", "sendername", "contactname"}
	companyNames    = []string{"company", "companyname", "organization", "organisation"}
	emailNames      = []string{"email", "emailaddress", "mail", "senderemail", "contactemail", "fromaddress"}
	phoneNames      = []string{
		"phone", "phonenumber", "mobile", "mobilephone", "mobilenumber", "mobilephonenumber", "telephone", "telephonenumber", "tel",
		"cellphone", "senderphone", "contactphone", "phoneday", "phoneevening",
	}
	languageNames = []string{"language", "preferredlanguage", "languagecode", "lang", "locale"}
	messageNames  = []string{"message", "messagetext", "messagebody", "text", "body", "comment", "comments", "remarks", "inquiry", "enquiry"}
	homeNames     = []string{"address", "homeaddress", "postaladdress"}
)

// Contact picks the person out of the record by common names, flat or one or two levels down.
func (c ContactRequest) Contact() Contact {
	if c.read == nil {
		return c.object().contact()
	}
	if c.read.contact == nil {
		found := c.object().contact()
		c.read.contact = &found
	}
	return *c.read.contact
}

func (o object) contact() Contact {
	p := o.person()
	name := p.object("name")
	contact := Contact{
		Salutation: p.text(salutationNames...), Gender: p.text("gender"),
		FirstName: firstText(p.text(firstNames...), name.text("first", "firstname", "given")),
		LastName:  firstText(p.text(lastNames...), name.text("last", "lastname", "family")),
		FullName:  p.text(fullNames...),
		Company:   p.text(companyNames...),
		Email:     p.email(),
		PhoneRaw:  p.phone(),
		Address:   p.home(),
		Language:  p.text(languageNames...),
		Message:   p.message(),

		PreferredContact: p.preferred(),
		Portal:           objects{p, o.object("metadata")}.text("portal", "sourceportal", "source", "platform"),
	}
	contact.Phone = e164(contact.PhoneRaw)
	return contact
}

// email is a text, or what stands in an object or in the first element of a list.
func (o object) email() string {
	if s := o.text(emailNames...); s != "" {
		return s
	}
	inner := []string{"address", "email", "value"}
	if s := o.object(emailNames...).text(inner...); s != "" {
		return s
	}
	return o.list("emails", "emailaddresses").first(inner)
}

var preferenceNames = []string{"preferredcontact", "preferredcontactmethod", "contactpreference", "preferredcontacttype", "contactmethod"}

func (o object) preferred() string {
	if s := o.text(append(preferenceNames, "preferences")...); s != "" {
		return s
	}
	return o.object("preferences").text(preferenceNames...)
}

// phone is the first number that there is: a text, a number, or the first of a list of them or of objects around them.
func (o object) phone() string {
	if s := o.scalar(phoneNames...); s != "" {
		return s
	}
	inner := append([]string{"number", "value"}, phoneNames...)
	if s := o.list("phonenumbers", "phones", "telephones").first(inner); s != "" {
		return s
	}
	return o.object(phoneNames...).scalar(inner...)
}

// elementsOf is a list of texts, or of objects around them.
type elementsOf jsontext.Value

func (o object) list(names ...string) elementsOf {
	for value := range o.all(names...) {
		if value.Kind() == jsontext.KindBeginArray && !isEmpty(value) {
			return elementsOf(value)
		}
	}
	return nil
}

func (l elementsOf) first(inner []string) string {
	for raw := range elements(jsontext.Value(l)) {
		if s, ok := scalar(raw); ok && strings.TrimSpace(s) != "" {
			return strings.TrimSpace(s)
		}
		if s := parse(raw).scalar(inner...); s != "" {
			return s
		}
	}
	return ""
}

// message is kept as it is, white space included.
func (o object) message() string {
	for value := range o.all(messageNames...) {
		if s, ok := text(value); ok && strings.TrimSpace(s) != "" {
			return s
		}
		if s := parse(value).text("text", "body", "content", "message"); s != "" {
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
		Street:     objects{in}.street(),
		PostalCode: in.scalar("postalcode", "zipcode", "zip", "plz", "postcode"),
		Locality:   in.text("locality", "city", "town"),
		Country:    in.text("country", "countrycode"),
	}
	if a == (Address{}) {
		return nil
	}
	return &a
}
