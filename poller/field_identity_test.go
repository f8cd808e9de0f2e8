package poller_test

import (
	"encoding/json"
	"fmt"
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
)

// TestWhatRotatesAtEachReadingIsOneLeadAndNamedOnce has ids under names that are not known, or
// none, and members that are written in another way at each reading.
func TestWhatRotatesAtEachReadingIsOneLeadAndNamedOnce(t *testing.T) {
	reading := func(record object, id string, l *fieldLead) {
		delete(record, "id")
		if id != "" {
			record[id] = l.id
		}
	}
	type form struct {
		leads   int
		rotates []string // the members
		write   func(n int, l *fieldLead, record object)
	}
	forms := map[string]form{
		"leadId, relay addresses": {3, []string{"email"}, func(n int, l *fieldLead, record object) {
			reading(record, "leadId", l)
			record["email"] = fmt.Sprintf("reply+%d@relay.example", n)
		}},
		"ticketId, relay addresses": {4, []string{"email"}, func(n int, l *fieldLead, record object) {
			reading(record, "ticketId", l)
			record["email"] = fmt.Sprintf("reply+%d@relay.example", n)
		}},
		"conversationId, masked numbers": {12, []string{"phone"}, func(n int, l *fieldLead, record object) {
			reading(record, "conversationId", l)
			record["phone"] = fmt.Sprintf("+41 44 %03d %02d %02d", 100+n%900, n%100, n/7%100)
		}},
		"enquiryNumber, a counter": {4, []string{"views"}, func(n int, l *fieldLead, record object) {
			reading(record, "enquiryNumber", l)
			record["views"] = n
		}},
		"guid, signed links": {4, []string{"attachment"}, func(n int, l *fieldLead, record object) {
			reading(record, "guid", l)
			record["attachment"] = fmt.Sprintf("https://files.example/a?signature=%x", n*7919)
		}},
		"no id, relay addresses": {4, []string{"email"}, func(n int, l *fieldLead, record object) {
			reading(record, "", l)
			record["email"] = fmt.Sprintf("reply+%d@relay.example", n)
		}},
		"no id, the time of the reading": {12, []string{"servedAt"}, func(n int, l *fieldLead, record object) {
			reading(record, "", l)
			record["servedAt"] = time.Now().UTC().Format(time.RFC3339Nano) + fmt.Sprint(n)
		}},
		"inquiryRef, a link in the message": {12, []string{"message"}, func(n int, l *fieldLead, record object) {
			reading(record, "inquiryRef", l)
			record["message"] = fmt.Sprintf("Ist die Wohnung noch frei?\nhttps://t.example/%x", n*7919)
		}},
		"id, an age in words": {4, []string{"age"}, func(n int, l *fieldLead, record object) {
			record["age"] = fmt.Sprintf("vor %d Sekunden", n)
		}},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			w.options.PollInterval = time.Minute
			n := 0
			p.write = func(_ string, l *fieldLead, record object) {
				n++
				form.write(n, l, record)
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
			w.pass(10 * time.Minute)
			w.restart()
			w.pass(10 * time.Minute)
			p.mustAnnounce(live...)
			if more := p.log()[before:]; len(more) > 0 {
				t.Errorf("after twenty minutes still %d events: %v", len(more), few(strings.Fields(fmt.Sprint(types(more)))))
			}
			for _, member := range form.rotates {
				named := 0
				for _, e := range p.log() {
					if e.Type == events.TypeWatchSchemaDrifted && strings.Contains(fmt.Sprint(e.body["expected"], e.body["found"]), member) {
						named++
					}
				}
				if named != 1 {
					t.Errorf("%s is named by %d drifts, want one; %s", member, named, p.watch())
				}
			}
			p.mustCount(events.TypeWatchSchemaDrifted, len(form.rotates))
			p.mustCount(events.TypeWatchGapDetected, 0)
		})
	})
}

