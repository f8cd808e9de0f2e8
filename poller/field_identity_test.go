package poller_test

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

const (
	aFlat        = "a100#01##"
	milliseconds = "2006-01-02T15:04:05.000Z"
	zoneless     = "2006-01-02T15:04:05"
)

// inWatchedField is inField, watched for five minutes: an old contact request is known at the first
// flat.
func inWatchedField(t *testing.T, flats int, test func(*world, *portal)) {
	t.Helper()
	inField(t, flatsNamed(flats), func(w *world, p *portal) {
		p.add(aFlat, 20*24*time.Hour)
		w.start()
		w.pass(5 * time.Minute)
		test(w, p)
	})
}

// TestALeadWithARotatingMemberIsAnnouncedOnceAndTheMemberNamedOnce has ids under unknown names, or
// none, and a member whose value differs at each reading.
func TestALeadWithARotatingMemberIsAnnouncedOnceAndTheMemberNamedOnce(t *testing.T) {
	type form struct {
		leads      int
		id, member string // the name of the id, and what rotates
		format     string // of the number of the reading
	}
	forms := map[string]form{
		"relay addresses, known id": {3, "leadId", "email", "reply+%d@relay.example"},
		"relay addresses":           {4, "ticketId", "email", "reply+%d@relay.example"},
		"masked numbers":            {12, "conversationId", "phone", "+41 44 %07d"},
		"a counter":                 {4, "enquiryNumber", "views", "%d"},
		"signed links":              {4, "guid", "attachment", "https://files.example/a?signature=%x"},
		"relay addresses, no id":    {4, "", "email", "reply+%d@relay.example"},
		"the time of the reading":   {12, "", "servedAt", "2026-11-20T10:00:00.%09dZ"},
		"a link in the message":     {12, "inquiryRef", "message", "Ist die Wohnung noch frei?\nhttps://t.example/%x"},
		"an age in words":           {4, "id", "age", "vor %d Sekunden"},
	}
	inEachField(t, flatsNamed(2), forms, func(w *world, p *portal, form form) {
		w.options.PollInterval = time.Minute
		n := 0
		p.write = func(_ string, l *fieldLead, record object) {
			n++
			delete(record, "id")
			if form.id != "" {
				record[form.id] = l.id
			}
			record[form.member] = fmt.Sprintf(form.format, n*7919)
		}
		p.add(aFlat, 20*24*time.Hour)
		p.add(p.flats[1], 20*24*time.Hour)
		w.start()
		w.pass(5 * time.Minute)
		live := p.addMany(aFlat, form.leads, 0)
		w.pass(5 * time.Minute)
		live = append(live, p.add(aFlat, 0))
		w.pass(15 * time.Minute)
		before := len(p.log())
		w.passTwice(10 * time.Minute)
		p.mustAnnounce(live...)
		w.wants(w.since("A100", before)) // nothing after twenty minutes
		p.mustCount(events.TypeWatchSchemaDrifted, 1)
		if !strings.Contains(p.watch(), form.member) {
			w.t.Error(p.watch())
		}
		p.mustHaveNo(events.TypeWatchGapDetected)
	})
}

// TestAReusedIdIsAnotherLead has a flat that shows contact requests with one id, each in the place
// of the one before.
func TestAReusedIdIsAnotherLead(t *testing.T) {
	type form struct {
		with  []object      // one after the other
		apart time.Duration // from one to the next
		then  func(*world, *portal, *fieldLead)
	}
	seven, other := object{"id": 7}, object{"id": 7, "message": "Wann kann ich besichtigen?"}
	named := func(message string) object { return object{"leadId": 7, "id": absent, "message": message} }
	forms := map[string]form{
		"an hour apart": {with: []object{named("Frei?"), named("Hallo")}, apart: time.Hour},
		"again and again": {
			with: []object{{"id": 0}, {"id": 1}, {"id": 0}, {"id": 1}, {"id": 0}, {"id": 1}}, apart: 2 * time.Minute,
		},
		"over a restart": {
			with: []object{seven, other}, apart: 3 * time.Minute,
			then: func(w *world, p *portal, _ *fieldLead) {
				w.halt()
				w.pass(time.Hour)
				w.start()
			},
		},
		"both at once": {
			with: []object{seven, other}, apart: 4 * time.Minute,
			then: func(_ *world, p *portal, first *fieldLead) { p.show(aFlat, first) },
		},
		"of one whose person was erased": {
			with: []object{seven, other}, apart: 4 * time.Minute,
			then: func(w *world, p *portal, first *fieldLead) {
				p.show(aFlat, first)
				p.change(func() {
					first.with = object{"id": 7, "firstName": nil, "lastName": nil, "email": nil, "message": nil}
				})
				w.pass(20 * time.Minute)
				p.show(aFlat)
			},
		},
	}
	inEachWatchedField(t, 2, forms, func(w *world, p *portal, form form) {
		var live []*fieldLead
		for n, with := range form.with {
			p.show(aFlat)
			if n > 0 && form.then != nil {
				form.then(w, p, live[0])
			}
			live = append(live, p.add(aFlat, 0, with))
			w.pass(form.apart)
		}
		w.pass(10 * time.Minute)
		p.mustAnnounce(live...)
		p.mustHaveNo(events.TypeContactRequestChanged)
	})
}

