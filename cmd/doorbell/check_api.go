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
)

// api asks for access of every agency, and learns of the answers of one.
func (c *checker) api(ctx context.Context) error {
	if err := c.newProber(); err != nil {
		c.report.refuse(sectionConfig, configError(err, ""))
		return nil
	}
	most := listings.MostProbeRequests
	if c.report.DaemonRunning {
		c.accessOfDaemon()
		c.listOne(ctx)
		most = politeRequests - 1
	} else {
		c.accessOfAll(ctx)
	}
	if best := c.best(); best != nil && ctx.Err() == nil {
		c.report.Learned = c.prober.Learn(ctx, best, most)
		c.learned(best)
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
			c.report.warn(sectionAPI, a.ID+" is not watched by the daemon", "restart it to watch another agency")
		case len(seen.Halts) > 0:
			found.Access, found.Insertions = accessHalted, seen.Insertions
			h := seen.Halts[0]
			c.report.fail(sectionAPI, fmt.Sprintf("%s is halted (%s) since %s: %d, %s", a.ID, h.Scope, h.Since.Format(time.RFC3339), h.Status, h.ProbableReason), h.Advice)
		case seen.LastGoodAnswer.IsZero():
			c.report.warn(sectionAPI, a.ID+" has not answered the daemon yet", "wait, and see `doorbell status`")
		default:
			found.Access, found.Insertions = accessOK, seen.Insertions
			c.report.ok(sectionAPI, "%s answers the daemon, %s, state %s", a.ID, several(seen.Insertions, "insertion"), seen.State)
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
}

// listOne asks for the first agency that the daemon finds well, if there is room in the budget for both.
func (c *checker) listOne(ctx context.Context) {
	for i, a := range c.config.Agencies {
		seen := c.agencyOfDaemon(a.ID)
		if c.report.Agencies[i].Access != accessOK || seen.State == "backing_off" {
			continue
		}
		if !c.room(ctx) {
			c.report.ok(sectionDaemon, "it spends the budget; nothing more is asked of the API")
			return
		}
		c.report.ok(sectionDaemon, "there is room in its budget: at most %d requests, one a second", politeRequests)
		if l := c.prober.List(ctx, listings.NewKey(a.Key.Reveal()), a.ID); l.Err == nil {
			c.listed = append(c.listed, l)
		} else {
			c.report.fail(sectionAPI, fmt.Sprintf("%s: %s", a.ID, listings.FailureOf(l.Err).Text), "the daemon was answered; is its key another one?")
		}
		return
	}
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
		key := a.Key.Fingerprint()
		if halt, halted := c.halts[a.ID][key]; halted {
			found.Access = accessHalted
			c.report.fail(sectionAPI, a.ID+" "+halt.text, halt.advice)
		} else if !busy[key] && !down && ctx.Err() == nil {
			l := c.prober.List(ctx, listings.NewKey(a.Key.Reveal()), a.ID)
			f := c.judge(&found, l)
			busy[key], down = busy[key] || f.Busy(), f.Down()
			var status *listings.StatusError
			if f.Refused() && errors.As(l.Err, &status) {
				refused = append(refused, refusal{i, status})
			}
		}
		c.report.Agencies = append(c.report.Agencies, found)
	}
	c.access()
	c.refused(refused)
}

// announce warns of a long wait.
func (c *checker) announce() {
	n := len(c.config.Agencies) + listings.MostProbeRequests - 1
	long := time.Duration(float64(n) / c.config.Poll.RequestsPerSecond * float64(time.Second))
	if long > 5*time.Second {
		fmt.Fprintf(c.p.stderr, "doorbell: asking at most %d times, %g a second; this may take %s\n", n, c.config.Poll.RequestsPerSecond, rounded(long))
	}
}

// judge notes what the first answer says of an agency.
func (c *checker) judge(found *checkedAgency, l *listings.Listed) (f listings.Failure) {
	if l.Err == nil {
		found.Access, found.Status = accessOK, 200
		found.Insertions, found.AtLeast = max(l.Records, l.Total), l.Full() && l.Total < 0
		c.listed = append(c.listed, l)
		return f
	}
	f = listings.FailureOf(l.Err)
	found.Access, found.Status = accessFailed, f.Status
	switch {
	case f.Refused():
		found.Access = accessRefused
	case f.Down():
		c.report.fail(sectionAPI, fmt.Sprintf("%s: %s", c.config.Poll.BaseURL.masked(), f.Text), "is DOORBELL_BASE_URL right? If so, look at DNS, network, proxy and certificates")
	case f.Busy():
		c.report.fail(sectionAPI, found.AgencyID+": "+f.Text, "the API asks for patience: try again later, with a lower DOORBELL_REQUESTS_PER_SECOND")
	case f.Status/100 == 2, f.Status/100 == 3, f.Status == 404:
		c.report.fail(sectionAPI, found.AgencyID+": "+f.Text, "is DOORBELL_BASE_URL the API's own? It is what stands before /insertion-funnel/…; a login page or gateway may stand in between. If the records stand in an odd place, name it in DOORBELL_RECORDS_PATH")
	default:
		c.report.fail(sectionAPI, found.AgencyID+": "+f.Text, "run would try again; if it stays so, ask the provider")
	}
	return f
}

// mostShown is how many agencies have a line of their own.
const mostShown = 6

// access says who is admitted.
func (c *checker) access() {
	var ok, skipped []checkedAgency
	total, least := 0, ""
	for _, a := range c.report.Agencies {
		switch a.Access {
		case accessOK:
			ok = append(ok, a)
			total += a.Insertions
			if a.AtLeast {
				least = "at least "
			}
		case accessNotAsked:
			skipped = append(skipped, a)
		}
	}
	if len(ok) > mostShown {
		c.report.ok(sectionAPI, "%s: access, %s%s", agenciesText(len(ok)), least, several(total, "insertion"))
		ok = nil
	}
	for _, a := range ok {
		least := ""
		if a.AtLeast {
			least = "at least "
		}
		if a.Insertions == 0 {
			c.report.warn(sectionAPI, a.AgencyID+": access, but no insertion", "right if none is published, or none fits DOORBELL_INSERTIONS_FILTER")
			continue
		}
		c.report.ok(sectionAPI, "%s: access, %s%s", a.AgencyID, least, several(a.Insertions, "insertion"))
	}
	if len(skipped) > 0 {
		c.report.warn(sectionAPI, namesOf(skipped)+": not asked, because of what failed before", "")
	}
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

// refused says why, by what is known of the other agencies of the key, with the words of a halt. Agencies with the same
// reason share a line.
func (c *checker) refused(list []refusal) {
	byReason := map[string][]checkedAgency{}
	todo := map[string]string{}
	var order []string
	for _, r := range list {
		a := &c.report.Agencies[r.agency]
		reason, advice := poller.Refusal(a.AgencyID, r.err, c.others(r.agency))
		a.ProbableReason = reason
		if todo[reason] == "" {
			order, todo[reason] = append(order, reason), advice
		}
		byReason[reason] = append(byReason[reason], *a)
	}
	for _, reason := range order {
		group := byReason[reason]
		verb := "is"
		if len(group) > 1 {
			verb = "are"
		}
		c.report.fail(sectionAPI, fmt.Sprintf("%s %s refused: status %d, probably %s; run would halt there", namesOf(group), verb, group[0].Status, reason), todo[reason])
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

// best is the agency that shows the most.
func (c *checker) best() (best *listings.Listed) {
	for _, l := range c.listed {
		if best == nil || l.Records > best.Records {
			best = l
		}
	}
	return best
}
