package config

import (
	"math"
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doorbell/events"
	leads "doorbell/events/forward/message"
)

// PerAgencyURL is PerAgency with values that may hold = and commas, as addresses with a query do. A comma separates only where an
// agency and = follow, or "*=".
type PerAgencyURL struct{ PerAgency }

// Decode reads the grammar and does not look at the addresses.
func (p *PerAgencyURL) Decode(text string) error {
	return p.decodeLoose(text, "address", func(entry string) bool {
		scheme, _, found := strings.Cut(entry, "://")
		return found && !strings.ContainsRune(scheme, '=')
	})
}

// masked shows hosts and fingerprints.
func (p PerAgencyURL) Masked() string {
	return p.shown(func(v Secret) string {
		u, err := url.Parse(v.Reveal())
		if err != nil || u.Host == "" {
			return v.Fingerprint()
		}
		return u.Host + "(" + v.Fingerprint() + ")"
	})
}

// PerAgencyWhsec is PerAgency with secrets of Standard Webhooks, which may end with =.
type PerAgencyWhsec struct{ PerAgency }

// Decode reads the grammar and does not look at the secrets.
func (p *PerAgencyWhsec) Decode(text string) error {
	return p.decodeLoose(text, "secret", func(entry string) bool { return strings.HasPrefix(entry, "whsec_") })
}

// PerAgencyFile has paths of files.
type PerAgencyFile struct{ shownPerAgency }

// Decode reads the grammar and does not look at the files.
func (p *PerAgencyFile) Decode(text string) error {
	return p.decodeLoose(text, "path", func(entry string) bool {
		before, _, _ := strings.Cut(entry, "=")
		return strings.ContainsRune(before, '/')
	})
}

// PerAgencyMail has recipients of mail, which have ; between them.
type PerAgencyMail struct{ shownPerAgency }

// Decode reads the grammar and does not look at the recipients.
func (p *PerAgencyMail) Decode(text string) error {
	return p.decodeLoose(text, "recipients", func(entry string) bool {
		before, _, _ := strings.Cut(entry, "=")
		return strings.ContainsRune(before, '@')
	})
}

// PerAgencyLanguage has languages.
type PerAgencyLanguage struct{ shownPerAgency }

// Decode refuses what is no language that leads are told in.
func (p *PerAgencyLanguage) Decode(text string) error {
	if err := p.decodeStrict(text, "language"); err != nil {
		return err
	}
	for agency, v := range p.All() {
		if !slices.Contains(leads.Languages, leads.Language(v.Reveal())) {
			return advise("names%s %s, which is not supported; write en, de, fr or it", whose(agency), shortWord(v.Reveal()))
		}
	}
	return nil
}

// shortWord quotes what is too short to be a secret in the wrong place.
func shortWord(text string) string {
	if len(text) > 8 || !plain(text) {
		return "something"
	}
	return strconv.Quote(text)
}

// Language is that of an agency.
func (p PerAgencyLanguage) Language(agency string) leads.Language {
	return leads.Language(p.Revealed(agency))
}

// PerAgencyName has what people call the agencies.
type PerAgencyName struct{ shownPerAgency }

// Decode refuses one name for all.
func (p *PerAgencyName) Decode(text string) error {
	if err := p.decodeLoose(text, "name", func(string) bool { return false }); err != nil {
		return err
	}
	if !p.Of(AnyAgency).IsZero() {
		return advice("gives one name to all agencies; write A100=Muster Immobilien AG")
	}
	return nil
}

// decodeLoose reads values that may hold commas and =: a comma separates only where an agency and = follow.
func (p *PerAgency) decodeLoose(text, what string, bare func(string) bool) error {
	return p.decode(text, what, bare, func(piece string) bool { return beginsEntry(piece) && !bare(strings.TrimSpace(piece)) })
}

// beginsEntry says whether an agency and = stand at the beginning.
func beginsEntry(piece string) bool {
	agency, _, found := strings.Cut(piece, "=")
	agency = strings.TrimSpace(agency)
	return found && (agency == AnyAgency || CheckAgencyID(agency) == nil)
}

// TypeHint says which type or group of types somebody may have meant. People say lead.
func TypeHint(name string) string {
	if nearest := Nearest(strings.Replace(name, "lead", "contact_request", 1), typesAndGroups()); nearest != "" {
		return "did you mean " + nearest + "?"
	}
	return "schemas/README.md lists them"
}

func typesAndGroups() (names []string) {
	for _, t := range events.Types {
		names = append(names, string(t))
		group, _, _ := strings.Cut(string(t), ".")
		if group += ".>"; !slices.Contains(names, group) {
			names = append(names, group)
		}
	}
	return names
}

// Score is a number, or none.
type Score struct{ Least *float64 }

// Decode reads a number that can be compared with.
func (s *Score) Decode(text string) error {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return advice("is not a number; write it like 50 or 0.7")
	}
	s.Least = &n
	return nil
}

// Mailbox is an address of mail, with or without a name.
type Mailbox string

// Decode refuses what is none.
func (m *Mailbox) Decode(text string) error {
	if _, err := mail.ParseAddress(text); err != nil {
		return advice("is not an email address; write it like leads@agency.example or Leads <leads@agency.example>")
	}
	*m = Mailbox(text)
	return nil
}

// AlertPattern says whether a type or pattern means alerts alone.
func AlertPattern(pattern string) bool {
	return strings.HasPrefix(pattern, "access.") || strings.HasPrefix(pattern, "watch.")
}

// KnownType says whether a type, or a group of them as access.>, exists.
func KnownType(name string) bool {
	group, several := strings.CutSuffix(name, ">")
	return slices.ContainsFunc(events.Types, func(t events.Type) bool {
		return string(t) == name || several && strings.HasSuffix(group, ".") && strings.HasPrefix(string(t), group)
	})
}
