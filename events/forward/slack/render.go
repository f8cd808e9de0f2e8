package slack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// The limits that Slack documents for messages, and one that it does not: it refuses what is too large as a whole, somewhere
// near 13,000.
const (
	maxHeader   = 150
	maxSection  = 3_000
	maxBlocks   = 40 // of 50; a context and a note come after them
	maxBars     = 8  // attachments, of five blocks at most
	maxWhole    = 10_000
	maxFallback = 500
	maxRow      = 140 // every event of a list of one property gets its row
)

// post is what is posted. The false members are sent on purpose: absent, they are true for Slack.
type post struct {
	Text        string  `json:"text"` // for notifications and screen readers; where there are blocks it is not shown
	Mrkdwn      bool    `json:"mrkdwn"`
	UnfurlLinks bool    `json:"unfurl_links"`
	UnfurlMedia bool    `json:"unfurl_media"`
	Blocks      []block `json:"blocks"`
	Attachments []bar   `json:"attachments,omitempty"`
}

// bar is blocks with a coloured bar beside them.
type bar struct {
	Color    string  `json:"color"`
	Fallback string  `json:"fallback"`
	Blocks   []block `json:"blocks"`
}

// block is a header, section or context.
type block struct {
	Type     string  `json:"type"`
	Text     *text   `json:"text,omitempty"`
	Elements []*text `json:"elements,omitempty"`
}

