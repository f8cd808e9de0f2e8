package teams_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/teams"
	"doorbell/schemas/skiptest"
)

var chat = forwardtest.Chat{
	New: func(url string) (*forward.Messenger, error) {
		return teams.New(forward.Hook{URL: url}, message.Options{})
	},
	Path: secretPath, Render: teams.Render, Check: checkMessage,
}

var update = flag.Bool("update", false, "write the payloads in testdata again")

func text(t testing.TB, full bool, list ...events.Event) (string, map[string]string) {
	t.Helper()
	lines, links := shown(t, chat.Body(t, full, forward.Delivery{Events: list}))
	return strings.Join(lines, "\n"), links
}

func TestEveryKindOfMessageLooksAsItIsPinned(t *testing.T) { chat.Pinned(t, *update) }

// TestMicrosoftsLibraryReadsEveryCard has an independent judge, which must also refuse what is wrong.
func TestMicrosoftsLibraryReadsEveryCard(t *testing.T) {
	interop := filepath.Join("..", "..", "..", "schemas", "interop")
	if _, err := os.Stat(filepath.Join(interop, "node_modules", "adaptivecards")); err != nil {
		skiptest.Skipf(t, "Microsoft's library for Adaptive Cards is not installed; run, at the top of the repository: npm ci --prefix schemas/interop")
	}
	cards := []json.RawMessage{
		json.RawMessage(`{"type":"AdaptiveCard","version":"1.2","body":[{"type":"RichText","inlines":[]}]}`),
		json.RawMessage(`{"type":"AdaptiveCard","version":"1.2","body":[{"type":"Container","style":"calm","items":[{"type":"TextBlock","text":"a"}]}]}`),
		json.RawMessage(`{"type":"AdaptiveCard","version":"1.2","headline":"a","body":[{"type":"TextBlock","text":"a"}]}`),
		json.RawMessage(`{"type":"AdaptiveCard","version":"1.2","body":[{"type":"Table","columns":[],"rows":[]}]}`),
	}
	wrong := len(cards)
	samples := forwardtest.Samples(t)
	for _, s := range samples {
		var m struct {
			Attachments []struct{ Content json.RawMessage }
		}
		if err := json.Unmarshal(chat.Body(t, s.Full, s.Delivery), &m); err != nil {
			t.Fatal(err)
		}
		cards = append(cards, m.Attachments[0].Content)
	}
	input, err := json.Marshal(cards)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command("node", filepath.Join(interop, "cards.mjs"))
	command.Stdin, command.Stderr = bytes.NewReader(input), os.Stderr
	out, err := command.Output()
	var against [][]string
	if err != nil || json.Unmarshal(out, &against) != nil || len(against) != len(cards) {
		t.Fatalf("%v: %.500s", err, out)
	}
	for n, problems := range against {
		if n < wrong && len(problems) == 0 {
			t.Errorf("the library finds nothing wrong with %s", cards[n])
		} else if n >= wrong && len(problems) > 0 {
			t.Errorf("%s: %v", samples[n-wrong].Name, problems)
		}
	}
}

func TestTheLargestAndWorstTextsAreWithinTheLimits(t *testing.T) { chat.Limits(t, 1) }

// hostile are texts that a client of Adaptive Cards might take for more than text.
var hostile = []string{
	"[Login](https://evil.example)", "**bold** _it_ ~~no~~ `code`", "# head", "- list\r1. list", "<at>all</at> <b>&lt;b&gt;</b>", "![x](https://evil.example/x.png)",
	"{{DATE(2026-11-20T09:42:00Z, SHORT)}}", "{{{TIME(2026-11-20T09:42:00Z)}}}", "{{{{DATE(2026-11-20T09:42:00Z)}}}}", "${title} @{triggerBody()}", "https://evil.example",
	"\",\"type\":\"Image", "\u202eabc\u202c\x00\x1b[31m",
}

// TestHostileTextIsText puts each text into every field: whatever a reader sees of it stands in a TextRun, whole, and no link is theirs.
func TestHostileTextIsText(t *testing.T) {
	for _, evil := range hostile {
		for _, n := range []int{1, 3} {
			for _, list := range [][]events.Event{forwardtest.WorstRequests(t, evil, n, true), forwardtest.WorstAlerts(t, evil, n)} {
				body := chat.Body(t, true, forward.Delivery{Events: list})
				if err := checkMessage(body); err != nil {
					t.Errorf("%q: %v\n%s", evil, err, body)
				}
				all, links := shown(t, body)
				for title, url := range links {
					if evil != "https://evil.example" || title != "🔗 evil.example" || url != evil {
						t.Errorf("%q became a link: %s %s", evil, title, url)
					}
				}
				if !strings.ContainsAny(evil, "{\r\x00") && !strings.Contains(strings.Join(all, "\n"), strings.Fields(evil)[0]) {
					t.Errorf("%q is not shown: %q", evil, all)
				}
			}
		}
	}
}

func TestFullHasButtonsToWriteToCallAndToThePage(t *testing.T) {
	all, links := text(t, true, forwardtest.Request(t, func(p *events.ContactRequestCreated) { p.Insertion.URL = "https://www.portal.example/d/1?a=1&b=2" }))
	for _, want := range []string{"Frau Nora Beispiel", "E-mail: nora.beispiel@example.org", "Phone: 079 000 01 23"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing: %s", want, all)
		}
	}
	if len(links) != 3 || !strings.HasPrefix(links["✉️ Write a mail"], "mailto:nora.beispiel@example.org?subject=Helle%203.5-") || links["📞 Call"] != "tel:+41790000123" ||
		links["🔗 portal.example"] != "https://www.portal.example/d/1?a=1&b=2" {
		t.Errorf("%v", links)
	}
	all, links = text(t, true, forwardtest.Request(t, func(p *events.ContactRequestCreated) {
		p.Contact.Email, p.Contact.Phone, p.Contact.PhoneRaw, p.Insertion.URL = "a@b.ch?bcc=all@evil.example", "", "call me", "javascript:alert(1)"
	}))
	if len(links) != 0 || !strings.Contains(all, "Phone: call me") {
		t.Errorf("%v %s", links, all)
	}
}

func FuzzRender(f *testing.F) {
	chat.Fuzz(f, slices.Concat([]string{"{{DATE(2026-11-20T09:42:00Z)}}"}, hostile, forwardtest.Worst)...)
}
