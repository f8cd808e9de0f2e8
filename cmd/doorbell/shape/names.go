package shape

import (
	"regexp"
	"strings"
	"unicode"

	"doorbell/poller/listings"
)

// Which names of members are written. A name is data where an object is a map: by id, by address,
// by person. In doubt it is replaced by its class: whoever reads the file misses a name, and nobody
// is in it.

// programName is one that a program gives: letters, perhaps after a sign, perhaps with a number at
// the end.
var programName = regexp.MustCompile(`^[@$_]{0,2}[A-Za-z][A-Za-z_:.-]{0,38}[A-Za-z_][0-9]?$|^[A-Za-z]$`)

// listWords are words of a name of several that say that it is of a list.
var listWords = regexp.MustCompile(`[a-z](List|Items?|Insertions?|Listings?|Property|Properties|Leads?|` +
	`Requests?|Inquiry|Inquiries|Results?|Resources?|Response|Collection)([A-Z]|$)`)

// maxEnvelope is how many names an envelope may have of which none is known. A map has more.
const maxEnvelope = 2

// keptNames returns the names that may be written of the objects at one place.
func keptNames(objects []*value, p place) map[string]bool {
	names, known := map[string]bool{}, false
	for _, o := range objects {
		for _, m := range o.inner {
			names[m.name] = listings.KnownName(m.name)
			known = known || names[m.name]
		}
	}
	for name, isKnown := range names {
		switch {
		case isKnown, !programName.MatchString(name):
		case known:
			names[name] = true
		case p.depth == 0 && len(names) <= maxEnvelope:
			names[name] = unicode.IsLower([]rune(name)[0])
		default: // it may be the key of a map, but for insertionResourceList
			names[name] = !p.inRecord && listWords.MatchString(name)
		}
	}
	return names
}

// nameClass is the form of a name that may be data.
func nameClass(name string) string {
	switch {
	case strings.Contains(name, "\uFFFD"):
		return "broken text"
	case isNatural(name):
		return "index"
	}
	return "text"
}
