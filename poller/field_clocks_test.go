package poller_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// TestAClockThatWasAheadAtTheFirstStartLosesNoLead starts with this machine's clock ahead, and
// corrects it with a restart. A bubble's clock cannot be set back: so there are two bubbles over
// one store, of which each begins at the same moment.
func TestAClockThatWasAheadAtTheFirstStartLosesNoLead(t *testing.T) {
	type form struct {
		ahead time.Duration
		known int // contact requests in the first window
		stays bool
	}
	forms := map[string]form{
		"three days, some are known":        {72 * time.Hour, 3, false},
		"three days, a hundred are known":   {72 * time.Hour, 100, false},
		"three days, none is known":         {72 * time.Hour, 0, false},
		"twenty-six hours, some are known":  {26 * time.Hour, 3, false},
		"two hours, none is known":          {2 * time.Hour, 0, false},
		"a month, some are known":           {30 * 24 * time.Hour, 2, false},
		"three days, never corrected, some": {72 * time.Hour, 3, true},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		t.Parallel()
		ahead, dir := form.ahead, t.TempDir()
		var leads map[string][]*fieldLead
		var live []*fieldLead
		made := 0
		inBubble(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
			w.dir = dir
			w.pass(ahead + 30*time.Minute)
			p := servePortal(w, flatsNamed(2))
			p.header = func(h http.Header) { h["Date"] = nil }
			for n := range form.known {
				p.add(p.flats[0], ahead+time.Duration(n+1)*5*time.Hour)
			}
			w.start()
			w.pass(5 * time.Minute)
			if form.known > 0 { // what is made while the clock is wrong
				live = append(live, p.add(p.flats[0], ahead))
			}
			w.pass(5 * time.Minute)
			if form.stays {
				live = append(live, p.add(p.flats[0], ahead), p.add(p.flats[1], ahead)) // none was known there
				w.pass(5 * time.Minute)
			}
			p.mustAnnounce(live...)
			leads, made = p.leads, p.made
			w.halt()
		})
		if form.stays {
			return
		}
		inBubble(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
			w.dir = dir
			w.pass(41 * time.Minute)
			p := servePortal(w, flatsNamed(2))
			p.leads, p.made = leads, made
			w.start()
			w.pass(time.Minute)
			live = append(live, p.add(p.flats[0], 0), p.add(p.flats[1], 0))
			w.pass(2 * time.Minute)
			live = append(live, p.add(p.flats[1], 0))
			w.pass(2 * time.Minute)
			p.mustAnnounce(live...)
			p.mustHaveNo(events.TypeInsertionAppeared)
		})
	})
}

// TestUndatedContactRequestsAreCountedAcrossAFailureInTheFirstCatchUp has more contact requests
// without a readable time than a short list holds, and a failure and a kill while they are read.
func TestUndatedContactRequestsAreCountedAcrossAFailureInTheFirstCatchUp(t *testing.T) {
	inField(t, flatsNamed(1), func(w *world, p *portal) {
		p.write = member("createdAt", func(*fieldLead) any { return "kürzlich" })
		calls := 0
		p.refuse = func(string, url.Values) *fieldReply {
			if calls++; calls == 3 {
				return &fieldReply{status: 500}
			}
			return nil
		}
		p.addMany(aFlat, 12, 0)
		w.start()
		w.pass(2 * time.Second)
		w.restart()
		w.pass(20 * time.Minute)
		gaps := gapsOf(p.log())
		if len(gaps) != 1 || gaps[0].body["reason"] != "time_unknown" || gaps[0].body["reached"] != 12.0 {
			w.t.Errorf("twelve were taken for old: %v", gaps)
		}
		p.mustAnnounce()
	})
}
