package forward

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// DefaultTypes are the types that a filter takes unless it names some.
var DefaultTypes = []string{string(events.TypeContactRequestCreated), "access.>", "watch.>"}

// Route sends the events that fit its filter to a receiver. Routes with the same Line are one line
// of the table: each of them that fits gets the event. Of a forwarder's lines the first that fits
// wins.
type Route struct {
	Receiver Receiver
	Filter   Filter
	Line     int
	// Forwarder is the name of a forwarder, such as slack; default Options.Name. It is part of the
	// names of consumers and of the subjects of dead letters.
	Forwarder string
}

// key identifies a receiver among those of all forwarders.
func (r Route) key() string { return r.Forwarder + "." + r.Receiver.Traits().Destination }

// Filter selects events. The zero value takes [DefaultTypes] of every agency. An event without a
// value that the filter asks for does not fit: one without a postal code fits no filter that names
// some.
type Filter struct {
	// Types are types of the contract, or patterns that end in ".>"; nil: DefaultTypes.
	Types []string `json:"types,omitzero"`
	// Agencies are agency ids; nil: all.
	Agencies []string `json:"agencies,omitzero"`
	// Except are agencies that the filter leaves to other routes.
	Except []string `json:"except,omitempty"`
	// Reference is a pattern in which * matches any text and ? one character; empty: any reference.
	Reference   string   `json:"reference,omitempty"`
	PostalCodes []string `json:"postalCodes,omitempty"` // nil: any
	OfferTypes  []string `json:"offerTypes,omitempty"`  // nil: any; case does not matter
	// MinScore is the minimum score of a contact request; nil: any.
	MinScore *float64 `json:"minScore,omitempty"`
}

// Fits reports whether the filter takes an event, whatever its origin.
func (f Filter) Fits(e events.Event) bool {
	return f.Takes(e.Type) && f.covers(e.AgencyID) &&
		(f.Reference == "" || glob(f.Reference, e.Reference)) && f.wantsListing(e)
}

// Takes reports whether the filter takes a type.
func (f Filter) Takes(t events.Type) bool {
	types := f.Types
	if types == nil {
		types = DefaultTypes
	}
	return slices.ContainsFunc(types, t.Fits)
}

func (f Filter) covers(agency string) bool {
	return (f.Agencies == nil || slices.Contains(f.Agencies, agency)) &&
		!slices.Contains(f.Except, agency)
}

// wantsListing compares the postal code, the offer type and the score in the payload.
func (f Filter) wantsListing(e events.Event) bool {
	if f.PostalCodes == nil && f.OfferTypes == nil && f.MinScore == nil {
		return true
	}
	var p struct {
		Score     any `json:"score"` // a number, or a text that contains one
		Insertion struct {
			PostalCode string `json:"postalCode"`
			OfferType  string `json:"offerType"`
		} `json:"insertion"`
	}
	if json.Unmarshal(e.Data, &p) != nil {
		return false
	}
	score, err := strconv.ParseFloat(strings.TrimSpace(fmt.Sprint(p.Score)), 64)
	if f.MinScore != nil && (err != nil || !(score >= *f.MinScore)) { // NaN is not
		return false
	}
	is := func(value string) func(string) bool {
		return func(wanted string) bool { return strings.EqualFold(wanted, strings.TrimSpace(value)) }
	}
	return (f.PostalCodes == nil ||
		slices.ContainsFunc(f.PostalCodes, is(p.Insertion.PostalCode))) &&
		(f.OfferTypes == nil || slices.ContainsFunc(f.OfferTypes, is(p.Insertion.OfferType)))
}

// glob reports whether a pattern matches a whole text: * is any text, ? is one character.
func glob(pattern, text string) bool {
	expression := strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(regexp.QuoteMeta(pattern))
	r, err := regexp.Compile(`(?s)^` + expression + `$`)
	return err == nil && r.MatchString(text)
}

// Whose names the agencies of a filter for people, as they were configured.
func (f Filter) Whose() string {
	switch {
	case f.Agencies != nil:
		return strings.Join(f.Agencies, ", ")
	case len(f.Except) > 0:
		return "all but " + strings.Join(f.Except, ", ")
	}
	return "all agencies"
}

// rule is a route as it is saved: with the key of its receiver instead of the receiver.
type rule struct {
	To     string `json:"to"`
	Line   int    `json:"line,omitempty"`
	Filter Filter `json:"filter"`
}

func (r rule) forwarder() string { return forwarderOf(r.To) }

