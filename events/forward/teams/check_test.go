package teams_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"doorbell/events/forward/forwardtest"
)

// published is what Teams takes of a workflow, in KB; UTF-16 is the most that it may count.
const published = 28

var ourURL = regexp.MustCompile(`^(?:https?|mailto|tel):[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$`)

// checkMessage checks a payload against what Microsoft documents, and against what we promise of
// strangers' texts: TextBlock and FactSet, in which Markdown is interpreted, have no place in it.
func checkMessage(body []byte) error {
	if !utf8.Valid(body) || 2*len(utf16.Encode([]rune(string(body)))) > published*1024 {
		return fmt.Errorf("%d bytes, or not UTF-8", len(body))
	}
	count := map[string]int{}
	err := forwardtest.Objects(body, func(o map[string]any) error {
		kind, _ := o["type"].(string)
		count[kind]++
		text, _ := o["text"].(string)
		title, _ := o["title"].(string)
		url, _ := o["url"].(string)
		switch kind {
		case "message", "AdaptiveCard", "Container", "RichTextBlock":
			text = "of others"
		case "TextRun":
		case "Action.OpenUrl":
			text = title
			if !ourURL.MatchString(url) {
				return errors.New("an action that is no link of ours")
			}
		case "": // an attachment
			if text = o["contentType"].(string); text != "application/vnd.microsoft.card.adaptive" {
				return errors.New("an attachment that is no card")
			}
		default:
			return fmt.Errorf("a %s, which we do not use", kind)
		}
		if kind == "AdaptiveCard" && o["version"] != "1.2" {
			return errors.New("another version")
		}
		return checkText(text)
	})
	if err == nil && (count["message"] != 1 || count["AdaptiveCard"] != 1 || count["TextRun"] == 0 || count["Action.OpenUrl"] > 6) {
		err = fmt.Errorf("not a message with one card: %v", count)
	}
	return err
}

// checkText: no control characters, one line, and no function.
func checkText(text string) error {
	if text == "" || strings.Contains(text, "{{") {
		return errors.New("an empty text, or one with a function")
	}
	for _, r := range text {
		if unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' {
			return fmt.Errorf("a text with the control character %U", r)
		}
	}
	return nil
}

// shown is all that a reader sees of a payload, and its links.
func shown(t testing.TB, body []byte) (all string, links map[string]string) {
	t.Helper()
	links = map[string]string{}
	err := forwardtest.Objects(body, func(o map[string]any) error {
		if runs, is := o["inlines"].([]any); is {
			for _, r := range runs {
				all += r.(map[string]any)["text"].(string)
			}
			all += "\n"
		}
		if url, is := o["url"].(string); is {
			links[o["title"].(string)] = url
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, links
}