// TestKnownContactRequestsWrittenDifferentlyAreNotNew changes how known contact requests are
// written, all at one moment.
func TestKnownContactRequestsWrittenDifferentlyAreNotNew(t *testing.T) {
	created := func(layout string, move time.Duration, zone int) edit {
		return member("createdAt", func(l *fieldLead) any {
			return l.at.Add(move).In(time.FixedZone("", zone)).Format(layout)
		})
	}
	constant := func(name string, v any) edit { return member(name, func(*fieldLead) any { return v }) }
	since1970 := member("createdAt", func(l *fieldLead) any { return l.at.UnixMilli() + 250 })
	noTime, noIDs := constant("createdAt", absent), constant("id", absent)
	number := func(l *fieldLead) any { return 9007199254740992 + numberOf(l) } // beyond a float's
	other := func(l *fieldLead) any { return fmt.Sprintf("6f1c%08x-aaaa-4bbb", numberOf(l)*7919) }
	drawn := func(l *fieldLead) any { return fmt.Sprint(time.Now().UnixNano(), l.id) }
	ids := member("id", other)
	relay, message := constant("email", "reply@relay.example"), constant("message", "<p>Frei?</p>")
	type form struct {
		before, after edit
		changed       bool // contact_request.changed is right, too
		drifts        int  // at least
	}
	forms := map[string]form{
		"another zone":    {nil, created(time.RFC3339, 0, 3600), true, 0},
		"ms since 1970":   {nil, since1970, true, 0},
		"a time, at last": {noTime, nil, true, 0},
		"a status":        {nil, constant("status", "ANSWERED"), true, 0},
		"another score":   {nil, member("score", func(*fieldLead) any { return time.Now().Minute() }), false, 0},

		"no ids":                 {nil, noIDs, false, 0},
		"ids, at last":           {noIDs, nil, false, 0},
		"ids under another name": {nil, edits(member("contactRequestId", number), noIDs), false, 0},
		"another id beside it":   {nil, member("contactRequestId", other), true, 0},
		"random ids":             {nil, member("id", drawn), false, 0},

		// What names them is another, too: identity itself has changed.
		"ids, and times in milliseconds":      {nil, edits(ids, created(milliseconds, 123*time.Millisecond, 0)), false, 1},
		"ids, and ms since 1970":              {nil, edits(ids, since1970), false, 1},
		"ids, ms and relay addresses":         {nil, edits(ids, relay, created(milliseconds, 900*time.Millisecond, 0)), false, 1},
		"ids, and times by an hour":           {nil, edits(ids, created(time.RFC3339, -time.Hour, 0)), false, 0},
		"no ids any more, and by two hours":   {nil, edits(noIDs, created(time.RFC3339, -2*time.Hour, 0)), false, 0},
		"ids, messages, and times by an hour": {nil, edits(ids, message, created(time.RFC3339, -time.Hour, 0)), false, 1},
		"ids, messages, times of an import":   {nil, edits(ids, message, created(time.RFC3339, -17*time.Second, 0)), false, 1},
	}
	inEachField(t, flatsNamed(2), forms, func(w *world, p *portal, form form) {
		w.pass(12 * time.Hour)
		p.write = form.before
		if form.before == nil {
			p.addMany(aFlat, 4, 20*24*time.Hour)
		}
		w.start()
		w.pass(5 * time.Minute)
		var live []*fieldLead
		for range 6 {
			live = append(live, p.add(aFlat, 0))
			w.pass(90 * time.Second)
		}
		p.change(func() { p.write = form.after })
		w.passTwice(5 * time.Minute)
		p.mustAnnounce(live...)
		live = append(live, p.add(aFlat, 0))
		w.pass(10 * time.Minute)
		p.mustAnnounce(live...)
		if n := count(p.log(), events.TypeContactRequestChanged); n > 11 || n > 0 && !form.changed {
			w.t.Errorf("%d changes", n)
		}
		p.mustHaveNo(events.TypeContactRequestRedacted, events.TypeWatchGapDetected)
		if n := count(p.log(), events.TypeWatchSchemaDrifted); n < form.drifts || n > 1 {
			w.t.Errorf("%d drifts: %s", n, p.watch())
		}
	})
}

