package email

import (
	"html/template"
	"net/url"
	"regexp"
	"strings"
)

// Links are made here and nowhere else, of parts that were checked: a mail must not lead to where a stranger wants it to. What
// makes no link is shown as text.

var dialable = regexp.MustCompile(`^\+?[0-9]{5,15}$`)

// telLink calls the first of the numbers that can be called.
func telLink(numbers ...string) template.URL {
	for _, n := range numbers {
		n = strings.NewReplacer(" ", "", "\u00a0", "", "-", "", ".", "", "/", "", "(0)", "", "(", "", ")", "").Replace(n)
		if dialable.MatchString(n) {
			return template.URL("tel:" + n)
		}
	}
	return ""
}

// personAddress is the address of a person if mail can be sent to it, else empty.
func personAddress(text string) string {
	if len(text) > 2*maxAddress {
		return ""
	}
	a, err := parseAddress(text)
	if err != nil || a.Name != "" || !strings.Contains(a.Address, ".") || strings.ContainsAny(a.Address, `"(),:;[\]`) {
		return ""
	}
	return a.Address
}

// mailLink writes to a person, with a subject. It is empty where the address is none.
func mailLink(address, subject string) template.URL {
	address = personAddress(address)
	if address == "" {
		return ""
	}
	local, domain, _ := cutLast(address, "@")
	link := "mailto:" + quoted(local) + "@" + domain
	if subject != "" {
		link += "?subject=" + quoted(subject)
	}
	return template.URL(link)
}

// quoted lets nothing through that has a meaning in a mailto: an & would begin a body, or another recipient.
func quoted(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

const maxURL = 1000

// webLink is an https or http address, with its host as people are shown it. Both are empty where it is none.
func webLink(text string) (link template.URL, host string) {
	text = strings.TrimSpace(text)
	if len(text) > maxURL {
		return "", ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || u.Opaque != "" || !isDomain(u.Hostname()) {
		return "", ""
	}
	for _, r := range u.String() {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"'<>`\\", r) {
			return "", ""
		}
	}
	return template.URL(u.String()), strings.TrimPrefix(u.Hostname(), "www.")
}
