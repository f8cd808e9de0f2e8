package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// Kind of what a worker carries.
type Kind string

// Leads are what happens at the listings, alerts how the watch itself is. They have workers of
// their own, so that no lead waits behind an alert.
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

// DefaultTypes is what a receiver gets unless types are named.
var DefaultTypes = []string{string(events.TypeContactRequestCreated), "access.>", "watch.>"}

// Route sends the events that fit its filter to a receiver. Routes with one Line are one line of
// the table: all that fit get the event. Of several lines the first one that fits wins.
type Route struct {
	Receiver Receiver
	Filter   Filter
	Line     int
}

// Filter selects events. The zero value takes [DefaultTypes] of every agency.
type Filter struct {
	// Types are types of the contract, or patterns that end in ".>"; nil: DefaultTypes.
	Types []string `json:"types,omitzero"`
	// Agencies are agency ids; nil: all.
	Agencies []string `json:"agencies,omitzero"`
	// Except are agencies that this route leaves to others.
	Except []string `json:"except,omitempty"`
	// MinScore is the minimum score of a contact request; nil: any. One whose score is missing,
	// null or no number passes: better a lead too many than one lost.
	MinScore *float64 `json:"minScore,omitempty"`
	// Only is Leads or Alerts; empty: both.
	Only Kind `json:"only,omitempty"`
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
		if !slices.ContainsFunc(events.Types, func(t events.Type) bool { return matches(p, t) }) {
			return fmt.Errorf("there is no type of event %.40q; types are %v, or a pattern such as access.>", p, events.Types)
		}
	}
	if f.MinScore != nil && (math.IsNaN(*f.MinScore) || math.IsInf(*f.MinScore, 0)) {
		return errors.New("the minimum score is not a number")
	}
	if f.Only != "" && f.Only != Leads && f.Only != Alerts {
		return fmt.Errorf("%.40q is neither %s nor %s", f.Only, Leads, Alerts)
	}
	return nil
}

// wants reports whether the filter takes an event, whatever its origin.
func (f Filter) wants(e events.Event) bool {
	return f.wantsType(e.Type) && f.covers(e.AgencyID) && f.wantsScore(e)
}

func (f Filter) wantsType(t events.Type) bool {
	types := f.Types
	if types == nil {
		types = DefaultTypes
	}
	return (f.Only == "" || f.Only == kindOf(t)) && slices.ContainsFunc(types, func(p string) bool { return matches(p, t) })
}

func (f Filter) covers(agency string) bool {
	return (f.Agencies == nil || slices.Contains(f.Agencies, agency)) && !slices.Contains(f.Except, agency)
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

// Whose names the agencies of a filter, as they were configured.
func (f Filter) Whose() string {
	some := func(agencies []string) string {
		const shown = 5
		if len(agencies) <= shown {
			return strings.Join(agencies, ", ")
		}
		return fmt.Sprintf("%s and %d more", strings.Join(agencies[:shown], ", "), len(agencies)-shown)
	}
	switch {
	case f.Agencies != nil:
		return some(f.Agencies)
	case len(f.Except) > 0:
		return "all but " + some(f.Except)
	}
	return "all agencies"
}

// rule is a route as the file remembers it: with the name of its receiver.
type rule struct {
	To     string `json:"to"`
	Line   int    `json:"line,omitempty"`
	Filter Filter `json:"filter"`
}

// table is the rules that were in force from a moment on.
type table struct {
	From  time.Time `json:"from,omitzero"` // of the first one by the server's clock; zero: not begun
	Rules []rule    `json:"rules"`
}

func tableOf(routes []Route) (t table) {
	for _, r := range routes {
		t.Rules = append(t.Rules, rule{r.Receiver.Traits().Destination, r.Line, r.Filter})
	}
	return t
}

// to is the receivers that get an event: those of the first line that fits.
func (t table) to(e events.Event) (names []string) {
	line := 0
	for _, r := range t.Rules {
		if (len(names) == 0 || r.Line == line) && r.Filter.wants(e) && !slices.Contains(names, r.To) {
			names, line = append(names, r.To), r.Line
		}
	}
	return names
}

// same reports whether two tables have the same rules.
func (t table) same(other table) bool {
	one, err := json.Marshal(t.Rules)
	two, err2 := json.Marshal(other.Rules)
	return err == nil && err2 == nil && bytes.Equal(one, two)
}

// history is the tables of a forwarder, oldest first. The table in force when an event was recorded
// decides whose worker it is, the present one where it goes.
type history struct {
	Version int     `json:"version"`
	Name    string  `json:"name"`
	Tables  []table `json:"tables"`
}

// change puts a table into force. What the stream no longer holds needs no table any more.
func (h *history) change(now table, retention time.Duration) {
	last := len(h.Tables) - 1
	if last >= 0 && h.Tables[last].same(now) {
		return
	}
	if last < 0 || h.Tables[last].From.IsZero() { // the former one never began
		h.Tables, now.From = nil, time.Time{}
	}
	h.Tables = append(h.Tables, now)
	for retention > 0 && len(h.Tables) > 1 && h.Tables[1].From.Before(now.From.Add(-retention)) {
		h.Tables = h.Tables[1:]
	}
}

// then is the table in force when an event was recorded. Before the first one there is none, except
// for a consumer that began with it: clocks differ, so there the time of an event does not count.
func (h *history) then(e events.Event, early bool) table {
	for _, t := range slices.Backward(h.Tables) {
		if !e.RecordedTime.Before(t.From) {
			return t
		}
	}
	if early {
		return table{}
	}
	return h.Tables[0]
}

// home is where an event goes that the worker of a receiver has fetched. Nobody's: another worker
// has it, or it goes nowhere. A receiver that the present table no longer names for the event leaves
// it to the one that has come in its place: the first that has gone to the first that has come, and
// so on, the last one to all the others. Lost: it was this worker's, and the present table names no
// receiver at all.
func (h *history) home(e events.Event, receiver string, early bool) (to []string, lost bool) {
	then, now := h.then(e, early).to(e), h.Tables[len(h.Tables)-1].to(e)
	if !slices.Contains(then, receiver) {
		return nil, false
	}
	if slices.Contains(now, receiver) {
		return []string{receiver}, false
	}
	gone := slices.DeleteFunc(slices.Clone(then), func(r string) bool { return slices.Contains(now, r) })
	come := slices.DeleteFunc(slices.Clone(now), func(r string) bool { return slices.Contains(then, r) })
	at := slices.Index(gone, receiver)
	come = come[min(at, len(come)):]
	if at < len(gone)-1 {
		come = come[:min(1, len(come))]
	}
	return come, len(now) == 0
}
