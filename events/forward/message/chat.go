package message

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// This file lays out a message for a chat, once for all chat services: they decide how each part
// looks.
//
// One contact request is a card: the person, the property, their message, facts, and links. Several
// that waited together are a list by property. Each alert has a box: what it means, what to do,
// what to type.

// Chat is a message from top to bottom.
type Chat struct {
	Title  string // with a sign for the tone
	Notice string // the message in one line, for notifications
	Parts  []Part
	Boxes  []Box // of alerts, below the parts
}

// Box is one alert.
type Box struct {
	Tone  Tone
	Line  string // the alert in one line
	Parts []Part
}

// Part is some lines, facts or links, of which there is at least one.
type Part struct {
	Kind  PartKind
	Lines []string
	Facts []Fact // with a colon behind their labels
	Links []Link
}

// PartKind is what a part contains.
type PartKind int

const (
	Text    PartKind = iota
	Heading          // of a box
	Quote            // what a person wrote
	Group            // a property, with a line for each of its events
	Command          // to type
	Facts
	Links
	Small // notes at the end
)

// Sign returns a sign for where a link leads.
func (l Link) Sign() string {
	switch scheme, _, _ := strings.Cut(string(l.URL), ":"); scheme {
	case "mailto":
		return "✉️"
	case "tel":
		return "📞"
	}
	return "🔗"
}

// MaxRows is the maximum number of events in a list. Each of them gets its line, however long its
// texts are.
const MaxRows = 20

const (
	maxBoxes   = 8
	maxRow     = 140
	maxCommand = 200
	maxURL     = 1000
)

// sizes are how long texts may be. They are tried from the widest on, until the message is not too
// large as a whole.
var sizes = []int{1_500, 1_000, 500, 250, 120, 60, 30}

// JSON returns what lay makes of the message, as JSON, with texts cut shorter and shorter until it
// fits; nil if it never does.
func (m Message) JSON(lay func(Chat) any, fits func(body []byte) bool) []byte {
	for _, size := range sizes {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if e.Encode(lay(m.chat(size))) != nil {
			return nil
		}
		if body := bytes.TrimSuffix(b.Bytes(), []byte("\n")); fits(body) {
			return body
		}
	}
	return nil
}

func (m Message) chat(size int) Chat {
	c := Chat{Title: m.sign(m.Tone) + " " + m.Title}
	c.Notice = c.Title
	w := layout{size: size, colon: m.Language.Colon()}
	switch {
	case m.Alerts:
		for _, i := range m.Items[:min(len(m.Items), maxBoxes)] {
			c.Boxes = append(c.Boxes, m.box(i, size))
		}
		w.lines(Small, more(len(m.Items)-maxBoxes))
		w.lines(Small, m.Mark)
	case len(m.Items) > 1:
		w.list(m)
	default:
		c.Notice = joined(", ", c.Notice, m.Items[0].Under)
		w.card(m)
	}
	c.Parts = w.parts
	return c
}

func (m Message) sign(t Tone) string {
	if t == Quiet && m.Alerts {
		return "⚠️"
	}
	return map[Tone]string{Lead: "🔔", Good: "✅", Quiet: "🏠", Alert: "🚨"}[t]
}

// more returns a note on the n items that are left out.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("… + %d (doorbell events ls)", n)
}

// layout is parts in the making. Texts are cut to the size.
type layout struct {
	size  int
	colon string
	parts []Part
}

// add leaves out a part without content.
func (w *layout) add(p Part) {
	if len(p.Lines)+len(p.Facts)+len(p.Links) > 0 {
		w.parts = append(w.parts, p)
	}
}

func (w *layout) lines(kind PartKind, all ...string) {
	p := Part{Kind: kind}
	for _, s := range all {
		if s != "" {
			p.Lines = append(p.Lines, Fit(s, w.size))
		}
	}
	w.add(p)
}

// facts are the facts of an item. Those that are links to pages become links, with the host as
// their text, behind those to the person.
func (w *layout) facts(i Item) {
	facts, links := Part{Kind: Facts}, Part{Kind: Links, Links: i.Actions}
	for _, f := range i.Facts {
		switch {
		case !isPage(f):
			facts.Facts = append(facts.Facts,
				Fact{Label: Fit(f.Label, w.size) + w.colon, Text: Fit(f.Text, w.size)})
		case len(f.URL) < maxURL:
			links.Links = append(links.Links, Link{Fit(f.Text, maxWord), f.URL})
		}
	}
	w.add(facts)
	w.add(links)
}

func isPage(f Fact) bool { return strings.HasPrefix(string(f.URL), "http") }

// card is one event: the person, the property, their message, other facts, and links.
func (w *layout) card(m Message) {
	i := m.Items[0]
	w.lines(Text, i.Under)
	if len(i.Quote) > 0 {
		quote := m.Language.Quoted(Fit(strings.Join(i.Quote, "\n"), w.size))
		w.add(Part{Kind: Quote, Lines: strings.Split(quote, "\n")})
	}
	w.lines(Text, i.Advice)
	w.facts(i)
	w.lines(Small, append([]string{m.Mark, i.Note}, m.Foot...)...)
}

// list is several events that waited together: by property, with a line for every event, so that no
// person is missing.
func (w *layout) list(m Message) {
	width := min(w.size, maxRow)
	for _, i := range m.Items[:min(len(m.Items), MaxRows)] {
		if i.Group != "" {
			w.add(Part{Kind: Group, Lines: []string{Fit(i.Group, width)}})
		}
		row := "• " + i.Line
		for _, f := range i.Facts {
			if f.URL != "" && !isPage(f) {
				row += " · " + f.Text
			}
		}
		if len(i.Quote) > 0 {
			row += w.colon + i.Quote[0]
		}
		group := &w.parts[len(w.parts)-1]
		group.Lines = append(group.Lines, Fit(row, width))
	}
	w.lines(Small, append([]string{more(len(m.Items) - MaxRows), m.Mark}, m.Foot...)...)
}

// box is an alert: what happened, to whom, what to do, what to type.
func (m Message) box(i Item, size int) Box {
	w := layout{size: size, colon: m.Language.Colon()}
	if len(m.Items) > 1 {
		w.lines(Heading, m.sign(i.Tone)+" "+i.Heading)
	}
	w.lines(Text, i.Under)
	w.lines(Text, i.Advice)
	if i.Command != "" {
		w.add(Part{Kind: Command, Lines: []string{Fit(i.Command, maxCommand)}})
	}
	w.lines(Small, i.Note)
	w.facts(i)
	return Box{Tone: i.Tone, Line: i.Line, Parts: w.parts}
}

// Fit cuts a text to at most limit characters; a text that is cut ends with …. Services do not
// document what they count, so UTF-16 units are counted, of which no character has fewer than one.
func Fit(s string, limit int) string {
	used, whole := 0, 0 // whole: where to cut, so that the … still has room
	for i, r := range s {
		size := utf16.RuneLen(r)
		if used+size > limit {
			return strings.TrimRight(s[:whole], " \n\u200c\u200d") + "…"
		}
		if used += size; used < limit {
			whole = i + utf8.RuneLen(r)
		}
	}
	return s
}
