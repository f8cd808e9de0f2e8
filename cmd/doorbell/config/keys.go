package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// resolveAgencies pairs agencies and keys, and reports who has none.
func (r *reader) resolveAgencies(p Poll) []Agency {
	if r.moreThanKeys(p) {
		return nil
	}
	ids := []string(p.Agencies)
	if len(ids) == 0 {
		ids = p.APIKeys.Named
	}
	if len(ids) == 0 && !p.APIKeys.IsZero() && r.good("DOORBELL_AGENCIES", "DOORBELL_API_KEYS") {
		r.wrong("DOORBELL_API_KEYS", "names no agency; write A100=key, or the agencies to watch into DOORBELL_AGENCIES")
	}
	if len(ids) == 0 && r.good("DOORBELL_AGENCIES", "DOORBELL_API_KEYS") {
		r.wrong("DOORBELL_AGENCIES", "is not set; write the agencies to watch, like A100,B200, or name them in DOORBELL_API_KEYS")
		if !r.set("DOORBELL_API_KEY") && !r.set("DOORBELL_API_KEYS") {
			r.missingKeys([]string{"A100"})
		}
	}
	r.checkSharedKey(p)
	r.checkKeyNames(p, ids)
	if !r.good("DOORBELL_AGENCIES", "DOORBELL_API_KEYS", "DOORBELL_API_KEY") {
		return nil
	}
	var missing []string
	agencies := make([]Agency, 0, len(ids))
	for _, id := range ids {
		a := r.agency(p, id)
		if a.Key.IsZero() {
			missing = append(missing, id)
		}
		agencies = append(agencies, a)
	}
	r.missingKeys(missing)
	return agencies
}

// moreThanKeys reports a key for all agencies that is an agency, one and its key, or has a name
// before it: every request would be refused.
func (r *reader) moreThanKeys(p Poll) (found bool) {
	if only := p.APIKeys.values[AnyAgency].Reveal(); only != "" && (p.isAgency(only) || usualAgency.MatchString(only)) {
		r.wrong("DOORBELL_API_KEYS", "has for all agencies what looks like an agency without its key; write A100=key, or the key for all into DOORBELL_API_KEY")
		return true
	}
	const what, remedy = "holds what looks like an agency and its key", "; write the key alone, or A100=key into DOORBELL_API_KEYS"
	for _, one := range []struct {
		name string
		key  Secret
		text string
	}{
		{"DOORBELL_API_KEYS", p.APIKeys.values[AnyAgency], what + " without = between; write A100=key"},
		{"DOORBELL_API_KEY", p.APIKey, what + remedy},
	} {
		parts := agencyAndKey.FindStringSubmatch(one.key.Reveal())
		switch {
		case parts != nil && p.isAgency(parts[1]):
			r.wrong(one.name, one.text)
		case namedKey.MatchString(one.key.Reveal()):
			r.wrong(one.name, "holds a name or a scheme before the key, such as DOORBELL_API_KEY= or ApiKey; "+
				"write the key alone")
		default:
			continue
		}
		found = true
	}
	return found
}

// isAgency knows the agencies that are configured, and where none are, what looks like one: a key may be of any form.
func (p Poll) isAgency(text string) bool {
	if len(p.Agencies) == 0 {
		return usualAgency.MatchString(text)
	}
	return slices.ContainsFunc(p.Agencies, func(id string) bool { return strings.EqualFold(id, text) })
}