// TestAnIdThatWasGivenAgainIsAnotherLead drives the portal itself in each form, which returns what
// has to be announced.
func TestAnIdThatWasGivenAgainIsAnotherLead(t *testing.T) {
	seven := func() object { return object{"id": 7, "message": "Wann kann ich besichtigen?"} }
	forms := map[string]func(*world, *portal) []*fieldLead{
		"after a while without": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"id": 7})
			w.pass(3 * time.Minute)
			p.show(aFlat)
			w.pass(3 * time.Minute)
			return []*fieldLead{anna, p.add(aFlat, 0, seven())}
		},
		"between two polls": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"id": "7"})
			w.pass(3 * time.Minute)
			p.show(aFlat)
			return []*fieldLead{anna, p.add(aFlat, 0, object{"id": "7"})}
		},
		"beside others": func(w *world, p *portal) []*fieldLead {
			others := p.addMany(aFlat, 3, 0)
			anna := p.add(aFlat, 0, object{"id": 7})
			w.pass(3 * time.Minute)
			p.show(aFlat, others...)
			w.pass(time.Minute)
			return append(others, anna, p.add(aFlat, 0, seven()))
		},
		"over a restart": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"id": 7})
			w.pass(3 * time.Minute)
			w.halt()
			p.show(aFlat)
			w.pass(time.Hour)
			bruno := p.add(aFlat, 0, seven())
			w.start()
			return []*fieldLead{anna, bruno}
		},
		"of an old one": func(w *world, p *portal) []*fieldLead {
			p.change(func() { p.leads[aFlat][0].with = object{"id": 7} })
			w.restart()
			w.pass(3 * time.Minute)
			p.show(aFlat)
			w.pass(3 * time.Minute)
			return []*fieldLead{p.add(aFlat, 0, seven())}
		},
		"the number of the listing": func(w *world, p *portal) (all []*fieldLead) {
			for range 3 {
				p.show(aFlat)
				all = append(all, p.add(aFlat, 0, object{"id": 4001}))
				w.pass(4 * time.Minute)
			}
			return all
		},
		"the number of the person, who writes again": func(w *world, p *portal) []*fieldLead {
			first := p.add(aFlat, 0, object{"id": 7})
			w.pass(4 * time.Minute)
			p.show(aFlat)
			again := p.add(aFlat, 0, object{"id": 7, "lastName": first.who, "message": "Ich habe noch eine Frage."})
			again.who = first.who
			return []*fieldLead{first, again}
		},
		"a quarter of an hour apart": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"id": 7})
			w.pass(15 * time.Minute)
			p.show(aFlat)
			return []*fieldLead{anna, p.add(aFlat, 0, seven())}
		},
		"an hour apart": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"leadId": 7, "id": absent})
			w.pass(time.Hour)
			p.show(aFlat)
			return []*fieldLead{anna, p.add(aFlat, 0, object{"leadId": 7, "id": absent, "message": "Hallo"})}
		},
		"both at once": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"id": 7})
			w.pass(4 * time.Minute)
			return []*fieldLead{anna, p.add(aFlat, 0, seven())}
		},
		"of one whose person was erased": func(w *world, p *portal) []*fieldLead {
			anna := p.add(aFlat, 0, object{"id": 7})
			w.pass(4 * time.Minute)
			p.change(func() { anna.with = object{"id": 7, "firstName": nil, "lastName": nil, "email": nil, "message": nil} })
			w.pass(20 * time.Minute)
			p.show(aFlat)
			return []*fieldLead{anna, p.add(aFlat, 0, seven())}
		},
		"again and again": func(w *world, p *portal) (all []*fieldLead) {
			for n := range 6 {
				p.show(aFlat)
				all = append(all, p.add(aFlat, 0, object{"id": n % 2}))
				w.pass(2 * time.Minute)
			}
			return all
		},
	}
	eachForm(t, forms, func(t *testing.T, form func(*world, *portal) []*fieldLead) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			p.add(aFlat, 20*24*time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			want := form(w, p)
			w.pass(10 * time.Minute)
			p.mustAnnounce(want...)
			p.mustCount(events.TypeContactRequestChanged, 0)
			for n, e := range p.log() {
				for _, other := range p.log()[:n] {
					if e.ID == other.ID {
						t.Errorf("two events with one id: %s, %s", other.Type, e.Type)
					}
				}
			}
		})
	})
}

