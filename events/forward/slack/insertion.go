package slack

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"doorbell/events"
)

// insertion is the card of insertion.*; false is a payload of another kind.
func (l look) insertion(p events.Payload) (card, bool) {
	switch p := p.(type) {
	case *events.InsertionAppeared:
		return l.insertionCard("🏠 New insertion", p.Insertion, p.PropertyReferenceID, p.Common, nil), true
	case *events.InsertionChanged:
		return l.insertionCard("✏️ Insertion changed", p.Insertion, p.PropertyReferenceID, p.Common, p.Changes), true
	case *events.InsertionDisappeared:
		return l.insertionCard("📭 Insertion gone", p.Insertion, p.PropertyReferenceID, p.Common, nil), true
	case *events.InsertionReappeared:
		return l.insertionCard("↩️ Insertion back", p.Insertion, p.PropertyReferenceID, p.Common, p.Changes), true
	}
	return card{}, false
}

func (l look) insertionCard(what string, s events.InsertionSummary, reference string, common events.Common, changes []events.Change) card {
	c := card{title: what, gist: gist(s, reference)}
	if s.Title != "" {
		c.title, c.gist = what+": "+line(s.Title), line(s.Locality)
		s.Title = ""
	}
	l.property(&c.body, s, reference)
	c.body.section(plain(l.changeList(changes), maxSection))
	if link := insertionLink(s.URL); link != "" {
		c.links = "🏠 " + link
	}
	c.small = []*text{marked("Seen " + l.when(common.ObservedAt)), l.labelled("Reference", reference, "Agency", common.AgencyID)}
	return c
}

// changeList is a line for each change, as many as there is room for.
func (l look) changeList(changes []events.Change) string {
	var all []string
	for i, c := range changes {
		if i == l.room.changes {
			all = append(all, fmt.Sprintf("… and %s more", grouped(json.Number(strconv.Itoa(len(changes)-i)))))
			break
		}
		all = append(all, fit(line(c.Path), 100)+l.beforeAndAfter(c))
	}
	return strings.Join(all, "\n")
}

func (l look) beforeAndAfter(c events.Change) string {
	before, after := fit(line(string(c.Before)), 60), fit(line(string(c.After)), 60)
	switch {
	case before == "" && after == "":
		return ""
	case before == "":
		return ": now " + after
	case after == "":
		return ": no longer " + before
	}
	return ": " + before + " → " + after
}
