package config

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// removed are the settings that doorbell no longer has, with what takes their place behind "no
// longer has an effect".
var removed = map[string]string{
	"DOORBELL_CLUSTER_GENERATION": "; remove it",
	"DOORBELL_PAGE_SIZE": ": walks ask for 100 insertions a page, " +
		"and for fewer where the API refuses that; remove it",
	"DOORBELL_CONFIRM_DISAPPEARED": ": an insertion has disappeared " +
		"when two complete walks miss it; remove it",
	"DOORBELL_MAX_BODY": ": a response may have 32 MiB, packed and unpacked; remove it",
	"DOORBELL_PEOPLE_RETENTION": ": events hold people for as long as DOORBELL_RETENTION " +
		"keeps them; set that shorter, or DOORBELL_PEOPLE to contact or none",
}

// refused are removed settings, too. To ignore one of them would send events to where they must
// not go, or send requests that the operator did not ask for.
var refused = map[string]string{
	"DOORBELL_CLUSTER": ": doorbells do not share agencies; unset it, " +
		"and run several doorbells with disjoint DOORBELL_AGENCIES on one stream instead",
	"DOORBELL_API_KEY_NEXT": ": an agency has one key; unset it, and write the new one into the " +
		"key file, which is read again within 30 s; doorbell check --api-key-file tests it",
	"DOORBELL_STREAM": ": the stream is named after DOORBELL_SUBJECT_PREFIX, in capitals; " +
		"unset it, and choose a prefix of that name, which consumers then subscribe to",
}

// routed are the settings that chose what a receiver gets, as the columns of the table of routes do
// now.
var (
	routed  = regexp.MustCompile(`^DOORBELL_(?:SLACK|EMAIL|WEBHOOK)_(TYPES|AGENCIES|MIN_SCORE)$`)
	columns = map[string]string{"TYPES": "types", "AGENCIES": "agency", "MIN_SCORE": "min_score"}
)

// ofKubernetes is a variable that Kubernetes sets in every container for a service that is named
// doorbell, or doorbell-something.
var ofKubernetes = regexp.MustCompile(
	`^DOORBELL(_PORT=|(_\w+)?_(SERVICE_(HOST|PORT(_\w+)?)=|PORT=(tcp|udp|sctp)://|PORT_\d+_))`)

// knownNames are all variables, of every group, whichever were read. The most used come first: of
// two that are equally near the first is meant.
func knownNames() []string {
	var names []string
	for _, s := range slices.Concat(settingsOf(GroupPoll, &Poll{}), settingsOf(GroupBase, &Base{}),
		settingsOf(GroupForward, &Forward{}), settingsOf(GroupNATS, &NATS{})) {
		names = append(names, s.Name)
		if s.Secret {
			names = append(names, s.Name+FileSuffix)
		}
	}
	return append(names, "DOORBELL_NATS_URL")
}

// checkNames names the variables of the environment that are settings no more, or never were: those
// are mostly spelling mistakes, and the nearest right name is said.
func (r *reader) checkNames() {
	known := knownNames()
	for _, name := range slices.Sorted(maps.Keys(r.environ)) {
		value, plainName := r.environ[name], strings.TrimSuffix(name, FileSuffix)
		if !strings.HasPrefix(name, "DOORBELL_") || slices.Contains(known, name) ||
			ofKubernetes.MatchString(name+"="+value) {
			continue
		}
		gone, refuse := removed[plainName], refused[plainName]
		if column := routed.FindStringSubmatch(plainName); column != nil {
			refuse = "; unset it, write the table of routes with the column " + columns[column[1]] +
				", and name it in DOORBELL_ROUTES_FILE"
		}
		nearest := Nearest(name, known)
		switch {
		case gone+refuse != "" && strings.TrimSpace(value) == "":
		case refuse != "":
			r.wrong(name, "is no longer supported"+refuse)
		case gone != "":
			r.warn(name + " no longer has an effect" + gone)
		case nearest != "":
			r.warn(name + " is not a setting and is ignored; did you mean " + nearest + "?")
		default:
			r.warn(name + " is not a setting and is ignored")
		}
	}
}

// Nearest returns the known name that ends with name, else the one with the fewest edits, the first
// of equals, unless most letters differ; then one that begins with it, or none. Names far longer
// than any of ours are compared by their beginning.
func Nearest(name string, known []string) string {
	name = strings.TrimSuffix(name[:min(len(name), 100)], FileSuffix)
	own := strings.TrimPrefix(name, "DOORBELL_")
	for _, k := range known {
		if k == name || k == own || strings.HasSuffix(k, "_"+own) { // HTTP_TOKEN for TOKEN
			return k
		}
	}
	nearest := slices.MinFunc(known, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, nearest) <= (len(own)+1)/2 {
		return nearest
	}
	for _, k := range known {
		if strings.HasPrefix(k, name+"_") { // DATA_DIR for DATA
			return k
		}
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
