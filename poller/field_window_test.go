package poller_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// mustMissNothingInSilence fails unless every contact request that a response showed is announced
// once, nothing else is, and, where some were never shown, as many gap events as are allowed say
// so; where all were, none.
func (p *portal) mustMissNothingInSilence(gaps int, live ...*fieldLead) {
	p.w.t.Helper()
	var shown []*fieldLead
	p.change(func() {
		for _, l := range live {
			if l.shown {
				shown = append(shown, l)
			}
		}
	})
	p.mustAnnounce(shown...)
	seen := map[string]bool{}
	for _, e := range p.log() {
		seen[e.Reference] = seen[e.Reference] || e.Type == events.TypeWatchGapDetected
	}
	var hidden []string // flats whose contact requests were not all shown
	for flat, list := range p.leads {
		if slices.ContainsFunc(live, func(l *fieldLead) bool { return !l.shown && slices.Contains(list, l) }) {
			hidden = append(hidden, flat)
		}
	}
	switch n := count(p.log(), events.TypeWatchGapDetected); {
	case slices.ContainsFunc(hidden, func(flat string) bool { return !seen[flat] }):
		p.w.t.Errorf("%d of %d were never shown, and no gap is reported", len(live)-len(shown), len(live))
	case n > gaps:
		p.w.t.Errorf("%d gaps, want at most %d: %s", n, gaps, p.watch())
	}
}

// ordersOfTheirOwn are what services make of sortBy and sortOrder.
var ordersOfTheirOwn = map[string]func() func(url.Values, []*fieldLead){
	"oldest first": func() func(url.Values, []*fieldLead) { return oldestFirst },
	"by score": func() func(url.Values, []*fieldLead) {
		return func(_ url.Values, l []*fieldLead) {
			score := func(l *fieldLead) int { return numberOf(l) * 7919 % 101 }
			slices.SortStableFunc(l, func(a, b *fieldLead) int { return cmp.Compare(score(b), score(a)) })
		}
	},
	"in no order": func() func(url.Values, []*fieldLead) {
		drawn := rand.New(rand.NewPCG(39, 1))
		return func(_ url.Values, l []*fieldLead) { drawn.Shuffle(len(l), func(i, j int) { l[i], l[j] = l[j], l[i] }) }
	},
	"asc and desc confused": func() func(url.Values, []*fieldLead) {
		return func(q url.Values, l []*fieldLead) {
			if q.Get("sortOrder") == "desc" {
				slices.Reverse(l)
			}
		}
	},
}

// TestAServerThatIgnoresTheOrderAndCapsHidesNoLeadInSilence lets the fifty-first contact request
// come to a service that shows the first fifty in an order of its own.
func TestAServerThatIgnoresTheOrderAndCapsHidesNoLeadInSilence(t *testing.T) {
	bodies := map[string]string{
		"":                    `{"contactRequests":[$records]}`,
		", total of the page": `{"total":$n,"contactRequests":[$records]}`,
		", total":             `{"total":$all,"contactRequests":[$records]}`,
	}
	for _, known := range []int{30, 50} {
		forms := map[string]func(*portal){}
		for order, sorts := range ordersOfTheirOwn {
			for counts, body := range bodies {
				forms[order+counts] = func(p *portal) {
					p.order = sorts()
					p.respond = func(_ string, all int, records []string) fieldReply {
						return fill(strings.Replace(body, "$all", fmt.Sprint(all), 1), records)
					}
				}
			}
		}
		t.Run(fmt.Sprintf("%d known", known), func(t *testing.T) {
			eachForm(t, forms, func(t *testing.T, form func(*portal)) {
				inField(t, flatsNamed(1), func(w *world, p *portal) {
					p.most = 50
					form(p)
					p.addMany(aFlat, known, 20*24*time.Hour)
					w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
					w.start()
					w.pass(10 * time.Minute)
					var live []*fieldLead
					for range 51 - known {
						live = append(live, p.add(aFlat, 0))
					}
					w.pass(20 * time.Minute)
					live = append(live, p.add(aFlat, 0))
					w.pass(20 * time.Minute)
					p.mustMissNothingInSilence(2, live...)
				})
			})
		})
	}
}

