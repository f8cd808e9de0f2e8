// Package message puts events into words, once for all receivers that people read: a [Message] is
// neutral, and chats and mail only lay it out.
//
// [Write] makes one from the events that are sent together. A single event is one [Item]: a
// heading, what a person wrote, facts, links. Several are a digest, item after item and grouped by
// property, or bundles of alerts that are alike. Leads are written in the language of the agency,
// alerts in English.
//
// Names, messages and titles come from strangers. Every text here is stripped of invisible
// characters and cut to a length, and every address that becomes a link was parsed and reassembled.
// Only escaping is left to the receiver.
package message

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/events"
)

// Options say who reads.
type Options struct {
	Language func(agency string) Language // nil: English
	Name     func(agency string) string   // what people call an agency; nil or empty: its id alone
	Location *time.Location               // of all times; nil: UTC
	// of a person show first name and initial, and no way to reach them
	Short    bool
	Instance string // name of this installation, with which titles begin
}

// Tone is how a message is meant.
type Tone string

// The tones, from the most pleasant on.
const (
	Lead  Tone = "lead"  // a person wrote
	Good  Tone = "good"  // something is well again
	Quiet Tone = "quiet" // something to know
	Alert Tone = "alert" // a person has to act
)

// Message is what is said of the events of one delivery.
type Message struct {
	Language Language
	Alerts   bool // the items are about the watch itself
	Tone     Tone
	Subject  string // of a mail
	Title    string // of what has no label: a chat, a notification
	Label    string // what kind of message this is
	Mark     string // why this is no news: a test, a replay
	Heading  string // of several items
	Items    []Item
	Foot     []string
}

// Item is one event, or several alerts that say the same.
type Item struct {
	Group   string // above the first item of a property, in a digest
	Line    string // the item in one line
	Label   string // what happened, in a digest
	Heading string
	Under   string // below the heading
	Quote   []string
	Note    string
	Advice  string
	Command string
	Facts   []Fact
	Actions []Link // ways to the person
	Tone    Tone
}

// Fact is a label with a value, which may lead somewhere.
type Fact struct {
	Label, Text string
	URL         URL
}

// Link is an address with its text.
type Link struct {
	Text string
	URL  URL
}

// fact is a value with its label in the language.
func (w words) fact(label, text string) Fact { return Fact{Label: w.t(label), Text: text} }

// facts leaves out those without a value.
func facts(all ...Fact) []Fact {
	return slices.DeleteFunc(all, func(f Fact) bool { return f.Text == "" })
}

// Lengths, in characters, of what is shown.
const (
	maxWord     = 100
	maxTitle    = 200
	MaxSubject  = 160
	maxSentence = 1000
	maxMessage  = 10000 // of what a person wrote
	maxShort    = 160   // of that on one line
	maxInDigest = 800
)

// writer puts events into words.
type writer struct {
	Options
	words
	list bool // several events: each is shown in short
	most int  // characters of what a person wrote
}

// Write says what happened. There is at least one event, and all are alerts or none is.
func Write(all []events.Event, test bool, o Options) Message {
	w := writer{Options: o, most: maxMessage}
	if w.Location == nil {
		w.Location = time.UTC
	}
	if len(all) > 1 {
		w.list, w.most = true, max(200, maxInDigest-4*len(all))
	}
	alerts := IsAlert(all[0].Type)
	if o.Language != nil && !alerts {
		w.words.language = o.Language(all[0].AgencyID)
	}
	var m Message
	switch {
	case alerts:
		m = w.alerts(all)
	case len(all) == 1:
		m = w.single(all[0])
	default:
		m = w.digest(all)
	}
	m.Language, m.Alerts = w.tag(), alerts
	w.mark(&m, all[0].Origin == events.OriginReplay, test)
	return m
}

// IsAlert says whether an event is about the watch itself (access.*, watch.*).
func IsAlert(t events.Type) bool {
	return strings.HasPrefix(string(t), "access.") || strings.HasPrefix(string(t), "watch.")
}

// mark says at the top what is no news, and which installation speaks.
func (w writer) mark(m *Message, replayed, test bool) {
	prefix := ""
	switch {
	case test:
		prefix, m.Mark = "TEST",
			w.t("This is a test of doorbell. Nobody wrote, and nothing happened.")
	case replayed:
		prefix, m.Mark = w.t("replayed"),
			w.t("This was sent again on request. It may be old, and somebody may have answered already.")
	}
	if prefix != "" {
		m.Subject, m.Title = "["+prefix+"] "+m.Subject, "["+prefix+"] "+m.Title
	}
	if w.Instance != "" {
		m.Subject, m.Title = "["+w.Instance+"] "+m.Subject, "["+w.Instance+"] "+m.Title
	}
}

// agency is how an agency is called.
func (w writer) agency(id string) string {
	id = Line(id, maxWord)
	if w.Name == nil {
		return id
	}
	if name := Line(w.Name(id), maxWord); name != "" {
		return name + " (" + id + ")"
	}
	return id
}

func (w writer) single(e events.Event) Message {
	i, place := w.item(e)
	who, what := i.Heading, i.Label
	if who == place {
		who = ""
	}
	if e.Type == events.TypeContactRequestCreated { // the person and the place say enough
		what = ""
	}
	colon := w.tag().Colon()
	m := Message{
		Tone: i.Tone, Label: i.Label, Items: []Item{i},
		Title:   Fit(joined(colon, i.Label, i.Heading), MaxSubject),
		Subject: Fit(joined(colon, what, joined(", ", who, place)), MaxSubject),
		Foot: []string{
			joined(" · ", labelled(w.t("Reference"), Line(e.Reference, maxTitle)),
				labelled(w.t("Agency"), w.agency(e.AgencyID))),
			labelled(w.t("Event"), Line(e.ID, maxWord)),
		},
	}
	m.Items[0].Label = "" // the message says it
	return m
}

// digest is several events, by property: the one of which the first event came first.
func (w writer) digest(all []events.Event) Message {
	m := Message{Label: w.t("Digest"), Tone: Quiet}
	var order []string
	groups, places, requests := map[string][]Item{}, map[string]string{}, 0
	several := slices.ContainsFunc(all, func(e events.Event) bool { return e.AgencyID != all[0].AgencyID })
	for _, e := range all {
		i, place := w.item(e)
		if several {
			place = joined(" · ", place, w.agency(e.AgencyID))
		}
		if e.Type == events.TypeContactRequestCreated {
			requests++
			m.Tone = Lead
		}
		i.Facts = append(i.Facts,
			facts(w.fact("Reference",
				joined(" · ", Line(e.Reference, maxTitle), w.agency(e.AgencyID))))...)
		key := e.AgencyID + "\x00" + e.Reference
		if groups[key] == nil {
			order = append(order, key)
		}
		groups[key], places[key] = append(groups[key], i), place
	}
	for _, key := range order {
		groups[key][0].Group = places[key]
		if n := len(groups[key]); n > 1 {
			groups[key][0].Group = fmt.Sprintf("%d × %s", n, places[key])
		}
		m.Items = append(m.Items, groups[key]...)
	}
	m.Heading = joined(", ", w.count(requests, "%s new contact request", "%s new contact requests"),
		w.count(len(all)-requests, "%s change", "%s changes"))
	place := ""
	if len(order) == 1 {
		place = places[order[0]]
	}
	m.Title = Fit(joined(w.tag().Colon(), m.Heading, place), MaxSubject)
	m.Subject = m.Title
	return m
}

func labelled(label, text string) string {
	if text == "" {
		return ""
	}
	return label + " " + text
}
