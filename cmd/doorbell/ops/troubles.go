package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/poller"
)

// alarmWords say in plain words what a watch event has told.
var alarmWords = map[string]string{
	"stale":          "nothing good is heard",
	"schema_drifted": "the answers are not what they were",
	"gap_detected":   "not everything can be seen",
}

// trouble is one thing that is wrong at an agency. Those of the same words and the same kind are told together: a key that is
// refused halts all of its agencies.
type trouble struct {
	agencyID string
	since    time.Time // zero: that is not known
	are, is  string    // what is told of several, and of one, between their names and the time
	what     string    // behind it
	advice   string
}

// troubles are what is wrong, paragraph by paragraph.
func (s Status) troubles(o TextOptions) (lines []string) {
	var all []trouble
	for _, a := range InOrder(s.Watch.Agencies) {
		all = append(all, troublesOf(a, s.Watch.At)...)
	}
	for _, r := range s.Relay {
		if r.Problem != "" {
			all = append(all, trouble{agencyID: r.AgencyID, is: ": publishing: " + r.Problem})
		}
	}
	for _, group := range together(all) {
		lines = append(lines, "")
		for _, l := range o.wrap(sentence(group), 0) {
			lines = append(lines, o.styled(l, styleNone))
		}
		if group[0].advice != "" {
			lines = append(lines, o.wrap(group[0].advice, 2)...)
		}
	}
	return lines
}

// mostInALine is how many agencies a single line names.
const mostInALine = 3

// Trouble says in a line what a person should look at; empty if there is nothing. It is for a log and a mail of cron: Lines say it all.
func (s Status) Trouble() string {
	var words []string
	for text, is := range map[string]bool{
		"the API does not answer": s.Watch.Down != "", "the disk is full": s.Watch.NoSpace && !s.Store.Full,
		"the store is full": s.Store.Full, "the store is nearly full": s.Store.Alarm && !s.Store.Full,
	} {
		if is {
			words = append(words, text)
		}
	}
	slices.Sort(words)
	words = append(words, s.unpublished()...)
	ill := slices.DeleteFunc(InOrder(s.Watch.Agencies), func(a poller.AgencyStatus) bool { return !Ill(a) && !s.waits(a) })
	for _, a := range ill[:min(len(ill), mostInALine)] {
		words = append(words, a.AgencyID+illness(a))
	}
	if more := len(ill) - mostInALine; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	for _, f := range s.Forwarders {
		switch {
		case f.Off:
			words = append(words, f.Name+" is off")
		case f.ill(s.Watch.At):
			words = append(words, f.Name+" takes nothing")
		}
	}
	return strings.Join(slices.Compact(words), ", ")
}

// waitsLong is how long events, or the begin of a watch, may wait for NATS before that is trouble.
const waitsLong = time.Minute

// waits says whether an agency has waited for long for the stream.
func (s Status) waits(a poller.AgencyStatus) bool {
	return a.State == WaitingForStream && s.Watch.At.Sub(a.WatchStart) > waitsLong
}

// unpublished is what is wrong between the event log and NATS.
func (s Status) unpublished() (words []string) {
	switch {
	case !s.Running:
	case !s.NATS.Connected:
		words = append(words, "NATS is not connected")
	case s.NATS.Problem != "":
		words = append(words, "NATS takes no events: "+s.NATS.Problem)
	}
	var agencies []string
	for _, r := range s.Relay {
		if !r.OldestWaiting.IsZero() && s.Watch.At.Sub(r.OldestWaiting) > waitsLong {
			agencies = append(agencies, r.AgencyID)
		}
	}
	switch n := len(agencies); {
	case n == 1:
		words = append(words, "events of "+agencies[0]+" wait for NATS")
	case n > 1:
		words = append(words, fmt.Sprintf("events of %d agencies wait for NATS", n))
	}
	return words
}

// illness is the worst that ails an agency.
func illness(a poller.AgencyStatus) string {
	switch {
	case a.State == "halted":
		return " is halted"
	case a.State == WaitingForStream:
		return " waits for the stream"
	case len(a.Halts) > 0:
		return " is halted in part"
	case a.Held != nil:
		return " holds a change"
	case len(a.Alarms) > 0:
		return ": " + alarmWords[a.Alarms[0].Kind]
	}
	return " does not get an answer"
}

func troublesOf(a poller.AgencyStatus, now time.Time) (all []trouble) {
	add := func(t trouble) {
		t.agencyID = a.AgencyID
		all = append(all, t)
	}
	if a.State == WaitingForStream {
		add(trouble{
			since: a.WatchStart, is: " waits for the stream", are: " wait for the stream", what: ", which may hold what a store before this one has told of it",
			advice: "Nothing is asked until NATS answers. If no doorbell has published there before, restart with: doorbell run --alone",
		})
	}
	for _, h := range a.Halts {
		scope := fmt.Sprintf(" halted (%s%s)", h.Scope, of(h.PropertyReferenceID))
		add(trouble{
			since: h.Since, is: " is" + scope, are: " are" + scope, advice: h.Advice,
			what: fmt.Sprintf(": %d, %s", h.Status, h.ProbableReason),
		})
	}
	if h := a.Held; h != nil {
		add(trouble{is: fmt.Sprintf(" holds a change: %d of %d insertions are missing (%s); believed at %s if it stays, or by: %s",
			h.Missing, h.Known, h.Reason, h.Until.Format(time.RFC3339), h.Approve)})
	}
	for _, l := range a.Alarms {
		add(trouble{since: l.Since, is: fmt.Sprintf(", %s%s: %s", strings.ReplaceAll(l.Operation, "_", " "), of(l.PropertyReferenceID), alarmWords[l.Kind])})
	}
	if l := a.LastWalk; !l.Complete && l.Reason != "" {
		add(trouble{is: fmt.Sprintf(": the last walk, %s, was not complete (%s): %d insertions in %d requests", ago(l.At, now),
			strings.ReplaceAll(l.Reason, "_", " "), l.Insertions, l.Pages)})
	}
	if a.LastError != "" {
		add(trouble{is: ": last error: " + a.LastError})
	}
	return all
}

// together puts what is told in the same words into one group, at the place of the first.
func together(all []trouble) (groups [][]trouble) {
	place := map[string]int{}
	for _, t := range all {
		words := t.is + "\x00" + t.what
		n, known := place[words]
		if !known {
			n = len(groups)
			place[words], groups = n, append(groups, nil)
		}
		groups[n] = append(groups[n], t)
	}
	return groups
}

// mostNamed is how many agencies are named where many have the same trouble.
const mostNamed = 5

func sentence(group []trouble) string {
	first, names := group[0], make([]string, 0, mostNamed)
	for _, t := range group {
		if len(names) < mostNamed {
			names = append(names, t.agencyID)
		}
		if t.since.Before(first.since) {
			first.since = t.since
		}
	}
	who, verb, since := strings.Join(names, ", "), first.is, " since "
	if more := len(group) - len(names); more > 0 {
		who = fmt.Sprintf("%s and %d more", who, more)
	}
	if len(group) > 1 {
		since = ", the first since "
		if first.are != "" {
			verb = first.are
		}
	}
	if first.since.IsZero() {
		return who + verb + first.what
	}
	return who + verb + since + first.since.Format(time.RFC3339) + first.what
}

func of(reference string) string {
	if reference == "" {
		return ""
	}
	return fmt.Sprintf(" %q", reference)
}