// text is plain_text or mrkdwn.
type text struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`    // plain_text only
	Verbatim *bool  `json:"verbatim,omitempty"` // mrkdwn only: nothing is made a link or a mention by itself
}

var yes, no = true, false

// plain is text from anywhere. In plain_text nothing is markup, and nothing is escaped: readers would see the entities.
func plain(s string, limit int) *text {
	return &text{Type: "plain_text", Text: fit(s, limit), Emoji: &no}
}

// marked is mrkdwn, which is made of links and code of this package alone.
func marked(s string) *text { return &text{Type: "mrkdwn", Text: s, Verbatim: &yes} }

// blocks is a message in the making. What has no text is left out.
type blocks []block

func (b *blocks) section(s string, limit int) {
	if s != "" {
		*b = append(*b, block{Type: "section", Text: plain(s, limit)})
	}
}

func (b *blocks) marked(s string) {
	if s != "" {
		*b = append(*b, block{Type: "section", Text: marked(s)})
	}
}

func (b *blocks) context(lines ...string) {
	if s := strings.Join(lines, "\n"); s != "" {
		*b = append(*b, block{Type: "context", Elements: []*text{plain(s, maxSection)}})
	}
}

// sizes are how long texts may be. They are tried from the widest on, until the message is not too large as a whole.
var sizes = []int{1_500, 1_000, 500, 250, 120, 60, 30}

// render makes the body that is posted.
func render(m message.Message, alerts bool) ([]byte, error) {
	for _, size := range sizes {
		p := post{Text: escaper.Replace(fit(emoji(m.Tone, alerts)+" "+m.Title, maxFallback/5))}
		switch {
		case alerts:
			p.alerts(m, size)
		case len(m.Items) > 1:
			p.list(m, size)
		default:
			p.card(m, size)
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(p); err != nil {
			return nil, &forward.Refused{Reason: "the message cannot be written", Certain: true}
		}
		if body := bytes.TrimSuffix(b.Bytes(), []byte("\n")); len(body) <= maxWhole {
			return body, nil
		}
	}
	return nil, &forward.Refused{Reason: "too large for Slack", Certain: true} // of a digest its events come one by one
}

func emoji(t message.Tone, alerts bool) string {
	switch {
	case t == message.Lead:
		return "🔔"
	case t == message.Good:
		return "✅"
	case t == message.Alert:
		return "🚨"
	case alerts:
		return "⚠️"
	}
	return "🏠"
}

func (p *post) header(m message.Message, alerts bool) {
	p.Blocks = append(p.Blocks, block{Type: "header", Text: plain(emoji(m.Tone, alerts)+" "+m.Title, maxHeader)})
}

// card is one event: who, about what, what they wrote, what else is known, and links.
func (p *post) card(m message.Message, size int) {
	p.header(m, false)
	i, b := m.Items[0], (*blocks)(&p.Blocks)
	if i.Under != "" {
		p.Text = escaper.Replace(fit(emoji(m.Tone, false)+" "+m.Title+", "+i.Under, maxFallback/5))
	}
	b.section(i.Under, size)
	if len(i.Quote) > 0 {
		b.section(m.Language.Quoted(fit(strings.Join(i.Quote, "\n"), size)), maxSection)
	}
	b.section(i.Advice, size)
	b.section(lines(i.Facts, m.Language, size), maxSection)
	b.marked(links(i))
	b.context(kept(size, append([]string{m.Mark, i.Note}, m.Foot...)...)...)
}

// list is several events that waited together: by property, with a line for every event, so that nobody who wrote is missing.
func (p *post) list(m message.Message, size int) {
	p.header(m, false)
	b := (*blocks)(&p.Blocks)
	var group []string
	flush := func() {
		b.section(strings.Join(group, "\n"), maxSection)
		group = nil
	}
	shown := 0
	for _, i := range m.Items {
		if shown == digest || len(p.Blocks) == maxBlocks {
			break
		}
		if i.Group != "" {
			flush()
			group = []string{fit(i.Group, min(size, maxRow))}
		}
		row := i.Line
		for _, f := range i.Facts {
			if strings.HasPrefix(string(f.URL), "mailto:") || strings.HasPrefix(string(f.URL), "tel:") {
				row += " · " + f.Text
			}
		}
		if len(i.Quote) > 0 {
			row += m.Language.Colon() + i.Quote[0]
		}
		group = append(group, fit("• "+row, min(size, maxRow)))
		shown++
	}
	flush()
	more := ""
	if left := len(m.Items) - shown; left > 0 {
		more = fmt.Sprintf("… + %d (doorbell events ls)", left)
	}
	b.context(kept(size, append([]string{more, m.Mark}, m.Foot...)...)...)
}

var colors = map[message.Tone]string{message.Good: "#2eb67d", message.Quiet: "#e8912d", message.Alert: "#c8102e"}

// alerts have a coloured bar each: what happened, to whom, what to do, what to type.
func (p *post) alerts(m message.Message, size int) {
	p.header(m, true)
	for n, i := range m.Items {
		if n == maxBars {
			(*blocks)(&p.Blocks).context(fmt.Sprintf("… + %d (doorbell events ls)", len(m.Items)-n))
			break
		}
		var b blocks
		if len(m.Items) > 1 {
			b.section(fit(emoji(i.Tone, true)+" "+i.Heading, size), maxSection)
		}
		b.section(i.Under, size)
		b.section(i.Advice, size)
		if command := fit(i.Command, 200); harmless(command) && command != "" {
			b.marked("```\n" + command + "\n```")
		} else {
			b.section(command, size)
		}
		b.context(kept(size, i.Note)...)
		b.section(lines(i.Facts, m.Language, size), maxSection)
		p.Attachments = append(p.Attachments, bar{Color: colors[i.Tone], Fallback: escaper.Replace(fit(i.Line, maxFallback/5)), Blocks: b})
	}
	(*blocks)(&p.Blocks).context(kept(size, m.Mark)...)
}

// lines are facts, one on each. What is a link already is none.
func lines(all []message.Fact, l message.Language, size int) string {
	var list []string
	for _, f := range all {
		if strings.HasPrefix(string(f.URL), "http") {
			continue
		}
		list = append(list, fit(f.Label, size)+l.Colon()+fit(f.Text, size))
	}
	return strings.Join(list, "\n")
}

func kept(size int, all ...string) (list []string) {
	for _, s := range all {
		if s != "" {
			list = append(list, fit(s, size))
		}
	}
	return list
}

// links lead to the person and to the page of the insertion, and say to which host: the label is all that most readers see.
func links(i message.Item) string {
	var all []string
	add := func(sign, label string, to message.URL) {
		all = append(all, sign+" <"+encode(string(to))+"|"+label+">")
	}
	for _, l := range i.Actions {
		sign := "✉️"
		if strings.HasPrefix(string(l.URL), "tel:") {
			sign = "📞"
		}
		add(sign, l.Text, l.URL)
	}
	for _, f := range i.Facts {
		if strings.HasPrefix(string(f.URL), "http") && len(f.URL) < 1_000 {
			add("🔗", escaper.Replace(fit(f.Text, 100)), f.URL)
		}
	}
	return strings.Join(all, "  ·  ")
}

// encode leaves nothing in an address that could end it or mean anything to Slack.
func encode(address string) string {
	const harmless = "-._~:/?#[]@!$'()+,;=%"
	var b strings.Builder
	for _, c := range []byte(address) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', strings.IndexByte(harmless, c) >= 0:
			b.WriteByte(c)
		case c == '&':
			b.WriteString("&amp;")
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// harmless says whether a command may stand in mrkdwn, inside code: nothing in it ends the code or is special to Slack.
func harmless(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(" -_.:/#\"'=+,%", r))
	})
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// fit cuts a text so that it is no longer than limit; what is cut ends with …. Slack does not say what it counts, so UTF-16 units are
// counted, of which no character has fewer than one.
func fit(s string, limit int) string {
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
