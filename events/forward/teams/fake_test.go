package teams_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

const secretPath = "/workflows/0a1b/triggers/manual/paths/invoke?api-version=2016-06-01" +
	"&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=sEcReTsEcReT"

// The shape of a message, read by this test and not by the code that wrote it. No other member is allowed: TextBlock and FactSet,
// in which Markdown is interpreted, cannot be read.
type (
	readMessage struct {
		Type        string `json:"type"`
		Attachments []struct {
			ContentType string   `json:"contentType"`
			Content     readCard `json:"content"`
		} `json:"attachments"`
	}
	readCard struct {
		Type    string        `json:"type"`
		Version string        `json:"version"`
		Body    []readElement `json:"body"`
		Actions []struct {
			Type  string `json:"type"`
			Title string `json:"title"`
			URL   string `json:"url"`
		} `json:"actions"`
	}
	readElement struct {
		Type      string        `json:"type"`
		Style     string        `json:"style"`
		Spacing   string        `json:"spacing"`
		Separator bool          `json:"separator"`
		Inlines   []readRun     `json:"inlines"`
		Items     []readElement `json:"items"`
	}
	readRun struct {
		Type     string  `json:"type"`
		Text     *string `json:"text"`
		Size     string  `json:"size"`
		Weight   string  `json:"weight"`
		FontType string  `json:"fontType"`
		IsSubtle bool    `json:"isSubtle"`
	}
)

// published is what Teams takes of a workflow, in KB; UTF-16 is the most that it may count.
const published = 28

var ourURL = regexp.MustCompile(`^(?:https?|mailto|tel):[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+$`)

// checkMessage holds a payload against what Microsoft documents, and against what we promise of strangers' texts.
func checkMessage(body []byte) error {
	if !utf8.Valid(body) || 2*len(utf16.Encode([]rune(string(body)))) > published*1024 {
		return fmt.Errorf("%d bytes, or no UTF-8", len(body))
	}
	m, err := read(body)
	if err != nil {
		return err
	}
	if m.Type != "message" || len(m.Attachments) != 1 || m.Attachments[0].ContentType != "application/vnd.microsoft.card.adaptive" {
		return errors.New("not a message with one card")
	}
	c := m.Attachments[0].Content
	if c.Type != "AdaptiveCard" || c.Version != "1.2" || len(c.Body) == 0 || len(c.Actions) > 6 {
		return errors.New("not a card")
	}
	for _, a := range c.Actions {
		if a.Type != "Action.OpenUrl" || a.Title == "" || !ourURL.MatchString(a.URL) {
			return errors.New("an action that is no link")
		}
		if err := checkText(a.Title); err != nil {
			return err
		}
	}
	return checkElements(c.Body, true)
}

func read(body []byte) (m readMessage, err error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	return m, d.Decode(&m)
}

func checkElements(all []readElement, top bool) error {
	among := func(value string, values ...string) bool { return value == "" || slices.Contains(values, value) }
	for _, e := range all {
		switch {
		case !among(e.Spacing, "None", "Small"):
			return fmt.Errorf("spacing %q", e.Spacing)
		case e.Type == "Container" && top && len(e.Items) > 0 && e.Inlines == nil && among(e.Style, "emphasis", "good", "attention", "warning", "accent"):
			if err := checkElements(e.Items, false); err != nil {
				return err
			}
			continue
		case e.Type != "RichTextBlock" || len(e.Inlines) == 0 || e.Items != nil || e.Style != "":
			return fmt.Errorf("a %s that we do not use so", e.Type)
		}
		for _, r := range e.Inlines {
			if r.Type != "TextRun" || r.Text == nil || !among(r.Size, "Small", "Medium", "Large") || !among(r.Weight, "Bolder") || !among(r.FontType, "Monospace") {
				return errors.New("a run that we do not use so")
			}
			if err := checkText(*r.Text); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkText: nothing that steers, on one line, and no function.
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

// shown are the lines of a payload as a reader sees them, and its links.
func shown(t testing.TB, body []byte) (lines []string, links map[string]string) {
	t.Helper()
	m, err := read(body)
	if err != nil {
		t.Fatal(err)
	}
	links = map[string]string{}
	var walk func([]readElement)
	walk = func(all []readElement) {
		for _, e := range all {
			line := ""
			for _, r := range e.Inlines {
				line += *r.Text
			}
			if line != "" {
				lines = append(lines, line)
			}
			walk(e.Items)
		}
	}
	walk(m.Attachments[0].Content.Body)
	for _, a := range m.Attachments[0].Content.Actions {
		links[a.Title] = a.URL
	}
	return lines, links
}