// TestTheSameIdInOtherWordsIsTheSameLead changes how known contact requests are written, all at one
// moment.
func TestTheSameIdInOtherWordsIsTheSameLead(t *testing.T) {
	const short = "2006-01-02T15:04:05-0700"
	created := func(layout string, move time.Duration, zone int) edit {
		return member("createdAt", func(l *fieldLead) any {
			return l.at.Add(move).In(time.FixedZone("", zone)).Format(layout)
		})
	}
	seconds := func(l *fieldLead) any { return l.at.Unix() }
	milliseconds := func(l *fieldLead) any { return l.at.UnixMilli() }
	numberText := func(l *fieldLead) any { return fmt.Sprint(9007199254740992 + numberOf(l)) } // beyond a float's
	number := func(l *fieldLead) any { return json.Number(numberText(l).(string)) }
	other := func(l *fieldLead) any { return fmt.Sprint("0b7e", numberOf(l)*7919) }
	drawn := func(l *fieldLead) any { return fmt.Sprint(time.Now().UnixNano(), l.id) }
	none := func(*fieldLead) any { return absent }
	type form struct {
		before, after edit
		changed       bool // contact_request.changed is right, too
	}
	forms := map[string]form{
		"milliseconds":    {nil, created("2006-01-02T15:04:05.678Z", 0, 0), true},
		"another zone":    {nil, created(time.RFC3339, 0, 3600), true},
		"no colon in it":  {nil, created(short, 0, 3600), true},
		"since 1970":      {nil, member("createdAt", seconds), true},
		"ms since 1970":   {nil, member("createdAt", milliseconds), true},
		"no time":         {nil, member("createdAt", none), true},
		"a time, at last": {member("createdAt", none), nil, true},
		"an hour later":   {nil, created(time.RFC3339, time.Hour, 0), true},
		"another message": {nil, member("message", func(*fieldLead) any { return "Noch frei?" }), true},
		"a status":        {nil, member("status", func(*fieldLead) any { return "ANSWERED" }), true},
		"another score":   {nil, member("score", func(*fieldLead) any { return time.Now().Minute() }), false},

		"a number as text":       {member("id", number), member("id", numberText), false},
		"text as a number":       {member("id", numberText), member("id", number), false},
		"capitals":               {nil, member("id", func(l *fieldLead) any { return strings.ToUpper(fmt.Sprint(l.id)) }), false},
		"an id with a scheme":    {nil, member("id", func(l *fieldLead) any { return fmt.Sprint("urn:lead:", l.id) }), false},
		"other ids":              {nil, member("id", other), false},
		"no ids":                 {nil, member("id", none), false},
		"ids, at last":           {member("id", none), nil, false},
		"ids under another name": {nil, edits(member("contactRequestId", number), member("id", none)), false},
		"another id beside it":   {nil, member("contactRequestId", other), true},
		"random ids":             {nil, member("id", drawn), false},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			w.pass(12 * time.Hour)
			p.write = form.before
			if form.before == nil {
				p.addMany(aFlat, 4, 20*24*time.Hour)
			}
			w.start()
			w.pass(5 * time.Minute)
			live := p.addMany(aFlat, 2, 0)
			w.pass(5 * time.Minute)
			live = append(live, p.add(aFlat, 0), p.add(p.flats[1], 0))
			w.pass(5 * time.Minute)
			p.change(func() { p.write = form.after })
			w.pass(5 * time.Minute)
			last := p.add(aFlat, 0)
			w.pass(3 * time.Minute)
			w.restart()
			w.pass(15 * time.Minute)
			p.mustAnnounce(append(live, last)...)
			if n := count(p.log(), events.TypeContactRequestChanged); n > 8 || n > 0 && !form.changed {
				t.Errorf("%d changes", n)
			}
			p.mustCount(events.TypeContactRequestRedacted, 0)
			p.mustCount(events.TypeWatchGapDetected, 0)
		})
	})
}

