package listings

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ID is what a member of that name says, directly, in the metadata or in an object around the request: a text, or the
// text of a number, so that 1 and "1" are the same. It is empty if the member is absent, null or something else. A name in
// another style counts where the name itself is not there.
func (c ContactRequest) ID(name string) string {
	o := c.object()
	if value, ok := o.styled(name); ok {
		id, _ := scalar(value)
		return id
	}
	for inner := range o.all(wrapperNames...) {
		if value, ok := parse(inner).styled(name); ok {
			id, _ := scalar(value)
			return id
		}
	}
	return ""
}

// styled is the last member of that name, else the last of the first name that is like it.
func (o object) styled(name string) (found jsontext.Value, ok bool) {
	best := ""
	for _, f := range o {
		switch {
		case f.name == name, !ok && SameName(f.name, name), ok && f.name == best:
			found, best, ok = f.value, f.name, true
		}
	}
	return found, ok
}

// Fingerprint is the same for the same contact request, whatever its id, its score, and the style of names: a hash over
// reference, creation time (its text, where it is a date that cannot be read), e-mail, phone and message. Where none of the last four is there, all of the record but the
// score stands in for them.
func (c ContactRequest) Fingerprint(reference string) (fingerprint [16]byte) {
	p := c.Contact()
	phone := firstText(p.Phone, p.PhoneRaw)
	created := c.CreatedAt.UTC().Format(time.RFC3339Nano)
	if c.CreatedAt.IsZero() {
		created = c.object().written()
	}
	parts := []string{reference, created, strings.ToLower(p.Email), phone, p.Message}
	if c.CreatedAt.IsZero() && strings.Join(parts[2:], "") == "" {
		digest, _ := Digest(c.Record, scores(c.Record))
		parts = append(parts, string(digest[:]))
	}
	b := make([]byte, 0, 512)
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(fingerprint[:], sum[:])
	return fingerprint
}

// scores are the pointers to the score of a contact request, however it is spelled, its own or one level down.
func scores(record json.RawMessage) (pointers []string) {
	for name, value := range members(jsontext.Value(record)) {
		at := jsontext.Pointer("").AppendToken(name)
		if SameName(name, "score") {
			pointers = append(pointers, string(at))
		}
		for deeper := range members(value) {
			if SameName(deeper, "score") {
				pointers = append(pointers, string(at.AppendToken(deeper)))
			}
		}
	}
	return pointers
}

// Field is one field of a contact request, told by its digest: enough to see that it changed, too little to know it.
type Field struct {
	Name   string   // as sent; "contact/phone" for a member of what holds the person
	Digest [32]byte // of the value in canonical form
	Empty  bool     // null, "", [] or {}
	Erased bool     // empty, and personal data where it is not
}

// maxFields bounds what has to be remembered of a record; more members than that are no contact request.
const maxFields = 256

// Fields lists the members of the record by name, sorted, without the score. Members that hold the person, or all of the
// request, are replaced by their own members, two levels down. At most 256.
func (c ContactRequest) Fields() []Field {
	o := c.object()
	list := fieldsOf(make([]Field, 0, len(o)), o, "", false, 2)
	slices.SortFunc(list, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxFields)]
}

func fieldsOf(list []Field, o object, prefix string, person bool, deeper int) []Field {
	for _, f := range o {
		if f.plain == "score" && !person {
			continue
		}
		if deeper > 0 && f.value.Kind() == jsontext.KindBeginObject && !isEmpty(f.value) {
			wraps := slices.Contains(wrapperNames, f.plain)
			if wraps || slices.Contains(personNames, f.plain) {
				list = fieldsOf(list, parse(f.value), prefix+f.name+"/", person || !wraps, deeper-1)
				continue
			}
		}
		digest, _ := Digest([]byte(f.value), nil) // a member of a record is proper JSON
		empty := isEmpty(f.value)
		list = append(list, Field{prefix + f.name, digest, empty, empty && (person || isPersonal(f.plain))})
	}
	return list
}

// personFields are the names of members that hold personal data, or objects around it.
var personFields = slices.Concat(
	salutationNames, firstNames, lastNames, fullNames, companyNames, emailNames, phoneNames, messageNames, homeNames, personNames,
	[]string{"gender", "emails", "emailaddresses", "phonenumbers", "phones", "telephones", "language", "birthdate", "dateofbirth"},
)

func isPersonal(name string) bool { return slices.Contains(personFields, name) }