// TestRowNumbersForIdsSwallowNoLead numbers the rows of each response, or draws an id for each.
func TestRowNumbersForIdsSwallowNoLead(t *testing.T) {
	forms := map[string]func(n, all int) any{
		"from the newest":         func(n, _ int) any { return n + 1 },
		"from the newest, text":   func(n, _ int) any { return fmt.Sprintf("row-%d", n) },
		"from the oldest":         func(n, all int) any { return all - n },
		"one for all":             func(int, int) any { return 4001 },
		"another at each reading": func(n, _ int) any { return fmt.Sprintf("%x-%d", time.Now().UnixNano(), n) },
	}
	eachForm(t, forms, func(t *testing.T, form func(n, all int) any) {
		for _, apart := range []time.Duration{7 * time.Minute, 15 * time.Minute, time.Hour} {
			t.Run(apart.String(), func(t *testing.T) {
				inField(t, flatsNamed(1), func(w *world, p *portal) {
					w.options.PollInterval = 2 * time.Minute
					p.order = func(q url.Values, list []*fieldLead) {
						asAsked(q, list)
						for n, l := range list {
							l.with = object{"id": form(n, len(list))}
						}
					}
					p.add(aFlat, 20*24*time.Hour)
					w.start()
					w.pass(10 * time.Minute)
					var live []*fieldLead
					for range 5 {
						live = append(live, p.add(aFlat, 0))
						w.pass(apart)
					}
					p.mustAnnounce(live...)
					p.mustHaveNo(events.TypeContactRequestChanged)
				})
			})
		}
	})
}

// TestOneIdAtTwoInsertionsIsTwoLeads has insertions that number their contact requests each for
// itself, and a person who writes to two.
func TestOneIdAtTwoInsertionsIsTwoLeads(t *testing.T) {
	type form struct {
		id    any
		apart time.Duration
		one   bool // person
	}
	forms := map[string]form{
		"numbers of each insertion":       {1, time.Minute, false},
		"numbers, in one second":          {1, 0, false},
		"one person, in one second":       {1, 0, true},
		"one person, a minute apart":      {"u-77", time.Minute, true},
		"one person without id, at once":  {absent, 0, true},
		"one person, an hour apart, uuid": {"2f6f0d0f-4c11-4a53-9a57", time.Hour, true},
	}
	inEachWatchedField(t, 3, forms, func(w *world, p *portal, form form) {
		first := p.add(p.flats[1], 0, object{"id": form.id})
		w.pass(form.apart)
		second := p.add(p.flats[2], 0, object{"id": form.id})
		if form.one {
			p.change(func() {
				second.who = first.who
				second.with = object{"id": form.id, "email": strings.ToLower(first.who) + "@example.org"}
			})
		}
		w.pass(10 * time.Minute)
		p.mustAnnounce(first, second)
		p.mustHaveNo(events.TypeContactRequestChanged)
	})
}

