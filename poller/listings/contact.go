package listings

import (
	"cmp"
	"html"
	"iter"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// Contact is the person behind a contact request: personal data. What the record does not say is
// absent. Fields, order and types are those of the event.
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

// Contact picks the person out of the record by common names, flat or one or two levels down. A
// customer is a party to a contract, so that one counts only where there is no other person.
func (c ContactRequest) Contact() Contact {
	o := c.object()
	contact := o.contact(personNames)
	if contact.FirstName+contact.LastName+contact.FullName+contact.Email+contact.PhoneRaw == "" {
		contact = o.contact(slices.Concat(personNames, customerNames))
	}
	return contact
}

func (o object) contact(holders []string) Contact {
	p := o.applicant(holders)
	c := Contact{
		Salutation: p.all.words(salutationNames...),
		Gender:     p.all.words(genderNames...),
		Company:    p.all.words(companyNames...),
		Address:    p.home(),
		Language:   p.all.words(languageNames...),
		Message:    p.all.message(),

		PreferredContact: p.all.preferred(),
		Portal:           slices.Concat(p.all, o.object("metadata")).words(portalNames...),
	}
	c.PhoneRaw, c.Phone = p.all.phone()
	c.FirstName, c.LastName, c.FullName = p.all.names()
	beside, address := p.all.email()
	if c.Email = address; c.FirstName+c.LastName == "" {
		c.FullName = cmp.Or(c.FullName, beside)
	}
	return c
}

// applicant is the record seen as one object. Of members with the same name the surest comes first.
type applicant struct {
	all object // of what holds the person, then of the record
	own object // of what holds nothing but the person
}

func (o object) applicant(holders []string) (p applicant) {
	add := func(name string, inner object) {
		p.all = append(p.all, inner...)
		if !slices.Contains(wrapperNames, name) {
			p.own = append(p.own, inner...)
		}
	}
	o = o.known()
	objects := slices.DeleteFunc(slices.Clone(o), func(m value) bool { return !m.isObject() })
	for _, name := range holders {
		inner := objects.object(name).known()
		if inner == nil {
			continue
		}
		for _, deeper := range personNames {
			add(deeper, inner.object(deeper).known())
		}
		add(name, inner)
	}
	p.all = append(p.all, o...)
	return p
}

// known are the members that may say something of a person, so that the rest of a large record is
// passed once.
func (o object) known() (list object) {
	for _, m := range o {
		if len(list) < maxFields && personWords[m.name.plain] {
			list = append(list, m)
		}
	}
	return list
}

// words is the first text that is not blank; those of a list are joined by spaces. Entities are
// read once.
func (o object) words(names ...string) string { return o.first(value.words, names) }

func (v value) words() (string, bool) {
	var parts []string
	for _, e := range v.firstElements(8) {
		if s, _ := e.text(); s != "" {
			parts = append(parts, s)
		}
	}
	return html.UnescapeString(strings.Join(parts, " ")), true
}

// firstElements are the first n elements of an array, or the value itself where it is none.
func (v value) firstElements(n int) []value {
	if !v.isArray() {
		return []value{v}
	}
	return v.inner[:min(n, len(v.inner))]
}

// names are the first name, the last name and the whole name. A bare "name" beside a first name is
// the last name, as on German and French forms, unless it holds both; "nome" beside "cognome" is
// the first name.
func (o object) names() (first, last, full string) {
	inner := o.object(bareNames...) // whose members need not say that they are names
	o = slices.Concat(o, inner.known())
	first = cmp.Or(o.words(firstNames...), inner.words("first", "given"))
	first = joined(first, cmp.Or(o.words(middleNames...), inner.words("middle")))
	last = cmp.Or(o.words(lastNames...), inner.words("last", "family"))
	last = joined(o.words(lastPrefixes...), last)
	full = cmp.Or(o.words(fullNames...), inner.words("full"))
	bare, given := o.words(bareNames...), o.words(givenNames...)
	switch {
	case first == "" && last != "" && given != "":
		first = given
	case bare == "":
		bare = given
	}
	if first != "" && last == "" && full == "" && without(bare, first) == bare {
		return first, bare, ""
	}
	full = cmp.Or(full, bare)
	if rest := without(full, cmp.Or(first, last)); rest != full {
		first, last = cmp.Or(first, rest), cmp.Or(last, rest)
	}
	return first, last, full
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// without is a whole name without one of its parts, at its begin or end; the whole name if it does
// not hold the part.
func without(whole, part string) string {
	if rest, ok := strings.CutPrefix(whole+" ", part+" "); ok && part != "" {
		return strings.TrimSpace(rest)
	}
	if rest, ok := strings.CutSuffix(whole, " "+part); ok {
		return strings.TrimSpace(rest)
	}
	return whole
}

// email is the first address that is one, with the name beside it; otherwise the first text
// where one belongs.
func (o object) email() (name, address string) {
	inner := []string{"address", "email", "emailaddress", "value"}
	names := slices.Concat(emailNames, senderNames)
	for s := range o.texts(names, inner) {
		if name, address = mailbox(s); address != "" {
			return name, address
		}
	}
	for s := range o.texts(emailNames, inner) {
		return "", s
	}
	return "", ""
}

// texts yields what is not blank under the names: texts, also in lists, and in objects under the
// inner names.
func (o object) texts(names, inner []string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for v := range o.all(names...) {
			for _, e := range v.firstElements(maxFields) {
				s, _ := e.text()
				// as Microsoft Graph writes it
				o := slices.Concat(e.object(), e.object().object("emailaddress"))
				if s = cmp.Or(strings.TrimSpace(s), o.text(inner...)); s != "" && !yield(s) {
					return
				}
			}
		}
	}
}

var (
	mailto       = regexp.MustCompile(`(?i)\bmailto:([^?]*)(?:\?.*)?`)
	addressToken = regexp.MustCompile(`[^\s\pZ<>()\[\],;:"|]+@[^\s\pZ<>()\[\],;:"|?]+`)
)

// visible drops characters that are not seen.
func visible(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

// mailbox reads an e-mail address as people and programs write it: alone, after a name, with
// mailto: before it. Of several it is the first that is one.
func mailbox(s string) (name, address string) {
	if len(s) > 1000 {
		return "", ""
	}
	s = strings.ReplaceAll(html.UnescapeString(s), "＠", "@")
	s = strings.Trim(strings.Map(visible, s), " \t\r\n'")
	if parts := mailto.FindStringSubmatch(s); parts != nil {
		to, _ := url.PathUnescape(parts[1])
		s = strings.Replace(s, parts[0], cmp.Or(to, parts[1]), 1)
	}
	if a, err := mail.ParseAddress(s); err == nil {
		if address = ascii(a.Address); address != "" {
			return strings.TrimSpace(a.Name), address
		}
	}
	for n, at := range addressToken.FindAllStringIndex(s, 10) {
		a, err := mail.ParseAddress(strings.Trim(s[at[0]:at[1]], ".'"))
		if err != nil {
			continue
		}
		if before, named := strings.CutSuffix(s[:at[0]], "<"); named && n == 0 {
			name = strings.Trim(before, " \"'")
		}
		if address = ascii(a.Address); address != "" {
			return name, address
		}
	}
	return "", ""
}

// ascii is an address whose domain is written in ASCII, as the mail system wants it; empty if no
// mail can be sent there.
func ascii(address string) string {
	at := strings.LastIndexByte(address, '@')
	if strings.ContainsAny(address[:at], " \t\"(),:;<>@[\\]") ||
		strings.Contains(address[at:], "|") {
		return ""
	}
	if strings.IndexFunc(address[at:], func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return address
	}
	domain, err := idna.Lookup.ToASCII(address[at+1:])
	if err != nil {
		return ""
	}
	return address[:at+1] + domain
}

func (o object) preferred() string {
	stated := o.words(append(preferenceNames, "preferences")...)
	return cmp.Or(stated, o.object("preferences").words(preferenceNames...))
}

// phone is the first number that can be called, as sent and in E.164; else the first one.
func (o object) phone() (raw, number string) {
	country, area := o.scalar(phoneCountries...), o.scalar(phoneAreas...)
	// in an object of the number
	codes := append([]string{"countrycode", "prefix"}, phoneCountries...)
	numbers := append([]string{"number", "value"}, phoneNames...)
	for v := range o.all(phoneNames...) {
		for _, e := range v.firstElements(maxFields) {
			s, _ := e.scalar()
			s = dialled(country, area, strings.TrimSpace(s))
			if inner := e.object(); inner != nil {
				code, local := inner.scalar(codes...), inner.scalar(phoneAreas...)
				s = dialled(code, local, inner.scalar(numbers...))
			}
			if number = E164(s); number != "" {
				return s, number
			}
			raw = cmp.Or(raw, s)
		}
	}
	return raw, ""
}

// dialled joins a number to its country and area codes where they come apart.
func dialled(country, area, number string) string {
	if strings.HasPrefix(number, area) {
		area = ""
	}
	national := joined(area, number)
	code := strings.TrimLeft(country, "+0 ")
	switch {
	case number == "", strings.HasPrefix(number, "+"), area == "" && strings.HasPrefix(number, "00"):
		return number
	case allDigits(code) && len(code) <= 3:
		if !slices.Contains(zeroKept, code) {
			national = strings.TrimSpace(strings.TrimPrefix(national, "(0)"))
			national = strings.TrimPrefix(national, "0")
		}
		return "+" + code + " " + national
	case area == "", E164(number) != "": // needs no area code
		return number
	}
	return national
}

// message is kept as it is, white space and entities included: whether it is HTML is seen where it
// is shown.
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

// home is the person's address; nil if there is none. What lies flat counts only in what holds
// nothing but the person: in the record itself it may belong to the property.
func (p applicant) home() *Address {
	in, streets, numbers := p.own, streetNames, houseNumbers
	inner := p.all.object(homeNames...)
	if inner != nil { // whose members need not say that they are of an address
		in, streets, numbers = inner, append(streets, "via"), append(numbers, "nr", "no", "numero")
	}
	a := Address{
		Street:     cmp.Or(in.street(streets, numbers), in.words(homeNames...)),
		PostalCode: in.scalar(postalCodes...),
		Locality:   in.words(localityNames...),
	}
	if inner != nil || a != (Address{}) { // a country alone is not where a person lives
		a.Country = in.words(countryNames...)
	}
	if a == (Address{}) {
		return nil
	}
	return &a
}

// swissAreas are the first two digits after the 0 of Swiss numbers of persons and firms.
const swissAreas = " 21 22 24 26 27 31 32 33 34 41 43 44 51 52 55 56 58 61 62 71 74 75 76 77 78 79 81 91 "

// zeroKept are the countries in which the 0 of a national number is dialled from abroad too;
// zeroDropped are some in which it never is, though people write it.
var (
	zeroKept    = []string{"39", "378"}
	zeroDropped = []string{"41", "43", "49", "33", "44", "423"}
)

var (
	trunkZero   = regexp.MustCompile(`^(\s*(?:\+|0\s?0)\s*([0-9]{1,3})[\s.-]*)[(\[]\s*0\s*[)\]]`)
	phoneLabel  = regexp.MustCompile(`^\s*\pL[\pL. ]{0,20}[.:]?\s*`)
	phoneRemark = regexp.MustCompile(`(?i)[\s,;]*(?:\([^()0-9]+\)|` +
		`(?:ext(?:ension)?|x|durchwahl|dw|int(?:ern[eo]?)?|poste|#)[\s.:=]*[0-9]{1,6})\s*$`)
)

// E164 writes a phone number as +41790000123 if it is clearly a Swiss or an international one; else
// it is empty. An extension and remarks are left out.
func E164(raw string) string {
	if len(raw) > 200 {
		return ""
	}
	s := norm.NFKC.String(html.UnescapeString(raw)) // full-width digits, spaces that do not break
	s = phoneRemark.ReplaceAllString(phoneLabel.ReplaceAllString(s, ""), "")
	if parts := trunkZero.FindStringSubmatch(s); parts != nil &&
		!slices.Contains(zeroKept, parts[2]) {
		s = parts[1] + s[len(parts[0]):]
	}
	s = strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Z, unicode.Pd, unicode.C) ||
			strings.ContainsRune("./()[]_'’\u2212", r) {
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
	if national, ok := strings.CutPrefix(s, "41"); ok && isSwiss(national) {
		return "+" + s
	}
	return ""
}

func international(digits string) string {
	for _, country := range zeroDropped {
		if national, ok := strings.CutPrefix(digits, country+"0"); ok {
			digits = country + national
		}
	}
	swiss := strings.HasPrefix(digits, "41") && len(digits) != len("41790000123")
	if !allDigits(digits) || len(digits) < 8 || len(digits) > 15 || digits[0] == '0' || swiss {
		return ""
	}
	return "+" + digits
}

func isSwiss(national string) bool {
	return len(national) == 9 && allDigits(national) &&
		strings.Contains(swissAreas, " "+national[:2]+" ")
}

func allDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
