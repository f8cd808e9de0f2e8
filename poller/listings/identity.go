package listings

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ID is what a member of that name says, directly, in the metadata or in an object around the request: a text, or the
// text of a number, so that 1 and "1" are the same. It is empty if the member is absent, null or something else.
func (c ContactRequest) ID(name string) string {
	record := jsontext.Value(c.Record)
	if value, ok := member(record, name); ok {
		id, _ := scalar(value)
		return id
	}
	for outer, inner := range members(record) {
		if !slices.Contains(wrapperNames, plain(outer)) {
			continue
		}
		if value, ok := member(inner, name); ok {
			id, _ := scalar(value)
			return id
		}
	}
	return ""
}

// Fingerprint is the same for the same contact request, whatever its id, its score, and the style of names: a hash over
// reference, creation time, e-mail, phone and message. Where none of the last four is there, all of the record but the
// score stands in for them.
func (c ContactRequest) Fingerprint(reference string) (fingerprint [16]byte) {
	p := c.Contact()
	phone := firstText(p.Phone, p.PhoneRaw)
	created := ""
	if !c.CreatedAt.IsZero() {
		created = c.CreatedAt.UTC().Format(time.RFC3339Nano)
	}
	parts := []string{reference, created, strings.ToLower(p.Email), phone, p.Message}
	if strings.Join(parts[1:], "") == "" {
		digest, _ := Digest(c.Record, []string{"/score"})
		parts = append(parts, string(digest[:]))
	}
	var b []byte
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(fingerprint[:], sum[:])
	return fingerprint
}

// Field is one field of a contact request, told by its digest: enough to see that it changed, too little to know it.
type Field struct {
	Name   string   // as sent; "contact/phone" for a member of what holds the person
	Digest [32]byte // of the value in canonical form
	Person bool     // personal data
	Empty  bool     // null, "", [] or {}
}

// maxFields bounds what has to be remembered of a record; more members than that are no contact request.
const maxFields = 256

// Fields lists the members of the record by name, sorted, without the score. Members that hold the person are replaced by
// their own members. At most 256.
func (c ContactRequest) Fields() []Field {
	var list []Field
	for _, f := range parse(jsontext.Value(c.Record)) {
		switch {
		case f.plain == "score":
		case slices.Contains(personNames, f.plain) && f.value.Kind() == jsontext.KindBeginObject:
			for _, inner := range parse(f.value) {
				list = append(list, digestField(f.name+"/"+inner.name, inner.value, true))
			}
		default:
			list = append(list, digestField(f.name, f.value, isPersonal(f.plain)))
		}
	}
	slices.SortFunc(list, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxFields)]
}

func digestField(name string, value jsontext.Value, person bool) Field {
	digest, _ := Digest([]byte(value), nil) // a member of a record is proper JSON
	return Field{Name: name, Digest: digest, Person: person, Empty: isEmpty(value)}
}

// personFields are the names, beside those of phones and messages, that hold personal data.
var personFields = []string{
	"salutation", "gender", "firstname", "givenname", "forename", "lastname", "familyname", "surname", "fullname",
	"displayname", "name", "company", "companyname", "email", "emailaddress", "mail", "phonenumbers", "phones", "address",
	"language", "birthdate", "dateofbirth",
}

func isPersonal(name string) bool {
	return slices.Contains(personFields, name) || slices.Contains(phoneNames, name) ||
		slices.Contains(messageNames, name) || slices.Contains(personNames, name)
}
