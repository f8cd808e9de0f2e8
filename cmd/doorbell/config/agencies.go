package config

import (
	"iter"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"doorbell/events"
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

// CheckAgencyID says what is odd about an agency id without quoting it: it could be a key in the wrong place. What it
// lets through needs no escaping in a list, a URL path or a line of text.
func CheckAgencyID(id string) error {
	switch {
	case id == "":
		return advice("it is empty; write the id as the provider gives it, like A100")
	case len(id) > 64:
		return advice("it is longer than 64 characters; write the id as the provider gives it, like A100")
	case uuid.MatchString(id):
		return advice("it looks like an API key; write the id as the provider gives it, like A100, and the key into DOORBELL_API_KEY")
	}
	for _, r := range id {
		if r <= ' ' || r > '~' || strings.ContainsRune("/=,;|*#%?\"\\'`$&<>!()", r) {
			return advise("it holds %s; write the id as the provider gives it, like A100", describe(r))
		}
	}
	return nil
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

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

// PerAgency is what may differ by agency: "value" for all, or "A100=value,B200=value,*=value" where * is everybody
// else. A line end separates like a comma, so a file holds one entry a line; there a line that begins with # is a remark.
type PerAgency struct {
	Named  []string // agencies by name, as written
	values map[string]Secret
}

// AnyAgency stands for every agency that is not named.
const AnyAgency = "*"

// Decode reads keys. Values may be secrets: errors count entries and quote nothing.
func (p *PerAgency) Decode(text string) error {
	if namedKeys.MatchString(text) {
		return advice("holds the name of a variable; write only what stands behind it, like A100=key")
	}
	return p.decodeStrict(text, "key")
}

// shownPerAgency is PerAgency with values that are no secrets, as who gets mail.
type shownPerAgency struct{ PerAgency }

// Masked shows all.
func (p shownPerAgency) Masked() string { return p.shown(Secret.Reveal) }

// PerAgencyPeople has what of a person goes into events.
type PerAgencyPeople struct{ shownPerAgency }

// Decode refuses what is none of the words.
func (p *PerAgencyPeople) Decode(text string) error {
	if err := p.decodeStrict(text, "word"); err != nil {
		return err
	}
	words := []string{string(events.PeopleFull), string(events.PeopleContact), string(events.PeopleNone)}
	for agency, v := range p.All() {
		if word := v.Reveal(); !slices.Contains(words, word) {
			return advise("says%s %s; write full, contact or none", whose(agency), shortWord(word))
		}
	}
	return nil
}

// People is what of a person goes into the events of an agency.
func (p PerAgencyPeople) People(agency string) events.People {
	return events.People(p.Revealed(agency))
}

// decodeStrict reads values without commas: each separates.
func (p *PerAgency) decodeStrict(text, what string) error {
	return p.decode(text, what, func(string) bool { return false }, func(string) bool { return true })
}

// decode reads entries, of which a bare one is for all agencies. What follows a comma and does not begin an entry belongs to the one
// before it.
func (p *PerAgency) decode(text, what string, bare, begins func(string) bool) error {
	*p = PerAgency{values: map[string]Secret{}}
	entries := perAgencyEntries(text, begins)
	if len(entries) > MostAgencies {
		return advise("has more than %d entries; leave some out", MostAgencies)
	}
	for i, entry := range entries {
		agency, value, named := strings.Cut(entry, "=")
		if !named || bare(entry) {
			if len(entries) > 1 {
				return advise("entry %d names no agency; write A100=%s, or one %s for all", i+1, what, what)
			}
			agency, value = AnyAgency, entry // what is not what it should be is found by who looks at it
		}
		if err := p.add(strings.TrimSpace(agency), strings.TrimSpace(value)); err != nil {
			return advise("entry %d: %v", i+1, err)
		}
	}
	return nil
}

// perAgencyEntries returns the entries without blanks and remarks.
func perAgencyEntries(text string, begins func(string) bool) []string {
	var entries []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		for i, piece := range strings.Split(line, ",") {
			if i == 0 || begins(piece) {
				entries = append(entries, piece)
			} else {
				entries[len(entries)-1] += "," + piece
			}
		}
	}
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
	}
	return slices.DeleteFunc(entries, func(e string) bool { return e == "" })
}

func (p *PerAgency) add(agency, value string) error {
	if agency != AnyAgency {
		if err := CheckAgencyID(agency); err != nil {
			return advise("what stands before the = is not an agency id: %v", err)
		}
	}
	if value == "" {
		return advise("agency %s has no value; write A100=value", agency)
	}
	if _, double := p.values[agency]; double {
		return advise("agency %s is named twice; remove one", agency)
	}
	p.values[agency] = NewSecret(value)
	if agency != AnyAgency {
		p.Named = append(p.Named, agency)
	}
	return nil
}

// named are the agencies that a setting names.
func (p PerAgency) named() []string { return p.Named }

func (a AgencyIDs) named() []string { return a }

// Of returns the value of an agency: its own, else everybody's, else zero.
func (p PerAgency) Of(agency string) Secret {
	if v, own := p.values[agency]; own {
		return v
	}
	return p.values[AnyAgency]
}

// masked shows who has a value and its fingerprint.
func (p PerAgency) Masked() string { return p.shown(Secret.Fingerprint) }

// shown shows who has a value, and what may be seen of it.
func (p PerAgency) shown(value func(Secret) string) string {
	var parts []string
	for agency, v := range p.All() {
		parts = append(parts, agency+"="+value(v))
	}
	return strings.Join(parts, ",")
}

// All are the agencies by name, as written, and then * for everybody else.
func (p PerAgency) All() iter.Seq2[string, Secret] {
	return func(yield func(string, Secret) bool) {
		for _, agency := range append(p.Named[:len(p.Named):len(p.Named)], AnyAgency) {
			if v, ok := p.values[agency]; ok && !yield(agency, v) {
				return
			}
		}
	}
}

// IsZero reports whether nobody has a value.
func (p PerAgency) IsZero() bool { return len(p.values) == 0 }

// Revealed is the value of an agency, for those who send it.
func (p PerAgency) Revealed(agency string) string { return p.Of(agency).Reveal() }

// NamedIn are the agencies that any of these names, each once.
func NamedIn(any ...PerAgency) []string {
	var all []string
	for _, p := range any {
		all = append(all, p.Named...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
