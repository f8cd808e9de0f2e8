package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// removed lists the settings that doorbell no longer has. Text follows the name, and says what
// takes its place. Where ignoring one would do something else than the operator asked for it is
// refused, otherwise warned about.
var removed = append([]removedSetting{
	{
		name: "DOORBELL_CLUSTER", refused: true,
		text: "is no longer supported: doorbells do not share agencies; unset it, " +
			"and run several doorbells with disjoint DOORBELL_AGENCIES on one stream instead",
	},
	{name: "DOORBELL_CLUSTER_GENERATION", text: "no longer has an effect; remove it"},
	{
		name: "DOORBELL_API_KEY_NEXT", refused: true,
		text: "is no longer supported: an agency has one key; unset it, " +
			"and write the new one into the key file, which is read again within 30 s; doorbell check --api-key-file tests it",
	},
	{
		name: "DOORBELL_PAGE_SIZE",
		text: "no longer has an effect: walks ask for 100 insertions a page, " +
			"and for fewer where the API refuses that; remove it",
	},
	{
		name: "DOORBELL_CONFIRM_DISAPPEARED",
		text: "no longer has an effect: an insertion has disappeared " +
			"when two complete walks miss it; remove it",
	},
	{
		name: "DOORBELL_STREAM", refused: true,
		text: "is no longer supported: the stream is named after DOORBELL_SUBJECT_PREFIX, " +
			"in capitals; unset it, and choose a prefix of that name, which consumers then subscribe to",
	},
	{
		name: "DOORBELL_MAX_BODY",
		text: "no longer has an effect: a response may have 32 MiB, packed and unpacked; remove it",
	},
	{
		name: "DOORBELL_PEOPLE_RETENTION",
		text: "no longer has an effect: events hold people for as long as DOORBELL_RETENTION " +
			"keeps them; set that shorter, or DOORBELL_PEOPLE to contact or none",
	},
}, routed()...)

type removedSetting struct {
	name, text string
	refused    bool
}

// routed are the settings that chose what a receiver gets, as the columns of the table of routes do
// now. Ignoring one would send events to where they must not go.
func routed() (all []removedSetting) {
	for _, kind := range []string{"SLACK", "EMAIL", "WEBHOOK"} {
		for name, column := range map[string]string{"TYPES": "types", "AGENCIES": "agency", "MIN_SCORE": "min_score"} {
			all = append(all, removedSetting{
				name: "DOORBELL_" + kind + "_" + name, refused: true,
				text: "is no longer supported; " +
					"unset it, write the table of routes with the column " + column +
					", and name it in DOORBELL_ROUTES_FILE",
			})
		}
	}
	return all
}

// knownNames are all variables, of every group, whichever were read. The most used come first: of
// two that are equally near the first is meant. A daemon reads its settings again every few
// seconds: they are listed once.
var knownNames = sync.OnceValue(func() []string {
	var names []string
	for _, s := range slices.Concat(settingsOf(GroupPoll, &Poll{}), settingsOf(GroupBase, &Base{}),
		settingsOf(GroupForward, &Forward{}), settingsOf(GroupNATS, &NATS{})) {
		names = append(names, s.Name)
		if s.Secret {
			names = append(names, s.Name+FileSuffix)
		}
	}
	return append(names, "DOORBELL_NATS_URL")
})

// checkNames names the variables of the environment that are settings no more, or never were: those
// are mostly spelling mistakes, and the nearest right name is said.
func (r *reader) checkNames() {
	known := knownNames()
	for _, name := range slices.Sorted(maps.Keys(r.environ)) {
		gone := slices.IndexFunc(removed,
			func(s removedSetting) bool { return s.name == strings.TrimSuffix(name, FileSuffix) })
		switch {
		case !strings.HasPrefix(name, "DOORBELL_") || slices.Contains(known, name) || r.ofKubernetes(name):
		case gone >= 0 && strings.TrimSpace(r.environ[name]) == "":
		case gone >= 0 && removed[gone].refused:
			r.wrong(name, removed[gone].text)
		case gone >= 0:
			r.warn(name + " " + removed[gone].text)
		default:
			text := name + " is not a setting and is ignored"
			if nearest := Nearest(name, known); nearest != "" {
				text += "; did you mean " + nearest + "?"
			}
			r.warn(text)
		}
	}
}

// ofService is what follows the name of a service in the variables that Kubernetes sets for it.
var ofService = regexp.MustCompile(`^(PORT$|PORT_|SERVICE_)`)

// ofKubernetes reports whether a name comes from a service beside us: Kubernetes sets
// <SERVICE>_SERVICE_HOST and <SERVICE>_PORT in every container, for a service doorbell as well as
// for one named doorbell-something.
func (r *reader) ofKubernetes(name string) bool {
	for at, c := range name {
		if service := name[:at]; c == '_' && ofService.MatchString(name[at+1:]) &&
			(service == "DOORBELL" || r.environ[service+"_SERVICE_HOST"] != "") {
			return true
		}
	}
	return false
}

// Nearest returns the known name that ends with name, else the one with the fewest edits, the first
// of equals, unless most letters differ; then one that begins with it, or none. Names far longer
// than any of ours are compared by their beginning.
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
