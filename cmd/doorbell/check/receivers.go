package check

import (
	"slices"
	"strings"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events/forward"
)

// onlyStrangers are the agencies of a receiver that is for none which is watched.
func (c *checker) onlyStrangers(f daemon.Forwarder) (names []string) {
	for _, r := range f.Routes {
		if r.Filter.Agencies == nil {
			return nil
		}
		for _, id := range r.Filter.Agencies {
			if slices.ContainsFunc(c.Config.Agencies, func(a config.Agency) bool { return a.ID == id }) {
				return nil
			}
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// receivers says where news would be brought. Nothing is sent there: that is for a person to want.
func (c *checker) receivers() {
	all, err := receivers.All(c.Config, c.Version)
	if err != nil {
		c.report.refuse(sectionReceivers, err)
		return
	}
	if len(all) == 0 {
		c.report.ok(sectionReceivers, "none is configured: events go to NATS alone")
	}
	if !c.Config.Base.PingURL.IsZero() {
		c.report.ok(sectionReceivers, "DOORBELL_PING_URL, %s, is called each minute while all is well; not tried here", c.Config.Base.PingURL.Fingerprint())
	}
	for _, f := range all {
		var to []string
		for _, r := range f.Distinct() {
			to = append(to, served(f, r.Receiver))
		}
		f.Close()
		if names := c.onlyStrangers(f); len(names) > 0 {
			c.report.warn(sectionReceivers, f.Name+" is only for agencies that are not watched, so nothing is sent there: "+forward.Filter{Agencies: names}.Whose(),
				"name a watched one in its settings, or * for all others; upper and lower case differ")
			continue
		}
		c.report.ok(sectionReceivers, "%s for %s; not tried here: doorbell forward %s --test sends a test", f.Name, strings.Join(some(to), ", "), f.Name)
	}
}

// served says what a receiver gets: "all agencies", or "leads of A100 and alerts of all agencies".
func served(f daemon.Forwarder, receiver forward.Receiver) string {
	var of []forward.Filter
	for _, r := range f.Routes {
		if r.Receiver == receiver {
			of = append(of, r.Filter)
		}
	}
	if len(of) == 1 && of[0].Only == "" || len(of) == 2 && of[0].Whose() == of[1].Whose() {
		return of[0].Whose()
	}
	var parts []string
	for _, one := range of {
		parts = append(parts, string(one.Only)+" of "+one.Whose())
	}
	return strings.Join(parts, " and ")
}

// some are the first five of a list, and how many there are more.
func some(list []string) []string {
	const most = 5
	if len(list) <= most {
		return list
	}
	return append(list[:most:most], ops.Counted(len(list)-most, "more destination"))
}
