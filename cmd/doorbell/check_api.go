package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// api asks for access of every agency, and learns of the answers of one.
func (c *checker) api(ctx context.Context) error {
	if err := c.newAsker(); err != nil {
		c.report.refuse(sectionConfig, configError(err, ""))
		return nil
	}
	most := mostAsked
	if c.report.DaemonRunning {
		c.accessOfDaemon()
		c.listOne(ctx)
		most = politeRequests - 1
	} else {
		c.accessOfAll(ctx)
	}
	if c.best != nil {
		defer c.best.stop()
	}
	if c.best != nil && ctx.Err() == nil {
		c.report.Learned = c.asker.learn(ctx, c.best, most)
		c.learned(c.best)
	}
	c.answered()
	c.budget()
	return ctx.Err()
}

// accessOfDaemon takes what the daemon knows. Nothing is asked twice.
func (c *checker) accessOfDaemon() {
	for _, a := range c.config.Agencies {
		seen := c.agencyOfDaemon(a.ID)
		found := checkedAgency{AgencyID: a.ID, Access: accessNotAsked, Insertions: -1}
		switch {
		case seen == nil:
			c.note(levelWarn, found, "not watched by the daemon", "restart it to watch another agency")
		case len(seen.Halts) > 0:
			found.Access, found.Insertions = accessHalted, seen.Insertions
			h := seen.Halts[0]
			found.Status, found.ProbableReason = h.Status, h.ProbableReason
			c.note(levelFail, found, haltText(string(h.Scope), h.Status, h.ProbableReason), h.Advice)
		case seen.LastGoodAnswer.IsZero():
			c.note(levelWarn, found, "has not answered the daemon yet", "wait, and see `doorbell status`")
		default:
			found.Access, found.Insertions = accessOK, seen.Insertions
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
	c.access()
}

func haltText(scope string, status int, reason string) string {
	return fmt.Sprintf("halted (%s): status %d, %s; nothing was asked", scope, status, probably(reason))
}

// probably puts the reason of a refusal into words.
func probably(reason string) string {
	if reason == "unknown" {
		return "reason unknown"
	}
	return "probably " + reason
}

// notes are findings about agencies; those that say the same share a line.
type notes struct {
	level, text, remedy string
	agencies            []checkedAgency
}

func (c *checker) note(level string, a checkedAgency, text, remedy string) {
	for _, n := range c.notes {
		if n.level == level && n.text == text {
			n.agencies = append(n.agencies, a)
			return
		}
	}
	c.notes = append(c.notes, &notes{level, text, remedy, []checkedAgency{a}})
}

// listOne asks for the first agency that the daemon finds well, if there is room in the budget for both.
func (c *checker) listOne(ctx context.Context) {
	for i, a := range c.config.Agencies {
		seen := c.agencyOfDaemon(a.ID)
		if c.report.Agencies[i].Access != accessOK || seen.State == "backing_off" {
			continue
		}
		if !c.room(ctx) {
			c.report.ok(sectionDaemon, "it needs the budget for itself; nothing more is asked of the API")
			return
		}
		c.report.ok(sectionDaemon, "there is room in its budget: at most %d requests, one a second", politeRequests)
		l, _ := c.list(ctx, a.ID)
		if l.err == nil {
			c.keep(l)
			return
		}
		f, found := failureOf(l.err), &c.report.Agencies[i]
		found.Access, found.Status = accessFailed, f.status
		if f.class == watch.ClassRefused {
			found.Access = accessRefused
		}
		c.report.fail(sectionAPI, fmt.Sprintf("%s: %s", a.ID, f.text), "the daemon had good answers: is its key another one? See `doorbell status`")
		return
	}
}

// list asks for the list of an agency as run would: where a key is refused, with the other one, if it was not refused before.
func (c *checker) list(ctx context.Context, agencyID string) (l *pausedWalk, other bool) {
	access := c.keys[agencyID]
	l = c.asker.list(ctx, agencyID, access.Key, access.Dialects)
	if failureOf(l.err).class != watch.ClassRefused || access.Next.IsZero() {
		return l, false
	}
	return c.asker.list(ctx, agencyID, access.Next, access.Dialects), true
}

// refusal is an agency that was refused.
type refusal struct {
	agency int // index
	err    *listings.StatusError
}

// accessOfAll asks once for the list of every agency. A key that needs patience and a base URL at which nobody answers are
// not asked again; a halt is not either.
func (c *checker) accessOfAll(ctx context.Context) {
	busy, down := map[string]bool{}, false
	var refused []refusal
	c.announce()
	for i, a := range c.config.Agencies {
		found := checkedAgency{AgencyID: a.ID, Access: accessNotAsked, Insertions: -1}
		access := c.keys[a.ID]
		key := access.Key.Fingerprint()
		if halt := access.Halt; halt != nil {
			found.Access, found.Status, found.ProbableReason = accessHalted, halt.Status, halt.ProbableReason
			c.note(levelFail, found, haltText(string(halt.Scope), halt.Status, halt.ProbableReason), halt.Advice)
		} else if !busy[key] && !down && ctx.Err() == nil {
			l, other := c.list(ctx, a.ID)
			f := c.judge(&found, l)
			if other && l.err == nil {
				c.note(levelWarn, found, "one key is refused, the other one works; run would go on with that", "`doorbell keys verify` compares both")
			}
			busy[key], down = busy[key] || f.class == watch.ClassBusy, f.class == watch.ClassDown
			var status *listings.StatusError
			if f.class == watch.ClassRefused && errors.As(l.err, &status) {
				refused = append(refused, refusal{i, status})
			}
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
	c.refused(refused)
	c.access()
}

// announce warns of a long wait.
func (c *checker) announce() {
	n := len(c.config.Agencies) + mostAsked - 1 // and one for each refused key of a pair
	long := time.Duration(float64(n) / c.config.Poll.RequestsPerSecond * float64(time.Second))
	if long > 5*time.Second {
		fmt.Fprintf(c.p.stderr, "doorbell: asking at most %d times, %g a second; this may take %s\n", n, c.config.Poll.RequestsPerSecond, rounded(long))
	}
}

// judge notes what the first answer says of an agency.
func (c *checker) judge(found *checkedAgency, l *pausedWalk) (f failure) {
	if l.err == nil {
		found.Access, found.Status = accessOK, 200
		found.Insertions, found.AtLeast = max(l.records(), l.page.Total), l.mayHoldMore() && l.page.Total < 0
		c.keep(l)
		return f
	}
	f = failureOf(l.err)
	found.Access, found.Status = accessFailed, f.status
	switch {
	case f.class == watch.ClassRefused:
		found.Access = accessRefused
	case f.class == watch.ClassDown && strings.Contains(f.text, "HTTPS_PROXY"):
		c.report.fail(sectionAPI, f.text, "is HTTPS_PROXY right, and does the proxy run? NO_PROXY names hosts that are asked without it")
	case f.class == watch.ClassDown:
		c.report.fail(sectionAPI, fmt.Sprintf("%s: %s", c.config.Poll.BaseURL.masked(), f.text), "is DOORBELL_BASE_URL right? If so, look at DNS, network, proxy and certificates")
	case f.class == watch.ClassBusy:
		c.note(levelFail, *found, f.text, "the API asks for patience: try again later, with a lower DOORBELL_REQUESTS_PER_SECOND")
	case f.status/100 == 2, f.status/100 == 3, f.status == 404:
		c.note(levelFail, *found, f.text, "is DOORBELL_BASE_URL the API's own? It is what stands before /insertion-funnel/…; a login page or gateway may stand in between. If the records stand in an odd place, name it in DOORBELL_RECORDS_PATH")
	default:
		c.note(levelFail, *found, f.text, "run would try again; if it stays so, ask the provider")
	}
	return f
}

// mostShown is how many agencies have a line of their own.
const mostShown = 6

// access says who is admitted, and then who is not.
func (c *checker) access() {
	var ok, skipped []checkedAgency
	all := checkedAgency{}
	for _, a := range c.report.Agencies {
		switch a.Access {
		case accessOK:
			ok = append(ok, a)
			all.Insertions += a.Insertions
			all.AtLeast = all.AtLeast || a.AtLeast
		case accessNotAsked:
			skipped = append(skipped, a)
		}
	}
	if len(ok) > mostShown {
		c.report.ok(sectionAPI, "%s: access, %s", agenciesText(len(ok)), all.holds())
		ok = nil
	}
	for _, a := range ok {
		if a.Insertions == 0 {
			c.report.warn(sectionAPI, a.AgencyID+": access, but no insertion", "right if none is published, or none fits DOORBELL_INSERTIONS_FILTER")
			continue
		}
		c.report.ok(sectionAPI, "%s: access, %s", a.AgencyID, a.holds())
	}
	for _, n := range c.notes {
		c.report.add(checkLine{Section: sectionAPI, Level: n.level, Text: namesOf(n.agencies) + ": " + n.text, Remedy: n.remedy})
	}
	if len(skipped) > 0 && !c.report.DaemonRunning {
		c.report.warn(sectionAPI, namesOf(skipped)+": not asked, because of what failed before", "")
	}
}

func (a checkedAgency) holds() string {
	if a.AtLeast {
		return "at least " + several(a.Insertions, "insertion")
	}
	return several(a.Insertions, "insertion")
}

func namesOf(list []checkedAgency) string {
	var names []string
	for _, a := range list[:min(len(list), mostShown)] {
		names = append(names, a.AgencyID)
	}
	text := strings.Join(names, ", ")
	if more := len(list) - mostShown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// refused says why, by what is known of the other agencies of the key, with the words of a halt.
func (c *checker) refused(list []refusal) {
	for _, r := range list {
		a := &c.report.Agencies[r.agency]
		reason, advice := poller.Refusal(a.AgencyID, r.err, c.others(r.agency))
		a.ProbableReason = reason
		c.note(levelFail, *a, fmt.Sprintf("access refused with status %d, %s; run would halt there", a.Status, probably(reason)), advice)
	}
}

// others counts how the other agencies of the same key fared.
func (c *checker) others(agency int) (n events.AgenciesOfKey) {
	key := c.config.Agencies[agency].Key.Fingerprint()
	for i, a := range c.report.Agencies {
		if i == agency || c.config.Agencies[i].Key.Fingerprint() != key {
			continue
		}
		switch a.Access {
		case accessOK:
			n.Working++
		case accessRefused, accessHalted:
			n.Refused++
		default:
			n.Unknown++
		}
	}
	return n
}

// keep keeps the list that shows the most; the others need not go on.
func (c *checker) keep(l *pausedWalk) {
	if c.best != nil && c.best.records() >= l.records() {
		l.stop()
		return
	}
	if c.best != nil {
		c.best.stop()
	}
	c.best = l
}
