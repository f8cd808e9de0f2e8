package main

import (
	"slices"
	"strings"

	"doorbell/events/forward"
)

// onlyStrangers are the agencies of an outlet that is for none which is watched.
func (c *checker) onlyStrangers(f forwarder) (names []string) {
	for _, r := range f.Routes {
		if r.Filter.Agencies == nil {
			return nil
		}
		for _, id := range r.Filter.Agencies {
			if _, watched := c.keys[id]; watched {
				return nil
			}
			names = append(names, id)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// outlets says where news would be brought. Nothing is sent there: that is for a person to want.
func (c *checker) outlets() {
	all, err := c.config.forwarders()
	if err != nil {
		c.report.refuse(sectionOutlets, err)
		return
	}
	if len(all) == 0 {
		c.report.ok(sectionOutlets, "none is configured: events go to NATS alone")
	}
	if !c.config.Base.PingURL.IsZero() {
		c.report.ok(sectionOutlets, "DOORBELL_PING_URL, %s, is called each minute while all is well; not tried here", c.config.Base.PingURL.Fingerprint())
	}
	for _, f := range all {
		var to []string
		for _, r := range f.distinct() {
			whose := r.Filter.Whose()
			both := slices.ContainsFunc(f.Routes, func(other forward.Route) bool {
				return other.Outlet == r.Outlet && other.Filter.Only != r.Filter.Only
			})
			if r.Filter.Only != "" && !both {
				whose = string(r.Filter.Only) + " of " + whose
			}
			to = append(to, whose)
		}
		f.close()
		if names := c.onlyStrangers(f); len(names) > 0 {
			c.report.warn(sectionOutlets, f.Name+" is only for agencies that are not watched, so nothing is sent there: "+forward.Filter{Agencies: names}.Whose(),
				"name a watched one in its settings, or * for all others; upper and lower case differ")
			continue
		}
		c.report.ok(sectionOutlets, "%s for %s; not tried here: doorbell forward %s --test sends a test", f.Name, strings.Join(some(to), ", "), f.Name)
	}
}

// some are the first five of a list, and how many there are more.
func some(list []string) []string {
	const most = 5
	if len(list) <= most {
		return list
	}
	return append(list[:most:most], several(len(list)-most, "more destination"))
}
