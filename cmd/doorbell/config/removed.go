package config

import (
	"slices"
	"strings"
)

// removed lists the settings that doorbell no longer has, in the order in which they went. A new row needs nothing else.
var removed = []removedSetting{
	{
		name: "DOORBELL_CLUSTER", refused: true,
		text: "is no longer supported: doorbells do not share agencies; unset it, and run several doorbells " +
			"with disjoint DOORBELL_AGENCIES on one stream instead",
	},
	{name: "DOORBELL_CLUSTER_GENERATION", text: "no longer has an effect; remove it"},
	{
		name: "DOORBELL_API_KEY_NEXT",
		text: "no longer has an effect: an agency has one key; write the new one into the key file, " +
			"which is read again within 30 s; doorbell check tests it",
	},
	{
		name: "DOORBELL_PAGE_SIZE",
		text: "no longer has an effect: walks ask for 100 insertions a page, and for fewer where the API refuses that; remove it",
	},
	{
		name: "DOORBELL_CONFIRM_DISAPPEARED",
		text: "no longer has an effect: an insertion has disappeared when two complete walks miss it; remove it",
	},
	{
		name: "DOORBELL_STREAM", refused: true,
		text: "is no longer supported: the stream is named after DOORBELL_SUBJECT_PREFIX, in capitals; unset it, " +
			"and choose a prefix of that name, which consumers then subscribe to",
	},
	{
		name: "DOORBELL_MAX_BODY",
		text: "no longer has an effect: a response may have 32 MiB, packed and unpacked; remove it",
	},
	{
		name: "DOORBELL_PEOPLE_RETENTION",
		text: "no longer has an effect: events hold people for as long as DOORBELL_RETENTION keeps them; " +
			"set that shorter, or DOORBELL_PEOPLE to contact or none",
	},
	route("SLACK", "TYPES", "types"), route("SLACK", "AGENCIES", "agency"), route("SLACK", "MIN_SCORE", "min_score"),
	route("EMAIL", "TYPES", "types"), route("EMAIL", "AGENCIES", "agency"), route("EMAIL", "MIN_SCORE", "min_score"),
	route("WEBHOOK", "TYPES", "types"), route("WEBHOOK", "AGENCIES", "agency"), route("WEBHOOK", "MIN_SCORE", "min_score"),
}

// route is a setting that chose what a receiver gets, as a column of the table of routes does now. Ignoring it would send events to
// where they must not go.
func route(kind, name, column string) removedSetting {
	return removedSetting{
		name: "DOORBELL_" + kind + "_" + name, refused: true,
		text: "is no longer supported; unset it, write the table of routes with the column " + column + ", and name it in DOORBELL_ROUTES_FILE",
	}
}

// removedSetting is a setting that doorbell no longer has.
type removedSetting struct {
	name    string
	text    string // follows the name, and says what takes its place
	refused bool   // ignoring it would do something else than the operator asked for; otherwise it is only warned about
}

// isRemoved reports whether a variable is a removed setting or its file form.
func isRemoved(name string) bool {
	name = strings.TrimSuffix(name, FileSuffix)
	return slices.ContainsFunc(removed, func(s removedSetting) bool { return s.name == name })
}

// checkRemoved names the removed settings that are still set.
func (r *reader) checkRemoved() {
	for _, s := range removed {
		for _, name := range []string{s.name, s.name + FileSuffix} {
			switch {
			case strings.TrimSpace(r.environ[name]) == "":
			case s.refused:
				r.wrong(name, s.text)
			default:
				r.warn(name + " " + s.text)
			}
		}
	}
}