// TestADoubleClickIsTwoLeadsUnderEachNameOfAnId is of one person who wrote the same twice within a
// second.
func TestADoubleClickIsTwoLeadsUnderEachNameOfAnId(t *testing.T) {
	forms := map[string]string{}
	for _, name := range []string{"id", "contactRequestId", "requestId", "leadId", "inquiryId", "enquiryId", "messageId", "uuid", "_id"} {
		forms[name] = name
	}
	eachForm(t, forms, func(t *testing.T, name string) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			p.write = func(_ string, l *fieldLead, record object) {
				delete(record, "id")
				record[name] = l.id
			}
			p.add(aFlat, 20*24*time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			one := p.add(aFlat, 0)
			two := p.add(aFlat, 0, object{"lastName": one.who, "email": "twice@example.org"})
			p.change(func() {
				two.who, two.at, one.with = one.who, one.at, object{"email": "twice@example.org"}
			})
			w.pass(10 * time.Minute)
			w.restart()
			w.pass(5 * time.Minute)
			p.mustAnnounce(one, two)
			p.mustCount(events.TypeContactRequestChanged, 0)
		})
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
	for _, apart := range []time.Duration{7 * time.Minute, 15 * time.Minute, time.Hour} {
		t.Run(apart.String()+" apart", func(t *testing.T) {
			eachForm(t, forms, func(t *testing.T, form func(n, all int) any) {
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
					p.mustCount(events.TypeContactRequestChanged, 0)
				})
			})
		})
	}
}

// TestWhereIdentityItselfChangesNothingIsAnnounced replaces what names the known contact requests,
// all at one moment.
func TestWhereIdentityItselfChangesNothingIsAnnounced(t *testing.T) {
	ids := member("id", func(l *fieldLead) any {
		return fmt.Sprintf("6f1c%08x-aaaa-4bbb-8ccc-ddddeeeeffff", numberOf(l))
	})
	noIDs := member("id", func(*fieldLead) any { return absent })
	created := func(layout string, move time.Duration) edit {
		return member("createdAt", func(l *fieldLead) any { return l.at.Add(move).UTC().Format(layout) })
	}
	constant := func(name, v string) edit { return member(name, func(*fieldLead) any { return v }) }
	since1970 := member("createdAt", func(l *fieldLead) any { return l.at.UnixMilli() + 250 })
	relay, text := constant("email", "reply@relay.example"), constant("message", "<p>Frei?</p>")
	type form struct {
		drifts int // negative: one or none
		after  edit
	}
	forms := map[string]form{
		"ids, and times in milliseconds":                 {1, edits(ids, created(milliseconds, 123*time.Millisecond))},
		"ids, and ms since 1970":                         {1, edits(ids, since1970)},
		"ids, times in milliseconds and relay addresses": {1, edits(ids, relay, created(milliseconds, 900*time.Millisecond))},
		"ids, and times by an hour":                      {-1, edits(ids, created(time.RFC3339, -time.Hour))},
		"no ids any more, and times by two hours":        {-1, edits(noIDs, created(time.RFC3339, -2*time.Hour))},
		"ids, messages, and times by an hour":            {1, edits(ids, text, created(time.RFC3339, -time.Hour))},
		"ids, messages, and times of the import":         {1, edits(ids, text, created(time.RFC3339, -17*time.Second))},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			w.pass(12 * time.Hour)
			p.addMany(aFlat, 3, 3*24*time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			var live []*fieldLead
			for range 6 {
				live = append(live, p.add(aFlat, 0))
				w.pass(90 * time.Second)
			}
			p.mustAnnounce(live...)
			p.change(func() { p.write = form.after })
			w.pass(10 * time.Minute)
			w.restart()
			w.pass(5 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeContactRequestChanged, 0)
			if n := count(p.log(), events.TypeWatchSchemaDrifted); n > 1 || form.drifts == 1 && n == 0 {
				t.Errorf("%d drifts: %s", n, p.watch())
			}
			last := p.add(aFlat, 0)
			w.pass(3 * time.Minute)
			p.mustAnnounce(append(live, last)...)
		})
	})
}

