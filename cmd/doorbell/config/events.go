package config

import (
	"fmt"
	"net/mail"
	"slices"
	"strings"

	"doorbell/events"
)

// TypeHint names the type or group of types that may have been meant. People say lead.
func TypeHint(name string) string {
	var known []string
	for _, t := range events.Types {
		group, _, _ := strings.Cut(string(t), ".")
		known = append(known, string(t), group+".>")
	}
	if nearest := Nearest(strings.Replace(name, "lead", "contact_request", 1), known); nearest != "" {
		return "did you mean " + nearest + "?"
	}
	return "schemas/README.md lists them"
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
		return fmt.Sprintf("names more than %d recipients; "+
			"write the address of a mailing list instead", mostRecipients)
	}
	for i, one := range all {
		a, err := mail.ParseAddress(one)
		if err != nil || !plain(one) || strings.ContainsAny(a.Address[strings.LastIndex(a.Address, "@"):], " ,") {
			return fmt.Sprintf("entry %d is not an email address; "+
				"write it like nora@agency.example, with ; between several", i+1)
		}
	}
	return ""
}
