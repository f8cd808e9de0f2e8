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

	"doorbell/events/forward/forwardtest"
)

var (
	ourLink = regexp.MustCompile(`<(?:https?|mailto|tel):[A-Za-z0-9._~:/?#\[\]@!$'()+,;=%&-]+\|[A-Za-z0-9 .-]+(?:[’ a-zÉé-]*)>`)
	entity  = regexp.MustCompile(`&(?:amp|lt|gt);`)
)

// checkMessage checks a payload against the limits that Slack documents, and against what we promise of
// strangers' texts. Slack's types check that it has Slack's form.
func checkMessage(body []byte) error {
	if !utf8.Valid(body) || len(body) > 10_000 {
		return fmt.Errorf("%d bytes, or not UTF-8", len(body))
	}
	var m struct {
		Mrkdwn      *bool `json:"mrkdwn"`
		UnfurlLinks *bool `json:"unfurl_links"`
		UnfurlMedia *bool `json:"unfurl_media"`
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return err
	}
	for _, off := range []*bool{m.Mrkdwn, m.UnfurlLinks, m.UnfurlMedia} {
		if off == nil || *off {
			return errors.New("markup of the fallback, or unfurling, is not switched off")
		}
	}
	blocks, attachments := 0, 0
	err := forwardtest.Objects(body, func(o map[string]any) error {
		text, isText := o["text"].(string)
		switch kind, _ := o["type"].(string); kind {
		case "header", "section", "context":
			blocks++
			header, _ := o["text"].(map[string]any)
			if kind == "header" && (header["type"] != "plain_text" || units(header["text"]) > 150) {
				return errors.New("a header that is too long, or markup")
			}
		case "plain_text": // which Slack shows as it is
			return checkText(strings.NewReplacer("<", "", ">", "", "&", "").Replace(text), units(text))
		case "mrkdwn":
			if o["verbatim"] != true {
				return errors.New("mrkdwn that is not verbatim")
			}
			return checkText(ourLink.ReplaceAllString(text, ""), units(text))
		case "":
			if fallback, is := o["fallback"].(string); is {
				text, attachments = fallback, attachments+1
			} else if !isText {
				return errors.New("an object that we do not use")
			}
			return checkText(text, units(text))
		default:
			return fmt.Errorf("%q is not a type that we use", kind)
		}
		return nil
	})
	if err == nil && (blocks == 0 || blocks > 50 || attachments > 20) {
		err = fmt.Errorf("%d blocks, %d attachments", blocks, attachments)
	}
	return err
}

// units is the length of a text, however it is counted.
func units(text any) int {
	s, _ := text.(string)
	return len(utf16.Encode([]rune(s)))
}

// checkText: 1 to 3,000 characters, no control characters, and no < or & that is not ours.
func checkText(rest string, units int) error {
	if units == 0 || units > 3_000 {
		return fmt.Errorf("a text of %d characters", units)
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