// TestANewFlatWithMoreLeadsThanTheServerShowsIsOneGap publishes an insertion that comes with 120
// contact requests of the last hours.
func TestANewFlatWithMoreLeadsThanTheServerShowsIsOneGap(t *testing.T) {
	type form struct {
		order     func(url.Values, []*fieldLead)
		body      string
		announced int // 0: whatever was shown
	}
	forms := map[string]form{
		"newest first, always":           {newestFirst, `{"contactRequests":[$records]}`, 50},
		"newest first, counts the page":  {newestFirst, `{"contactRequests":[$records],"count":$n}`, 50},
		"newest first, total":            {newestFirst, `{"contactRequests":[$records],"total":120}`, 50},
		"newest first, total of the cap": {newestFirst, `{"contactRequests":[$records],"totalElements":50,"totalPages":1}`, 50},
		"oldest first, always":           {oldestFirst, `{"contactRequests":[$records]}`, 50},
		"as asked":                       {asAsked, `{"contactRequests":[$records]}`, 0},
		"as asked, counts the page":      {asAsked, `{"count":$n,"contactRequests":[$records]}`, 0},
		"as asked, by time only": {func(q url.Values, l []*fieldLead) {
			if q.Get("sortBy") == "createdAt" {
				asAsked(q, l)
			}
		}, `{"contactRequests":[$records]}`, 100},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			w.pass(12 * time.Hour)
			p.most, p.order = 50, form.order
			p.respond = func(flat string, _ int, records []string) fieldReply {
				if len(records) == 0 {
					return fieldReply{body: `{"contactRequests":[]}`}
				}
				return fill(form.body, records)
			}
			w.start()
			w.pass(10 * time.Minute)
			const young = "a100#03##"
			p.change(func() { p.flats = append(p.flats, young) })
			live := p.addMany(young, 120, 5*time.Minute)
			w.pass(30 * time.Minute)
			w.restart()
			w.pass(30 * time.Minute)
			p.mustMissNothingInSilence(1, live...)
			if n := len(p.created()); form.announced > 0 && n != form.announced {
				t.Errorf("%d are announced, want %d", n, form.announced)
			}
			for _, e := range p.log() {
				if e.Type == events.TypeWatchGapDetected && e.Reference != young {
					t.Errorf("a gap of %s", e.Reference)
				}
			}
		})
	})
}

// TestTheFirstBurstAtAnInsertionThatNeverHadALeadIsNoGap is of services that show everything that
// they are asked for.
func TestTheFirstBurstAtAnInsertionThatNeverHadALeadIsNoGap(t *testing.T) {
	type form struct {
		leads int
		young bool // the insertion is new
		body  string
	}
	forms := map[string]form{}
	for _, n := range []int{2, 9, 12, 25, 99, 100, 130, 420} {
		for _, young := range []bool{false, true} {
			forms[fmt.Sprintf("%d, young %t", n, young)] = form{n, young, `{"contactRequests":[$records]}`}
		}
	}
	for _, n := range []int{12, 60, 130} {
		forms[fmt.Sprintf("%d, total", n)] = form{n, false, `{"total":$all,"contactRequests":[$records]}`}
		forms[fmt.Sprintf("%d, an array", n)] = form{n, false, `[$records]`}
		forms[fmt.Sprintf("%d, pages of size", n)] = form{n, false, `{"page":1,"size":100,"content":[$records]}`}
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(1), func(w *world, p *portal) {
			p.respond = func(_ string, all int, records []string) fieldReply {
				return fill(strings.Replace(form.body, "$all", fmt.Sprint(all), 1), records)
			}
			flat := aFlat
			w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 4*time.Minute
			w.start()
			w.pass(10 * time.Minute)
			if form.young {
				flat = "a100#02##"
				p.change(func() { p.flats = append(p.flats, flat) })
			}
			live := p.addMany(flat, form.leads, 0)
			w.pass(16 * time.Minute)
			p.mustAnnounce(live...)
			p.mustBeCalm()
		})
	})
}