// TestThreeNewLeadsInPlaceOfThreeDeletedOnesAreAnnounced is no change of identity: they are younger
// than what was known.
func TestThreeNewLeadsInPlaceOfThreeDeletedOnesAreAnnounced(t *testing.T) {
	for _, n := range []int{1, 3, 8} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inField(t, flatsNamed(2), func(w *world, p *portal) {
				p.add(aFlat, 20*24*time.Hour)
				w.start()
				w.pass(5 * time.Minute)
				live := p.addMany(aFlat, n, 0)
				w.pass(2 * time.Minute)
				p.show(aFlat)
				live = append(live, p.addMany(aFlat, n, 0)...)
				w.pass(10 * time.Minute)
				p.mustAnnounce(live...)
				p.mustBeCalm()
			})
		})
	}
}

// TestOneIdAtTwoInsertionsIsTwoLeads has insertions that number their contact requests each for
// itself, and a person who writes to two.
func TestOneIdAtTwoInsertionsIsTwoLeads(t *testing.T) {
	twice := object{"lastName": "Zweimal-zq7", "email": "zweimal@example.org"}
	forms := map[string]struct {
		id    any
		apart time.Duration
		with  object
	}{
		"numbers of each insertion":       {1, time.Minute, object{}},
		"numbers, in one second":          {1, 0, object{}},
		"one person, in one second":       {1, 0, twice},
		"one person, a minute apart":      {"u-77", time.Minute, twice},
		"one person without id, at once":  {absent, 0, twice},
		"one person, an hour apart, uuid": {"2f6f0d0f-4c11-4a53-9a57", time.Hour, twice},
	}
	eachForm(t, forms, func(t *testing.T, form struct {
		id    any
		apart time.Duration
		with  object
	},
	) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			w.start()
			w.pass(5 * time.Minute)
			var live []*fieldLead
			for n := range 2 {
				with := object{"id": form.id}
				for name, v := range form.with {
					with[name] = v
				}
				l := p.add(p.flats[n], 0, with)
				if who, ok := form.with["lastName"]; ok {
					l.who = who.(string)
				}
				live = append(live, l)
				w.pass(form.apart)
			}
			w.pass(10 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeContactRequestChanged, 0)
		})
	})
}

// TestARenamedInsertionBringsItsLeadsAlong gives an insertion another reference. Its contact
// requests come along with their ids and are no news; one that nobody has seen before is, and so is
// one that is given a known id.
func TestARenamedInsertionBringsItsLeadsAlong(t *testing.T) {
	type form struct {
		from, to string
		old      *fieldReply // at the old reference, from then on; nil: as at the new one
		names    bool        // contact requests name their property
		zoneless bool        // their times name no zone
	}
	gone, none := formsOfNone["404, JSON"], formsOfNone["empty array"]
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
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, []string{"a100#01##", "a100#02##", form.from}, func(w *world, p *portal) {
			w.pass(12 * time.Hour)
			w.options.PollInterval = time.Minute
			p.write = func(flat string, l *fieldLead, record object) {
				if form.names {
					record["propertyReferenceId"] = flat
				}
				if form.zoneless {
					record["createdAt"] = zoneless["T"](l.at)
				}
			}
			p.addMany(form.from, 3, 20*24*time.Hour)
			p.addMany(form.from, 2, 30*time.Hour)
			w.start()
			w.pass(5 * time.Minute)
			live := p.addMany(form.from, 3, 0)
			w.pass(time.Hour + 11*time.Second)
			p.mustAnnounce(live...)
			unseen := p.add(form.from, 0)
			p.change(func() {
				p.leads[form.to] = p.leads[form.from]
				p.flats = []string{"a100#01##", "a100#02##", form.to}
				p.respond = func(flat string, _ int, records []string) fieldReply {
					if flat == form.from && form.old != nil {
						return *form.old
					}
					if flat == form.from && !slices.ContainsFunc(p.questions, func(q question) bool { return q.flat == form.to }) { // the other one is the first to show what nobody has seen
						return none
					}
					return fill(`{"contactRequests":[$records]}`, records)
				}
			})
			w.pass(20 * time.Minute)
			w.restart()
			w.pass(20 * time.Minute)
			live = append(live, unseen)
			p.mustAnnounce(live...)
			again := p.add(form.to, 0, object{"id": live[0].id, "message": "Guten Tag"})
			p.change(func() {
				var list []*fieldLead
				for _, l := range p.leads[form.to] {
					if l != live[0] {
						list = append(list, l)
					}
				}
				p.leads[form.to] = list
			})
			w.pass(5 * time.Minute)
			p.mustAnnounce(append(live, again)...)
		})
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
	eachForm(t, forms, func(t *testing.T, form func(old, l *fieldLead)) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			const gone, young = "a100#03##", "a100#04##"
			w.start()
			w.pass(5 * time.Minute)
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
			p.mustCount(events.TypeContactRequestChanged, 0)
		})
	})
}

