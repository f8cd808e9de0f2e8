package poller_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// orders are what services make of sortBy and sortOrder.
var orders = map[string]func() func(url.Values, []*fieldLead){
	"as asked":     func() func(url.Values, []*fieldLead) { return asAsked },
	"newest first": func() func(url.Values, []*fieldLead) { return func(url.Values, []*fieldLead) {} },
	"oldest first": func() func(url.Values, []*fieldLead) { return func(_ url.Values, l []*fieldLead) { slices.Reverse(l) } },
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
	"by time only": func() func(url.Values, []*fieldLead) {
		return func(q url.Values, l []*fieldLead) {
			if q.Get("sortBy") == "createdAt" {
				asAsked(q, l)
			}
		}
	},
}

// services are habits of services of contact requests.
var services = map[string]func(*portal){
	"honest":                    func(*portal) {},
	"honest with totals":        func(p *portal) { p.respond = counted(all) },
	"capped at 50":              func(p *portal) { p.most = 50 },
	"capped at 20":              func(p *portal) { p.most = 20 },
	"capped at 20, with totals": func(p *portal) { p.most, p.respond = 20, counted(all) },
	"capped at 7":               func(p *portal) { p.most = 7 },
	"capped at 7, total of page": func(p *portal) {
		p.most, p.respond = 7, counted(func(_, shown int) int { return shown })
	},
	"refuses above 50":                         func(p *portal) { p.refuse = sizes(func(n int) bool { return n > 50 }, 400) },
	"refuses above 10":                         func(p *portal) { p.refuse = sizes(func(n int) bool { return n > 10 }, 400) },
	"refuses any number":                       func(p *portal) { p.refuse = sizes(func(n int) bool { return n > 0 }, 400) },
	"total of something else":                  func(p *portal) { n := 0; p.respond = counted(func(int, int) int { n += 3; return n }) },
	"total of the page":                        func(p *portal) { p.respond = counted(func(_, shown int) int { return shown }) },
	"oldest first":                             func(p *portal) { p.order = orders["oldest first"]() },
	"oldest first, capped 20":                  func(p *portal) { p.most, p.order = 20, orders["oldest first"]() },
	"by score":                                 func(p *portal) { p.order = orders["by score"]() },
	"random":                                   func(p *portal) { p.order = orders["in no order"]() },
	"random, capped at 20":                     func(p *portal) { p.most, p.order = 20, orders["in no order"]() },
	"takes no order but its own":               func(p *portal) { p.refuse = otherOrders(http.StatusUnprocessableEntity) },
	"takes no order but its own, capped at 20": func(p *portal) { p.most, p.refuse = 20, otherOrders(http.StatusBadRequest) },
	"times unreadable":                         func(p *portal) { p.write = member("createdAt", func(*fieldLead) any { return "kürzlich" }) },
	"no zone":                                  func(p *portal) { p.write = written("Europe/Zurich", "2006-01-02T15:04:05", 0) },
	"hours ahead":                              func(p *portal) { p.write = written("UTC", time.RFC3339Nano, 3*time.Hour) },
	"behind":                                   func(p *portal) { p.write = written("UTC", time.RFC3339Nano, -30*time.Minute) },
	"whole minutes":                            func(p *portal) { p.write = written("UTC", "2006-01-02T15:04Z07:00", 0) },
	"one in the future": func(p *portal) { // the first of the live ones, which therefore always comes first
		future := func(l *fieldLead) bool { return l.id == "r-1034" }
		p.write = func(_ string, l *fieldLead, record object) {
			if future(l) {
				record["createdAt"] = "2099-01-01T00:00:00Z"
			}
		}
		p.order = func(q url.Values, list []*fieldLead) {
			if n := slices.IndexFunc(list, future); n >= 0 && q.Get("sortBy") == "createdAt" {
				l := list[n]
				copy(list[1:], list[:n])
				list[0] = l
			}
			if q.Get("sortBy") == "score" || q.Get("sortOrder") == "asc" {
				asAsked(url.Values{"sortBy": q["sortBy"]}, list)
				if q.Get("sortOrder") == "asc" {
					slices.Reverse(list)
				}
			}
		}
	},
}

