package poller_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// zoneless are ways to write a time in UTC without saying so.
var zoneless = map[string]func(time.Time) any{
	"T":          zonelessAs("2006-01-02T15:04:05"),
	"space":      zonelessAs("2006-01-02 15:04:05"),
	"fractions":  zonelessAs("2006-01-02T15:04:05.000000"),
	"no seconds": zonelessAs("2006-01-02T15:04"),
	"array": func(t time.Time) any {
		t = t.UTC()
		return []int{t.Year(), int(t.Month()), t.Day(), t.Hour(), t.Minute(), t.Second()}
	},
}

func zonelessAs(layout string) func(time.Time) any {
	return func(t time.Time) any { return t.UTC().Format(layout) }
}

// TestLeadsOfTheFirstSweepAreAnnouncedWhereUTCTimesNameNoZone leaves TIMEZONE at Europe/Zurich,
// which is ahead of UTC by an hour in winter and by two in summer.
func TestLeadsOfTheFirstSweepAreAnnouncedWhereUTCTimesNameNoZone(t *testing.T) {
	seasons := map[string]time.Duration{"winter": 12 * time.Hour, "summer": 190 * 24 * time.Hour}
	eachForm(t, zoneless, func(t *testing.T, form func(time.Time) any) {
		for season, until := range seasons {
			t.Run(season, func(t *testing.T) {
				inField(t, flatsNamed(20), func(w *world, p *portal) {
					w.pass(until)
					p.write = func(_ string, l *fieldLead, record object) { record["createdAt"] = form(l.at) }
					for _, flat := range p.flats {
						p.add(flat, 3*time.Hour)
					}
					w.start()
					w.pass(time.Second)
					var live []*fieldLead
					for _, flat := range p.flats {
						live = append(live, p.add(flat, 0))
					}
					w.pass(time.Minute)
					p.mustAnnounce(live...)
					for n := range 3 {
						live = append(live, p.add(p.flats[n], 0))
						w.pass(time.Minute)
					}
					p.mustAnnounce(live...)
					p.mustHaveNo(events.TypeWatchGapDetected)
				})
			})
		}
	})
}

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
		for _, list := range leads {
			for _, l := range list {
				l.at = l.at.Round(0)
			}
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

// TestUndatedContactRequestsAreCountedAcrossAFailureInTheFirstCatchUp has contact requests without
// a readable time from before the watch, and a failure or a kill while they are read.
func TestUndatedContactRequestsAreCountedAcrossAFailureInTheFirstCatchUp(t *testing.T) {
	forms := map[string]bool{"failure": false, "kill": true}
	inEachField(t, flatsNamed(1), forms, func(w *world, p *portal, kill bool) {
		p.write = member("createdAt", func(*fieldLead) any { return "kürzlich" })
		calls := 0
		p.refuse = func(string, url.Values) *fieldReply {
			if calls++; calls == 3 {
				return &fieldReply{status: 500}
			}
			return nil
		}
		p.addMany(aFlat, 7, 0)
		w.start()
		if kill {
			w.pass(100 * time.Millisecond)
			w.restart()
		}
		w.pass(20 * time.Minute)
		gaps := gapsOf(p.log())
		if len(gaps) != 1 || gaps[0].body["reason"] != "time_unknown" || gaps[0].body["reached"] != 7.0 {
			w.t.Errorf("seven were taken for old: %v", gaps)
		}
		p.mustAnnounce()
	})
}
