package people

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"net/mail"
	"regexp"
	"strings"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"

	"doorbell/events"
	"doorbell/poller/listings"
)

// Wanted says whose data is meant: exactly one of Email, Phone, ContactRequestID and
// PropertyReferenceID, or the latter two, of one agency or of all. It holds a person's data, and is
// printed nowhere.
type Wanted struct {
	Email               string `json:"email,omitempty"`
	Phone               string `json:"phone,omitempty"`
	ContactRequestID    string `json:"contactRequestId,omitempty"`
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"`
	AgencyID            string `json:"agencyId,omitempty"`
	// NotNamed leaves out what only names the address: another person may have written it.
	NotNamed bool `json:"notNamed,omitempty"`
}

// Errors of Check. They do not quote what was written.
var (
	ErrNobody = errors.New(
		"name either a mail address, a phone number, a contact request or an insertion")
	ErrEmail = errors.New("it is not a mail address; write one like nora.beispiel@example.org")
	ErrPhone = errors.New(
		"it is not a phone number; write it with its country code, like +41790000123, or as the API gives it")
)

// Check refuses a Wanted that means no one, or half of the world.
func (w Wanted) Check() error {
	given := 0
	for _, s := range []string{w.Email, w.Phone, w.ContactRequestID + w.PropertyReferenceID} {
		if s != "" {
			given++
		}
	}
	parsed, err := mail.ParseAddress(w.email())
	switch {
	case given != 1:
		return ErrNobody
	case w.Email != "" && (err != nil || parsed.Address != w.email()):
		return ErrEmail
	case w.Phone != "" && len(w.digits()) < 6:
		return ErrPhone
	}
	return nil
}

// email is the address in the form that is compared.
func (w Wanted) email() string { return address(w.Email) }

func address(s string) string {
	return strings.TrimPrefix(spelled(strings.TrimSpace(s)), "mailto:")
}

// spelled returns a text in the one spelling in which addresses are compared: lower case, because
// no mail server distinguishes Nora from nora; composed characters and an @ of the usual width; and
// host names in letters, not as xn--….
func spelled(s string) string {
	s = strings.ToLower(norm.NFKC.String(s))
	return aLabel.ReplaceAllStringFunc(s, func(label string) string {
		if letters, err := idna.Punycode.ToUnicode(label); err == nil {
			return letters
		}
		return label
	})
}

var aLabel = regexp.MustCompile(`\bxn--[a-z0-9-]+`)

// digits returns those that the number has however it is written: of a Swiss one those behind +41,
// 0041 or 0, of another one those behind + or 00.
func (w Wanted) digits() string {
	number := listings.E164(strings.TrimSpace(w.Phone))
	if swiss, ok := strings.CutPrefix(number, "+41"); ok {
		return swiss
	}
	return strings.TrimLeft(cmp.Or(digits(number), digits(w.Phone)), "0")
}

func digits(s string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, s)
}

// match is how an event relates to the person.
type match int

const (
	none  match = iota
	names       // it names the address somewhere in a text: another person may have written it
	own         // the address is the writer's
)

// match compares an event with the person. An address is the writer's where it is a whole value.
func (w Wanted) match(e events.Event) match {
	switch {
	case w.AgencyID != "" && e.AgencyID != w.AgencyID,
		w.PropertyReferenceID != "" && e.Reference != w.PropertyReferenceID:
		return none
	case w.ContactRequestID != "" && requestOf(e).ContactRequestID != w.ContactRequestID:
		return none
	case w.ContactRequestID+w.PropertyReferenceID != "":
		return own
	}
	var p struct{ Contact, Record json.RawMessage }
	if json.Unmarshal(e.Data, &p) != nil {
		return none
	}
	return max(anyText(p.Contact, w.matchText()), anyText(p.Record, w.matchText()))
}

// matchText returns a function that compares a text with the person.
func (w Wanted) matchText() func(string) match {
	if w.Email != "" {
		wanted := w.email()
		mentioned := mentions(wanted)
		return func(s string) match {
			switch {
			case address(s) == wanted:
				return own
			case mentioned(spelled(s)):
				return names
			}
			return none
		}
	}
	number := w.digits()
	return func(s string) match {
		found := none
		for run := range numbers(s) {
			switch d := digits(run); {
			case !strings.Contains(d, number):
			case strings.TrimSpace(run) == strings.TrimSpace(s): // it is the whole text
				return own
			default:
				found = names
			}
		}
		return found
	}
}

// numbers yields the parts of a text that may be a number, or several.
func numbers(s string) iter.Seq[string] {
	return strings.FieldsFuncSeq(s, func(r rune) bool {
		return !('0' <= r && r <= '9' ||
			strings.ContainsRune("+ .-/()\t\u00a0\u2009\u202f\u2010\u2011\u2012\u2013", r))
	})
}

// mentions finds an address in a spelled text, but not as a part of a longer one.
func mentions(address string) func(string) bool {
	const before, after = `(?:^|[^a-z0-9._%+-])`, `(?:$|[^a-z0-9.-]|\.+(?:$|[^a-z0-9.]))`
	return regexp.MustCompile(before + regexp.QuoteMeta(address) + after).MatchString
}

// anyText returns the best match of the texts and numbers in a JSON value.
func anyText(value json.RawMessage, is func(string) match) (best match) {
	d := json.NewDecoder(bytes.NewReader(value))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			return best
		}
		switch v := t.(type) {
		case string:
			best = max(best, is(v))
		case json.Number:
			best = max(best, is(v.String()))
		}
	}
}