// TestPersonsWhoAreMissingForOneReadingAreNotRedacted takes the people out of one response of an
// insertion.
func TestPersonsWhoAreMissingForOneReadingAreNotRedacted(t *testing.T) {
	members := []string{"firstName", "lastName", "email", "message"}
	inOne := func(record object) {
		contact := object{}
		for _, name := range members {
			contact[name] = record[name]
			delete(record, name)
		}
		record["contact"] = contact
	}
	set := func(v any) func(object) {
		return func(record object) {
			for _, name := range members {
				record[name] = v
			}
		}
	}
	type form struct {
		usual, without func(object)
		leads, of      int           // how many of the contact requests
		lasts          time.Duration // 0: one reading
	}
	contactNull := func(record object) { delete(record, "contact"); record["contact"] = nil }
	forms := map[string]form{
		"contact null":                        {inOne, contactNull, 5, 5, 0},
		"contact null, of a hundred":          {inOne, contactNull, 100, 100, 0},
		"no contact":                          {inOne, func(record object) { delete(record, "contact") }, 5, 5, 0},
		"an empty contact":                    {inOne, func(record object) { record["contact"] = object{} }, 5, 5, 0},
		"members null":                        {nil, set(nil), 5, 5, 0},
		"members empty":                       {nil, set(""), 5, 5, 0},
		"no members":                          {nil, set(absent), 5, 5, 0},
		"names and addresses null":            {nil, func(record object) { record["firstName"], record["lastName"], record["email"] = nil, nil, nil }, 5, 5, 0},
		"one of five":                         {inOne, contactNull, 5, 1, 0},
		"the only one":                        {nil, set(nil), 1, 1, 0},
		"two of two":                          {inOne, contactNull, 2, 2, 0},
		"everybody, for a quarter of an hour": {inOne, contactNull, 5, 5, 15 * time.Minute},
		"most, for a quarter of an hour":      {nil, set(nil), 5, 4, 15 * time.Minute},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			without := map[*fieldLead]bool{}
			var until time.Time
			p.write = func(_ string, l *fieldLead, record object) {
				if form.usual != nil {
					form.usual(record)
				}
				if without[l] {
					form.without(record)
				}
			}
			w.start()
			w.pass(5 * time.Minute)
			live := p.addMany(aFlat, form.leads, 0)
			w.pass(10 * time.Minute)
			p.change(func() {
				for _, l := range live[:form.of] {
					without[l] = true
				}
				until = time.Now().Add(form.lasts)
				p.respond = func(flat string, _ int, records []string) fieldReply {
					if flat == aFlat && !time.Now().Before(until) {
						clear(without)
					}
					return fill(`{"contactRequests":[$records]}`, records)
				}
			})
			w.pass(30 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeContactRequestRedacted, 0)
		})
	})
}

