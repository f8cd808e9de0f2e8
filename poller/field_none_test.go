package poller_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// formsOfNone are responses that say of an insertion that it has no contact requests.
var formsOfNone = map[string]fieldReply{
	"204":                       {status: http.StatusNoContent},
	"204 with a type":           {status: http.StatusNoContent, header: http.Header{"Content-Type": {"text/plain"}}},
	"404, JSON":                 {status: http.StatusNotFound, body: `{"status":404,"error":"Not Found","message":"no contact requests"}`},
	"404, HTML":                 {status: http.StatusNotFound, body: "<html><body>Not Found</body></html>", header: http.Header{"Content-Type": {"text/html"}}},
	"404, no body":              {status: http.StatusNotFound},
	"410":                       {status: http.StatusGone, body: `{"code":"NO_LEADS"}`},
	"200 without a body":        {},
	"200 and a line feed":       {body: "\r\n"},
	"null":                      {body: "null"},
	"empty array":               {body: "[]"},
	"null under its name":       {body: `{"contactRequests":null}`},
	"empty under its name":      {body: `{"contactRequests":[]}`},
	"null and a count":          {body: `{"contactRequests":null,"count":0}`},
	"empty items, total 0":      {body: `{"items":[],"total":0}`},
	"empty below data":          {body: `{"data":{"contactRequests":[]}}`},
	"empty, and no errors":      {body: `{"success":true,"error":null,"errors":[],"data":[]}`},
	"empty beside a status":     {body: `{"status":"success","data":{"contactRequests":[]}}`},
	"snake case, pages":         {body: `{"contact_requests":[],"page":1,"per_page":100,"total_count":0,"total_pages":0}`},
	"empty, and a question":     {body: `{"query":{"sortBy":"createdAt","sortOrder":"desc"},"results":[],"count":0}`},
	"two empty lists, total 0":  {body: `{"contactRequests":[],"filters":[],"total":0}`},
	"text for an empty element": {body: `{"contactRequests":"","count":0}`},
}

// someOfNone are one form of each sort.
func someOfNone() map[string]fieldReply {
	some := map[string]fieldReply{}
	for _, name := range []string{"204", "404, JSON", "410", "200 without a body", "null", "empty array", "null under its name"} {
		some[name] = formsOfNone[name]
	}
	return some
}