// TestALoweredCapHidesNoLeadInSilence lets a service show less than it did, while more new ones
// come than it shows.
func TestALoweredCapHidesNoLeadInSilence(t *testing.T) {
	type form struct {
		known, most, young int
		order              func(url.Values, []*fieldLead)
	}
	shuffled, byScore := ordersOfTheirOwn["in no order"], ordersOfTheirOwn["by score"]
	forms := map[string]form{
		"oldest first, a cap above the known": {8, 25, 30, oldestFirst},
		"oldest first, a cap far above":       {9, 40, 70, oldestFirst},
		"in no order, a cap above the known":  {1, 20, 30, shuffled()},
		"by score, a cap above the known":     {2, 20, 30, byScore()},
		"as asked, one more than the cap":     {60, 20, 21, asAsked},
		"as asked, twice the cap":             {60, 20, 41, asAsked},
		"as asked, much more":                 {60, 20, 90, asAsked},
		"as asked, few are known":             {1, 20, 45, asAsked},
		"as asked, none is known":             {0, 20, 45, asAsked},
		"newest first, more than the cap":     {60, 20, 21, newestFirst},
		"newest first, few are known":         {2, 20, 30, newestFirst},
		"newest first, none is known":         {0, 50, 51, newestFirst},
		"newest first, exactly the cap":       {60, 20, 20, newestFirst},
		"newest first, fewer than the cap":    {60, 20, 19, newestFirst},
		"oldest first":                        {60, 50, 5, oldestFirst},
		"oldest first, a cap at the known":    {20, 20, 1, oldestFirst},
		"a cap below ten":                     {8, 7, 9, newestFirst},
	}
	eachForm(t, forms, func(t *testing.T, form form) {
		inField(t, flatsNamed(2), func(w *world, p *portal) {
			p.order = form.order
			p.addMany(aFlat, form.known, 20*24*time.Hour)
			p.addMany(p.flats[1], 90, 20*24*time.Hour) // so much is shown at once, at first
			w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
			w.start()
			w.pass(20 * time.Minute)
			p.change(func() { p.most = form.most })
			live := p.addMany(aFlat, form.young, 0)
			w.pass(30 * time.Minute)
			p.mustMissNothingInSilence(2, live...)
			w.restart()
			w.pass(30 * time.Minute)
			p.mustMissNothingInSilence(2, live...)
		})
	})
}

// TestOneOddRecordOrResponseKeepsNoOtherWaiting lets some insertions answer with what is of no use
// while others get contact requests.
func TestOneOddRecordOrResponseKeepsNoOtherWaiting(t *testing.T) {
	forms := map[string]fieldReply{
		"an empty object":    {body: `{}`},
		"an error":           {body: `{"error":{"code":"INTERNAL","message":"try again later"}}`},
		"HTML":               {body: "<html><body>Back soon</body></html>"},
		"500":                {status: 500, body: `{"message":"internal error"}`},
		"400":                {status: 400, body: `{"message":"bad request"}`},
		"422":                {status: 422, body: `{"message":"unknown property"}`},
		"a cut body":         {body: `{"contactRequests":[{"id":"r-1","crea`},
		"text":               {body: `no contact requests`},
		"empty and an error": {body: `{"contactRequests":[],"code":"LIMIT_EXCEEDED","message":"too many calls"}`},
	}
	eachForm(t, forms, func(t *testing.T, form fieldReply) {
		inField(t, flatsNamed(30), func(w *world, p *portal) {
			odd := map[string]bool{}
			for _, flat := range p.flats[4:7] {
				odd[flat] = true
			}
			p.respond = func(flat string, _ int, records []string) fieldReply {
				if odd[flat] {
					return form
				}
				return fill(`{"contactRequests":[$records]}`, records)
			}
			for _, flat := range p.flats[:20] {
				p.add(flat, 20*24*time.Hour)
			}
			w.start()
			w.pass(5 * time.Minute)
			live := []*fieldLead{p.add(p.flats[0], 0), p.add(p.flats[29], 0)}
			w.pass(2 * time.Minute)
			p.mustAnnounce(live...)
			for n := range 5 {
				live = append(live, p.add(p.flats[10+n], 0))
			}
			w.pass(2 * time.Minute)
			p.mustAnnounce(live...)
			p.mustCount(events.TypeAccessHalted, 0)
		})
	})
}