func all(all, _ int) int { return all }

// counted writes contact requests beside a total.
func counted(total func(all, shown int) int) func(string, int, []string) fieldReply {
	return func(_ string, all int, records []string) fieldReply {
		return fill(fmt.Sprintf(`{"items":[$records],"totalNumberOfItems":%d}`, total(all, len(records))), records)
	}
}

// otherOrders refuses all but the newest first.
func otherOrders(status int) func(string, url.Values) *fieldReply {
	return func(_ string, q url.Values) *fieldReply {
		if q.Get("sortOrder") == "desc" && q.Get("sortBy") == "createdAt" {
			return nil
		}
		return &fieldReply{status: status}
	}
}

// sizes refuses numbers of contact requests; 0 is none.
func sizes(refused func(int) bool, status int) func(string, url.Values) *fieldReply {
	return func(_ string, q url.Values) *fieldReply {
		if !refused(queried(q, "numberOfItemsPerPage")) {
			return nil
		}
		return &fieldReply{status: status, body: `{"message":"bad request"}`}
	}
}

func written(zone, layout string, ahead time.Duration) edit {
	z, _ := time.LoadLocation(zone)
	return member("createdAt", func(l *fieldLead) any { return l.at.Add(ahead).In(z).Format(layout) })
}

// perPoll is how many requests a poll took on average since a moment.
func (p *portal) perPoll(since time.Time) float64 {
	polls, requests, last := 0, 0, map[string]time.Time{}
	p.change(func() {
		for _, q := range p.questions {
			if q.at.Before(since) {
				continue
			}
			requests++
			if q.at.Sub(last[q.flat]) > 30*time.Second {
				polls++
			}
			last[q.flat] = q.at
		}
	})
	return float64(requests) / float64(max(1, polls))
}

func TestNoServiceSilentlyLosesALeadOrIsPolledWithoutResult(t *testing.T) {
	for n, name := range slices.Sorted(maps.Keys(services)) {
		if raced && n%8 != 0 || !raced && !inRound(n) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			inField(t, flatsNamed(2), func(w *world, p *portal) {
				p.step, p.layout = time.Millisecond, milliseconds
				services[name](p)
				p.addMany(aFlat, 30, 10*24*time.Hour)
				p.addMany(p.flats[1], 3, 10*24*time.Hour)
				w.options.PollInterval, w.options.WalkInterval = 10*time.Minute, 2*time.Hour
				w.start()
				w.pass(2 * time.Hour)
				live := p.addMany(aFlat, 1, 0)
				live = append(live, p.addMany(p.flats[1], 2, 0)...)
				w.pass(2*time.Hour + time.Second)
				live = append(live, p.addMany(aFlat, 45, 0)...)
				w.pass(time.Hour)
				p.mustMissNothingInSilence(2, live...)
				live = append(live, p.add(aFlat, 150*time.Minute)) // late: sorts below the 45
				w.pass(26 * time.Hour)
				// A total of something else is looked for after waits that double and are jittered,
				// again after each find: it settles.
				settles := func(when string) {
					t.Helper()
					perPoll := 0.0
					for range 4 {
						began := time.Now()
						w.pass(7 * time.Hour)
						if perPoll = p.perPoll(began); perPoll <= 1.03 {
							return
						}
						if name != "total of something else" {
							break
						}
					}
					t.Errorf("%.2f requests a poll without news, %s", perPoll, when)
				}
				settles("in the first process")
				w.restart()
				w.pass(30 * time.Minute)
				settles("after a restart")
				live = append(live, p.addMany(aFlat, 2, 0)...)
				w.restart()
				w.pass(time.Hour)
				p.mustMissNothingInSilence(2, live...)
			})
		})
	}
}