// TestAPersonWhoIsMissingForGoodIsRedactedOnce is the opposite, and an older response brings nobody
// back.
func TestAPersonWhoIsMissingForGoodIsRedactedOnce(t *testing.T) {
	forms := map[string]object{
		"null":  {"firstName": nil, "lastName": nil, "email": nil, "message": nil},
		"empty": {"firstName": "", "lastName": "", "email": "", "message": ""},
		"mixed": {"firstName": nil, "lastName": "", "email": nil, "message": ""},
	}
	eachForm(t, forms, func(t *testing.T, form object) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			w.start()
			w.pass(5 * time.Minute)
			live := p.addMany(aFlat, 5, 0)
			w.pass(10 * time.Minute)
			p.change(func() { live[2].with = form })
			w.pass(15 * time.Minute)
			p.mustCount(events.TypeContactRequestRedacted, 1)
			p.change(func() { live[2].with = nil })
			w.pass(10 * time.Minute)
			w.restart()
			w.pass(5 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeContactRequestRedacted, 1)
			p.mustCount(events.TypeContactRequestChanged, 0)
		})
	})
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
	eachForm(t, forms, func(t *testing.T, form object) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			p.addMany(aFlat, 2, 20*24*time.Hour)
			if _, other := form["requestId"]; other {
				p.write = func(_ string, l *fieldLead, record object) {
					delete(record, "id")
					record["requestId"] = l.id
				}
			}
			w.start()
			w.pass(5 * time.Minute)
			id := "r-7"
			if form["id"] == 7 {
				id = "7"
			}
			_, err := w.store.Erase("A100", []store.Request{{Reference: aFlat, ID: id}})
			w.must(err)
			p.add(aFlat, 0, form)
			other := p.add(aFlat, 0)
			w.pass(5 * time.Minute)
			w.restart()
			w.pass(5 * time.Minute)
			p.mustAnnounce(other)
		})
	})
}

// TestAnErasedPersonWhoIsStillShownIsNoNews erases somebody who was announced.
func TestAnErasedPersonWhoIsStillShownIsNoNews(t *testing.T) {
	noID := member("id", func(*fieldLead) any { return absent })
	null := object{"firstName": nil, "lastName": nil, "email": nil, "message": nil}
	forms := map[string]struct {
		write edit
		then  []object // is what its members become, one after the other
	}{
		"as before":                   {nil, []object{nil}},
		"with another score":          {nil, []object{{"score": 12}}},
		"answered":                    {nil, []object{{"status": "ANSWERED"}}},
		"other words":                 {nil, []object{{"message": "Ist sie noch frei?"}}},
		"null, and from a cache":      {nil, []object{{"message": "Korrigiert"}, null, nil}},
		"no id, as before":            {noID, []object{nil}},
		"no id, with another score":   {noID, []object{{"score": 12}}},
		"no id, null, and of a cache": {noID, []object{null, nil}},
	}
	eachForm(t, forms, func(t *testing.T, form struct {
		write edit
		then  []object
	},
	) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
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
			if more := count(p.log(), events.TypeContactRequestCreated) - n; more != 0 {
				t.Errorf("%d are announced", more)
			}
			p.mustCount(events.TypeContactRequestRedacted, 1)
			p.mustCount(events.TypeContactRequestChanged, 0)
			for _, e := range p.log() {
				if e.RecordedTime.After(erased.RecordedTime) && strings.Contains(string(e.Data), live[1].who) {
					t.Errorf("%s holds the person", e.Type)
				}
			}
		})
	})
}

