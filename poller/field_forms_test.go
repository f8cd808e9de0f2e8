package poller_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// body is how a service writes a response: $records are the records, $keyed are they in an object
// with index keys, $n is their number and $all how many there are.
type body struct {
	none, some string
	one        string // a lone record; default as some
}

func (b body) write(records []string, all int) fieldReply {
	form := b.some
	switch {
	case len(records) == 0:
		form = b.none
	case len(records) == 1 && b.one != "":
		form = b.one
	}
	var keyed []string
	for n, r := range records {
		keyed = append(keyed, fmt.Sprintf(`"%d":%s`, 3*n, r)) // with holes
	}
	form = strings.NewReplacer("$keyed", "{"+strings.Join(keyed, ",")+"}", "$all", strconv.Itoa(all)).Replace(form)
	return fill(form, records)
}

// contactBodies are envelopes of the trade, and bodies of converters from XML, which know no list of
// one, and of languages whose lists become objects once an element was taken out. Package listings
// tests further ones.
var contactBodies = map[string]body{
	"OData": {
		none: `{"@odata.context":"https://api.example/$metadata#Leads","@odata.count":0,"value":[]}`,
		some: `{"@odata.context":"https://api.example/$metadata#Leads","@odata.count":$n,"value":[$records]}`,
	},
	"HAL without _embedded": {
		none: `{"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":0,"totalPages":0,"number":0}}`,
		some: `{"_embedded":{"contactRequests":[$records]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":$n,"totalPages":1,"number":0}}`,
	},
	"an element in its list": {
		none: `{"contactRequests":null,"count":0}`, one: `{"contactRequests":{"contactRequest":$records},"count":1}`,
		some: `{"contactRequests":{"contactRequest":[$records]},"count":$n}`,
	},
	"index keys": {none: `{"contactRequests":[]}`, some: `{"contactRequests":$keyed}`},
}

// TestContactRequestsAreFoundInEveryBody is of agencies of which some contact requests are known,
// and of those that have never shown where theirs are.
func TestContactRequestsAreFoundInEveryBody(t *testing.T) {
	eachForm(t, contactBodies, func(t *testing.T, form body) {
		for _, known := range []bool{false, true} {
			if form.one != "" && !known { // where nothing was ever shown, null alone shows no place
				continue
			}
			t.Run(fmt.Sprintf("known %t", known), func(t *testing.T) {
				inField(t, flatsNamed(4), func(w *world, p *portal) {
					p.respond = func(_ string, all int, records []string) fieldReply { return form.write(records, all) }
					if known {
						p.add(p.flats[0], 20*24*time.Hour)
						p.addMany(p.flats[1], 3, 20*24*time.Hour)
					}
					w.start()
					w.pass(10 * time.Minute)
					live := []*fieldLead{p.add(p.flats[2], 0), p.add(p.flats[1], 0)}
					w.pass(2 * time.Minute)
					p.mustAnnounce(live...)
					live = append(live, p.add(p.flats[2], 0), p.add(p.flats[0], 0))
					w.pass(2 * time.Minute)
					p.mustAnnounce(live...)
					p.mustHaveNo(events.TypeContactRequestChanged)
					p.mustBeCalm()
				})
			})
		}
	})
}

// listBodies are pages of insertions. None is the response past the end of the list.
var listBodies = map[string]body{
	"an element in its list": {
		one: `{"insertions":{"insertion":$records},"count":1}`, some: `{"insertions":{"insertion":[$records]},"count":$all}`,
		none: `{"insertions":null,"count":$all}`,
	},
	"nothing embedded": {some: `{"_embedded":{"insertions":[$records]},"_links":{"self":{"href":"/"}}}`, none: `{"_links":{"self":{"href":"/"}}}`},
	"index keys":       {some: `{"insertions":$keyed}`, none: `{"insertions":[]}`},
}

// TestTheListIsReadInEveryBody has one insertion, then 25, then 24.
func TestTheListIsReadInEveryBody(t *testing.T) {
	inEachField(t, flatsNamed(1), listBodies, func(w *world, p *portal, form body) {
		p.list = func(_ int, records []string) fieldReply { return form.write(records, len(p.flats)) }
		w.start()
		w.pass(10 * time.Minute)
		p.mustBaseline(1)
		p.change(func() { p.flats = flatsNamed(25) })
		w.pass(5 * time.Minute)
		p.mustCount(events.TypeInsertionAppeared, 24)
		lead := p.add(p.flats[3], 0)
		w.pass(2 * time.Minute)
		p.mustAnnounce(lead)
		p.change(func() { p.flats = p.flats[1:] })
		w.pass(10 * time.Minute)
		p.mustCount(events.TypeInsertionDisappeared, 1)
		p.mustHaveNo(events.TypeInsertionChanged)
		p.mustBeCalm()
	})
}

// mustBaseline fails unless the baseline ended complete, with n insertions.
func (p *portal) mustBaseline(insertions int) {
	p.w.t.Helper()
	for _, e := range p.log() {
		if e.Type == events.TypeWatchBaselined {
			if e.body["complete"] != true || e.body["insertions"] != float64(insertions) {
				p.w.t.Errorf("baseline: complete %v, %v insertions; want %d", e.body["complete"], e.body["insertions"], insertions)
			}
			return
		}
	}
	p.w.t.Errorf("no baseline; %s", p.watch())
}