func TestOneGapReportsExactlyWhatIsMissedOfAFlood(t *testing.T) {
	for i, n := range []int{49, 50, 51, 99, 100, 150, 500} {
		for j, c := range []struct {
			known  int
			totals bool
		}{{1, false}, {1, true}, {400, false}, {400, true}} {
			if raced && n != 150 || !raced && !inRound(j+3*i) { // each number of leads once in a round
				continue
			}
			t.Run(fmt.Sprintf("%d after %d, totals %t", n, c.known, c.totals), func(t *testing.T) {
				inField(t, flatsNamed(1), func(w *world, p *portal) {
					p.step, p.layout, p.most = time.Millisecond, milliseconds, 50
					if c.totals {
						p.respond = counted(all)
					}
					p.addMany(aFlat, c.known, 10*24*time.Hour)
					w.start()
					w.pass(20 * time.Minute)
					began := time.Now()
					live := p.addMany(aFlat, n, 0)
					w.passTwice(30 * time.Minute)
					p.mustMissNothingInSilence(1, live...)
					gaps := gapsOf(p.log())
					if n < 50 && len(gaps) != 0 || n >= 150 && len(gaps) != 1 {
						t.Fatalf("gaps: %v", gaps)
					}
					if len(gaps) > 0 {
						p.judgeGap(gaps[0], live, began, c.known+n, c.totals)
					}
				})
			})
		}
	}
}

func gapsOf(list []told) (gaps []told) {
	for _, e := range list {
		if e.Type == events.TypeWatchGapDetected {
			gaps = append(gaps, e)
		}
	}
	return gaps
}

func (p *portal) judgeGap(gap told, live []*fieldLead, began time.Time, all int, totals bool) {
	p.w.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	reached, orders := 0, map[string]bool{}
	for _, l := range p.leads[aFlat] {
		if l.shown {
			reached++
		}
	}
	for _, q := range p.questions {
		if q.at.After(began) {
			orders[q.order] = true
		}
	}
	if len(orders) != 4 {
		p.w.t.Errorf("asked in %d orders, of 4 documented", len(orders))
	}
	if got := int(gap.body["reached"].(float64)); got > reached || got < 50 || gap.body["reason"] != "window_full" {
		p.w.t.Errorf("%v reached %d, of %d that were ever shown", gap.body["reason"], got, reached)
	}
	if total, ok := gap.body["total"]; totals != ok || ok && total != float64(all) {
		p.w.t.Errorf("total: %v, want %d", total, all)
	}
	from, _ := time.Parse(time.RFC3339, fmt.Sprint(gap.body["from"]))
	to, _ := time.Parse(time.RFC3339, fmt.Sprint(gap.body["to"]))
	for _, l := range live {
		if !l.shown && (l.at.Before(from) || l.at.After(to.Add(time.Millisecond))) {
			p.w.t.Fatalf("unseen at %s, the gap is from %s to %s", l.at, from, to)
		}
	}
	if from.After(to) || to.After(began.Add(time.Second)) {
		p.w.t.Errorf("gap from %s to %s, the flood ended at %s", from, to, began)
	}
}

func TestNoFailureOrKillInACatchUpLosesALead(t *testing.T) {
	ways := map[string]sandbox.Fault{
		"times out": {Delay: 2 * time.Minute}, "fails": {Status: 500}, "is cut": {Cut: 0.7}, "hangs up": {Cut: -1},
	}
	for n, way := range slices.Sorted(maps.Keys(ways)) {
		for _, most := range []int{0, 100} {
			for k := 1; k <= 8; k++ {
				if raced && k%8 != 1 || !raced && !inRound(k+n+most/50) {
					continue
				}
				t.Run(fmt.Sprintf("request %d of a service with cap %d %s", k, most, way), func(t *testing.T) {
					inField(t, flatsNamed(1), func(w *world, p *portal) { failInCatchUp(w, p, most, k, ways[way]) })
				})
			}
		}
	}
}