// TestAnErasureBesideItsLateTwinIsOneRedaction is of a double click whose second part is shown only
// when the person of the first has been erased.
func TestAnErasureBesideItsLateTwinIsOneRedaction(t *testing.T) {
	inField(t, flatsNamed(1), func(w *world, p *portal) {
		w.start()
		w.pass(5 * time.Minute)
		one := p.add(aFlat, 0)
		w.pass(5 * time.Minute)
		two := p.add(aFlat, 0)
		p.change(func() {
			two.who, two.at = one.who, one.at
			one.with = object{"firstName": nil, "lastName": nil, "email": nil, "message": nil}
		})
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

// TestPeopleWhoVanishFromMostContactRequestsAreHeldUntilItLastsOrIsApproved lets a failure behind the API
// empty the people of two of three flats.
func TestPeopleWhoVanishFromMostContactRequestsAreHeldUntilItLastsOrIsApproved(t *testing.T) {
	ways := map[string]struct {
		way     any
		approve bool
	}{
		"null": {nil, false}, "empty": {"", false}, "null, approved": {nil, true}, "empty, approved": {"", true},
	}
	eachForm(t, ways, func(t *testing.T, form struct {
		way     any
		approve bool
	},
	) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			w.options.HoldFor = 40 * time.Minute
			for _, flat := range p.flats {
				p.addMany(flat, 5, 24*time.Hour)
			}
			w.start()
			w.pass(5 * time.Minute)
			said := len(p.log())
			empty := func(on bool) {
				p.change(func() {
					p.write = func(flat string, _ *fieldLead, record object) {
						if on && flat != p.flats[2] {
							record["firstName"], record["lastName"], record["email"], record["message"] = form.way, form.way, form.way, form.way
						}
					}
				})
			}
			empty(true)
			w.pass(20 * time.Minute)
			w.wants(w.since("A100", said), events.TypeWatchChangeHeld)
			held := w.since("A100", said)[0]
			if held.body["operation"] != "contact_requests" || held.body["missing"] != 5.0 || held.body["approve"] != "doorbell approve A100" {
				t.Errorf("%v", held.body)
			}
			if h := w.poller.Status().Agencies[0].Held; h == nil || h.Missing != 10 || h.Operation != listings.OperationContactRequests {
				t.Errorf("status: %+v", h)
			}
			empty(false) // it was a failure
			w.pass(5 * time.Minute)
			w.wants(w.since("A100", said), events.TypeWatchChangeHeld, events.TypeWatchRecovered)
			if h := w.poller.Status().Agencies[0].Held; h != nil {
				t.Errorf("status: %+v", h)
			}
			empty(true)
			w.pass(20 * time.Minute)
			w.restart()
			w.pass(5 * time.Minute)
			w.wants(w.since("A100", said+2), events.TypeWatchChangeHeld)
			if form.approve {
				was, err := w.poller.Approve("A100")
				if w.must(err); !was {
					t.Error("nothing was held")
				}
				w.pass(5 * time.Minute)
			} else {
				w.pass(30 * time.Minute)
			}
			list := w.since("A100", said+2)
			if count(list, events.TypeContactRequestRedacted) != 10 || count(list, events.TypeWatchRecovered) != 1 || len(list) != 12 {
				t.Errorf("%v", types(list))
			}
			empty(false) // final
			w.pass(10 * time.Minute)
			if more := w.since("A100", said+2)[12:]; len(more) > 0 {
				t.Errorf("%v", types(more))
			}
		})
	})
}

// TestAnInsertionThatComesBackUnderAnotherNameAfterDaysBringsItsLeadsAlong takes an insertion off the list for
// longer than contact requests may come late. One is made just before that, one while it is still polled.
func TestAnInsertionThatComesBackUnderAnotherNameAfterDaysBringsItsLeadsAlong(t *testing.T) {
	forms := map[string]func(time.Time) any{"no zone": zoneless["T"], "UTC": func(t time.Time) any { return t.UTC().Format(time.RFC3339) }}
	eachForm(t, forms, func(t *testing.T, written func(time.Time) any) {
		inField(t, flatsNamed(3), func(w *world, p *portal) {
			w.pass(12 * time.Hour)
			w.options.PollInterval, w.options.WalkInterval = 20*time.Minute, 20*time.Minute
			p.write = func(_ string, l *fieldLead, record object) { record["createdAt"] = written(l.at) }
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
	})
}