var (
	agencyAndKey = regexp.MustCompile(`^([^\s:;=]+)\s*[\s:;=]\s*[^\s:;=]`)
	usualAgency  = regexp.MustCompile(`^[A-Za-z][0-9]+$`)

	// namedKey is a key with the name of a variable, a header or a scheme before it. A key may end
	// with = and hold a colon.
	namedKey = regexp.MustCompile(`(?i)^[\s"'{]*(?:export\s+|set\s+|\$env:)?["']?` +
		`(?:[a-z_][a-z0-9_]*["']?\s*=\s*[^=\s]|` +
		`(?:authorization|x-api-key|api[_-]?keys?)["']?\s*:|` +
		`(?:apikey|bearer|basic|token|key)\s)`)
	// namedKeys are keys by agency with the name of a variable before them, which would be an agency.
	namedKeys = regexp.MustCompile(`(?im)^[\s"'{]*(?:export\s+|set\s+)?["']?` +
		`(?:doorbell_[a-z0-9_]+|api[_-]?keys?)["']?\s*[:=]`)
)

// checkSharedKey holds the key for all agencies against "*" in API_KEYS.
func (r *reader) checkSharedKey(p Poll) {
	if _, all := p.APIKeys.values[AnyAgency]; all && !p.APIKey.IsZero() {
		r.wrong("DOORBELL_API_KEYS", "has a key for all agencies, and DOORBELL_API_KEY is set too; keep one of them")
	}
	r.checkKey("DOORBELL_API_KEY", "", p.APIKey)
}

// checkKeyNames says which keys belong to nobody.
func (r *reader) checkKeyNames(p Poll, ids []string) {
	watched := make(map[string]bool, len(ids))
	for _, id := range ids {
		watched[id] = true
	}
	for _, id := range p.APIKeys.Named {
		if !watched[id] {
			r.warn("DOORBELL_API_KEYS has a key for " + id + ", which DOORBELL_AGENCIES does not name: it is not watched")
		}
	}
}

// agency returns an agency with its own key, else that for all. A key that is unfit is reported; one that is
// missing is the caller's to report.
func (r *reader) agency(p Poll, id string) Agency {
	a := Agency{ID: id, Key: p.APIKey}
	if own := p.APIKeys.Of(id); !own.IsZero() {
		a.Key = own
		r.checkKey("DOORBELL_API_KEYS", " for "+id, own)
	}
	return a
}

// missingKeys reports all agencies without a key in one sentence, of which the first ten are named.
func (r *reader) missingKeys(ids []string) {
	if len(ids) == 0 || !r.good("DOORBELL_API_KEYS") {
		return
	}
	if !r.set("DOORBELL_API_KEY") && !r.set("DOORBELL_API_KEYS") {
		r.wrong("DOORBELL_API_KEY", "is not set; write the key for all agencies, or one for each into DOORBELL_API_KEYS, like "+ids[0]+"=key")
		return
	}
	names := strings.Join(ids[:min(len(ids), 10)], ", ")
	if more := len(ids) - 10; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	r.wrong("DOORBELL_API_KEYS", "has no key for "+names+"; add "+ids[0]+"=key, or set DOORBELL_API_KEY for all agencies")
}

// checkKey reports a key that no header can carry. It says where the key is wrong and shows nothing of it.
func (r *reader) checkKey(name, whose string, key Secret) {
	const remedy = "; write the key alone"
	text := key.Reveal()
	if len(text) > 1000 {
		r.wrong(name, "holds a key"+whose+" of more than 1000 characters"+remedy)
		return
	}
	if namedKey.MatchString(text) {
		r.wrong(name, "holds a key"+whose+" with a name or a scheme before it"+remedy)
		return
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c > '~' {
			r.wrong(name, fmt.Sprintf("holds a key%s that no header can carry: byte %d is a space, a control character or not ASCII%s", whose, i+1, remedy))
			return
		}
	}
	if strings.ContainsRune(text, '|') {
		r.wrong(name, "holds a key"+whose+" with a | in it: an agency has one key"+remedy)
	}
	if strings.ContainsAny(text, "{}") {
		r.wrong(name, "holds a key"+whose+" in braces"+remedy)
	}
	if n := len(text); n > 1 && strings.ContainsRune("\"'`", rune(text[0])) && text[0] == text[n-1] {
		r.wrong(name, "holds a key"+whose+" in quotes"+remedy)
	}
}