// failInCatchUp makes the k-th request of a catch-up fail, and kills the process then.
func failInCatchUp(w *world, p *portal, most, k int, fault sandbox.Fault) {
	p.step, p.layout, p.most = time.Millisecond, milliseconds, most
	p.addMany(aFlat, 30, 10*24*time.Hour)
	w.start()
	w.pass(3 * time.Minute)
	calls, failed := 0, make(chan struct{}, 1)
	p.change(func() {
		p.refuse = func(string, url.Values) *fieldReply {
			if calls++; calls != k {
				return nil
			}
			failed <- struct{}{}
			return &fieldReply{
				status: fault.Status, body: fmt.Sprintf(`{"items":[%400s`, " "), delay: fault.Delay, cut: fault.Cut,
			}
		}
	})
	live := p.addMany(aFlat, 260, 0)
	killed := false
	for range 40 { // something arrives all the time
		w.pass(3 * time.Second)
		live = append(live, p.add(aFlat, 0))
		select {
		case <-failed:
			w.restart()
			killed = true
		default:
		}
	}
	w.pass(15 * time.Minute)
	if !killed && k < 6 {
		w.t.Error("the fault did not strike")
	}
	p.mustMissNothingInSilence(1, live...)
	if most == 0 {
		p.mustAnnounce(live...)
	}
}

func TestAReplicaThatIsBehindClosesNoWindow(t *testing.T) {
	inField(t, flatsNamed(1), func(w *world, p *portal) {
		p.step, p.layout = time.Millisecond, milliseconds
		known := p.addMany(aFlat, 99, 10*24*time.Hour)
		behind := 0
		p.order = func(q url.Values, list []*fieldLead) {
			asAsked(q, list)
			if behind--; behind == 0 { // the second response of the catch-up is from before the flood
				slices.SortStableFunc(list, func(a, b *fieldLead) int {
					return map[bool]int{true: -1}[slices.Contains(known, a)] - map[bool]int{true: -1}[slices.Contains(known, b)]
				})
			}
		}
		w.start()
		w.pass(20 * time.Minute)
		p.change(func() { behind = 2 })
		live := p.addMany(aFlat, 70, 0)
		w.pass(30 * time.Minute)
		p.mustAnnounce(live...)
	})
}

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

// flood is a burst of contact requests at a service that shows less than there is.
type flood struct {
	order        string
	known, leads int
	before, cap  int    // how many are shown, at first and once the leads come; 0: all
	body         string // default without a total
	young        bool   // the insertion is new
	announced    int    // 0: whatever was shown
}

const (
	plain, ofPage, ofAll = `{"contactRequests":[$records]}`, `{"total":$n,"contactRequests":[$records]}`, `{"total":$all,"contactRequests":[$records]}`
	ofCap                = `{"contactRequests":[$records],"totalElements":$cap,"totalPages":1}`
)

var floods = map[string]flood{
	"new flat, newest first":              {order: "newest first", known: 3, before: 50, cap: 50, leads: 120, young: true, announced: 50},
	"new flat, newest first, of the page": {order: "newest first", known: 3, before: 50, cap: 50, leads: 120, young: true, announced: 50, body: ofPage},
	"new flat, newest first, total":       {order: "newest first", known: 3, before: 50, cap: 50, leads: 120, young: true, announced: 50, body: ofAll},
	"new flat, newest first, of the cap":  {order: "newest first", known: 3, before: 50, cap: 50, leads: 120, young: true, announced: 50, body: ofCap},
	"new flat, oldest first":              {order: "oldest first", known: 3, before: 50, cap: 50, leads: 120, young: true, announced: 50},
	"new flat, as asked":                  {order: "as asked", known: 3, before: 50, cap: 50, leads: 120, young: true},
	"new flat, as asked, total of page":   {order: "as asked", known: 3, before: 50, cap: 50, leads: 120, young: true, body: ofPage},
	"new flat, by time only":              {order: "by time only", known: 3, before: 50, cap: 50, leads: 120, young: true, announced: 100},
	"oldest first, a cap above the known": {order: "oldest first", known: 8, cap: 25, leads: 30},
	"oldest first, a cap far above":       {order: "oldest first", known: 9, cap: 40, leads: 70},
	"in no order, a cap above the known":  {order: "in no order", known: 1, cap: 20, leads: 30},
	"by score, a cap above the known":     {order: "by score", known: 2, cap: 20, leads: 30},
	"as asked, one more than the cap":     {order: "as asked", known: 60, cap: 20, leads: 21},
	"as asked, twice the cap":             {order: "as asked", known: 60, cap: 20, leads: 41},
	"as asked, much more":                 {order: "as asked", known: 60, cap: 20, leads: 90},
	"as asked, few are known":             {order: "as asked", known: 1, cap: 20, leads: 45},
	"as asked, none is known":             {order: "as asked", known: 0, cap: 20, leads: 45},
	"newest first, more than the cap":     {order: "newest first", known: 60, cap: 20, leads: 21},
	"newest first, few are known":         {order: "newest first", known: 2, cap: 20, leads: 30},
	"newest first, none is known":         {order: "newest first", known: 0, cap: 50, leads: 51},
	"newest first, exactly the cap":       {order: "newest first", known: 60, cap: 20, leads: 20},
	"newest first, fewer than the cap":    {order: "newest first", known: 60, cap: 20, leads: 19},
	"oldest first, a lowered cap":         {order: "oldest first", known: 60, cap: 50, leads: 5},
	"oldest first, a cap at the known":    {order: "oldest first", known: 20, cap: 20, leads: 1},
	"a cap below ten":                     {order: "newest first", known: 8, cap: 7, leads: 9},
}

