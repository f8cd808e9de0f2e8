package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// The variables of API keys.
const oneKey, keyOfEach = "DOORBELL_API_KEY", "DOORBELL_API_KEYS"

var (
	agencyAndKey = regexp.MustCompile(`^([^\s:;=]+)\s*[\s:;=]\s*[^\s:;=]`)
	usualAgency  = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

	// namedKey is a key with the name of a variable, a header or a scheme before it. A key may end
	// with = and hold a colon.
	namedKey = regexp.MustCompile(`(?i)^[\s"'{]*(?:export\s+|set\s+|\$env:)?["']?` +
		`(?:[a-z_][a-z0-9_]*["']?\s*=\s*[^=\s]|` +
		`(?:authorization|x-api-key|api[_-]?keys?)["']?\s*:|` +
		`(?:apikey|bearer|basic|token|key)\s)`)
	// namedKeys are keys by agency with the name of a variable where an agency should be.
	namedKeys = regexp.MustCompile(`(?im)^[^=\n]*(?:doorbell_\w+|api[_-]?keys?)["']?\s*[:=]`)
)

// agencies pairs agencies and keys, and reports which have none.
func (r *reader) agencies(p Poll) []Agency {
	const watched = "DOORBELL_AGENCIES"
	forAll := p.APIKeys.values[AnyAgency]
	r.wrongIf(p.isAgency(forAll.Reveal()) || usualAgency.MatchString(forAll.Reveal()), keyOfEach,
		"has for all agencies what looks like an agency without its key; "+
			"write A100=key, or the key for all into DOORBELL_API_KEY")
	r.checkForAll(p, keyOfEach, forAll, " without = between; write A100=key")
	r.checkForAll(p, oneKey, p.APIKey, "; write the key alone, or A100=key into DOORBELL_API_KEYS")
	r.wrongIf(!forAll.IsZero() && !p.APIKey.IsZero(), keyOfEach,
		"has a key for all agencies, and DOORBELL_API_KEY is set too; keep one of them")
	if r.good(keyOfEach) {
		for _, id := range p.APIKeys.Named {
			r.checkKey(keyOfEach, " for "+id, p.APIKeys.values[id])
		}
	}
	ids := []string(p.Agencies)
	if len(ids) == 0 {
		ids = p.APIKeys.Named
	}
	r.wrongIf(len(ids) == 0 && !p.APIKeys.IsZero(), keyOfEach,
		"names no agency; write A100=key, or the agencies to watch into DOORBELL_AGENCIES")
	r.wrongIf(len(ids) == 0 && r.good(keyOfEach), watched,
		"is not set; write the agencies to watch, like A100,B200, or name them in DOORBELL_API_KEYS")
	r.wrongIf(!r.set(oneKey) && !r.set(keyOfEach), oneKey, "is not set; "+
		"write the key for all agencies, or one for each into DOORBELL_API_KEYS, like A100=key")
	if !r.good(watched, keyOfEach, oneKey) {
		return nil
	}
	var list []Agency
	var missing []string
	for _, id := range ids {
		a := Agency{ID: id, Key: p.APIKeys.Of(id)}
		if a.Key.IsZero() {
			a.Key = p.APIKey
		}
		if a.Key.IsZero() {
			missing = append(missing, id)
		}
		list = append(list, a)
	}
	if len(missing) == 0 {
		return list
	}
	names := strings.Join(missing[:min(len(missing), 10)], ", ")
	if more := len(missing) - 10; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	r.wrong(keyOfEach, "has no key for "+names+"; add "+missing[0]+
		"=key, or set DOORBELL_API_KEY for all agencies")
	return list
}

// checkForAll looks at a key for all agencies. One that is an agency and its key would be refused
// with every request.
func (r *reader) checkForAll(p Poll, name string, key Secret, remedy string) {
	parts := agencyAndKey.FindStringSubmatch(key.Reveal())
	r.wrongIf(parts != nil && p.isAgency(parts[1]), name,
		"holds what looks like an agency and its key"+remedy)
	r.wrongIf(namedKey.MatchString(key.Reveal()), name, "holds a name or a scheme before the key, "+
		"such as DOORBELL_API_KEY= or ApiKey; write the key alone")
	if r.good(name) {
		r.checkKey(name, "", key)
	}
}

// isAgency knows the agencies that are configured, and where none are, what looks like one: a key
// may be of any form.
func (p Poll) isAgency(text string) bool {
	if len(p.Agencies) == 0 {
		return usualAgency.MatchString(text)
	}
	return slices.ContainsFunc(p.Agencies, func(id string) bool { return strings.EqualFold(id, text) })
}

// checkKey reports a key that no header can carry, and one that is more than a key. It shows
// nothing of it.
func (r *reader) checkKey(name, whose string, key Secret) {
	text, what := key.Reveal(), ""
	switch at := unfitForHeader(text); {
	case namedKey.MatchString(text):
		what = " with a name or a scheme before it"
	case at >= 0:
		what = fmt.Sprintf(" that no header can carry: byte %d is a space, "+
			"a control character or not ASCII", at+1)
	case strings.ContainsAny(text, "{}"):
		what = " in braces"
	case len(text) > 1 && strings.ContainsRune("\"'`", rune(text[0])) && text[0] == text[len(text)-1]:
		what = " in quotes"
	}
	if what != "" {
		r.wrong(name, "holds a key"+whose+what+"; write the key alone")
	}
}

// unfitForHeader returns the place of the first byte that no header can carry; -1: there is none.
func unfitForHeader(text string) int {
	return strings.IndexFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
}
