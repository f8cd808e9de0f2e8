package config

import (
	"net/mail"
	"slices"
	"strconv"
	"strings"

	"doorbell/events"
)

// TypeHint names the type or group of types that may have been meant. People say lead.
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

// mostRecipients bounds the recipients of one mail.
const mostRecipients = 50

// Recipients are the addresses of a value.
func Recipients(text string) []string {
	var all []string
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// RecipientsTrouble says what is wrong with addresses of mail, empty for nothing.
func RecipientsTrouble(text string) string {
	all := Recipients(text)
	switch {
	case len(all) == 0:
		return "names no recipient; write email addresses with ; between them"
	case len(all) > mostRecipients:
		return "names more than " + strconv.Itoa(mostRecipients) + " recipients; write the address of a mailing list instead"
	}
	for i, one := range all {
		a, err := mail.ParseAddress(one)
		if err == nil {
			_, domain, _ := strings.Cut(a.Address, "@")
			if plain(one) && !strings.ContainsAny(domain, " ,") {
				continue
			}
		}
		return "entry " + strconv.Itoa(i+1) + " is not an email address; write it like nora@agency.example, with ; between several"
	}
	return ""
}
