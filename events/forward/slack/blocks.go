package slack

// The limits that Slack documents for messages, and one that it does not: it refuses what is too large as a whole, somewhere
// near 13,000.
const (
	maxHeader   = 150
	maxSection  = 3_000
	maxFields   = 10
	maxField    = 2_000
	maxElements = 10 // of a context
	maxBlocks   = 50
	maxWhole    = 10_000
	maxFallback = 500
)

// message is what is posted. The false members are sent on purpose: absent, they are true for Slack.
type message struct {
	Text        string       `json:"text"` // for notifications and screen readers; where there are blocks it is not shown
	Mrkdwn      bool         `json:"mrkdwn"`
	UnfurlLinks bool         `json:"unfurl_links"`
	UnfurlMedia bool         `json:"unfurl_media"`
	Blocks      []block      `json:"blocks"`
	Attachments []attachment `json:"attachments,omitempty"`
}

// attachment is blocks with a coloured bar beside them.
type attachment struct {
	Color    string  `json:"color"`
	Fallback string  `json:"fallback"`
	Blocks   []block `json:"blocks"`
}

// block is a header, section, context or divider.
type block struct {
	Type     string  `json:"type"`
	Text     *text   `json:"text,omitempty"`
	Fields   []*text `json:"fields,omitempty"`
	Elements []*text `json:"elements,omitempty"`
}

// text is plain_text or mrkdwn; [plain] and [marked] make it.
type text struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Emoji    *bool  `json:"emoji,omitempty"`    // plain_text only
	Verbatim *bool  `json:"verbatim,omitempty"` // mrkdwn only: nothing is made a link or a mention by itself
}

// markup is mrkdwn that holds nothing a stranger wrote. Only this package's own words are converted to it directly.
type markup string

var yes, no = true, false

// plain is text from anywhere, in which nothing is markup. It is nil where nothing would be seen.
func plain(s string, limit int) *text {
	if s = escape(s, limit); s == "" {
		return nil
	}
	return &text{Type: "plain_text", Text: s, Emoji: &no}
}

func marked(m markup) *text {
	return &text{Type: "mrkdwn", Text: string(m), Verbatim: &yes}
}

func header(s string) block { return block{Type: "header", Text: plain(line(s), maxHeader)} }

// blocks is a message in the making. What has no text is left out, and so is what would be too much.
type blocks []block

func (b *blocks) add(add block) {
	if len(*b) < maxBlocks {
		*b = append(*b, add)
	}
}

func (b *blocks) section(t *text) {
	if t != nil {
		b.add(block{Type: "section", Text: t})
	}
}

// table is short texts side by side.
func (b *blocks) table(cells ...*text) {
	var kept []*text
	for _, c := range cells {
		if c != nil && len(kept) < maxFields {
			kept = append(kept, c)
		}
	}
	if kept != nil {
		b.add(block{Type: "section", Fields: kept})
	}
}

// context is the small print.
func (b *blocks) context(elements ...*text) {
	var kept []*text
	for _, e := range elements {
		if e != nil && len(kept) < maxElements {
			kept = append(kept, e)
		}
	}
	if kept != nil {
		b.add(block{Type: "context", Elements: kept})
	}
}