// TestWithDefaultSettingsAnyNewLeadIsAnnouncedWithinTwoMinutesWhateverFormNoneHas watches sixty
// insertions, 54 of which have never had a contact request.
func TestWithDefaultSettingsAnyNewLeadIsAnnouncedWithinTwoMinutesWhateverFormNoneHas(t *testing.T) {
	forms := someOfNone() // the others are read in listings, and at other settings in TestAnyNewLead
	if *rounds > 1 {
		forms = formsOfNone
	}
	eachForm(t, forms, func(t *testing.T, none fieldReply) {
		inField(t, flatsNamed(60), func(w *world, p *portal) {
			w.options.RequestsPerSecond, w.options.PollInterval, w.options.WalkInterval = 0, 0, 0 // the defaults
			p.respond = func(_ string, _ int, records []string) fieldReply {
				if len(records) == 0 {
					return none
				}
				return fill(`{"contactRequests":[$records]}`, records)
			}
			for _, flat := range p.flats[:6] {
				p.add(flat, 20*24*time.Hour)
				p.add(flat, 3*24*time.Hour)
			}
			w.start()
			w.pass(3*time.Minute + 7*time.Second)
			first, another := p.add(p.flats[44], 0), p.add(p.flats[2], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(first, another)
			last := p.add(p.flats[59], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(first, another, last)
			p.mustBeCalm()
		})
	})
}

// envelopes are responses as the trade's frameworks write them, without and with records.
var envelopes = map[string]struct{ none, some string }{
	"OData": {
		`{"@odata.context":"https://api.example/$metadata#Leads","@odata.count":0,"value":[]}`,
		`{"@odata.context":"https://api.example/$metadata#Leads","@odata.count":$n,"value":[$records]}`,
	},
	"OData 2": {`{"d":{"__count":"0","results":[]}}`, `{"d":{"__count":"$n","results":[$records]}}`},
	"HAL without _embedded": {
		`{"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":0,"totalPages":0,"number":0}}`,
		`{"_embedded":{"contactRequests":[$records]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":$n,"totalPages":1,"number":0}}`,
	},
	"HAL with an empty list": {
		`{"_embedded":{"contactRequestList":[]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":0}}`,
		`{"_embedded":{"contactRequestList":[$records]},"_links":{"self":{"href":"/x"}},"page":{"size":100,"totalElements":$n}}`,
	},
	"JSON:API": {
		`{"jsonapi":{"version":"1.1"},"links":{"self":"/x"},"meta":{"total":0},"data":[]}`,
		`{"jsonapi":{"version":"1.1"},"links":{"self":"/x"},"meta":{"total":$n},"data":[$records]}`,
	},
	"JSON:API, included": {`{"data":[],"included":[],"links":{}}`, `{"data":[$records],"included":[],"links":{}}`},
	"Spring": {
		`{"content":[],"pageable":{"sort":{"sorted":true,"orders":[]},"offset":0,"pageSize":100},"last":true,"totalElements":0,"totalPages":0,"size":100,"number":0,"numberOfElements":0,"first":true,"empty":true}`,
		`{"content":[$records],"pageable":{"sort":{"sorted":true,"orders":[]},"offset":0,"pageSize":100},"last":true,"totalElements":$n,"totalPages":1,"size":100,"number":0,"numberOfElements":$n,"first":true,"empty":false}`,
	},
	"GraphQL edges": {
		`{"data":{"contactRequests":{"totalCount":0,"edges":[],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
		`{"data":{"contactRequests":{"totalCount":$n,"edges":[$nodes],"pageInfo":{"hasNextPage":false,"endCursor":null}}}}`,
	},
	"GraphQL nodes": {`{"data":{"contactRequests":{"nodes":[]}}}`, `{"data":{"contactRequests":{"nodes":[$records]}}}`},
	"Hydra": {
		`{"@context":"/contexts/Lead","@id":"/leads","@type":"hydra:Collection","hydra:member":[],"hydra:totalItems":0}`,
		`{"@context":"/contexts/Lead","@id":"/leads","@type":"hydra:Collection","hydra:member":[$records],"hydra:totalItems":$n}`,
	},
	"search engine": {
		`{"took":2,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"total":{"value":0,"relation":"eq"},"max_score":null,"hits":[]}}`,
		`{"took":2,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"total":{"value":$n,"relation":"eq"},"max_score":null,"hits":[$records]}}`,
	},
	"Django": {`{"count":0,"next":null,"previous":null,"results":[]}`, `{"count":$n,"next":null,"previous":null,"results":[$records]}`},
	"CRM":    {`{"totalSize":0,"done":true,"records":[]}`, `{"totalSize":$n,"done":true,"records":[$records]}`},
	"Laravel": {
		`{"data":[],"links":{"first":"/x?page=1","next":null},"meta":{"current_page":1,"from":null,"to":null,"total":0,"links":[{"url":null,"label":"«"}]}}`,
		`{"data":[$records],"links":{"first":"/x?page=1","next":null},"meta":{"current_page":1,"from":1,"to":$n,"total":$n,"links":[{"url":null,"label":"«"}]}}`,
	},
}

func TestAnEmptyEnvelopeOfTheTradeIsNone(t *testing.T) {
	eachForm(t, envelopes, func(t *testing.T, form struct{ none, some string }) {
		inField(t, flatsNamed(12), func(w *world, p *portal) {
			p.respond = func(_ string, _ int, records []string) fieldReply {
				if len(records) == 0 {
					return fieldReply{body: form.none}
				}
				var nodes []string
				for _, r := range records {
					nodes = append(nodes, `{"cursor":"Y3Vyc29y","node":`+r+`}`)
				}
				return fill(strings.Replace(form.some, "$nodes", strings.Join(nodes, ","), 1), records)
			}
			p.add(p.flats[11], 20*24*time.Hour)
			w.start()
			w.pass(3 * time.Minute)
			first, another := p.add(p.flats[7], 0), p.add(p.flats[11], 0)
			w.pass(2 * time.Minute)
			second := p.add(p.flats[7], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(first, another, second)
			p.mustBeCalm()
		})
	})
}

// TestWhereNoInsertionHasEverHadALeadTheFirstOneIsAnnounced is of agencies that have never shown
// where their records are.
func TestWhereNoInsertionHasEverHadALeadTheFirstOneIsAnnounced(t *testing.T) {
	eachForm(t, envelopes, func(t *testing.T, form struct{ none, some string }) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			p.respond = func(_ string, _ int, records []string) fieldReply {
				if len(records) == 0 {
					return fieldReply{body: form.none}
				}
				return fill(strings.Replace(form.some, "$nodes", `{"node":`+records[0]+`}`, 1), records)
			}
			w.start()
			w.pass(10 * time.Minute)
			first := p.add(p.flats[1], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(first)
			p.mustBeCalm()
		})
	})
}

// TestNoneForAMomentForgetsAndClosesNothing lets an insertion with known contact requests have none
// for one reading.
func TestNoneForAMomentForgetsAndClosesNothing(t *testing.T) {
	eachForm(t, someOfNone(), func(t *testing.T, none fieldReply) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			p.addMany(p.flats[0], 5, 5*24*time.Hour)
			p.add(p.flats[1], time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			live := p.addMany(p.flats[0], 2, 0)
			w.pass(2 * time.Minute)
			p.change(func() {
				p.respond = func(flat string, _ int, records []string) fieldReply {
					if flat == p.flats[0] {
						p.respond = nil
						return none
					}
					return fill(`{"contactRequests":[$records]}`, records)
				}
			})
			live = append(live, p.addMany(p.flats[0], 130, 0)...)
			w.pass(15 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeWatchGapDetected, 0)
			p.mustCount(events.TypeContactRequestRedacted, 0)
			p.mustCount(events.TypeContactRequestChanged, 0)
		})
	})
}

// TestOldLeadsBehindAFirstResponseWithoutAnyAreOld is of a cache or index that was still empty when
// the watch began.
func TestOldLeadsBehindAFirstResponseWithoutAnyAreOld(t *testing.T) {
	forms := someOfNone()
	delete(forms, "empty array") // is a list: from there on a lead that is younger than all that was shown is new
	eachForm(t, forms, func(t *testing.T, none fieldReply) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			p.respond = func(string, int, []string) fieldReply { return none }
			p.addMany(p.flats[0], 30, 20*24*time.Hour)
			p.addMany(p.flats[1], 3, 4*24*time.Hour)
			w.start()
			w.pass(2 * time.Minute)
			p.change(func() { p.respond = nil })
			w.pass(15 * time.Minute)
			live := p.add(p.flats[2], 0)
			w.pass(2 * time.Minute)
			p.mustAnnounce(live)
		})
	})
}

// deadRoutes are responses to every contact-request request, once the endpoint has moved.
var deadRoutes = map[string]fieldReply{
	"404, JSON":   formsOfNone["404, JSON"],
	"404, HTML":   formsOfNone["404, HTML"],
	"410":         formsOfNone["410"],
	"204":         formsOfNone["204"],
	"empty array": formsOfNone["empty array"],
	"null":        formsOfNone["null"],
	"its own":     formsOfNone["empty under its name"],
}

// TestARouteThatHasNothingForAnyoneFromOneDayOnIsStale takes the endpoint away for hours, and gives
// it back.
func TestARouteThatHasNothingForAnyoneFromOneDayOnIsStale(t *testing.T) {
	eachForm(t, deadRoutes, func(t *testing.T, dead fieldReply) {
		inField(t, flatsNamed(4), func(w *world, p *portal) {
			w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
			for _, flat := range p.flats[:3] {
				p.addMany(flat, 4, 20*24*time.Hour)
			}
			w.start()
			w.pass(time.Hour)
			live := []*fieldLead{p.add(p.flats[0], 0), p.add(p.flats[3], 0)}
			w.pass(time.Hour)
			p.mustAnnounce(live...)
			p.mustBeCalm()
			before := len(p.log())
			p.change(func() { p.respond = func(string, int, []string) fieldReply { return dead } })
			for range 6 {
				w.pass(30 * time.Minute)
				live = append(live, p.add(p.flats[0], 0), p.add(p.flats[2], 0))
			}
			if n := count(p.log(), events.TypeWatchStale); n != 1 {
				t.Errorf("%d watch.stale after three hours without contact requests: %v", n, types(p.log()[before:]))
			}
			p.change(func() { p.respond = nil })
			w.pass(30 * time.Minute)
			live = append(live, p.add(p.flats[1], 0))
			w.pass(5 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeWatchRecovered, 1)
			for _, e := range p.log()[before:] {
				switch e.Type {
				case events.TypeWatchStale, events.TypeWatchRecovered, events.TypeContactRequestCreated:
				default:
					t.Errorf("%s %s", e.Type, summary(e))
				}
			}
		})
	})
}

// TestWhereNothingButNoneWasEverSeenOneGapSaysSo is of an endpoint that never worked.
func TestWhereNothingButNoneWasEverSeenOneGapSaysSo(t *testing.T) {
	forms := maps.Clone(deadRoutes)
	delete(forms, "empty array") // an agency without contact requests says no more
	delete(forms, "null")
	delete(forms, "its own")
	eachForm(t, forms, func(t *testing.T, none fieldReply) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
			p.respond = func(_ string, _ int, records []string) fieldReply {
				if len(records) == 0 {
					return none
				}
				return fill(`{"contactRequests":[$records]}`, records)
			}
			w.start()
			w.pass(50 * time.Minute)
			p.mustBeCalm()
			w.pass(70 * time.Minute)
			w.restart()
			w.pass(3 * time.Hour)
			gaps := 0
			for _, e := range p.log() {
				if e.Type == events.TypeWatchGapDetected {
					gaps++
					if e.body["reason"] != "only_none" || e.body["operation"] != "contact_requests" {
						t.Errorf("gap: %s", summary(e))
					}
				}
			}
			if gaps != 1 {
				t.Errorf("%d gaps, want one: %s", gaps, p.watch())
			}
			p.mustCount(events.TypeWatchStale, 0)
			first := p.add(p.flats[1], 0)
			w.pass(5 * time.Minute)
			p.mustAnnounce(first)
		})
	})
}
