package page

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller"
)

// trouble is something that a person should know, and how it ends.
type trouble struct {
	Key   string // the same at every rendering
	Tone  tone
	Shape string
	Title string
	Text  string
	Error string // what was said last
	Since moment
	Do    *action
	Items []trouble // of several that are told as one: the single ones
	More  int       // that are not even listed

	kind   string
	agency string
	label  string // of one among several
	common string // what those have in common that may be told as one; empty: never
	many   func(n int) string
}

// action is how a person ends it.
type action struct {
	Verb              string // of a form; empty: there is only a command
	Agency, Insertion string
	Button            string
	Who               string // what the button is about, for those who do not see where it stands
	Confirm           string // asked first
	Command           string
}

// Many of a kind become one: a key that 200 agencies share is one trouble.
const (
	mostAlike  = 3
	mostListed = 250
)

// troubles are those of a status, the worst first.
func troubles(s ops.Status) []trouble {
	now := s.Watch.At
	all := storeTroubles(s)
	if s.Watch.Down != "" {
		all = append(all, downTrouble(s))
	}
	for _, a := range s.Watch.Agencies {
		all = append(all, agencyTroubles(a, s.Watch.Down != "", now)...)
	}
	all = append(all, natsTroubles(s)...)
	all = append(all, forwarderTroubles(s)...)
	slices.SortStableFunc(all, func(x, y trouble) int { return cmp.Compare(order[x.kind], order[y.kind]) })
	return folded(all)
}

// order is that of the page; the headline begins with the first.
var order = func() map[string]int {
	ranks := map[string]int{}
	for n, k := range kinds {
		ranks[k.name] = n
	}
	return ranks
}()

func agencyTroubles(a poller.AgencyStatus, down bool, now time.Time) (all []trouble) {
	for _, h := range a.Halts {
		all = append(all, haltTrouble(a.AgencyID, h, now))
	}
	if a.Held != nil {
		all = append(all, heldTrouble(a.AgencyID, *a.Held, now))
	}
	stale := false
	for _, l := range a.Alarms {
		stale = stale || l.Kind == "stale"
		all = append(all, alarmTrouble(a, l, now))
	}
	if a.State == "stale" && !stale { // the event is on its way
		all = append(all, alarmTrouble(a, poller.Alarm{Kind: "stale", Operation: "contact_requests", Since: a.LastGoodAnswer}, now))
	}
	if a.State == "backing_off" && !down && !stale {
		id := plain(a.AgencyID, 64)
		all = append(all, trouble{
			kind: "failing", agency: id, label: id, Tone: warn, Shape: "triangle", Error: plain(a.LastError, 300), common: "failing",
			Key: key("failing", a.AgencyID), Title: id + ": the API fails",
			Text: "doorbell waits longer after each failure and tries again by itself. There is nothing to do unless it lasts.",
			Do:   &action{Command: "doorbell check"},
			many: func(n int) string { return fmt.Sprintf("The API fails for %d agencies", n) },
		})
	}
	return all
}

func haltTrouble(agencyID string, h poller.HaltStatus, now time.Time) trouble {
	id, why := plain(agencyID, 64), refusal(h.ProbableReason)
	t := trouble{
		kind: "halted", agency: id, label: id, Tone: bad, Shape: "square", Since: at(h.Since, now),
		Key:   key("halt", agencyID, string(h.Scope), h.PropertyReferenceID),
		Title: fmt.Sprintf("%s is halted: %s", id, why), common: "halt " + string(h.Scope) + " " + h.ProbableReason,
		Text: stopped(plain(strings.Replace(h.Advice, "run: "+h.Resume, "resume it", 1), 600)),
		Do:   &action{Verb: "resume", Agency: agencyID, Insertion: h.PropertyReferenceID, Button: "Resume", Command: plain(h.Resume, 400)},
		many: func(n int) string { return fmt.Sprintf("%d agencies are halted: %s", n, why) },
	}
	switch h.Scope {
	case events.ScopeContactRequests:
		t.Title = fmt.Sprintf("Contact requests of %s are halted: %s", id, why)
		t.many = func(n int) string { return fmt.Sprintf("Contact requests of %d agencies are halted: %s", n, why) }
	case events.ScopeInsertion:
		t.kind, t.label = "insertion", id+" "+middle(h.PropertyReferenceID, 80)
		t.Title = fmt.Sprintf("An insertion of %s is halted: %s", id, middle(h.PropertyReferenceID, 80))
		t.many = func(n int) string { return fmt.Sprintf("%d insertions are halted: %s", n, why) }
	}
	t.Do.Who = t.label
	if h.Status > 0 && h.Status != 403 {
		t.Title += fmt.Sprintf(" (%d)", h.Status)
	}
	return t
}

