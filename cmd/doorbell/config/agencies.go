package config

import (
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"doorbell/events"
	"doorbell/events/forward/message"
)

// MostAgencies bounds what one process is asked to watch.
const MostAgencies = 10_000

// AgencyIDs are agencies in the order in which they were written.
type AgencyIDs []string

// Decode refuses odd and double ids.
func (a *AgencyIDs) Decode(text string) error {
	ids, err := list(text, MostAgencies)
	if err != nil {
		return err
	}
	seen := make(map[string]bool, len(ids))
	for i, id := range ids {
		if err := CheckAgencyID(id); err != nil {
			return advise("entry %d is not an agency id: %v", i+1, err)
		}
		if seen[id] {
			return advise("names agency %s twice; remove one", id)
		}
		seen[id] = true
	}
	*a = ids
	return nil
}

// CheckAgencyID says what is odd about an agency id without quoting it: it could be a key in the
// wrong place. What it lets through needs no escaping in a list, a URL path or a line of text.
func CheckAgencyID(id string) error {
	const remedy = "; write the id as the provider gives it, like A100"
	switch at := strings.IndexFunc(id, isOdd); {
	case id == "":
		return advise("it is empty" + remedy)
	case len(id) > 64:
		return advise("it is longer than 64 characters" + remedy)
	case uuid.MatchString(id):
		return advise("it looks like an API key" + remedy + ", and the key into DOORBELL_API_KEY")
	case at >= 0:
		return advise("it holds %s"+remedy, describe([]rune(id[at:])[0]))
	}
	return nil
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// isOdd reports whether a character cannot stand in the id of an agency.
func isOdd(r rune) bool {
	return r <= ' ' || r > '~' || strings.ContainsRune("/=,;|*#%?\"\\'`$&<>!()", r)
}

// describe names a character so that it can be found also when it cannot be seen.
func describe(r rune) string {
	switch {
	case r == ' ':
		return "a space"
	case unicode.IsGraphic(r) && !unicode.IsSpace(r):
		return advise("the character %q (%U)", r, r).Error()
	}
	return advise("the character %U", r).Error()
}

// PerAgency is what may differ by agency: "value" for all, or "A100=value,B200=value,*=value" where
// * is everybody else. A line end separates like a comma, so a file holds one entry a line; there a
// line that begins with # is a remark. As such it holds API keys; the types that embed it hold
// values of other shapes.
type PerAgency struct {
	Named  []string // agencies by name, as written
	values map[string]Secret
	shape  *shape
}

type (
	PerAgencyURL      struct{ PerAgency } // addresses
	PerAgencyWhsec    struct{ PerAgency } // secrets of Standard Webhooks
	PerAgencyFile     struct{ PerAgency } // paths of files
	PerAgencyMail     struct{ PerAgency } // recipients of mail
	PerAgencyLanguage struct{ PerAgency }
	PerAgencyName     struct{ PerAgency } // what people call the agencies
	PerAgencyPeople   struct{ PerAgency } // how much of a person goes into events
)

// Decode reads the grammar. Values are looked at later; they may be secrets, so errors count
// entries and quote nothing.
func (p *PerAgency) Decode(text string) error {
	if namedKeys.MatchString(text) {
		return advice("holds the name of a variable; write only what stands behind it, like A100=key")
	}
	return p.decode(text, keys)
}
func (p *PerAgencyURL) Decode(text string) error      { return p.decode(text, addresses) }
func (p *PerAgencyWhsec) Decode(text string) error    { return p.decode(text, signing) }
func (p *PerAgencyFile) Decode(text string) error     { return p.decode(text, paths) }
func (p *PerAgencyMail) Decode(text string) error     { return p.decode(text, recipients) }
func (p *PerAgencyLanguage) Decode(text string) error { return p.decode(text, languages) }
func (p *PerAgencyName) Decode(text string) error     { return p.decode(text, agencyNames) }
func (p *PerAgencyPeople) Decode(text string) error   { return p.decode(text, people) }

// shape is how the values of a setting are written, checked and shown.
type shape struct {
	noun  string                  // in "write A100=noun"
	loose bool                    // values hold = and commas: a comma separates only where an agency and = follow
	bare  func(entry string) bool // of a loose one: an entry that is a value for all, with a = in it
	show  func(Secret) string     // what may be seen of a value
	// wrong says what is wrong with a value, and whose it is: of " for A100", or of nobody in
	// particular. Empty for nothing.
	wrong func(whose, value string, plaintext Hosts) string
}

var (
	keys      = &shape{noun: "key", show: Secret.Fingerprint}
	addresses = &shape{
		noun: "address", loose: true, show: shownAddress, wrong: addressTrouble,
		bare: func(entry string) bool {
			scheme, _, found := strings.Cut(entry, "://")
			return found && !strings.Contains(scheme, "=")
		},
	}
	signing = &shape{
		noun: "secret", loose: true, show: Secret.Fingerprint, wrong: signingTrouble,
		bare: func(entry string) bool { return strings.HasPrefix(entry, "whsec_") },
	}
	recipients = &shape{
		noun: "recipients", loose: true, show: Secret.Reveal,
		wrong: recipientTrouble,
		bare: func(entry string) bool {
			before, _, _ := strings.Cut(entry, "=")
			return strings.Contains(before, "@")
		},
	}
	paths = &shape{
		noun: "path", loose: true, show: Secret.Reveal,
		bare: func(entry string) bool {
			before, _, _ := strings.Cut(entry, "=")
			return strings.ContainsRune(before, '/')
		},
	}
	agencyNames = &shape{noun: "name", loose: true, show: Secret.Reveal, wrong: nameTrouble}
	languages   = &shape{noun: "language", show: Secret.Reveal, wrong: languageTrouble}
	people      = &shape{noun: "word", show: Secret.Reveal, wrong: peopleTrouble}
)

func nameTrouble(whose, _ string, _ Hosts) string {
	if whose == "" {
		return "gives one name to all agencies; write A100=Muster Immobilien AG"
	}
	return ""
}

func languageTrouble(whose, value string, _ Hosts) string {
	if slices.Contains(message.Languages, message.Language(value)) {
		return ""
	}
	return "names" + whose + " " + shortWord(value) + ", which is not supported; write en, de, fr or it"
}

func peopleTrouble(whose, value string, _ Hosts) string {
	switch events.People(value) {
	case events.PeopleFull, events.PeopleContact, events.PeopleNone:
		return ""
	}
	return "says" + whose + " " + shortWord(value) + "; write full, contact or none"
}

// AnyAgency stands for every agency that is not named.
const AnyAgency = "*"

// decode reads entries, of which a bare one is for all agencies.
func (p *PerAgency) decode(text string, s *shape) error {
	*p = PerAgency{values: map[string]Secret{}, shape: s}
	entries := s.entries(text)
	if len(entries) > MostAgencies {
		return advise("has more than %d entries; leave some out", MostAgencies)
	}
	for i, entry := range entries {
		agency, value, named := strings.Cut(entry, "=")
		if !named || s.isBare(entry) {
			if len(entries) > 1 {
				return advise("entry %d names no agency; write A100=%s, or one %s for all", i+1,
					s.noun, s.noun)
			}
			agency, value = AnyAgency, entry
		}
		agency, value = strings.TrimSpace(agency), strings.TrimSpace(value)
		_, double := p.values[agency]
		switch odd := CheckAgencyID(agency); {
		case agency != AnyAgency && odd != nil:
			return advise("entry %d: what stands before the = is not an agency id: %v", i+1, odd)
		case value == "":
			return advise("entry %d: agency %s has no value; write A100=value", i+1, agency)
		case double:
			return advise("entry %d: agency %s is named twice; remove one", i+1, agency)
		case agency != AnyAgency:
			p.Named = append(p.Named, agency)
		}
		p.values[agency] = NewSecret(value)
	}
	return nil
}

// entries returns the entries of a text without blanks and remarks. What follows a comma and begins
// no entry belongs to the one before it.
func (s *shape) entries(text string) []string {
	var entries []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for i, piece := range strings.Split(line, ",") {
			if i > 0 && s.loose && !s.begins(piece) {
				entries[len(entries)-1] += "," + piece
			} else {
				entries = append(entries, piece)
			}
		}
	}
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
	}
	return slices.DeleteFunc(entries, func(e string) bool { return e == "" })
}

