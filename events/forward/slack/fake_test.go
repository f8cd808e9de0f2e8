package slack_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const secretPath = "/services/T0000/B0000/sEcReTsEcReTsEcReT"

// The shape of a message, read by this test and not by the code that wrote it.
type (
	readMessage struct {
		Text        *string          `json:"text"`
		Mrkdwn      *bool            `json:"mrkdwn"`
		UnfurlLinks *bool            `json:"unfurl_links"`
		UnfurlMedia *bool            `json:"unfurl_media"`
		Blocks      []readBlock      `json:"blocks"`
		Attachments []readAttachment `json:"attachments"`
	}
	readAttachment struct {
		Color, Fallback string
		Blocks          []readBlock
	}
	readBlock struct {
		Type             string
		Text             *readText
		Fields, Elements []readText
	}
	readText struct {
		Type, Text string
		Verbatim   bool
		Emoji      *bool
	}
)

// checkMessage holds a payload against the limits that Slack documents, and against what we promise of strangers' texts.
func checkMessage(body []byte) error {
	if !utf8.Valid(body) || len(body) > 10_000 {
		return fmt.Errorf("%d bytes, or no UTF-8", len(body))
	}
	var m readMessage
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	for _, off := range []*bool{m.Mrkdwn, m.UnfurlLinks, m.UnfurlMedia} {
		if off == nil || *off {
			return errors.New("markup of the fallback, or unfurling, is not switched off")
		}
	}
	if m.Text == nil || *m.Text == "" || len(m.Blocks) == 0 {
		return errors.New("no text or no blocks")
	}
	all, count := []readText{{Type: "fallback", Text: *m.Text}}, 0
	lists := [][]readBlock{m.Blocks}
	for _, a := range m.Attachments {
		if !regexp.MustCompile(`^#[0-9a-f]{6}$`).MatchString(a.Color) || len(a.Blocks) == 0 {
			return errors.New("an attachment without colour or blocks")
		}
		all, lists = append(all, readText{Type: "fallback", Text: a.Fallback}), append(lists, a.Blocks)
	}
	for _, list := range lists {
		count += len(list)
		for _, b := range list {
			texts, err := b.check()
			if err != nil {
				return fmt.Errorf("%s: %w", b.Type, err)
			}
			all = append(all, texts...)
		}
	}
	if count > 50 || len(m.Attachments) > 20 {
		return fmt.Errorf("%d blocks", count)
	}
	for _, text := range all {
		if err := text.check(3_000); err != nil {
			return err
		}
	}
	return nil
}

func (b readBlock) check() ([]readText, error) {
	limit := map[string]int{"header": 150, "section": 3_000, "context": 3_000}[b.Type]
	switch {
	case limit == 0:
		return nil, errors.New("not a block that we use")
	case b.Type == "header" && (b.Text == nil || b.Text.Type != "plain_text" || b.Fields != nil || b.Elements != nil):
		return nil, errors.New("it has one plain_text and nothing else")
	case b.Type == "section" && (b.Text == nil || b.Fields != nil || b.Elements != nil):
		return nil, errors.New("it has a text and nothing else")
	case b.Type == "context" && (len(b.Elements) == 0 || len(b.Elements) > 10 || b.Text != nil || b.Fields != nil):
		return nil, errors.New("it has one to ten elements")
	}
	var all []readText
	if b.Text != nil {
		all = append(all, *b.Text)
		if err := b.Text.check(limit); err != nil {
			return nil, err
		}
	}
	return append(all, b.Elements...), nil
}

var (
	ourLink = regexp.MustCompile(`<(?:https?|mailto|tel):[A-Za-z0-9._~:/?#\[\]@!$'()+,;=%&-]+\|[A-Za-z0-9 .-]+(?:[’ a-zÉé-]*)>`)
	entity  = regexp.MustCompile(`&(?:amp|lt|gt);`)
)

// check: 1 to limit characters however they are counted, nothing that steers, and where markup counts no < or & that is not ours.
func (t readText) check(limit int) error {
	units := len(utf16.Encode([]rune(t.Text)))
	if units == 0 || units > limit {
		return fmt.Errorf("a text of %d characters", units)
	}
	rest := t.Text
	switch t.Type {
	case "plain_text": // which Slack shows as it is
		if t.Verbatim {
			return errors.New("plain_text has no verbatim")
		}
		rest = strings.NewReplacer("<", "", ">", "", "&", "").Replace(rest)
	case "fallback":
	case "mrkdwn":
		if !t.Verbatim {
			return errors.New("mrkdwn that is not verbatim")
		}
		rest = ourLink.ReplaceAllString(rest, "")
	default:
		return fmt.Errorf("text of type %q", t.Type)
	}
	rest = entity.ReplaceAllString(rest, "")
	if strings.ContainsAny(rest, "<>&") {
		return errors.New("a text with an unescaped character, or a cut escape")
	}
	for _, r := range rest {
		if r != '\n' && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028') {
			return fmt.Errorf("a text with the control character %U", r)
		}
	}
	return nil
}