// TestAFloodAtAServiceThatShowsLessHidesNoLeadSilently adds contact requests beyond a cap, which
// the service applies in any order, or lowers meanwhile.
func TestAFloodAtAServiceThatShowsLessHidesNoLeadSilently(t *testing.T) {
	forms := maps.Clone(floods)
	for _, order := range []string{"oldest first", "by score", "in no order", "asc and desc confused"} {
		for counts, body := range map[string]string{"": plain, ", total of the page": ofPage, ", total": ofAll} {
			for _, known := range []int{30, 50} { // and then the fifty-first
				forms[fmt.Sprintf("%s%s, %d known", order, counts, known)] = flood{
					order: order, known: known, leads: 51 - known, before: 50, cap: 50, body: body,
				}
			}
		}
	}
	inEachField(t, flatsNamed(2), forms, func(w *world, p *portal, form flood) {
		w.pass(12 * time.Hour)
		p.order, p.most, p.respond = orders[form.order](), form.before, inBody(cmp.Or(form.body, plain))
		p.addMany(aFlat, form.known, 20*24*time.Hour)
		p.addMany(p.flats[1], 90, 20*24*time.Hour)
		w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 10*time.Minute
		w.start()
		w.pass(20 * time.Minute)
		flat := aFlat
		p.change(func() {
			if p.most = form.cap; form.young {
				flat = "a100#03##"
				p.flats = append(p.flats, flat)
			}
		})
		live := p.addMany(flat, form.leads, 0)
		w.pass(30 * time.Minute)
		p.mustMissNothingInSilence(2, live...)
		if n := len(p.created()); form.announced > 0 && n != form.announced {
			w.t.Errorf("%d are announced, want %d", n, form.announced)
		}
		live = append(live, p.add(flat, 0))
		w.restart()
		w.pass(30 * time.Minute)
		p.mustMissNothingInSilence(2, live...)
	})
}

// inBody responds with contact requests in this form.
func inBody(form string) func(string, int, []string) fieldReply {
	return func(_ string, all int, records []string) fieldReply {
		return fill(strings.NewReplacer("$all", strconv.Itoa(all), "$cap", strconv.Itoa(min(all, 50))).Replace(form), records)
	}
}

