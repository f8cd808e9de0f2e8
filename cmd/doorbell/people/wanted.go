package people

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"doorbell/events"
	"doorbell/poller/listings"
)

// Wanted says whose data are meant: exactly one of Email, Phone, ContactRequestID and PropertyReferenceID, or the latter two, of one agency or
// of all. It holds a person's data, and is printed nowhere.
type Wanted struct {
	Email               string `json:"email,omitempty"`
	Phone               string `json:"phone,omitempty"`
	ContactRequestID    string `json:"contactRequestId,omitempty"`
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"`
	AgencyID            string `json:"agencyId,omitempty"`
}

// Errors of Check. They do not quote what was written.
var (
	ErrNobody = errors.New("name one of a mail address, a phone number, a contact request and an insertion")
	ErrEmail  = errors.New("it is no mail address; write one like nora.beispiel@example.org")
	ErrPhone  = errors.New("it is no phone number; write it with its country, like +41790000123, or as the API gives it")
)

// Check refuses what means nobody, or would mean half of the world.
func (w Wanted) Check() error {
	given := 0
	for _, s := range []string{w.Email, w.Phone, w.ContactRequestID + w.PropertyReferenceID} {
		if s != "" {
			given++
		}
	}
	name, host, at := strings.Cut(w.email(), "@")
	switch {
	case given != 1:
		return ErrNobody
	case w.Email != "" && (!at || name == "" || len(host) < 3 || strings.ContainsFunc(w.email(), func(r rune) bool { return r <= ' ' || strings.ContainsRune(`<>,;"@`, r) && r != '@' }) || strings.Contains(host, "@")):
		return ErrEmail
	case w.Phone != "" && len(digits(w.Phone)) < 6:
		return ErrPhone
	}
	return nil
}

// By is what is searched for, as a word.
func (w Wanted) By() string {
	switch {
	case w.Email != "":
		return "email"
	case w.Phone != "":
		return "phone"
	case w.ContactRequestID != "":
		return "contactRequestId"
	}
	return "propertyReferenceId"
}

// normal is what is searched for, in the one form that is compared.
func (w Wanted) normal() string {
	switch {
	case w.Email != "":
		return w.email()
	case w.Phone != "":
		return w.phone()
	}
	return w.ContactRequestID + "\x00" + w.PropertyReferenceID
}

// Texts are the forms in which an address may stand in a file; of a request and an insertion there are none, as their ids stay.
func (w Wanted) Texts() []string {
	switch {
	case w.Email != "":
		return []string{w.email()}
	case w.Phone == "":
		return nil
	}
	texts := []string{strings.TrimSpace(w.Phone)}
	if n := w.phone(); n != texts[0] {
		texts = append(texts, n)
	}
	return texts
}

// email is the address without its case: mail servers that tell Nora from nora are not to be found.
func (w Wanted) email() string { return strings.ToLower(strings.TrimSpace(w.Email)) }

func (w Wanted) phone() string { return phone(w.Phone) }

// phone is a number as E.164 where it is clearly one, else its digits.
func phone(raw string) string {
	if n := listings.E164(strings.TrimSpace(raw)); n != "" {
		return n
	}
	return digits(raw)
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, s)
}

// matches says whether an event is of the person. An address counts wherever it stands in what the person is or wrote, a number where
// it is all of a value.
func (w Wanted) matches(e events.Event) bool {
	switch {
	case w.AgencyID != "" && e.AgencyID != w.AgencyID:
		return false
	case w.PropertyReferenceID != "" && e.Reference != w.PropertyReferenceID:
		return false
	case w.ContactRequestID != "":
		return requestOf(e).ContactRequestID == w.ContactRequestID
	case w.PropertyReferenceID != "":
		return true
	}
	var p struct{ Contact, Record json.RawMessage }
	if json.Unmarshal(e.Data, &p) != nil {
		return false
	}
	is := w.is()
	return anyText(p.Contact, is) || anyText(p.Record, is)
}

// is says whether a text is of the person.
func (w Wanted) is() func(string) bool {
	if w.Email != "" {
		return mentions(w.email())
	}
	number := w.phone()
	return func(s string) bool {
		return len(s) >= 6 && len(s) < 64 && !strings.ContainsFunc(s, unicode.IsLetter) && phone(s) == number
	}
}

// mentions finds an address in a text, and not at the end or the begin of a longer one.
func mentions(address string) func(string) bool {
	inName := func(r byte) bool { return isAlnum(r) || strings.IndexByte("._%+-", r) >= 0 }
	return func(s string) bool {
		s = strings.ToLower(s)
		for from := 0; ; {
			n := strings.Index(s[from:], address)
			if n < 0 {
				return false
			}
			begin, end := from+n, from+n+len(address)
			rest := strings.TrimLeft(s[end:], ".")
			longer := end < len(s) && (isAlnum(s[end]) || s[end] == '-') || rest != s[end:] && rest != "" && isAlnum(rest[0])
			if !longer && (begin == 0 || !inName(s[begin-1])) {
				return true
			}
			from = begin + 1
		}
	}
}

func isAlnum(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

// anyText says whether any text or number in a JSON value is one that is looked for.
func anyText(value json.RawMessage, is func(string) bool) bool {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			return false
		}
		switch v := t.(type) {
		case string:
			if is(v) {
				return true
			}
		case json.Number:
			if is(v.String()) {
				return true
			}
		}
	}
}