// TestARenamedInsertionBringsItsLeadsAlong gives an insertion another reference. Its contact
// requests come along with their ids and are not new; one that nobody has seen before is, and so is
// one that is given a known id.
func TestARenamedInsertionBringsItsLeadsAlong(t *testing.T) {
	type form struct {
		from, to string
		old      *fieldReply // at the old reference, from then on; nil: as at the new one
		names    bool        // contact requests name their property
		zoneless bool        // their times name no zone
	}
	gone, none := fieldReply{status: 404, body: `{"status":404,"error":"Not Found"}`}, fieldReply{body: "[]"}
	forms := map[string]form{
		"capitals, 404":               {"a100#03##", "A100#03##", &gone, false, false},
		"no trailing #, 404":          {"a100#03##", "a100#03", &gone, true, false},
		"trailing #, none":            {"a100#03", "a100#03##", &none, false, false},
		"a segment more, 404":         {"a100#03##", "a100#03#h1#", &gone, true, false},
		"another number, 404":         {"a100#03##", "a100#2003##", &gone, false, false},
		"another number, still there": {"a100#03##", "a100#2003##", nil, true, false},
		"no zone, 404":                {"a100#03##", "A100#03##", &gone, false, true},
		"no zone, none":               {"a100#03##", "A100#03##", &none, true, true},
		"no zone, still there":        {"a100#03##", "a100#2003##", nil, false, true},
	}
	inEachField(t, flatsNamed(2), forms, func(w *world, p *portal, form form) {
		p.flats = append(p.flats, form.from)
		w.pass(12 * time.Hour)
		w.options.PollInterval = time.Minute
		if form.zoneless {
			p.layout = zoneless
		}
		p.write = func(flat string, _ *fieldLead, record object) {
			if form.names {
				record["propertyReferenceId"] = flat
			}
		}
		p.addMany(form.from, 3, 20*24*time.Hour)
		p.addMany(form.from, 2, 30*time.Hour)
		w.start()
		w.pass(5 * time.Minute)
		live := p.addMany(form.from, 3, 0)
		w.pass(time.Hour + 11*time.Second)
		p.mustAnnounce(live...)
		live = append(live, p.add(form.from, 0)) // no poll has shown it yet
		asked := func(q question) bool { return q.flat == form.to }
		p.change(func() {
			p.leads[form.to] = p.leads[form.from]
			p.flats = []string{"a100#01##", "a100#02##", form.to}
			p.respond = func(flat string, _ int, records []string) fieldReply {
				switch {
				case flat == form.from && form.old != nil:
					return *form.old
				case flat == form.from && !slices.ContainsFunc(p.questions, asked): // the other one shows it first
					return none
				}
				return fill(`{"contactRequests":[$records]}`, records)
			}
		})
		w.passTwice(20 * time.Minute)
		p.mustAnnounce(live...)
		again := p.add(form.to, 0, object{"id": live[0].id, "message": "Guten Tag"})
		p.change(func() {
			all := slices.Clone(p.leads[form.to]) // the old reference shows its own list
			p.leads[form.to] = slices.DeleteFunc(all, func(l *fieldLead) bool { return l == live[0] })
		})
		w.pass(5 * time.Minute)
		p.mustAnnounce(append(live, again)...)
	})
}

// TestAnInsertionThatComesBackUnderAnotherNameAfterDaysBringsItsLeadsAlong takes an insertion off
// the list for longer than contact requests may come late. One is made just before that, one while
// it is still polled.
func TestAnInsertionThatComesBackUnderAnotherNameAfterDaysBringsItsLeadsAlong(t *testing.T) {
	forms := map[string]string{"no zone": zoneless, "UTC": time.RFC3339}
	inEachField(t, flatsNamed(3), forms, func(w *world, p *portal, layout string) {
		w.pass(12 * time.Hour)
		w.options.PollInterval, w.options.WalkInterval = 20*time.Minute, 20*time.Minute
		p.layout = layout
		from, to := p.flats[2], "A100#03##"
		w.start()
		w.pass(time.Hour)
		live := []*fieldLead{p.add(from, 0)}
		w.pass(6 * time.Minute)
		p.change(func() { p.flats = p.flats[:2] })
		w.pass(47 * time.Hour)
		live = append(live, p.add(from, 0))
		w.pass(100 * time.Minute)
		p.mustAnnounce(live...)
		p.change(func() { p.flats, p.leads[to] = append(p.flats, to), p.leads[from] })
		w.pass(time.Hour)
		p.mustAnnounce(live...)
	})
}