// stopped ends a sentence.
func stopped(text string) string {
	if text == "" || strings.ContainsAny(text[len(text)-1:], ".!?") {
		return text
	}
	return text + "."
}

func heldTrouble(agencyID string, h poller.HeldStatus, now time.Time) trouble {
	id := plain(agencyID, 64)
	title := fmt.Sprintf("%s lacks %s of %s", id, number(h.Missing), count(h.Known, "insertion", "insertions"))
	if h.Reason == "empty_list" {
		title = fmt.Sprintf("%s lists nothing any more: %s missing", id, count(h.Missing, "insertion is", "insertions are"))
	}
	until := at(h.Until, now)
	return trouble{
		kind: "held", agency: id, label: id, Tone: warn, Shape: "diamond", Key: key("held", agencyID), Title: title, common: "held",
		Text: "That is too many at once to be believed, so nothing is told yet. If they stay away, it is told by itself " + heldUntil(h.Until, until, now) +
			". If you know that it is true, it can be told now.",
		Do: &action{
			Verb: "approve", Agency: agencyID, Button: "Believe it…", Command: plain(h.Approve, 200),
			Confirm: fmt.Sprintf("Tell that %s of %s disappeared", count(h.Missing, "insertion", "insertions"), id),
		},
		many: func(n int) string {
			return fmt.Sprintf("%d agencies lack too many insertions at once to be believed", n)
		},
	}
}

func heldUntil(t time.Time, m moment, now time.Time) string {
	if !t.After(now) {
		return "by the next complete walk"
	}
	return m.Ago
}

func alarmTrouble(a poller.AgencyStatus, l poller.Alarm, now time.Time) trouble {
	id := plain(a.AgencyID, 64)
	what := operation(l.Operation)
	t := trouble{
		kind: l.Kind, agency: id, label: id + ", " + what, Tone: warn, Shape: "triangle", Since: at(l.Since, now),
		Key: key("alarm", a.AgencyID, l.Kind, l.Operation, l.PropertyReferenceID), common: "alarm " + l.Kind + " " + l.Operation,
		Do: &action{Command: "doorbell events ls --agency " + shell(id) + " --type watch." + plain(l.Kind, 40)},
	}
	switch l.Kind {
	case "stale":
		t.Tone, t.Error = bad, plain(a.LastError, 300)
		t.Title = fmt.Sprintf("%s: nothing good is heard of %s", id, what)
		t.Text = "What happens there is not seen while this lasts. doorbell keeps trying, and catches up by itself."
		t.Do = &action{Command: "doorbell check"}
		t.many = func(n int) string { return fmt.Sprintf("Nothing good is heard of %s of %d agencies", what, n) }
	case "schema_drifted":
		t.Title = fmt.Sprintf("%s: answers about %s are not what they were", id, what)
		t.Text = "The API has changed its form. What can be read is still told; the event says what was expected and what was found."
		t.many = func(n int) string {
			return fmt.Sprintf("Answers about %s of %d agencies are not what they were", what, n)
		}
	case "gap_detected":
		t.Title = fmt.Sprintf("%s: not everything can be seen of %s", id, what)
		if l.PropertyReferenceID != "" {
			t.label = id + " " + middle(l.PropertyReferenceID, 80)
			t.Title = fmt.Sprintf("%s: contact requests of %s cannot be read", id, middle(l.PropertyReferenceID, 80))
		}
		t.Text = "Something may be missing from the events. The event says since when, and how far doorbell could see."
		t.many = func(n int) string { return fmt.Sprintf("Not everything can be seen of %s, in %d places", what, n) }
	default:
		t.kind, t.Title = "alarm", id+": "+plain(strings.ReplaceAll(l.Kind, "_", " "), 60)
		t.many = func(n int) string {
			return fmt.Sprintf("%d times %s", n, plain(strings.ReplaceAll(l.Kind, "_", " "), 60))
		}
	}
	return t
}

