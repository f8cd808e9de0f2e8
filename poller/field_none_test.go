package poller_test

import (
	"net/http"
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

// orNone responds with contact requests, and in this way where there are none.
func orNone(none fieldReply) func(string, int, []string) fieldReply {
	return func(_ string, _ int, records []string) fieldReply {
		if len(records) == 0 {
			return none
		}
		return fill(`{"contactRequests":[$records]}`, records)
	}
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
			p.respond = orNone(none)
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

// TestARouteThatHasNothingForAnyoneFromOneDayOnIsStale takes the endpoint away for hours, and gives
// it back.
func TestARouteThatHasNothingForAnyoneFromOneDayOnIsStale(t *testing.T) {
	eachForm(t, someOfNone(), func(t *testing.T, dead fieldReply) {
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
			p.mustCount(events.TypeWatchStale, 1)
			p.change(func() { p.respond = nil })
			w.pass(30 * time.Minute)
			live = append(live, p.add(p.flats[1], 0))
			w.pass(5 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeWatchRecovered, 1)
			if list := p.log()[before:]; count(list, events.TypeContactRequestCreated)+2 != len(list) {
				t.Error(p.watch())
			}
		})
	})
}

// TestWhereNothingButNoneWasEverSeenOneGapSaysSo is of an endpoint that never worked.
func TestWhereNothingButNoneWasEverSeenOneGapSaysSo(t *testing.T) {
	forms := someOfNone()
	for _, name := range []string{"200 without a body", "empty array", "null", "null under its name"} {
		delete(forms, name) // an agency without contact requests says no more
	}
	eachForm(t, forms, func(t *testing.T, none fieldReply) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
			p.respond = orNone(none)
			w.start()
			w.pass(50 * time.Minute)
			p.mustBeCalm()
			w.pass(70 * time.Minute)
			w.restart()
			w.pass(3 * time.Hour)
			if watch := p.watch(); watch != "watch.gap_detected reason=only_none operation=contact_requests reached=0" {
				t.Error(watch)
			}
			first := p.add(p.flats[1], 0)
			w.pass(5 * time.Minute)
			p.mustAnnounce(first)
		})
	})
}