// TestANewInsertionWithTheIdsOfAVanishedOneHidesNothing puts one in the place of another whose
// contact requests had the same numbers.
func TestANewInsertionWithTheIdsOfAVanishedOneHidesNothing(t *testing.T) {
	forms := map[string]func(old, l *fieldLead){
		"the ids alone":                func(old, l *fieldLead) { l.id = old.id },
		"ids and times":                func(old, l *fieldLead) { l.id, l.at = old.id, old.at },
		"ids, a quarter an hour later": func(old, l *fieldLead) { l.id, l.at = old.id, old.at.Add(15*time.Minute) },
		"persons and texts, other ids": func(old, l *fieldLead) { l.who = old.who },
		"all but the ids": func(old, l *fieldLead) {
			l.who, l.at, l.with = old.who, old.at, object{"email": "neu@example.org", "message": "Und diese?"}
		},
	}
	inEachWatchedField(t, 3, forms, func(w *world, p *portal, form func(old, l *fieldLead)) {
		const gone, young = "a100#03##", "a100#04##"
		live := p.addMany(gone, 3, 0)
		w.pass(time.Hour)
		p.mustAnnounce(live...)
		for _, old := range live[:3] {
			l := p.add(young, 0)
			p.change(func() { form(old, l) })
			live = append(live, l)
		}
		p.change(func() { p.flats = []string{"a100#01##", "a100#02##", young} })
		w.pass(20 * time.Minute)
		p.mustAnnounce(live...)
		p.mustHaveNo(events.TypeContactRequestChanged)
	})
}

// people are the members of a contact request that describe a person.
var people = []string{"firstName", "lastName", "email", "message"}

// without is a record whose members of the person have a value.
func without(v any) object {
	record := object{}
	for _, name := range people {
		record[name] = v
	}
	return record
}

// TestAPersonWhoWasErasedBeforeAnyPollIsNotAnnounced marks a contact request as erased of which the
// store knows the id alone, as after a restored backup.
func TestAPersonWhoWasErasedBeforeAnyPollIsNotAnnounced(t *testing.T) {
	forms := map[string]object{
		"an id in text":         {"id": "r-7"},
		"an id as a number":     {"id": 7},
		"no time":               {"id": "r-7", "createdAt": absent},
		"a time without zone":   {"id": "r-7", "createdAt": "2000-01-01T00:11:12"},
		"an id by another name": {"id": absent, "requestId": "r-7"},
	}
	inEachWatchedField(t, 2, forms, func(w *world, p *portal, form object) {
		if form["id"] == absent {
			p.change(func() {
				p.write = edits(member("id", func(*fieldLead) any { return absent }), member("requestId", func(l *fieldLead) any { return l.id }))
			})
		}
		id := "r-7"
		if form["id"] == 7 {
			id = "7"
		}
		_, err := w.store.Erase("A100", []store.Request{{Reference: aFlat, ID: id}})
		w.must(err)
		p.add(aFlat, 0, form)
		other := p.add(aFlat, 0)
		w.passTwice(5 * time.Minute)
		p.mustAnnounce(other)
	})
}

// TestAnErasedPersonWhoIsStillShownIsNotAnnouncedAgain erases somebody who was announced.
func TestAnErasedPersonWhoIsStillShownIsNotAnnouncedAgain(t *testing.T) {
	noID := member("id", func(*fieldLead) any { return absent })
	type form struct {
		write edit
		then  []object // is what its members become, one after the other
	}
	forms := map[string]form{
		"as before":                   {nil, []object{nil}},
		"with another score":          {nil, []object{{"score": 12}}},
		"answered":                    {nil, []object{{"status": "ANSWERED"}}},
		"other words":                 {nil, []object{{"message": "Ist sie noch frei?"}}},
		"null, and from a cache":      {nil, []object{{"message": "Korrigiert"}, without(nil), nil}},
		"no id, as before":            {noID, []object{nil}},
		"no id, with another score":   {noID, []object{{"score": 12}}},
		"no id, null, and of a cache": {noID, []object{without(nil), nil}},
	}
	inEachField(t, flatsNamed(2), forms, func(w *world, p *portal, form form) {
		p.write = form.write
		w.start()
		w.pass(5 * time.Minute)
		live := p.addMany(aFlat, 3, 0)
		w.pass(5 * time.Minute)
		erased := p.created()[live[1].who][0]
		_, err := w.store.Erase("A100", []store.Request{{Reference: aFlat, ID: erased.body["contactRequestId"].(string)}})
		w.must(err)
		n := count(p.log(), events.TypeContactRequestCreated)
		for _, with := range form.then {
			p.change(func() { live[1].with = with })
			w.pass(5 * time.Minute)
		}
		w.restart()
		w.pass(5 * time.Minute)
		p.mustCount(events.TypeContactRequestCreated, n)
		p.mustCount(events.TypeContactRequestRedacted, 1)
		p.mustHaveNo(events.TypeContactRequestChanged)
		for _, e := range p.log() {
			if e.RecordedTime.After(erased.RecordedTime) && strings.Contains(string(e.Data), live[1].who) {
				w.t.Errorf("%s holds the person", e.Type)
			}
		}
	})
}

