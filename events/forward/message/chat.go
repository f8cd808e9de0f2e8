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
// that waited together are a list by property. Each alert has a box: what it means, what to do, what
// to type.

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
	Facts []Fact
	Links []Link

	language Language
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

// Text returns facts as lines.
func (p Part) Text() string {
	var list []string
	for _, f := range p.Facts {
		list = append(list, p.Label(f)+f.Text)
	}
	return strings.Join(list, "\n")
}

// Label is the label of a fact with a colon.
func (p Part) Label(f Fact) string { return f.Label + p.language.Colon() }

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
	w := layout{m.Language, size, nil}
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
		if under := m.Items[0].Under; under != "" {
			c.Notice += ", " + under
		}
		w.card(m)
	}
	c.Parts = w.parts
	return c
}

func (m Message) sign(t Tone) string {
	switch {
	case t == Lead:
		return "🔔"
	case t == Good:
		return "✅"
	case t == Alert:
		return "🚨"
	case m.Alerts:
		return "⚠️"
	}
	return "🏠"
}

// more returns a note on the n items that are left out.
func more(n int) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("… + %d (doorbell events ls)", n)
}

// layout is parts in the making. What has no text is left out, and texts are cut to the size.
type layout struct {
	language Language
	size     int
	parts    []Part
}

func (w *layout) lines(kind PartKind, all ...string) {
	p := Part{Kind: kind}
	for _, s := range all {
		if s != "" {
			p.Lines = append(p.Lines, Fit(s, w.size))
		}
	}
	if len(p.Lines) > 0 {
		w.parts = append(w.parts, p)
	}
}

// facts leaves out those that are links to pages.
func (w *layout) facts(all []Fact) {
	p := Part{Kind: Facts, language: w.language}
	for _, f := range all {
		if !isPage(f) {
			p.Facts = append(p.Facts, Fact{Label: Fit(f.Label, w.size), Text: Fit(f.Text, w.size)})
		}
	}
	if len(p.Facts) > 0 {
		w.parts = append(w.parts, p)
	}
}

func isPage(f Fact) bool { return strings.HasPrefix(string(f.URL), "http") }

// links lead to the person, and to the page of the insertion, with its host as their text.
func (w *layout) links(i Item) {
	p := Part{Kind: Links, Links: i.Actions}
	for _, f := range i.Facts {
		if isPage(f) && len(f.URL) < maxURL {
			p.Links = append(p.Links, Link{Fit(f.Text, maxWord), f.URL})
		}
	}
	if len(p.Links) > 0 {
		w.parts = append(w.parts, p)
	}
}

// card is one event: the person, the property, their message, other facts, and links.
func (w *layout) card(m Message) {
	i := m.Items[0]
	w.lines(Text, i.Under)
	if len(i.Quote) > 0 {
		quote := m.Language.Quoted(Fit(strings.Join(i.Quote, "\n"), w.size))
		w.parts = append(w.parts, Part{Kind: Quote, Lines: strings.Split(quote, "\n")})
	}
	w.lines(Text, i.Advice)
	w.facts(i.Facts)
	w.links(i)
	w.lines(Small, append([]string{m.Mark, i.Note}, m.Foot...)...)
}

// list is several events that waited together: by property, with a line for every event, so that no
// person is missing.
func (w *layout) list(m Message) {
	shown := m.Items[:min(len(m.Items), MaxRows)]
	for _, i := range shown {
		if i.Group != "" {
			w.parts = append(w.parts, Part{Kind: Group, Lines: []string{Fit(i.Group, min(w.size, maxRow))}})
		}
		row := "• " + i.Line
		for _, f := range i.Facts {
			if f.URL != "" && !isPage(f) {
				row += " · " + f.Text
			}
		}
		if len(i.Quote) > 0 {
			row += m.Language.Colon() + i.Quote[0]
		}
		group := &w.parts[len(w.parts)-1]
		group.Lines = append(group.Lines, Fit(row, min(w.size, maxRow)))
	}
	w.lines(Small, append([]string{more(len(m.Items) - len(shown)), m.Mark}, m.Foot...)...)
}

// box is an alert: what happened, to whom, what to do, what to type.
func (m Message) box(i Item, size int) Box {
	w := layout{m.Language, size, nil}
	if len(m.Items) > 1 {
		w.lines(Heading, m.sign(i.Tone)+" "+i.Heading)
	}
	w.lines(Text, i.Under)
	w.lines(Text, i.Advice)
	if i.Command != "" {
		w.parts = append(w.parts, Part{Kind: Command, Lines: []string{Fit(i.Command, maxCommand)}})
	}
	w.lines(Small, i.Note)
	w.facts(i.Facts)
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
