package teams

import (
	"strings"
	"unicode/utf16"

	"doorbell/events/forward/message"
)

const (
	// maxMessage is about what Teams takes of a workflow: 28 KB,
	// https://learn.microsoft.com/connectors/teams/#known-issues-and-limitations. It does not say
	// what it counts; of a bot's message, which this becomes, it counts UTF-16:
	// https://learn.microsoft.com/microsoftteams/platform/bots/how-to/format-your-bot-messages. 1
	// KB is left for what the workflow adds.
	maxMessage = 27 << 10
	// maxTitle is what fits on two lines.
	maxTitle = 200
	// version is the oldest one with TextRun and styles of containers. A client that does not know
	// it shows no card.
	version = "1.2"
)

// post is the body of a request.
type post struct {
	Type        string       `json:"type"`
	Attachments []attachment `json:"attachments"`
}

type attachment struct {
	ContentType string `json:"contentType"`
	Content     card   `json:"content"`
}

type card struct {
	Type    string    `json:"type"`
	Version string    `json:"version"`
	Body    []element `json:"body"`
	Actions []action  `json:"actions,omitempty"`
}

// element is a RichTextBlock, which is one line, or a Container.
type element struct {
	Type      string    `json:"type"`
	Style     string    `json:"style,omitempty"`
	Spacing   string    `json:"spacing,omitempty"`
	Separator bool      `json:"separator,omitempty"`
	Inlines   []run     `json:"inlines,omitempty"`
	Items     []element `json:"items,omitempty"`
}

// run is a TextRun.
type run struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Size     string `json:"size,omitempty"`
	Weight   string `json:"weight,omitempty"`
	FontType string `json:"fontType,omitempty"`
	IsSubtle bool   `json:"isSubtle,omitempty"`
}

type action struct {
	Type  string      `json:"type"`
	Title string      `json:"title"`
	URL   message.URL `json:"url"`
}

// render makes the body that is posted; nil if it is too large.
func render(m message.Message) []byte {
	return m.JSON(func(c message.Chat) any {
		title := line("",
			run{Text: message.Fit(c.Title, maxTitle), Size: "Medium", Weight: "Bolder"})
		content := card{Type: "AdaptiveCard", Version: version, Body: append(title, elements(c.Parts)...)}
		for _, box := range c.Boxes {
			content.Body = append(content.Body, container(styles[box.Tone], elements(box.Parts)))
		}
		for _, p := range c.Parts {
			for _, l := range p.Links {
				content.Actions = append(content.Actions,
					action{"Action.OpenUrl", l.Sign() + " " + l.Text, l.URL})
			}
		}
		return post{"message", []attachment{{"application/vnd.microsoft.card.adaptive", content}}}
	}, func(body []byte) bool { return 2*len(utf16.Encode([]rune(string(body)))) <= maxMessage })
}

var styles = map[message.Tone]string{
	message.Good: "good", message.Quiet: "warning",
	message.Alert: "attention",
}

// elements lays out parts of a message. Links become buttons below the card.
func elements(parts []message.Part) (all []element) {
	for _, p := range parts {
		switch p.Kind {
		case message.Links:
		case message.Facts:
			for n, f := range p.Facts {
				all = append(all,
					line(next(n), run{Text: f.Label, IsSubtle: true}, run{Text: f.Text})...)
			}
		case message.Quote:
			all = append(all, container("emphasis", lines(p.Lines, run{})))
		case message.Group:
			group := lines(p.Lines, run{})
			group[0].Separator, group[0].Inlines[0].Weight = true, "Bolder"
			all = append(all, group...)
		default:
			all = append(all, lines(p.Lines, looks[p.Kind])...)
		}
	}
	return all
}

// looks are how the lines of a part look, where they do not look like any text.
var looks = map[message.PartKind]run{
	message.Heading: {Weight: "Bolder"},
	message.Command: {FontType: "Monospace"},
	message.Small:   {Size: "Small", IsSubtle: true},
}

// container keeps elements together, on a background of its own.
func container(style string, items []element) element {
	return element{Type: "Container", Style: style, Items: items}
}

// lines are texts that look alike, close below each other. Each line of a text is an element:
// clients do not agree on what a line end in a TextRun is.
func lines(texts []string, look run) (all []element) {
	for text := range strings.SplitSeq(strings.Join(texts, "\n"), "\n") {
		look.Text = text
		all = append(all, line(next(len(all)), look)...)
	}
	return all
}

// next is the distance of the nth line from the one before.
func next(n int) string {
	if n == 0 {
		return ""
	}
	return "None"
}

// line is a line of text, or nothing if there is none.
func line(spacing string, runs ...run) []element {
	for n, r := range runs {
		runs[n].Type, runs[n].Text = "TextRun", literal(r.Text)
	}
	if strings.TrimSpace(runs[len(runs)-1].Text) == "" {
		return nil
	}
	return []element{{Type: "RichTextBlock", Spacing: spacing, Inlines: runs}}
}

// literal leaves no function in a text: {{DATE(…)}} would be calculated.
func literal(s string) string {
	apart := func(s string) string { return strings.ReplaceAll(s, "{{", "{ {") }
	return apart(apart(s)) // of {{{ the first time leaves {{
}
