package forward

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"doorbell/events"
)

// Kind of what a worker carries.
type Kind string

// Leads are all that happens at the listings; alerts tell how the watch itself is. They have workers of their own, so that no lead waits
// behind them.
const (
	Leads  Kind = "leads"
	Alerts Kind = "alerts"
)

func kindOf(t events.Type) Kind {
	if group, _, _ := strings.Cut(string(t), "."); group == "access" || group == "watch" {
		return Alerts
	}
	return Leads
}

// DefaultTypes is what a receiver gets where nothing else is said.
var DefaultTypes = []string{string(events.TypeContactRequestCreated), "access.>", "watch.>"}

// Filter says what a route takes. The zero value takes [DefaultTypes] of every agency.
type Filter struct {
	// Types are types of the contract, or patterns that end in ".>", such as access.> for all that begin so; nil: DefaultTypes.
	Types []string `json:"types,omitzero"`
	// Agencies are agency ids; nil: all.
	Agencies []string `json:"agencies,omitzero"`
	// Except are agencies that this route leaves to others.
	Except []string `json:"except,omitempty"`
	// MinScore is the least score of a contact request; nil: any. One whose score is missing, null or no number passes: better
	// a lead too many than one lost.
	MinScore *float64 `json:"minScore,omitempty"`
	// Only is Leads or Alerts; empty: both.
	Only Kind `json:"only,omitempty"`
}

// validPattern says whether a pattern takes any type at all.
func validPattern(pattern string) error {
	if slices.ContainsFunc(events.Types, func(t events.Type) bool { return matches(pattern, t) }) {
		return nil
	}
	return fmt.Errorf("there is no type of event %.40q; types are %s, or a pattern such as access.>", pattern, typeNames())
}

func typeNames() string {
	names := make([]string, len(events.Types))
	for i, t := range events.Types {
		names[i] = string(t)
	}
	return strings.Join(names, ", ")
}

func matches(pattern string, t events.Type) bool {
	if pattern == ">" || pattern == string(t) {
		return true
	}
	begin, wild := strings.CutSuffix(pattern, ">")
	return wild && strings.HasSuffix(begin, ".") && strings.HasPrefix(string(t), begin)
}

// validate checks what New is given.
func (f Filter) validate() error {
	for _, p := range f.Types {
		if err := validPattern(p); err != nil {
			return err
		}
	}
	if f.MinScore != nil && (math.IsNaN(*f.MinScore) || math.IsInf(*f.MinScore, 0)) {
		return fmt.Errorf("the minimum score is not a number")
	}
	if f.Only != "" && f.Only != Leads && f.Only != Alerts {
		return fmt.Errorf("%.40q is neither %s nor %s", f.Only, Leads, Alerts)
	}
	return nil
}

func (f Filter) types() []string {
	if f.Types == nil {
		return DefaultTypes
	}
	return f.Types
}

// wants says whether the filter takes an event, whatever its origin.
func (f Filter) wants(e events.Event) bool {
	return (f.Only == "" || f.Only == kindOf(e.Type)) && f.covers(e.AgencyID) && f.wantsType(e.Type) && f.wantsScore(e)
}

func (f Filter) wantsType(t events.Type) bool {
	return slices.ContainsFunc(f.types(), func(p string) bool { return matches(p, t) })
}

// covers says whether the filter takes anything of an agency.
func (f Filter) covers(agency string) bool {
	return (f.Agencies == nil || slices.Contains(f.Agencies, agency)) && !slices.Contains(f.Except, agency)
}

// meets says whether two filters take leads, or alerts, of one agency.
func (f Filter) meets(other Filter) bool {
	const anyOther = "\x00" // no agency is called so
	agencies := slices.Concat(f.Agencies, f.Except, other.Agencies, other.Except, []string{anyOther})
	both := func(k Kind) bool { return patterns([]Filter{f}, k) != nil && patterns([]Filter{other}, k) != nil }
	return slices.ContainsFunc([]Kind{Leads, Alerts}, both) &&
		slices.ContainsFunc(agencies, func(a string) bool { return f.covers(a) && other.covers(a) })
}

// Whose says of which agencies a filter takes events, as it was configured.
func (f Filter) Whose() string {
	some := func(agencies []string) string {
		const most = 5
		if len(agencies) <= most {
			return strings.Join(agencies, ", ")
		}
		return fmt.Sprintf("%s and %d more", strings.Join(agencies[:most], ", "), len(agencies)-most)
	}
	switch {
	case f.Agencies != nil:
		return some(f.Agencies)
	case len(f.Except) > 0:
		return "all but " + some(f.Except)
	}
	return "all agencies"
}

func (f Filter) wantsScore(e events.Event) bool {
	if f.MinScore == nil {
		return true
	}
	score, ok := scoreOf(e)
	return !ok || score >= *f.MinScore
}

// scoreOf is the score of a contact request, which may be a number or the text of one.
func scoreOf(e events.Event) (float64, bool) {
	var p struct {
		Score json.RawMessage `json:"score"`
	}
	if !strings.HasPrefix(string(e.Type), "contact_request.") || json.Unmarshal(e.Data, &p) != nil {
		return 0, false
	}
	text := string(p.Score)
	var s string
	if json.Unmarshal(p.Score, &s) == nil {
		text = strings.TrimSpace(s)
	}
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

// patterns are the known types of one kind that any of the filters takes, in as few patterns as possible.
func patterns(filters []Filter, k Kind) (all []string) {
	for _, group := range groups(k) {
		var some []string
		whole := true
		for _, t := range events.Types {
			if !strings.HasPrefix(string(t), group) {
				continue
			}
			wanted := slices.ContainsFunc(filters, func(f Filter) bool { return (f.Only == "" || f.Only == k) && f.wantsType(t) })
			if whole = whole && wanted; wanted {
				some = append(some, string(t))
			}
		}
		if whole {
			some = []string{group + ">"}
		}
		all = append(all, some...)
	}
	return all
}

// groups are how the types of a kind begin.
func groups(k Kind) (all []string) {
	for _, t := range events.Types {
		begin, _, _ := strings.Cut(string(t), ".")
		if begin += "."; kindOf(t) == k && !slices.Contains(all, begin) {
			all = append(all, begin)
		}
	}
	return all
}
