package ops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ClusterStatus is how a member sees the doorbells that share agencies with it.
type ClusterStatus struct {
	Name    string `json:"name"`
	Member  string `json:"member"`            // this one
	Problem string `json:"problem,omitempty"` // why it does not act
	// When what needs attention began, as far as this member knows.
	ProblemSince time.Time `json:"problemSince,omitzero"`
	DifferSince  time.Time `json:"membersDifferSince,omitzero"`
	FreeSince    time.Time `json:"permitsFreeSince,omitzero"`

	Permits   int             `json:"permits"` // there are so many, each an equal part of the ceiling
	Held      int             `json:"permitsHeld"`
	Rate      float64         `json:"requestsPerSecond"` // that this member may send, by its permits
	NewEpochs uint64          `json:"newEpochs"`         // claims, by whomever, since the start of this member
	Members   []ClusterMember `json:"members"`
	Agencies  []ClusterAgency `json:"agencies"` // those of this member's configuration
}

// ClusterMember is a doorbell that lives.
type ClusterMember struct {
	Name       string    `json:"name"`
	Host       string    `json:"host,omitempty"`
	Since      time.Time `json:"since"` // by its clock
	Permits    int       `json:"permits"`
	Agencies   int       `json:"agencies"` // that it owns
	Generation uint64    `json:"generation"`
	Digest     string    `json:"digest"` // of its configuration
	InForce    bool      `json:"inForce"`
	OtherList  bool      `json:"otherAgencies,omitempty"` // or other keys, or another DOORBELL_PEOPLE, than this member has
}

// ClusterAgency is an agency, and who polls it.
type ClusterAgency struct {
	AgencyID  string    `json:"agencyId"`
	Owner     string    `json:"owner,omitempty"` // empty: no member that lives
	Epoch     uint64    `json:"epoch"`           // counts the claims
	Since     time.Time `json:"since,omitzero"`  // when it was claimed or released
	FreeSince time.Time `json:"withoutOwnerSince,omitzero"`
}

// configuration says in what a member's configuration differs.
func (m ClusterMember) configuration() string {
	switch {
	case !m.InForce:
		return fmt.Sprintf("not in force: generation %d, %s", m.Generation, m.Digest)
	case m.OtherList:
		return "other agencies, keys or DOORBELL_PEOPLE"
	}
	return fmt.Sprintf("generation %d", m.Generation)
}

// OwnedBy says who polls an agency: a member, and where it runs.
func (c *ClusterStatus) OwnedBy(a ClusterAgency) string {
	n := slices.IndexFunc(c.Members, func(m ClusterMember) bool { return m.Name == a.Owner })
	switch {
	case a.Owner == "":
		return "no member"
	case a.Owner == c.Member:
		return a.Owner + " (this one)"
	case n < 0 || c.Members[n].Host == "":
		return a.Owner
	}
	return a.Owner + " on " + c.Members[n].Host
}

// Others are the agencies that this member does not poll.
func (c *ClusterStatus) Others() []ClusterAgency {
	if c == nil {
		return nil
	}
	return only(c.Agencies, func(a ClusterAgency) bool { return a.Owner != c.Member })
}

// Line says in one line how the cluster stands.
func (c *ClusterStatus) Line() string {
	return fmt.Sprintf("Cluster %s: %s, %d of %d permits held; this member, %s, polls %d of %s",
		c.Name, Counted(len(c.Members), "member"), c.Held, c.Permits, c.Member, len(c.Agencies)-len(c.Others()), Counted(len(c.Agencies), "agency"))
}

// ClusterLines renders members and owners for people, below what needs attention of them.
func (s Status) ClusterLines(o TextOptions) []string {
	c := s.Cluster
	members, agencies := table{}, table{}
	members.add(Bold, "MEMBER", "HOST", "UP", "PERMITS", "AGENCIES", "CONFIGURATION")
	for _, m := range c.Members {
		style, name := styleNone, m.Name
		if !m.InForce || m.OtherList {
			style = Yellow
		}
		if m.Name == c.Member {
			name += " (this one)"
		}
		members.add(style, name, m.Host, age(m.Since, s.Watch.At), strconv.Itoa(m.Permits), strconv.Itoa(m.Agencies), m.configuration())
	}
	agencies.add(Bold, "AGENCY", "OWNER", "EPOCH", "SINCE")
	for _, a := range c.Agencies {
		style, since := styleNone, ago(a.Since, s.Watch.At)
		if a.Owner == "" {
			style = Yellow
		}
		if a.Epoch == 0 {
			since = "never claimed"
		}
		agencies.add(style, a.AgencyID, c.OwnedBy(a), strconv.FormatUint(a.Epoch, 10), since)
	}
	return slices.Concat(o.wrap(c.Line(), 0), paragraphs(o, grouped(s.clusterProblems())), []string{""}, members.lines(o), []string{""}, agencies.lines(o))
}

// rollsLong is how long a rolling change of the configuration may take before that is more than passing.
const rollsLong = 10 * time.Minute

// clusterProblems are those of the cluster. While NATS is away, this member knows nothing of the others.
func (s Status) clusterProblems() (all []Problem) {
	c := s.Cluster
	if c == nil || !s.NATS.Connected {
		return nil
	}
	long := func(since time.Time, limit time.Duration) bool {
		return !since.IsZero() && s.Watch.At.Sub(since) > limit
	}
	see := Remedy{Command: "doorbell cluster"}
	if c.Problem != "" {
		all = append(all, Problem{
			Kind: "member", Key: "member", Bad: true, Passing: !long(c.ProblemSince, waitsLong), Since: c.ProblemSince, Do: see,
			Title: "This member of the cluster does not act", Text: "It polls nothing: " + stopped(c.Problem),
		})
	}
	for _, a := range c.Agencies {
		if long(a.FreeSince, waitsLong) {
			all = append(all, Problem{
				Kind: "unowned", Key: "unowned\x00" + a.AgencyID, Agency: a.AgencyID, Label: a.AgencyID, Bad: true, Since: a.FreeSince, Alike: "unowned", Do: see,
				Title: "No member owns " + a.AgencyID, Many: "No member owns %s agencies",
				Text: "It is not polled, so its leads are not seen. A member claims it as soon as it holds permits and NATS takes the claim; the logs of the members say what is in the way.",
			})
		}
	}
	if !c.DifferSince.IsZero() {
		var who []string
		for _, m := range c.Members {
			if !m.InForce || m.OtherList {
				who = append(who, m.Name+": "+m.configuration())
			}
		}
		all = append(all, Problem{
			Kind: "differ", Key: "differ", Passing: !long(c.DifferSince, rollsLong), Since: c.DifferSince, Do: see, Title: "Members of the cluster have different configurations",
			Text: "Only those poll whose configuration is in force, the one of the highest generation. " + stopped(strings.Join(who, "; ")),
		})
	}
	if long(c.FreeSince, waitsLong) {
		all = append(all, Problem{
			Kind: "permits", Key: "permits", Since: c.FreeSince, Do: see, Title: fmt.Sprintf("%d of %d permits are held by no member", c.Permits-c.Held, c.Permits),
			Text: "That part of the ceiling of requests is not used. Permits are taken by members whose configuration is in force; the logs of the members say what is in the way.",
		})
	}
	return all
}