func downTrouble(s ops.Status) trouble {
	t := trouble{
		kind: "down", Tone: bad, Shape: "triangle", Key: "t-down", Title: "The API does not answer",
		Text: "Nobody answers at " + plain(s.Watch.BaseURL, 120) + ". doorbell tries again by itself, and catches up.",
		Do:   &action{Command: "doorbell check"},
	}
	if next, err := time.Parse(time.RFC3339, s.Watch.Down); err == nil {
		t.Text += " The next try is " + strings.TrimPrefix(at(next, s.Watch.At).Ago+".", "now")
		t.Text = strings.Replace(t.Text, "is .", "is due.", 1)
	}
	for _, a := range s.Watch.Agencies {
		if a.LastError != "" {
			t.Error = plain(a.LastError, 300)
			break
		}
	}
	return t
}

func storeTroubles(s ops.Status) (all []trouble) {
	share := fmt.Sprintf("%s of %s", bytesText(s.Store.InUse), bytesText(s.Store.Max))
	switch {
	case s.Store.Full:
		all = append(all, trouble{
			kind: "full", Tone: bad, Shape: "square", Key: "t-full", Title: "The store is full, so nothing is asked",
			Text: "It holds " + share + ". To go on: " + stopped(plain(s.Store.Advice, 400)), Do: &action{Command: "doorbell status"},
		})
	case s.Store.Alarm:
		all = append(all, trouble{
			kind: "nearly", Tone: warn, Shape: "triangle", Key: "t-full", Title: "The store is nearly full",
			Text: "It holds " + share + ". Before it is full: " + stopped(plain(s.Store.Advice, 400)),
		})
	}
	if s.Watch.NoSpace && !s.Store.Full {
		all = append(all, trouble{
			kind: "full", Tone: bad, Shape: "square", Key: "t-disk", Title: "The disk is full, so nothing is asked",
			Text: "Make space for " + plain(s.DataDir, 120) + "; doorbell goes on by itself.", Do: &action{Command: "df -h " + shell(plain(s.DataDir, 120))},
		})
	}
	return all
}

func natsTroubles(s ops.Status) (all []trouble) {
	if !s.NATS.Connected || s.NATS.Problem != "" {
		t := trouble{
			kind: "nats", Tone: bad, Shape: "triangle", Key: "t-nats", Title: "NATS is not connected", Error: plain(s.NATS.Problem, 300),
			Text: "Nothing is lost: " + count(int(pending(s)), "event waits", "events wait") + " in the event log and " +
				"will be published in order. Until then nobody hears of anything.",
			Do: &action{Command: "doorbell check"},
		}
		if s.NATS.Connected {
			t.Title = "NATS does not take events"
		}
		all = append(all, t)
	}
	for _, r := range s.Relay {
		if r.Problem == "" || r.Problem == s.NATS.Problem {
			continue
		}
		id := plain(r.AgencyID, 64)
		all = append(all, trouble{
			kind: "relay", agency: id, label: id, Tone: warn, Shape: "triangle", Key: key("relay", r.AgencyID), common: "relay",
			Title: "Events of " + id + " are not published", Error: plain(r.Problem, 300),
			Text: "Nothing is lost: " + count(int(min(r.Pending, 1e9)), "event waits", "events wait") + " in the event log. doorbell tries again by itself.",
			Do:   &action{Command: "doorbell verify"},
			many: func(n int) string { return fmt.Sprintf("Events of %d agencies are not published", n) },
		})
	}
	return all
}

