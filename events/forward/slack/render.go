package slack

import (
	"fmt"
	"strings"

	"doorbell/events/forward/message"
)

// The limits that Slack documents for messages, and one that it does not: it refuses what is too
// large as a whole, somewhere near 13,000.
const (
	maxHeader   = 150
	maxSection  = 3_000
	maxWhole    = 10_000
	maxFallback = 100 // characters, of which escaping makes five of one
)

// post is what is posted. The false members are sent on purpose: absent, they are true for Slack.
type post struct {
	// for notifications and screen readers; where there are blocks it is not shown
	Text        string  `json:"text"`
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
	Type  string `json:"type"`
	Text  string `json:"text"`
	Emoji *bool  `json:"emoji,omitempty"` // plain_text only
	// mrkdwn only: nothing is made a link or a mention by itself
	Verbatim *bool `json:"verbatim,omitempty"`
}

var yes, no = true, false

// plain is text from anywhere. In plain_text nothing is markup, and nothing is escaped: readers
// would see the entities.
func plain(s string, limit int) *text {
	return &text{Type: "plain_text", Text: message.Fit(s, limit), Emoji: &no}
}

// marked is mrkdwn, which is made of links and code of this package alone.
func marked(s string) *text { return &text{Type: "mrkdwn", Text: s, Verbatim: &yes} }

// blocks is a message in the making. What has no text is left out.
type blocks []block

func (b *blocks) section(s string) {
	if s != "" {
		*b = append(*b, block{Type: "section", Text: plain(s, maxSection)})
	}
}

func (b *blocks) marked(s string) {
	if s != "" {
		*b = append(*b, block{Type: "section", Text: marked(s)})
	}
}

// add lays out parts of a message.
func (b *blocks) add(parts []message.Part) {
	for _, p := range parts {
		s := strings.Join(p.Lines, "\n")
		switch p.Kind {
		case message.Facts:
			for n, f := range p.Facts {
				if n > 0 {
					s += "\n"
				}
				s += f.Label + f.Text
			}
			b.section(s)
		case message.Links:
			b.marked(links(p.Links))
		case message.Small:
			*b = append(*b, block{Type: "context", Elements: []*text{plain(s, maxSection)}})
		case message.Command:
			if harmless(s) {
				b.marked("```\n" + s + "\n```")
			} else {
				b.section(s)
			}
		default:
			b.section(s)
		}
	}
}

// render makes the body that is posted; nil if it is too large.
func render(m message.Message) []byte {
	return m.JSON(func(c message.Chat) any {
		p := post{
			Text:   escaper.Replace(message.Fit(c.Notice, maxFallback)),
			Blocks: []block{{Type: "header", Text: plain(c.Title, maxHeader)}},
		}
		(*blocks)(&p.Blocks).add(c.Parts)
		for _, box := range c.Boxes {
			one := bar{Color: colors[box.Tone], Fallback: escaper.Replace(message.Fit(box.Line, maxFallback))}
			(*blocks)(&one.Blocks).add(box.Parts)
			p.Attachments = append(p.Attachments, one)
		}
		return p
	}, func(body []byte) bool { return len(body) <= maxWhole })
}

var colors = map[message.Tone]string{
	message.Good: "#2eb67d", message.Quiet: "#e8912d",
	message.Alert: "#c8102e",
}

// links lead to the person and to the page of the insertion. Their label shows the host, because it
// is all that most readers see.
func links(all []message.Link) string {
	var list []string
	for _, l := range all {
		list = append(list, l.Sign()+" <"+encode(string(l.URL))+"|"+escaper.Replace(l.Text)+">")
	}
	return strings.Join(list, "  ·  ")
}

// encode leaves nothing in an address that could end it or mean anything to Slack.
func encode(address string) string {
	const harmless = "-._~:/?#[]@!$'()+,;=%"
	var b strings.Builder
	for _, c := range []byte(address) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z',
			strings.IndexByte(harmless, c) >= 0:
			b.WriteByte(c)
		case c == '&':
			b.WriteString("&amp;")
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// harmless reports whether a command can be shown as code in mrkdwn: nothing in it ends the code or
// is special to Slack.
func harmless(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune(" -_.:/#\"'=+,%", r))
	})
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
