package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"doorbell/events"
)

// removed are the settings that doorbell no longer has, with what takes their place. Those that
// would send events elsewhere, or use another key, if they were ignored, are refused.
var removed = []struct {
	name    *regexp.Regexp
	instead string
	refused bool
}{
	{regexp.MustCompile(`^CLUSTER$`), ": doorbells do not share agencies; unset it, and run " +
		"several doorbells with disjoint DOORBELL_AGENCIES on one stream", true},
	{regexp.MustCompile(`^API_KEY_NEXT$`), ": an agency has one key; unset it, and write the new " +
		"key into the key file, which is read again within 30 s; " +
		"doorbell check --api-key-file tests it", true},
	{regexp.MustCompile(`^STREAM$`), ": the stream is named after DOORBELL_SUBJECT_PREFIX, in " +
		"capitals; unset it, and choose a prefix with that name", true},
	{regexp.MustCompile(`^(SLACK|EMAIL|WEBHOOK)_(TYPES|AGENCIES|MIN_SCORE)$`), "; unset it, and " +
		"write a table of routes, which DOORBELL_ROUTES_FILE names", true},
	{regexp.MustCompile(`^CLUSTER_GENERATION$`), "; remove it", false},
	{regexp.MustCompile(`^PAGE_SIZE$`), ": walks ask for 100 insertions a page, and for fewer " +
		"where the API refuses that; remove it", false},
	{regexp.MustCompile(`^CONFIRM_DISAPPEARED$`), ": an insertion has disappeared when two " +
		"complete walks miss it; remove it", false},
	{regexp.MustCompile(`^MAX_BODY$`), ": a response may be up to 32 MiB; remove it", false},
	{
		regexp.MustCompile(`^PEOPLE_RETENTION$`), ": events contain personal data for as long as " +
			"DOORBELL_RETENTION keeps them; shorten that, or set DOORBELL_PEOPLE to contact or none",
		false,
	},
}

// ofKubernetes is a variable that Kubernetes sets in every container for a service that is named
// doorbell, or doorbell-something.
var ofKubernetes = regexp.MustCompile(
	`^DOORBELL(_PORT=|(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)=|PORT=(tcp|udp|sctp)://|PORT_\d+_))`)

// knownNames are all variables, of every group, whichever were read.
func knownNames() []string {
	var names []string
	for _, s := range All() {
		names = append(names, s.Name)
		if s.Secret {
			names = append(names, s.Name+FileSuffix)
		}
	}
	return append(names, "DOORBELL_NATS_URL")
}

// checkNames names the variables of the environment that are no longer settings, or never were:
// those are mostly spelling mistakes, and the nearest right name is suggested.
func (r *reader) checkNames() {
	known := knownNames()
names:
	for _, name := range slices.Sorted(maps.Keys(r.environ)) {
		own, ours := strings.CutPrefix(name, "DOORBELL_")
		if !ours || slices.Contains(known, name) ||
			ofKubernetes.MatchString(name+"="+r.environ[name]) {
			continue
		}
		for _, old := range removed {
			switch {
			case !old.name.MatchString(strings.TrimSuffix(own, FileSuffix)):
				continue
			case strings.TrimSpace(r.environ[name]) == "":
			case old.refused:
				r.wrong(name, "is no longer supported"+old.instead)
			default:
				r.warnings = append(r.warnings, name+" no longer has an effect"+old.instead)
			}
			continue names
		}
		warning := name + " is not a setting and is ignored"
		if nearest := nearest(name, known); nearest != "" {
			warning += "; did you mean " + nearest + "?"
		}
		r.warnings = append(r.warnings, warning)
	}
}

// nearest returns the known name with the fewest edits; none if most letters differ. The first of
// equals is the most used.
func nearest(name string, known []string) string {
	name = strings.TrimSuffix(name[:min(len(name), 100)], FileSuffix)
	own := strings.TrimPrefix(name, "DOORBELL_")
	found := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, found) > (len(own)+1)/2 {
		return ""
	}
	return found
}

// distance is the number of letters to insert, delete or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// TypesAre says where the types are listed.
const TypesAre = "schemas/README.md lists them"

// KnownType reports whether a type, or a group of them as access.>, exists.
func KnownType(name string) bool {
	isIt := func(t events.Type) bool { return t.Fits(name) }
	return name != ">" && slices.ContainsFunc(events.Types, isIt)
}
