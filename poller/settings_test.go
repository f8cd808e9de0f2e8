package poller_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
)

// TestChangedSettingsOnAFullStoreCauseNoEvent changes settings of a stopped daemon and back again,
// twice, while contact requests come in.
func TestChangedSettingsOnAFullStoreCauseNoEvent(t *testing.T) {
	forms := map[string]func(*poller.Options){
		"ignored fields of insertions":       func(o *poller.Options) { o.API.IgnoreInsertions = []string{"/title", "/views"} },
		"ignored fields of contact requests": func(o *poller.Options) { o.IgnoreContact = []string{"/status", "/message"} },
		"another id":                         func(o *poller.Options) { o.API.IDFields = []string{"ticket"} },
		"ids in another order":               func(o *poller.Options) { o.API.IDFields = []string{"ticket", "id"} },
		"no id":                              func(o *poller.Options) { o.API.IDFields = []string{"none"} },
		"path of contact requests":           func(o *poller.Options) { o.API.ContactRequestsPath = "/deep/leads" },
		"path of insertions":                 func(o *poller.Options) { o.API.InsertionsPath = "/results" },
		"all at once": func(o *poller.Options) {
			o.API.IgnoreInsertions, o.IgnoreContact, o.API.IDFields = []string{"/title"}, []string{"/status"}, []string{"ticket"}
			o.API.ContactRequestsPath = "/deep/leads"
		},
	}
	for _, ids := range []bool{true, false} {
		t.Run(fmt.Sprintf("ids %t", ids), func(t *testing.T) {
			eachForm(t, forms, func(t *testing.T, change func(*poller.Options)) {
				inField(t, flatsNamed(4), func(w *world, p *portal) { thereAndBack(w, p, ids, change) })
			})
		})
	}
}

func thereAndBack(w *world, p *portal, ids bool, change func(*poller.Options)) {
	p.respond = func(_ string, _ int, records []string) fieldReply {
		return fill(`{"deep":{"leads":[$records]}}`, records)
	}
	p.write = func(_ string, l *fieldLead, record object) {
		record["createdAt"] = l.at.Truncate(time.Minute).UTC().Format(time.RFC3339)
		if delete(record, "id"); ids {
			record["id"], record["ticket"] = json.Number(fmt.Sprint(9007199254740993+numberOf(l))), fmt.Sprint("T", numberOf(l))
		}
	}
	var live []*fieldLead
	more := func(counts bool) {
		for n, flat := range p.flats {
			for range n {
				live = append(live, p.add(flat, 0))
			}
		}
		if one := p.leads[p.flats[3]]; ids { // a double click, which counts as two where ids are read
			first, twin := one[len(one)-1], p.add(p.flats[3], 0)
			p.change(func() { twin.who, twin.at = first.who, first.at })
			if counts {
				live = append(live, twin)
			}
		}
	}
	w.options.PollInterval, w.options.WalkInterval = 3*time.Minute, 5*time.Minute
	w.start()
	w.pass(10 * time.Minute)
	more(true)
	w.pass(10 * time.Minute)
	before := w.options
	changed := before
	change(&changed)
	for round := range 2 {
		for _, options := range []poller.Options{changed, before} {
			at := len(p.log())
			w.halt()
			w.options = options
			w.start()
			w.pass(20 * time.Minute)
			if got := w.since("A100", at); len(got) != 0 {
				w.t.Fatalf("round %d: %v", round, got)
			}
			w.halt()
			more(!slices.Equal(options.API.IDFields, []string{"none"})) // while the daemon is down
			w.pass(time.Hour)
			w.start()
			w.pass(20 * time.Minute)
			w.restart()
			w.pass(20 * time.Minute)
			if got := w.since("A100", at); count(got, events.TypeContactRequestCreated) != len(got) {
				w.t.Fatalf("round %d: %v", round, got)
			}
		}
	}
	p.mustAnnounce(live...)
	named := slices.ContainsFunc(p.log(), func(e told) bool { return e.body["contactRequestId"] == fmt.Sprint("T", numberOf(live[9])) })
	if ticket := len(changed.API.IDFields) > 0 && changed.API.IDFields[0] == "ticket"; ids && named != ticket {
		w.t.Errorf("the other id was taken: %t, want %t", named, ticket)
	}
}

// TestAChangedScoreOfAnySpellingCausesNoEvent: the score is the member that the event passes on as
// the score, at every place where it changes alone.
func TestAChangedScoreOfAnySpellingCausesNoEvent(t *testing.T) {
	eachForm(t, map[string]string{"_score": "_score", "s_core": "s_core", "Score-": "Score-"}, func(t *testing.T, name string) {
		inField(t, flatsNamed(1), func(w *world, p *portal) {
			score := "1"
			p.write = func(_ string, _ *fieldLead, record object) { record[name], record["lead"] = score, object{name: score} }
			w.start()
			w.pass(5 * time.Minute)
			live := p.add(aFlat, 0)
			w.pass(5 * time.Minute)
			p.mustAnnounce(live)
			if got := p.created()[live.who][0].body["score"]; got != "1" {
				t.Fatalf("passed on as the score: %v", got)
			}
			p.change(func() { score = "2" })
			w.pass(5 * time.Minute)
			p.mustAnnounce(live)
			p.mustCount(events.TypeContactRequestChanged, 0)
			p.mustBeCalm()
		})
	})
}

// TestAnotherTimeZoneWithoutIdsCausesNoEvent changes TIMEZONE, in which times without a zone are read.
func TestAnotherTimeZoneWithoutIdsCausesNoEvent(t *testing.T) {
	inField(t, flatsNamed(1), func(w *world, p *portal) {
		w.pass(12 * time.Hour)
		p.layout, p.write = zoneless, member("id", func(*fieldLead) any { return absent })
		w.start()
		w.pass(5 * time.Minute)
		live := p.addMany(aFlat, 2, 0)
		w.pass(5 * time.Minute)
		w.halt()
		w.options.API.TimeZone = time.UTC
		w.start()
		w.pass(5 * time.Minute)
		p.mustAnnounce(live...)
		p.mustCount(events.TypeContactRequestChanged, 0)
	})
}