// TestABurstThatIsShownWholeIsNoGapAndClosesItsWindow is of services that show everything that they
// are asked for: of first contact requests at an insertion, and of those that no order tells apart.
func TestABurstThatIsShownWholeIsNoGapAndClosesItsWindow(t *testing.T) {
	type form struct {
		leads, old int // old ones are known before, of one second long ago
		step       time.Duration
		layout     string // default RFC 3339
		body       string // default without a total
		young      bool   // the insertion is new
	}
	const minutes = "2006-01-02T15:04Z07:00"
	forms := map[string]form{
		"two, and a total":              {leads: 2, body: ofAll},
		"two, without a total":          {leads: 2},
		"two, of three in all":          {leads: 2, old: 1, body: ofAll},
		"two, and pages":                {leads: 2, body: `{"items":[$records],"page":1,"totalPages":1,"totalNumberOfItems":$n}`},
		"three in a minute":             {leads: 3, step: 7 * time.Second, layout: minutes, body: ofPage},
		"nine, without a total":         {leads: 9},
		"thirty, and a total":           {leads: 30, old: 4, body: ofAll},
		"thirty, without a total":       {leads: 30, old: 4, body: `[$records]`},
		"two in each second":            {leads: 24, old: 2, step: 500 * time.Millisecond},
		"eleven old ones of one second": {leads: 1, old: 11},
	}
	for _, n := range []int{2, 9, 12, 25, 99, 100, 130, 420} {
		forms[fmt.Sprintf("%d", n)] = form{leads: n, step: time.Second}
		forms[fmt.Sprintf("%d, a new insertion", n)] = form{leads: n, step: time.Second, young: true}
	}
	for _, n := range []int{12, 60, 130} {
		forms[fmt.Sprintf("%d, total", n)] = form{leads: n, step: time.Second, body: ofAll}
		forms[fmt.Sprintf("%d, an array", n)] = form{leads: n, step: time.Second, body: `[$records]`}
		forms[fmt.Sprintf("%d, pages of size", n)] = form{leads: n, step: time.Second, body: `{"page":1,"size":100,"content":[$records]}`}
	}
	inEachField(t, flatsNamed(1), forms, func(w *world, p *portal, form form) {
		w.pass(12 * time.Hour)
		p.respond, p.layout = inBody(cmp.Or(form.body, plain)), cmp.Or(form.layout, time.RFC3339)
		for range form.old {
			p.add(aFlat, 20*24*time.Hour)
		}
		flat := aFlat
		w.options.PollInterval, w.options.WalkInterval = 2*time.Minute, 4*time.Minute
		w.start()
		w.pass(10 * time.Minute)
		if form.young {
			flat = "a100#02##"
			p.change(func() { p.flats = append(p.flats, flat) })
		}
		var live []*fieldLead
		for n := range form.leads {
			live = append(live, p.add(flat, time.Duration(form.leads-1-n)*form.step))
		}
		w.pass(16 * time.Minute)
		p.mustAnnounce(live...)
		p.mustBeCalm()
		began := time.Now()
		w.pass(20 * time.Minute)
		if n := p.asked(flat, began); n > 12 {
			w.t.Errorf("%d requests for 10 polls without news", n)
		}
	})
}

// TestAQuestionThatShowsNothingBesideOneThatShowedSomeIsAskedAgain makes the further questions of a
// catch-up return nothing for a while, as a service does that fails occasionally.
func TestAQuestionThatShowsNothingBesideOneThatShowedSomeIsAskedAgain(t *testing.T) {
	type form struct {
		reply fieldReply
		times int // catch-ups in a row
		gaps  int
	}
	forms := map[string]form{
		"null, once":        {fieldReply{body: `null`}, 1, 0},
		"an empty list":     {fieldReply{body: `{"contactRequests":[]}`}, 1, 0},
		"404, three times":  {fieldReply{status: 404, body: `{"message":"not found"}`}, 3, 0},
		"nothing, for ever": {fieldReply{body: `[]`}, 1000, 1},
	}
	inEachField(t, flatsNamed(1), forms, func(w *world, p *portal, form form) {
		w.options.PollInterval = 2 * time.Minute
		w.start()
		w.pass(10 * time.Minute)
		began := 0
		p.change(func() {
			p.refuse = func(_ string, q url.Values) *fieldReply {
				if q.Get("sortOrder") == "desc" && queried(q, "numberOfItemsPerPage") == 100 {
					began++
					return nil
				}
				if began > form.times {
					return nil
				}
				return &form.reply
			}
		})
		live := p.addMany(aFlat, 48, 0)
		w.pass(30 * time.Minute)
		p.mustAnnounce(live...)
		p.mustCount(events.TypeWatchGapDetected, form.gaps)
	})
}
