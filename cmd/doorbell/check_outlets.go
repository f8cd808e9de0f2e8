package main

import (
	"slices"
	"strings"

	"doorbell/events/forward"
)

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