func (s *shape) isBare(entry string) bool { return s.bare != nil && s.bare(strings.TrimSpace(entry)) }

// begins reports whether an agency and = stand at the beginning.
func (s *shape) begins(piece string) bool {
	agency, _, found := strings.Cut(piece, "=")
	agency = strings.TrimSpace(agency)
	return found && !s.isBare(piece) && (agency == AnyAgency || CheckAgencyID(agency) == nil)
}

// shortWord quotes what is too short to be a secret in the wrong place.
func shortWord(text string) string {
	if len(text) > 8 || !plain(text) {
		return "something"
	}
	return strconv.Quote(text)
}

// Of returns the value of an agency: its own, else everybody's, else zero.
func (p PerAgency) Of(agency string) Secret {
	if v, own := p.values[agency]; own {
		return v
	}
	return p.values[AnyAgency]
}

// Revealed is the value of an agency, for those who send it.
func (p PerAgency) Revealed(agency string) string { return p.Of(agency).Reveal() }

// Language is that of an agency.
func (p PerAgencyLanguage) Language(agency string) message.Language {
	return message.Language(p.Revealed(agency))
}

// People is how much of a person goes into the events of an agency.
func (p PerAgencyPeople) People(agency string) events.People {
	return events.People(p.Revealed(agency))
}

// IsZero reports whether nobody has a value.
func (p PerAgency) IsZero() bool { return len(p.values) == 0 }

// All are the agencies by name, as written, and then * for everybody else.
func (p PerAgency) All() iter.Seq2[string, Secret] {
	return func(yield func(string, Secret) bool) {
		for _, agency := range append(slices.Clip(p.Named), AnyAgency) {
			if v, ok := p.values[agency]; ok && !yield(agency, v) {
				return
			}
		}
	}
}

// Masked shows who has a value, and what may be seen of it.
func (p PerAgency) Masked() string {
	var parts []string
	for agency, v := range p.All() {
		parts = append(parts, agency+"="+p.shape.show(v))
	}
	return strings.Join(parts, ",")
}

// perAgency returns what the types that embed it have in common.
func (p PerAgency) perAgency() PerAgency { return p }

// isOpen reports whether its values are no secrets.
func (p PerAgency) isOpen() bool {
	return p.shape.show(NewSecret("x")) == "x"
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

// shownAddress is the host of an address, and what distinguishes it from others there.
func shownAddress(v Secret) string {
	u, err := url.Parse(v.Reveal())
	if err != nil || u.Host == "" {
		return v.Fingerprint()
	}
	return u.Host + "(" + v.Fingerprint() + ")"
}
