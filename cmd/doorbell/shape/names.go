package shape

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"doorbell/poller/listings"
)

// Which names of members are written. A name is data where an object is a map: by id, by address,
// by person. In doubt it is replaced by its class: the reader of the file misses a name, and no one
// is in it.

// maxNames is how many names that are unknown one object may have.
const maxNames = 64

var (
	// programName is one that a program gives: letters, perhaps after a sign, perhaps with a number
	// at the end.
	programName = regexp.MustCompile(
		`^[@$_]{0,2}[A-Za-z][A-Za-z_:.-]{0,38}[A-Za-z_][0-9]?$|^[A-Za-z]$`)
	// severalWords is camelCase, PascalCase or snake_case.
	severalWords = regexp.MustCompile(`[a-z][A-Z]|[A-Za-z]_[A-Za-z]|^[@$_]|:`)
)

// listWords are words of a name of several that say that it is of a list.
var listWords = regexp.MustCompile(
	`[a-z](List|Items?|Insertions?|Listings?|Property|Properties|Leads?|` +
		`Requests?|Inquiry|Inquiries|Results?|Resources?|Response|Collection)([A-Z]|$)`)

// keptNames returns the names that may be written of objects at one place.
func keptNames(objects []*value, p place) map[string]bool {
	count, unknown, known := map[string]int{}, map[string]bool{}, false
	structures := map[string]map[string]bool{} // of objects and lists under unknown names
	for _, o := range objects {
		for _, m := range o.inner {
			count[m.name]++
			if listings.KnownName(m.name) {
				known = true
				continue
			}
			unknown[m.name] = true
			s := structure(m)
			if structures[s] == nil {
				structures[s] = map[string]bool{}
			}
			structures[s][m.name] = true
		}
	}
	kept := map[string]bool{}
	for name := range count {
		switch {
		case !unknown[name]:
			kept[name] = true
		case len(unknown) > maxNames, !programName.MatchString(name):
		case len(objects) > 1 && count[name]*2 < len(objects) && !severalWords.MatchString(name):
		case isMap(structures, name, known):
		case known:
			kept[name] = true
		// no name is known, in the envelope; deeper, these are taken for the keys of a map
		case p.depth == 0:
			kept[name] = severalWords.MatchString(name) || !unicode.IsUpper([]rune(name)[0])
		default: // but insertionResourceList
			kept[name] = !p.inRecord && listWords.MatchString(name)
		}
	}
	return kept
}

// structure is what a value consists of, by names and types.
func structure(v value) string {
	if v.kind != '{' && v.kind != '[' {
		return "a " + string(v.kind)
	}
	var names []string
	for _, m := range v.inner {
		if v.kind == '[' {
			names = append(names, structure(m))
			break
		}
		names = append(names, m.name)
	}
	slices.Sort(names)
	return string(v.kind) + strings.Join(names, ",")
}

// isMap reports whether an unknown name stands beside others with values of its own structure: two
// objects or lists, or three scalars where no name is known.
func isMap(structures map[string]map[string]bool, name string, known bool) bool {
	for s, names := range structures {
		if !names[name] {
			continue
		}
		if !strings.HasPrefix(s, "a ") && len(names) > 1 ||
			strings.HasPrefix(s, "a ") && !known && len(names) > 2 {
			return true
		}
	}
	return false
}

// nameClass is the form of a name that may be data.
func nameClass(name string) string {
	switch {
	case strings.Contains(name, "\uFFFD"):
		return "broken text"
	case isNatural(name):
		return "index"
	case uuid.MatchString(name):
		return "uuid"
	case email.MatchString(name):
		return "e-mail"
	case strings.Trim(name, "0123456789") == "" && name != "":
		return "digits"
	}
	return "text"
}
