package poller_test

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// body is how a service writes a response: $records are the records, $nodes are they below "node",
// $keyed are they in an object with index keys, $n is their number and $all how many there are.
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
	var nodes, keyed []string
	for n, r := range records {
		nodes = append(nodes, `{"cursor":"Y3Vyc29y","node":`+r+`}`)
		keyed = append(keyed, fmt.Sprintf(`"%d":%s`, 3*n, r)) // with holes
	}
	form = strings.NewReplacer("$nodes", strings.Join(nodes, ","), "$keyed", "{"+strings.Join(keyed, ",")+"}", "$all", strconv.Itoa(all)).Replace(form)
	return fill(form, records)
}

// contactBodies are as the trade's frameworks write contact requests, as converters from XML do,
// which know no list of one, and languages whose lists become objects once an element was taken out.
var contactBodies = map[string]body{
	"OData": {
		none: `{"@odata.context":"https://api.example/$metadata#Leads","@odata.count":0,"value":[]}`,
		some: `{"@odata.context":"https://api.example/$metadata#Leads","@odata.count":$n,"value":[$records]}`,
	},
	"OData 2": {none: `{"d":{"__count":"0","results":[]}}`, some: `{"d":{"__count":"$n","results":[$records]}}`},
	"HAL without _embedded": {
		none: `{"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":0,"totalPages":0,"number":0}}`,
		some: `{"_embedded":{"contactRequests":[$records]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":$n,"totalPages":1,"number":0}}`,
	},
	"HAL with an empty list": {
		none: `{"_embedded":{"contactRequestList":[]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":0}}`,
		some: `{"_embedded":{"contactRequestList":[$records]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":$n}}`,
	},
	"JSON:API": {
		none: `{"jsonapi":{"version":"1.1"},"links":{"self":"/x"},"meta":{"total":0},"data":[]}`,
		some: `{"jsonapi":{"version":"1.1"},"links":{"self":"/x"},"meta":{"total":$n},"data":[$records]}`,
	},
	"JSON:API, included": {none: `{"data":[],"included":[],"links":{}}`, some: `{"data":[$records],"included":[],"links":{}}`},
	"Spring": {
		none: `{"content":[],"pageable":{"sort":{"sorted":true,"orders":[]},"offset":0,"pageSize":100},"last":true,"totalElements":0,"totalPages":0,"size":100,"number":0,"numberOfElements":0,"first":true,"empty":true}`,
		some: `{"content":[$records],"pageable":{"sort":{"sorted":true,"orders":[]},"offset":0,"pageSize":100},"last":true,"totalElements":$n,"totalPages":1,"size":100,"number":0,"numberOfElements":$n,"first":true,"empty":false}`,
	},
	"GraphQL edges": {
		none: `{"data":{"contactRequests":{"totalCount":0,"edges":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
		some: `{"data":{"contactRequests":{"totalCount":$n,"edges":[$nodes],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
	},
	"GraphQL nodes": {none: `{"data":{"contactRequests":{"nodes":[]}}}`, some: `{"data":{"contactRequests":{"nodes":[$records]}}}`},
	"Hydra": {
		none: `{"@context":"/contexts/Lead","@id":"/leads","@type":"hydra:Collection","hydra:member":[],"hydra:totalItems":0}`,
		some: `{"@context":"/contexts/Lead","@id":"/leads","@type":"hydra:Collection","hydra:member":[$records],"hydra:totalItems":$n}`,
	},
	"search engine": {
		none: `{"took":2,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"total":{"value":0,"relation":"eq"},"max_score":null,"hits":[]}}`,
		some: `{"took":2,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"total":{"value":$n,"relation":"eq"},"max_score":null,"hits":[$records]}}`,
	},
	"Django": {none: `{"count":0,"next":null,"previous":null,"results":[]}`, some: `{"count":$n,"next":null,"previous":null,"results":[$records]}`},
	"CRM":    {none: `{"totalSize":0,"done":true,"records":[]}`, some: `{"totalSize":$n,"done":true,"records":[$records]}`},
	"Laravel": {
		none: `{"data":[],"links":{"first":"/x?page=1","next":null},"meta":{"current_page":1,"from":null,"to":null,"total":0,"links":[{"url":null,"label":"«"}]}}`,
		some: `{"data":[$records],"links":{"first":"/x?page=1","next":null},"meta":{"current_page":1,"from":1,"to":$n,"total":$n,"links":[{"url":null,"label":"«"}]}}`,
	},
	"an element in its list": {
		none: `{"contactRequests":null,"count":0}`, one: `{"contactRequests":{"contactRequest":$records},"count":1}`,
		some: `{"contactRequests":{"contactRequest":[$records]},"count":$n}`,
	},
	"one in place of the list": {none: `{"contactRequests":[]}`, one: `{"contactRequests":$records}`, some: `{"contactRequests":[$records]}`},
	"one or null in its place": {none: `{"contactRequest":null}`, one: `{"contactRequest":$records}`, some: `{"contactRequest":[$records]}`},
	"one is the response":      {none: `[]`, one: `$records`, some: `[$records]`},
	"one below data":           {none: `{"data":[],"total":0}`, one: `{"data":$records,"total":1}`, some: `{"data":[$records],"total":$n}`},
	"an element below a root": {
		none: `{"response":{"leads":null,"total":0}}`, one: `{"response":{"leads":{"lead":$records},"total":1}}`,
		some: `{"response":{"leads":{"lead":[$records]},"total":$n}}`,
	},
	"index keys under its name":      {none: `{"contactRequests":[]}`, some: `{"contactRequests":$keyed}`},
	"index keys below data":          {none: `{"data":{"contactRequests":[]}}`, some: `{"data":{"contactRequests":$keyed}}`},
	"index keys, the whole response": {none: `[]`, some: `$keyed`},
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
	"one in place of the list": {one: `{"insertions":$records}`, some: `{"insertions":[$records]}`, none: `{"insertions":[]}`},
	"one below data":           {one: `{"data":{"items":$records}}`, some: `{"data":{"items":[$records]}}`, none: `{"data":{"items":null}}`},
	"one is the response":      {one: `$records`, some: `[$records]`, none: `[]`},
	"an element in its list": {
		one: `{"insertions":{"insertion":$records},"count":1}`, some: `{"insertions":{"insertion":[$records]},"count":$all}`,
		none: `{"insertions":null,"count":$all}`,
	},

	"null under its name, count": {some: `{"insertions":[$records],"count":$all}`, none: `{"insertions":null,"count":$all}`},
	"null under its name":        {some: `{"results":[$records]}`, none: `{"results":null}`},
	"null below data":            {some: `{"data":{"insertions":[$records]}}`, none: `{"data":{"insertions":null}}`},
	"null and nothing else":      {some: `[$records]`, none: `null`},
	"null beside pages": {
		some: `{"content":[$records],"totalElements":$all,"last":false}`, none: `{"content":null,"totalElements":$all,"last":true}`,
	},
	"no element in its list":  {some: `{"insertions":{"insertion":[$records]},"count":$all}`, none: `{"insertions":{"insertion":null},"count":$all}`},
	"a text":                  {some: `{"insertions":[$records],"count":$all}`, none: `{"insertions":"","count":$all}`},
	"an object":               {some: `{"insertions":[$records],"count":$all}`, none: `{"insertions":{},"count":$all}`},
	"an object around":        {some: `{"data":{"insertions":[$records]}}`, none: `{"data":{}}`},
	"nothing embedded":        {some: `{"_embedded":{"insertions":[$records]},"_links":{"self":{"href":"/"}}}`, none: `{"_links":{"self":{"href":"/"}}}`},
	"nothing embedded, pages": {some: `{"_embedded":{"insertions":[$records]},"page":{"totalElements":$all}}`, none: `{"page":{"totalElements":$all}}`},

	"index keys":                    {some: `{"insertions":$keyed}`, none: `{"insertions":[]}`},
	"index keys, a count":           {some: `{"insertions":$keyed,"count":$all}`, none: `{"insertions":[],"count":$all}`},
	"index keys below data":         {some: `{"data":{"items":$keyed},"total":$all}`, none: `{"data":{"items":[]},"total":$all}`},
	"index keys, null past the end": {some: `{"insertions":$keyed}`, none: `{"insertions":null}`},
	"index keys, the response":      {some: `$keyed`, none: `[]`},
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

// TestALeadThatSpellsItsPropertyDifferentlyIsAnnouncedWithTheOthers has three contact requests,
// some of which spell the property differently from the request.
func TestALeadThatSpellsItsPropertyDifferentlyIsAnnouncedWithTheOthers(t *testing.T) {
	const asked = "a100#zürich#03##"
	forms := map[string]struct {
		usual, odd any
	}{
		"no trailing #":              {asked, "a100#zürich#03"},
		"one trailing #":             {asked, "a100#zürich#03#"},
		"three trailing #":           {asked, "a100#zürich#03###"},
		"upper case":                 {asked, "A100#ZÜRICH#03##"},
		"encoded":                    {asked, url.PathEscape(asked)},
		"encoded, lower case":        {asked, strings.ToLower(url.PathEscape(asked))},
		"decomposed":                 {asked, "a100#zu\u0308rich#03##"},
		"spaces around":              {asked, " " + asked + " "},
		"no member":                  {asked, absent},
		"null":                       {asked, nil},
		"empty":                      {asked, ""},
		"all without trailing #":     {"a100#zürich#03", "a100#zürich#03"},
		"all in upper case, encoded": {url.PathEscape("A100#ZÜRICH#03"), url.PathEscape("A100#ZÜRICH#03")},
		"one without, two encoded":   {url.PathEscape(asked), absent},
		"another one's, of three":    {asked, "a100#04##"},
		"no reference at all":        {asked, "-"},
		"a number":                   {asked, 4711},
		"an object":                  {asked, object{"id": 3}},
	}
	inEachField(t, []string{"a100#01##", asked}, forms, func(w *world, p *portal, form struct{ usual, odd any }) {
		p.add(asked, 20*24*time.Hour, object{"propertyReferenceId": form.usual})
		w.start()
		w.pass(5 * time.Minute)
		odd := p.add(asked, 3*time.Second, object{"propertyReferenceId": form.odd})
		even := p.add(asked, 0, object{"propertyReferenceId": form.usual})
		w.pass(2 * time.Minute)
		last := p.add(asked, 0, object{"propertyReferenceId": form.usual})
		w.pass(2 * time.Minute)
		want := []*fieldLead{even, last}
		if form.odd != "a100#04##" || len(p.created()[odd.who]) > 0 { // whose that one is may be seen in two ways
			want = append(want, odd)
		}
		p.mustAnnounce(want...)
		p.mustHaveNo(events.TypeContactRequestChanged)
		p.mustBeCalm()
		for _, all := range p.created() {
			if all[0].Reference != asked {
				w.t.Errorf("announced for %q", all[0].Reference)
			}
		}
	})
}
