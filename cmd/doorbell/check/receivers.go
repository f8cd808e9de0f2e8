package check

import (
	"slices"
	"strings"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/receivers"
)

// receivers reports where events would be brought. It sends nothing there: that is for a person to
// decide.
func (c *checker) receivers() {
	set, err := receivers.Open(c.Config, c.Version)
	if err != nil {
		c.report.refuse(sectionReceivers, err)
		return
	}
	defer set.Close()
	if set.IsEmpty() {
		c.report.ok(sectionReceivers, "none is configured: events go to NATS alone")
	}
	if !c.Config.Base.PingURL.IsZero() {
		c.report.ok(sectionReceivers, "DOORBELL_PING_URL, %s, is called each minute while all is well; not tried here", c.Config.Base.PingURL.Fingerprint())
	}
	if set.IsEmpty() {
		return
	}
	var watched, kinds []string
	for _, a := range c.Config.Agencies {
		watched = append(watched, a.ID)
	}
	for _, l := range set.Lines() {
		for _, id := range l.Filter.Agencies {
			if l.Number > 0 && !slices.Contains(watched, id) {
				c.report.warn(sectionReceivers, l.Place()+" names "+id+", which is not watched", "upper and lower case differ")
			}
		}
	}
	unsigned := func(l receivers.Line) bool {
		return l.Number > 0 && slices.ContainsFunc(l.To, receivers.Address.Unsigned)
	}
	if at := slices.IndexFunc(set.Lines(), unsigned); at >= 0 { // of a setting config warns
		c.report.warn(sectionReceivers, set.Lines()[at].Place()+" sends to a webhook without a secret: it cannot verify that events come from doorbell",
			"set DOORBELL_WEBHOOK_SECRET; this makes one: echo whsec_$(openssl rand -base64 32)")
	}
	for _, r := range set.Routes() {
		if !slices.Contains(kinds, r.Forwarder) {
			kinds = append(kinds, r.Forwarder)
		}
	}
	c.report.ok(sectionReceivers, "%s, for %s; not tried here: doorbell routes ls lists them, doorbell forward %s --test sends a test",
		ops.Counted(len(set.Distinct()), "receiver"), strings.Join(kinds, ", "), strings.Join(kinds, "|"))
	if id := set.Unserved(watched); id != "" {
		c.report.warn(sectionReceivers, "no line of the table takes all leads of "+id, "doorbell routes test "+id+" shows it; a line without conditions takes the rest")
	}
}