func pending(s ops.Status) (n uint64) {
	for _, r := range s.Relay {
		n += min(r.Pending, 1e9)
	}
	return n
}

// hiccup is how long an outlet may take nothing before that is worth a word.
const hiccup = time.Minute

func forwarderTroubles(s ops.Status) (all []trouble) {
	for _, f := range s.Forwarders {
		name := plain(strings.TrimSpace(f.Name+" "+f.Kind), 60)
		t := trouble{
			kind: "outlet", agency: name, label: name, Tone: warn, Shape: "triangle", Error: plain(f.LastError, 300), Since: at(f.FailingSince, s.Watch.At),
			Key: key("outlet", f.Name, f.Kind, f.Destination), Do: &action{Command: "doorbell forward " + shell(plain(f.Name, 30)) + " --test"},
		}
		waiting := count(int(min(f.Waiting, 1e9)), "event waits", "events wait")
		switch {
		case f.Off:
			t.Tone, t.Shape, t.Title = bad, "square", name+" is switched off"
			t.Text = "Its outlet said that it wants nothing any more. " + waiting + " and is kept. Give it another address, or restart doorbell to try again."
			t.Text = strings.Replace(t.Text, "events wait and is", "events wait and are", 1)
		case !f.FailingSince.IsZero() && s.Watch.At.Sub(f.FailingSince) > hiccup:
			t.Title = name + " takes nothing"
			t.Text = waiting + ", and is tried again by itself."
			t.Text = strings.Replace(t.Text, "events wait, and is", "events wait, and are", 1)
		case f.Problem != "":
			t.Title, t.Error = name+" gets nothing from NATS", plain(f.Problem, 300)
			t.Text = "It goes on by itself when it does."
		default:
			continue
		}
		if f.Destination != "" {
			t.Title += " (" + middle(f.Destination, 60) + ")"
		}
		all = append(all, t)
	}
	return all
}

// folded tells many of a kind as one.
func folded(all []trouble) (list []trouble) {
	alike := map[string]int{}
	for _, t := range all {
		alike[t.common]++
	}
	groups := map[string]int{}
	for _, t := range all {
		if t.common == "" || alike[t.common] <= mostAlike {
			list = append(list, t)
			continue
		}
		n, there := groups[t.common]
		if !there {
			n = len(list)
			groups[t.common] = n
			list = append(list, trouble{
				Key: key("group", t.common), kind: t.kind, Tone: t.Tone, Shape: t.Shape, Title: t.many(alike[t.common]), Text: t.Text, Error: t.Error,
			})
			if t.Do.Verb == "" {
				list[n].Do = &action{Command: strings.ReplaceAll(t.Do.Command, " --agency "+shell(t.agency), "")}
			}
		}
		t.Title = t.label
		if t.Do.Verb == "" {
			t.Do = nil
		}
		if t.Since.Known() && (!list[n].Since.Known() || t.Since.ISO < list[n].Since.ISO) {
			list[n].Since = t.Since
		}
		if g := &list[n]; len(g.Items) < mostListed {
			g.Items = append(g.Items, t)
		} else {
			g.More++
		}
	}
	return list
}

// key names a thing, so that the script knows it again.
func key(parts ...string) string {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p)) //nolint:errcheck // never fails
		h.Write([]byte{0}) //nolint:errcheck // never fails
	}
	return fmt.Sprintf("t-%x", h.Sum64())
}
