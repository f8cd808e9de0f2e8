package config

import (
	"fmt"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"doorbell/events"
	"doorbell/events/forward/message"
)

// AgencyIDs are agencies in the order in which they were written.
type AgencyIDs []string

// Decode refuses odd and double ids.
func (a *AgencyIDs) Decode(text string) error {
	ids, err := list(text)
	if err != nil {
		return err
	}
	for i, id := range ids {
		if err := CheckAgencyID(id); err != nil {
			return advise("entry %d is not an agency id: %v", i+1, err)
		}
	}
	sorted := slices.Sorted(slices.Values(ids))
	for i := range sorted[1:] {
		if sorted[i] == sorted[i+1] {
			return advise("names agency %s twice; remove one", sorted[i])
		}
	}
	*a = ids
	return nil
}

var uuid = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)

// CheckAgencyID says what is odd about an agency id without quoting it: it could be a key in the
// wrong place. What it lets through needs no escaping in a list, a URL path or a line of text.
func CheckAgencyID(id string) error {
	const remedy = "; write the id as the provider gives it, like A100"
	at := strings.IndexFunc(id, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune("/=,;|*#%?\"\\'`$&<>!()", r)
	})
	switch {
	case id == "":
		return advice("it is empty" + remedy)
	case len(id) > 64:
		return advice("it is longer than 64 characters" + remedy)
	case uuid.MatchString(id):
		return advice("it looks like an API key" + remedy + ", and the key into DOORBELL_API_KEY")
	case at >= 0 && id[at] == ' ':
		return advice("it holds a space" + remedy)
	case at >= 0:
		odd := []rune(id[at:])[0]
		return advise("it holds the character %q (%U)"+remedy, odd, odd)
	}
	return nil
}

// PerAgency is what may differ by agency: "value" for all, or "A100=value,B200=value,*=value" where
// * is every other agency. A line end separates like a comma, so a file holds one entry a line;
// there a line that begins with # is a remark. As such it holds API keys; the types that embed it
// hold values of other shapes.
type PerAgency struct {
	Named  []string // agencies by name, as written
	values map[string]Secret
	shape  shape
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

// shape is how the values of a setting are written, checked and shown.
type shape struct {
	noun  string // in "write A100=noun"
	open  bool   // a value may be shown
	wrong func(value string, plaintext Hosts) string
}

// keys have no commas, at which their entries end in any case.
const keys = "key"

// Decode reads the grammar. Values are looked at later; they may be secrets, so errors count
// entries and quote nothing.
func (p *PerAgency) Decode(text string) error {
	if namedKeys.MatchString(text) {
		return advice("holds the name of a variable; write only what stands behind it, like A100=key")
	}
	return p.decode(text, shape{noun: keys})
}

func (p *PerAgencyURL) Decode(text string) error {
	return p.decode(text, shape{noun: "address", wrong: addressTrouble})
}

func (p *PerAgencyWhsec) Decode(text string) error {
	return p.decode(text, shape{noun: "secret", wrong: signingTrouble})
}

func (p *PerAgencyMail) Decode(text string) error {
	return p.decode(text, shape{noun: "recipients", open: true, wrong: recipientTrouble})
}

func (p *PerAgencyFile) Decode(text string) error     { return p.decode(text, open("path")) }
func (p *PerAgencyLanguage) Decode(text string) error { return p.decode(text, open("language")) }
func (p *PerAgencyName) Decode(text string) error     { return p.decode(text, open("name")) }
func (p *PerAgencyPeople) Decode(text string) error   { return p.decode(text, open("word")) }

func open(noun string) shape { return shape{noun: noun, open: true} }

// AnyAgency stands for every agency that is not named.
const AnyAgency = "*"

// decode reads entries, of which one without an agency is for all agencies.
func (p *PerAgency) decode(text string, s shape) error {
	*p = PerAgency{values: map[string]Secret{}, shape: s}
	entries := s.entries(text)
	for i, entry := range entries {
		agency, value, named := cut(entry)
		_, double := p.values[agency]
		switch odd := CheckAgencyID(agency); {
		case !named && len(entries) > 1:
			return advise("entry %d names no agency; write A100=%s, or one %[2]s for all", i+1, s.noun)
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
// no entry belongs to the one before it, unless it is a key.
func (s shape) entries(text string) []string {
	var entries []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		for i, piece := range strings.Split(line, ",") {
			agency, _, named := cut(piece)
			begins := named && (agency == AnyAgency || CheckAgencyID(agency) == nil)
			if i > 0 && !begins && s.noun != keys {
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

var bare = regexp.MustCompile(`^[^=]*(://|@)|^(/|whsec_)`)

// cut splits an entry at the = behind its agency. An entry that begins as an address, a path or a
// webhook's secret does is a value for all agencies, and may hold a = too.
func cut(entry string) (agency, value string, named bool) {
	entry = strings.TrimSpace(entry)
	agency, value, named = strings.Cut(entry, "=")
	if !named || bare.MatchString(entry) {
		return AnyAgency, entry, false
	}
	return strings.TrimSpace(agency), strings.TrimSpace(value), true
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

// Language is that of an agency.
func (p PerAgencyLanguage) Language(agency string) message.Language {
	return message.Language(p.Revealed(agency))
}

// People is how much of a person goes into the events of an agency.
func (p PerAgencyPeople) People(agency string) events.People {
	return events.People(p.Revealed(agency))
}

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

// Masked shows which agencies have a value, and what may be seen of it. Of an address that is the
// host, beside what distinguishes it from others there.
func (p PerAgency) Masked() string {
	var parts []string
	for agency, v := range p.All() {
		text := v.Fingerprint()
		if u, err := url.Parse(v.Reveal()); p.shape.open {
			text = v.Reveal()
		} else if err == nil && strings.HasPrefix(u.Scheme, "http") {
			text = fmt.Sprintf("%s(%s)", u.Host, text)
		}
		parts = append(parts, agency+"="+text)
	}
	return strings.Join(parts, ",")
}

// perAgency returns what the types that embed it have in common.
func (p PerAgency) perAgency() PerAgency { return p }

// perAgency returns the value by agency. One that does not differ by agency is for all.
func (s *Setting) perAgency() PerAgency {
	if p, is := s.value.Interface().(interface{ perAgency() PerAgency }); is {
		return p.perAgency()
	}
	return PerAgency{values: map[string]Secret{AnyAgency: NewSecret(s.value.String())}}
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
