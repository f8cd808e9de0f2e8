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

// loneForms write one record without a list around it, as converters from XML do.
var loneForms = map[string]struct{ none, one, many string }{
	"an element in its list": {
		`{"contactRequests":null,"count":0}`, `{"contactRequests":{"contactRequest":$records},"count":1}`, `{"contactRequests":{"contactRequest":[$records]},"count":$n}`,
	},
	"in place of the list":     {`{"contactRequests":[]}`, `{"contactRequests":$records}`, `{"contactRequests":[$records]}`},
	"in its place, null below": {`{"contactRequest":null}`, `{"contactRequest":$records}`, `{"contactRequest":[$records]}`},
	"the whole response":       {`[]`, `$records`, `[$records]`},
	"below data":               {`{"data":[],"total":0}`, `{"data":$records,"total":1}`, `{"data":[$records],"total":$n}`},
	"below a root": {
		`{"response":{"leads":null,"total":0}}`, `{"response":{"leads":{"lead":$records},"total":1}}`, `{"response":{"leads":{"lead":[$records]},"total":$n}}`,
	},
}

func TestALoneContactRequestIsAListOfOne(t *testing.T) {
	eachForm(t, loneForms, func(t *testing.T, form struct{ none, one, many string }) {
		inField(t, flatsNamed(4), func(w *world, p *portal) {
			p.respond = func(_ string, _ int, records []string) fieldReply {
				return fill([]string{form.none, form.one, form.many}[min(2, len(records))], records)
			}
			p.add(p.flats[0], 20*24*time.Hour)
			p.addMany(p.flats[1], 3, 20*24*time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			first := p.add(p.flats[2], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(first)
			second, behindOld := p.add(p.flats[2], 0), p.add(p.flats[0], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(first, second, behindOld)
			p.mustCount(events.TypeContactRequestChanged, 0)
			p.mustBeCalm()
		})
	})
}

// TestALoneInsertionIsAListOfOne has one insertion, then two.
func TestALoneInsertionIsAListOfOne(t *testing.T) {
	forms := map[string]struct{ one, many, end string }{
		"an element in its list": {
			`{"insertions":{"insertion":$records},"count":1}`, `{"insertions":{"insertion":[$records]},"count":$n}`, `{"insertions":null,"count":1}`,
		},
		"in place of the list": {`{"insertions":$records}`, `{"insertions":[$records]}`, `{"insertions":[]}`},
		"below data":           {`{"data":{"items":$records}}`, `{"data":{"items":[$records]}}`, `{"data":{"items":null}}`},
		"the whole response":   {`$records`, `[$records]`, `[]`},
	}
	eachForm(t, forms, func(t *testing.T, form struct{ one, many, end string }) {
		inField(t, flatsNamed(1), func(w *world, p *portal) {
			p.list = func(_ int, records []string) fieldReply {
				return fill([]string{form.end, form.one, form.many}[min(2, len(records))], records)
			}
			w.start()
			w.pass(10 * time.Minute)
			p.mustBaseline(1)
			p.change(func() { p.flats = flatsNamed(2) })
			w.pass(5 * time.Minute)
			if n := count(p.log(), events.TypeInsertionAppeared); n != 1 {
				t.Errorf("%d insertions appeared, want one: %v", n, types(p.log()))
			}
			lead := p.add(p.flats[0], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(lead)
			p.mustCount(events.TypeInsertionChanged, 0)
			p.mustBeCalm()
		})
	})
}

// mustBaseline fails unless the baseline ended complete, with so many insertions.
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

func TestTheListEndsWithNothingPastItsEnd(t *testing.T) {
	forms := map[string]struct{ page, end string }{
		"null under its name, count":   {`{"insertions":[$records],"count":25}`, `{"insertions":null,"count":25}`},
		"null under its name":          {`{"results":[$records]}`, `{"results":null}`},
		"null below data":              {`{"data":{"insertions":[$records]}}`, `{"data":{"insertions":null}}`},
		"null and nothing else":        {`[$records]`, `null`},
		"null beside pages":            {`{"content":[$records],"totalElements":25,"last":false}`, `{"content":null,"totalElements":25,"last":true}`},
		"no element in its list":       {`{"insertions":{"insertion":[$records]},"count":25}`, `{"insertions":{"insertion":null},"count":25}`},
		"a text":                       {`{"insertions":[$records],"count":25}`, `{"insertions":"","count":25}`},
		"an object":                    {`{"insertions":[$records],"count":25}`, `{"insertions":{},"count":25}`},
		"an object around":             {`{"data":{"insertions":[$records]}}`, `{"data":{}}`},
		"nothing embedded":             {`{"_embedded":{"insertions":[$records]},"_links":{"self":{"href":"/"}}}`, `{"_links":{"self":{"href":"/"}}}`},
		"nothing embedded, pages":      {`{"_embedded":{"insertions":[$records]},"page":{"totalElements":25}}`, `{"page":{"totalElements":25}}`},
		"null in place of the element": {`{"insertions":{"insertion":[$records]},"count":25}`, `{"insertions":null,"count":25}`},
	}
	eachForm(t, forms, func(t *testing.T, form struct{ page, end string }) {
		inField(t, flatsNamed(25), func(w *world, p *portal) {
			p.list = func(_ int, records []string) fieldReply {
				if len(records) == 0 {
					return fieldReply{body: form.end}
				}
				return fill(form.page, records)
			}
			w.options.PollInterval = 5 * time.Minute
			w.start()
			w.pass(12 * time.Minute)
			p.mustBaseline(25)
			p.mustBeCalm()
		})
	})
}

// TestAnObjectWithIndexKeysIsAList is of languages whose lists become objects once an element was
// taken out.
func TestAnObjectWithIndexKeysIsAList(t *testing.T) {
	keyed := func(first, step int) func([]string) string {
		return func(records []string) string {
			var all []string
			for n, r := range records {
				all = append(all, fmt.Sprintf(`"%d":%s`, first+step*n, r))
			}
			return "{" + strings.Join(all, ",") + "}"
		}
	}
	forms := map[string]struct {
		around, none string
		keys         func([]string) string
	}{
		"from 0":                {`{"insertions":$list}`, `{"insertions":[]}`, keyed(0, 1)},
		"from 1":                {`{"insertions":$list,"count":$n}`, `{"insertions":[],"count":$n}`, keyed(1, 1)},
		"with holes":            {`{"results":$list}`, `{"results":[]}`, keyed(2, 3)},
		"the whole response":    {`$list`, `[]`, keyed(0, 1)},
		"below data":            {`{"data":{"items":$list},"total":$n}`, `{"data":{"items":[]},"total":$n}`, keyed(0, 1)},
		"without, past the end": {`{"insertions":$list}`, `{"insertions":null}`, keyed(0, 1)},
	}
	eachForm(t, forms, func(t *testing.T, form struct {
		around, none string
		keys         func([]string) string
	},
	) {
		inField(t, flatsNamed(7), func(w *world, p *portal) {
			p.list = func(_ int, records []string) fieldReply {
				body := form.none
				if len(records) > 0 {
					body = strings.Replace(form.around, "$list", form.keys(records), 1)
				}
				return fieldReply{body: strings.Replace(body, "$n", strconv.Itoa(len(p.flats)), 1)}
			}
			w.start()
			w.pass(10 * time.Minute)
			p.mustBaseline(7)
			lead := p.add(p.flats[3], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(lead)
			p.change(func() { p.flats = p.flats[1:] })
			w.pass(10 * time.Minute)
			p.mustCount(events.TypeInsertionDisappeared, 1)
			p.mustCount(events.TypeInsertionChanged, 0)
			p.mustBeCalm()
		})
	})
}

func TestAnObjectOfContactRequestsWithIndexKeysIsAList(t *testing.T) {
	forms := map[string]string{
		"under its name":     `{"contactRequests":$list}`,
		"below data":         `{"data":{"contactRequests":$list}}`,
		"the whole response": `$list`,
	}
	eachForm(t, forms, func(t *testing.T, form string) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			p.respond = func(_ string, _ int, records []string) fieldReply {
				if len(records) == 0 {
					return fieldReply{body: strings.Replace(form, "$list", "[]", 1)}
				}
				var all []string
				for n, r := range records {
					all = append(all, fmt.Sprintf(`"%d":%s`, n, r))
				}
				return fieldReply{body: strings.Replace(form, "$list", "{"+strings.Join(all, ",")+"}", 1)}
			}
			p.addMany(p.flats[0], 3, 20*24*time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			live := append(p.addMany(p.flats[0], 2, 0), p.add(p.flats[1], 0))
			w.pass(2 * time.Minute)
			p.mustAnnounce(live...)
			p.mustBeCalm()
		})
	})
}

// TestALeadThatWritesItsPropertyOtherwiseIsAnnouncedWithTheOthers has three contact requests, of
// which some name the property in another way than it was asked for.
func TestALeadThatWritesItsPropertyOtherwiseIsAnnouncedWithTheOthers(t *testing.T) {
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
	eachForm(t, forms, func(t *testing.T, form struct{ usual, odd any }) {
		inField(t, []string{"a100#01##", asked}, func(w *world, p *portal) {
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
			p.mustCount(events.TypeContactRequestChanged, 0)
			p.mustBeCalm()
			for _, all := range p.created() {
				if all[0].Reference != asked {
					t.Errorf("announced for %q", all[0].Reference)
				}
			}
		})
	})
}