// forwarderOf returns the forwarder in a receiver's key.
func forwarderOf(key string) string {
	name, _, _ := strings.Cut(key, ".")
	return name
}

// table is the rules in force from some moment on.
type table struct {
	// by the server's clock; zero: the first table, which has not begun
	From  time.Time `json:"from,omitzero"`
	Rules []rule    `json:"rules"`
}

func tableOf(routes []Route) (t table) {
	for _, r := range routes {
		t.Rules = append(t.Rules, rule{r.key(), r.Line, r.Filter})
	}
	return t
}

// to returns the receivers that get an event: for each forwarder those of its first line that fits.
func (t table) to(e events.Event) (names []string) {
	lines := map[string]int{}
	for _, r := range t.Rules {
		line, taken := lines[r.forwarder()]
		if (!taken || line == r.Line) && r.Filter.Fits(e) && !slices.Contains(names, r.To) {
			names, lines[r.forwarder()] = append(names, r.To), r.Line
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
// decides which worker takes it; the present table decides where it goes.
type history struct {
	Version int     `json:"version"`
	Name    string  `json:"name"`
	Tables  []table `json:"tables"`
}

// begun reports whether the time of the present table is known.
func (h *history) begun() bool {
	return len(h.Tables) > 0 && !h.Tables[len(h.Tables)-1].From.IsZero()
}

// subjects returns the subjects of all types that any remembered table takes for a receiver. No
// others: the server counts every message on them as waiting.
func (h *history) subjects(prefix, receiver string) (subjects []string) {
	for _, t := range events.Types {
		takes := func(r rule) bool { return r.To == receiver && r.Filter.Takes(t) }
		if slices.ContainsFunc(h.Tables, func(in table) bool { return slices.ContainsFunc(in.Rules, takes) }) {
			subjects = append(subjects, prefix+".v1.*."+string(t))
		}
	}
	return subjects // none: its tables are forgotten, and no event of their time is left
}

// change puts a table into force. Tables whose events the stream has dropped are forgotten.
func (h *history) change(now table, retention time.Duration) {
	if last := len(h.Tables) - 1; last >= 0 && h.Tables[last].same(now) {
		return
	}
	if !h.begun() {
		h.Tables, now.From = nil, time.Time{}
	}
	h.Tables = append(h.Tables, now)
	for retention > 0 && len(h.Tables) > 1 && h.Tables[1].From.Before(now.From.Add(-retention)) {
		h.Tables = h.Tables[1:]
	}
}

// then returns the table in force when an event was recorded. Early means that the consumer begins
// before the first table: an event older than that has none. Otherwise the consumer began with the
// first table, which then covers older events too, because clocks differ.
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

// home returns where an event goes that the worker of a receiver has fetched; empty: another worker
// delivers it, or it goes nowhere. A receiver that the present table no longer names for the event
// hands it to its replacement: the first receiver removed to the first one added, and so on, the
// last one removed to all the rest. A replacement belongs to the same forwarder, unless that
// forwarder has only removals or only additions. Lost means that the event was this worker's, and
// that the present table names no receiver for it at all.
func (h *history) home(e events.Event, receiver string, early bool) (to []string, lost bool) {
	then, now := h.then(e, early).to(e), h.Tables[len(h.Tables)-1].to(e)
	switch {
	case !slices.Contains(then, receiver):
		return nil, false
	case slices.Contains(now, receiver):
		return []string{receiver}, false
	}
	gone, come := without(then, now), without(now, then)
	group := func(key string) string { // between whose receivers one is replaced
		is := func(other string) bool { return forwarderOf(other) == forwarderOf(key) }
		if slices.ContainsFunc(gone, is) && slices.ContainsFunc(come, is) {
			return forwarderOf(key)
		}
		return ""
	}
	other := func(key string) bool { return group(key) != group(receiver) }
	from, into := slices.DeleteFunc(slices.Clone(gone), other),
		slices.DeleteFunc(slices.Clone(come), other)
	at := slices.Index(from, receiver)
	into = into[min(at, len(into)):]
	if at < len(from)-1 {
		into = into[:min(1, len(into))]
	}
	return into, len(now) == 0
}

// without returns the keys that the other list does not have.
func without(keys, other []string) []string {
	return slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return slices.Contains(other, k) })
}

// isUntaken reports whether no line takes an event, and none did when it was recorded. What was
// recorded before the first table belongs to no receiver.
func (h *history) isUntaken(e events.Event) bool {
	was := h.then(e, true)
	return !was.From.IsZero() && len(was.to(e))+len(h.Tables[len(h.Tables)-1].to(e)) == 0
}
