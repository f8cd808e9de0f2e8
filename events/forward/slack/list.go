package slack

import (
	"cmp"
	"fmt"
	"strings"

	"doorbell/events"
	"doorbell/events/forward"
)

// list is the message for several events that waited together: by insertion, with how many there are of each, and a line for
// every event, so that nobody who wrote is missing.
func (l look) list(d forward.Delivery) message {
	title := mark(d, l.listTitle(d.Events))
	b := blocks{header(title)}
	groups := l.byInsertion(d.Events)
	shown := 0
	for _, g := range groups[:min(len(groups), digest)] {
		l.listGroup(&b, g)
		shown += len(g.rows)
	}
	small := []*text{marked("Together, because they waited together")}
	if left := len(d.Events) - shown; left > 0 {
		small = []*text{marked(markup(fmt.Sprintf("*%s are not shown*; see: doorbell events ls", count(left, "more event"))))}
	}
	b.context(append(append(small, plain(agencies(d.Events, l.room.items), l.room.line)), provenance(d)...)...)
	return message{Text: escape(line(title+": "+l.listGist(groups)), maxFallback), Blocks: b}
}

func (l look) listTitle(list []events.Event) string {
	requests := 0
	for _, e := range list {
		if e.Type == events.TypeContactRequestCreated {
			requests++
		}
	}
	others := len(list) - requests
	switch {
	case requests == 0:
		return "🏠 " + count(others, "change")
	case others == 0:
		return "🔔 " + count(requests, "new contact request")
	}
	return "🔔 " + count(requests, "new contact request") + " and " + count(others, "other change")
}

// group is what happened at one insertion.
type group struct {
	key, title, reference string
	requests              int
	rows                  []string
}

// byInsertion keeps the order of the stream, of insertions by their first event.
func (l look) byInsertion(list []events.Event) []*group {
	var groups []*group
	known := map[string]*group{}
	for _, e := range list {
		title, row := l.row(e)
		key := e.AgencyID + "\x00" + e.Reference
		g := known[key]
		if g == nil {
			g = &group{key: key, reference: line(e.Reference)}
			known[key], groups = g, append(groups, g)
		}
		g.title = cmp.Or(title, g.title) // the last one is how it looks now
		if e.Type == events.TypeContactRequestCreated {
			g.requests++
		}
		g.rows = append(g.rows, row)
	}
	return groups
}

// maxRow leaves room for a row of every event that a list can have, and one more, even if they are all of one insertion.
const maxRow = maxSection/(digest+1) - len("\n")

func (l look) listGroup(b *blocks, g *group) {
	title := fit(cmp.Or(g.title, g.reference, "Other"), l.room.line)
	if g.requests > 0 {
		title = fmt.Sprintf("%d × %s", g.requests, title)
	}
	b.section(plain(title, maxSection))
	var rows []string
	for _, r := range g.rows[:min(len(g.rows), digest)] {
		rows = append(rows, fit(r, min(l.room.line, maxRow)))
	}
	if g.reference != "" {
		rows = append(rows, "Reference "+fit(g.reference, min(l.room.line, maxRow-len("Reference "))))
	}
	b.context(plain(strings.Join(rows, "\n"), maxSection))
}

// listGist is the fallback: how many at which insertion.
func (l look) listGist(groups []*group) string {
	var all []string
	for _, g := range groups[:min(len(groups), 5)] {
		all = append(all, fmt.Sprintf("%d × %s", len(g.rows), fit(cmp.Or(g.title, g.reference), 60)))
	}
	return strings.Join(all, ", ")
}

// row is what an event is called in a list, and the title of its insertion.
func (l look) row(e events.Event) (title, row string) {
	p, err := e.Payload()
	if err != nil {
		return "", "An event that this version cannot read; see: doorbell events ls"
	}
	switch p := p.(type) {
	case *events.ContactRequestCreated:
		return gist(p.Insertion, p.PropertyReferenceID), l.requestRow(p)
	case *events.ContactRequestChanged:
		return gist(p.Insertion, p.PropertyReferenceID), l.name(p.Contact) + " changed: " + line(strings.Join(p.ChangedFields, ", "))
	case *events.ContactRequestRedacted:
		return "", "Personal data erased at the portal; please erase it here too: " + line(strings.Join(p.RedactedFields, ", "))
	case *events.InsertionAppeared:
		return gist(p.Insertion, p.PropertyReferenceID), "New insertion: " + facts(p.Insertion)
	case *events.InsertionChanged:
		return gist(p.Insertion, p.PropertyReferenceID), "Insertion changed: " + count(len(p.Changes), "field")
	case *events.InsertionDisappeared:
		return gist(p.Insertion, p.PropertyReferenceID), "Insertion gone"
	case *events.InsertionReappeared:
		return gist(p.Insertion, p.PropertyReferenceID), "Insertion back"
	}
	return "", string(e.Type)
}

func (l look) requestRow(p *events.ContactRequestCreated) string {
	at := p.CreatedAt
	if at.IsZero() {
		at = p.ObservedAt
	}
	all := []string{l.name(p.Contact), l.clock(at)}
	if s := score(p.Score); s != "" {
		all = append(all, "score "+fit(s, 20))
	}
	if l.full {
		all = append(all, line(p.Contact.Email), line(cmp.Or(p.Contact.Phone, p.Contact.PhoneRaw)))
	}
	var kept []string
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return "• " + strings.Join(kept, " · ")
}

// agencies names those that events are about, each once and not too many.
func agencies(list []events.Event, limit int) string {
	var names []string
	known := map[string]bool{}
	for _, e := range list {
		if !known[e.AgencyID] {
			known[e.AgencyID] = true
			names = append(names, line(e.AgencyID))
		}
	}
	word := "Agency "
	if len(names) > 1 {
		word = "Agencies "
	}
	return word + enumerate(names, limit)
}

// enumerate joins names with commas, the first ones where there are too many.
func enumerate(names []string, limit int) string {
	if len(names) <= limit {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s … and %d more", strings.Join(names[:limit], ", "), len(names)-limit)
}
