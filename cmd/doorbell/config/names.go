package config

import (
	"slices"
	"strings"
	"sync"
)

// knownNames are all variables, of every group, whichever were read. The most used come first:
// of two that are equally near the first is meant. A daemon reads its settings again every few seconds: they are listed once.
var knownNames = sync.OnceValue(func() []string {
	var names []string
	for _, s := range slices.Concat(settingsOf(GroupPoll, &Poll{}), settingsOf(GroupBase, &Base{}), settingsOf(GroupForward, &Forward{}), settingsOf(GroupNATS, &NATS{})) {
		names = append(names, s.Name)
		if s.Secret {
			names = append(names, s.Name+FileSuffix)
		}
	}
	return append(names, "DOORBELL_NATS_URL")
})

// warnUnknown finds names that nobody reads, which are mostly spelling mistakes, and says the nearest right one.
func (r *reader) warnUnknown() {
	known := knownNames()
	for _, name := range r.prefixed() {
		if slices.Contains(known, name) || isRemoved(name) || r.ofKubernetes(name) {
			continue
		}
		text := name + " is not a setting and is ignored"
		if nearest := Nearest(name, known); nearest != "" {
			text += "; did you mean " + nearest + "?"
		}
		r.warn(text)
	}
}

// ofKubernetes reports whether a name comes from a service beside us: Kubernetes sets <SERVICE>_SERVICE_HOST and
// <SERVICE>_PORT in every container, for a service doorbell as well as for one named doorbell-something.
func (r *reader) ofKubernetes(name string) bool {
	for at := strings.IndexByte(name, '_'); at > 0; {
		service, rest := name[:at], name[at+1:]
		isService := rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
		if isService && (service == "DOORBELL" || r.environ[service+"_SERVICE_HOST"] != "") {
			return true
		}
		next := strings.IndexByte(rest, '_')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return false
}

// Nearest returns the known name that ends with name, else the one with the fewest edits, the first of equals, unless most letters differ;
// then one that begins with it, or none. Names far longer than any of ours are compared by their beginning.
func Nearest(name string, known []string) string {
	name = name[:min(len(name), 100)]
	if plain := strings.TrimSuffix(name, FileSuffix); slices.Contains(known, plain) {
		return plain // no secret, so it has no file form
	}
	if name == "DOORBELL_TZ" || name == "DOORBELL_TIME_ZONE" { // as everybody calls it, and by letters nearer to others
		return "DOORBELL_TIMEZONE"
	}
	own := strings.TrimPrefix(name, "DOORBELL_")
	for _, k := range known {
		if k == own || strings.HasSuffix(k, "_"+own) { // HTTP_TOKEN for TOKEN
			return k
		}
	}
	nearest := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, nearest) <= (len(own)+1)/2 {
		return nearest
	}
	if i := slices.IndexFunc(known, func(k string) bool { return strings.HasPrefix(k, name+"_") }); i >= 0 { // DATA_DIR for DATA
		return known[i]
	}
	return ""
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
