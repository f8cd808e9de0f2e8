package config

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"doorbell/events"
	"doorbell/events/forward/message"
)

// keyOrName is an API key, or the name of its variable, where an agency should be.
var keyOrName = regexp.MustCompile(
	`(?i)^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$|api[_-]?keys?`)

// CheckAgencyID says what is wrong with an agency id without quoting it: it could be a key in the
// wrong place. What it accepts needs no escaping in a list, a URL path or a line of text.
func CheckAgencyID(id string) error {
	const remedy = "; write the id as the provider gives it, like A100"
	at := strings.IndexFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("/=,;|*#%?\"\\'`$&<>!()", r)
	})
	switch {
	case id == "" || len(id) > 64:
		return errors.New("is not an agency id, which has 1 to 64 characters" + remedy)
	case keyOrName.MatchString(id):
		return errors.New("looks like an API key or its name, not like an agency id" + remedy)
	case at >= 0:
		return fmt.Errorf("is not an agency id: it contains the character %+q"+remedy,
			[]rune(id[at:])[0])
	}
	return nil
}

// AnyAgency stands for every agency that is not named.
const AnyAgency = "*"

// PerAgency is what may differ by agency: "value" for all, or "A100=value,B200=value,*=value" where
// * is every other agency. A line end separates like a comma, so a file holds one entry a line;
// there a line that begins with # is a remark.
type PerAgency struct {
	Named  []string // agencies by name, as written
	values map[string]Secret
}

// Decode reads the grammar. Values are looked at later; they may be secrets, so errors count
// entries and quote nothing.
func (p *PerAgency) Decode(text string) error {
	*p = PerAgency{values: map[string]Secret{}}
	entries := entriesOf(text)
	for i, entry := range entries {
		agency, value, named := cutAgency(entry)
		_, repeated := p.values[agency]
		switch {
		case !named && len(entries) > 1:
			return fmt.Errorf("entry %d names no agency; write A100=value, or one value for all",
				i+1)
		case strings.Trim(value, "=") == "": // agency may be a key that ends in =
			return fmt.Errorf("entry %d has no value; write A100=value", i+1)
		case repeated:
			return fmt.Errorf("entry %d: agency %s is named twice; remove one", i+1, agency)
		case agency != AnyAgency:
			p.Named = append(p.Named, agency)
		}
		p.values[agency] = NewSecret(value)
	}
	return nil
}

// entriesOf returns the entries of a text without remarks. What follows a comma and begins no entry
// belongs to the one before it: a comma may be part of an address or a name.
func entriesOf(text string) (entries []string) {
	for line := range strings.Lines(text) {
		line = strings.Trim(line, ", \t\r\n")
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		for i, piece := range strings.Split(line, ",") {
			if _, _, begins := cutAgency(piece); i == 0 || begins {
				entries = append(entries, strings.TrimSpace(piece))
			} else {
				entries[len(entries)-1] += "," + piece
			}
		}
	}
	return entries
}

// cutAgency splits an entry at the = behind its agency. An entry without one is a value for all
// agencies, which may hold a = too, as the secret of a webhook does.
func cutAgency(entry string) (agency, value string, named bool) {
	entry = strings.TrimSpace(entry)
	agency, value, named = strings.Cut(entry, "=")
	agency = strings.TrimSpace(agency)
	isAgency := agency == AnyAgency || CheckAgencyID(agency) == nil
	if !named || !isAgency || strings.HasPrefix(entry, "whsec_") {
		return AnyAgency, entry, false
	}
	return agency, strings.TrimSpace(value), true
}

// Of returns the value of an agency: its own, else that for all others, else zero.
func (p PerAgency) Of(agency string) Secret {
	if v, own := p.values[agency]; own {
		return v
	}
	return p.values[AnyAgency]
}

// Revealed is the value of an agency, for those who send it.
func (p PerAgency) Revealed(agency string) string { return p.Of(agency).Reveal() }

// Language is the value of an agency as a language.
func (p PerAgency) Language(agency string) message.Language {
	return message.Language(p.Revealed(agency))
}

// People is the value of an agency as how much of a person goes into its events.
func (p PerAgency) People(agency string) events.People { return events.People(p.Revealed(agency)) }

// IsZero reports whether no agency has a value.
func (p PerAgency) IsZero() bool { return len(p.values) == 0 }

// All are the agencies by name, as written, and then * for all others.
func (p PerAgency) All() iter.Seq2[string, Secret] {
	return func(yield func(string, Secret) bool) {
		for _, agency := range append(slices.Clip(p.Named), AnyAgency) {
			if v, ok := p.values[agency]; ok && !yield(agency, v) {
				return
			}
		}
	}
}

// NamedIn are the agencies that any of these names, each once.
func NamedIn(any ...PerAgency) []string {
	var all []string
	for _, p := range any {
		all = append(all, p.Named...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// MaskedURL is what may be printed of an address that is posted to: its host, beside what
// distinguishes it from others there.
func MaskedURL(address string) string {
	print := NewSecret(address).Fingerprint()
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return fmt.Sprintf("%s(%s)", u.Host, print)
	}
	return print
}