// TestAnErasureBesideItsLateTwinIsOneRedaction is of a double click whose second part is shown only
// when the person of the first has been erased.
func TestAnErasureBesideItsLateTwinIsOneRedaction(t *testing.T) {
	inWatchedField(t, 2, func(w *world, p *portal) {
		one := p.add(p.flats[1], 0)
		w.pass(5 * time.Minute)
		two := p.add(p.flats[1], 0)
		p.change(func() { two.who, two.at, one.with = one.who, one.at, without(nil) })
		w.pass(10 * time.Minute)
		p.mustAnnounce(one, two)
		p.mustCount(events.TypeContactRequestRedacted, 1)
		for _, e := range p.log() {
			if identity, ok := e.body["identity"]; ok && identity != "id" {
				t.Errorf("%s by %v", e.Type, identity)
			}
		}
	})
}

// TestPeopleWhoVanishFromMostContactRequestsAreHeldUntilItLastsOrIsApproved lets a failure behind
// the API empty the people of two of three flats.
func TestPeopleWhoVanishFromMostContactRequestsAreHeldUntilItLastsOrIsApproved(t *testing.T) {
	type form struct {
		missing any
		approve bool
	}
	forms := map[string]form{
		"null": {nil, false}, "empty": {"", false}, "null, approved": {nil, true}, "empty, approved": {"", true},
	}
	inEachField(t, flatsNamed(3), forms, func(w *world, p *portal, form form) {
		w.options.HoldFor = 40 * time.Minute
		for _, flat := range p.flats {
			p.addMany(flat, 5, 24*time.Hour)
		}
		w.start()
		w.pass(5 * time.Minute)
		before := len(p.log())
		empty := func(on bool) {
			p.change(func() {
				p.write = func(flat string, _ *fieldLead, record object) {
					if on && flat != p.flats[2] {
						maps.Copy(record, without(form.missing))
					}
				}
			})
		}
		empty(true)
		w.pass(20 * time.Minute)
		w.wants(w.since("A100", before), events.TypeWatchChangeHeld)
		e := w.since("A100", before)[0].body
		if e["operation"] != "contact_requests" || e["missing"] != 5.0 || e["approve"] != "doorbell approve A100" {
			w.t.Errorf("%v", e)
		}
		if h := w.status("A100").Held; h == nil || h.Missing != 10 || h.Operation != listings.OperationContactRequests {
			w.t.Errorf("status: %+v", h)
		}
		empty(false) // it was a failure
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeWatchChangeHeld, events.TypeWatchRecovered)
		if h := w.status("A100").Held; h != nil {
			w.t.Errorf("status: %+v", h)
		}
		empty(true)
		w.pass(20 * time.Minute)
		w.restart()
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before+2), events.TypeWatchChangeHeld)
		if form.approve {
			was, err := w.poller.Approve("A100")
			if w.must(err); !was {
				w.t.Error("nothing was held")
			}
		}
		w.pass(30 * time.Minute)
		empty(false) // final
		w.pass(10 * time.Minute)
		list := w.since("A100", before+2)
		if count(list, events.TypeContactRequestRedacted) != 10 || count(list, events.TypeWatchRecovered) != 1 || len(list) != 12 {
			w.t.Errorf("%v", types(list))
		}
	})
}
