package teams_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/teams"
	"doorbell/schemas/skiptest"
)

const secretPath = "/workflows/0a1b/triggers/manual/paths/invoke?api-version=2016-06-01" +
	"&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=sEcReTsEcReT"

var chat = forwardtest.Chat{
	New: func(h forward.Hook) (*forward.Messenger, error) {
		return teams.New(h, message.Options{})
	},
	Path: secretPath, Render: teams.Render, Check: checkMessage,
}

var update = flag.Bool("update", false, "write the payloads in testdata again")

func TestEveryKindOfMessageMatchesItsGoldenFile(t *testing.T) { chat.Pinned(t, *update) }

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

func TestTheLargestAndWorstTextsAreWithinTheLimits(t *testing.T) { chat.Limits(t) }

// TestItIsAReceiverLikeAllOthers: a status says what a response means, but for the codes of a
// workflow that takes nothing.
func TestItIsAReceiverLikeAllOthers(t *testing.T) {
	coded := func(code string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"message":"nora.beispiel@example.org"}}`, code)
	}
	const off = "WorkflowTriggerIsNotEnabled: the webhook no longer works; turn the workflow on in Teams, or create a new one"
	waits, never := forwardtest.Waits, forwardtest.Refused
	chat.Receiver(t, forwardtest.Reply{Status: 202, Want: forwardtest.Done}, []forwardtest.Reply{
		{Status: 200, Body: coded("Odd"), Want: forwardtest.Done},
		{Status: 200, Body: coded("WorkflowTriggerIsNotEnabled"), Want: waits, Says: "status 200, " + off},
		{Status: 400, Body: coded("WorkflowTriggerIsNotEnabled"), Want: waits, Says: "status 400, " + off},
		{Status: 400, Body: coded("TriggerInputSchemaMismatch"), Want: waits},
		{Status: 400, Body: coded("InvalidRequestContent"), Want: never},
		{Status: 400, Body: coded("nora.beispiel@example.org"), Want: never},
		{Status: 400, Body: `{"error":"WorkflowTriggerIsNotEnabled"}`, Want: never},
		{Status: 400, Body: "<html>nora</html>", Want: never},
		{Status: 401, Body: coded("DirectApiAuthorizationRequired"), Want: waits},
		{Status: 410, Want: waits, Says: "turn the workflow on"},
		{Status: 429, Body: coded("RateLimit"), RetryAfter: "30", Want: waits, After: 30 * time.Second},
		{Status: 504, Body: coded("GatewayTimeout"), Want: forwardtest.Retry},
	}, "sEcReT", "/workflows/", "nora", "html")
}

func TestAnAddressThatIsNotAWorkflowIsRefusedAndNotQuoted(t *testing.T) {
	const azure = "https://prod-01.westeurope.logic.azure.com:443/workflows/sEcReT/triggers/manual/paths/invoke?api-version=2016-06-01"
	const platform = "https://x.01.environment.api.powerplatform.com:443/powerautomate/automations/direct/workflows/sEcReT/triggers/manual/paths/invoke"
	chat.Addresses(t, map[string]string{
		"https://acme.webhook.office.com/webhookb2/sEcReT/IncomingWebhook/a/b": "Microsoft has retired",
		azure:    "all of it",
		platform: "all of it",
	}, forward.Hook{URL: azure + "&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=x"}, forward.Hook{URL: platform + "?sig=x"},
		forward.Hook{URL: "https://gateway.example/teams/7"})
}

// hostile are texts that a client of Adaptive Cards might take for more than text.
var hostile = []string{
	"[Login](https://evil.example)", "**bold** _it_ ~~no~~ `code`", "# head", "- list\r1. list", "<at>all</at> <b>&lt;b&gt;</b>", "![x](https://evil.example/x.png)",
	"{{DATE(2026-11-20T09:42:00Z, SHORT)}}", "{{{TIME(2026-11-20T09:42:00Z)}}}", "{{{{DATE(2026-11-20T09:42:00Z)}}}}", "${title} @{triggerBody()}", "https://evil.example",
	"\",\"type\":\"Image", "\u202eabc\u202c\x00\x1b[31m",
}

// TestHostileTextIsText puts each text into every field: everything that a reader sees of it is in one TextRun, and no link comes from it.
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
				if !strings.ContainsAny(evil, "{\r\x00") && !strings.Contains(all, strings.Fields(evil)[0]) {
					t.Errorf("%q is not shown: %q", evil, all)
				}
			}
		}
	}
}

func TestFullHasButtonsToWriteToCallAndToThePage(t *testing.T) {
	look := func(change func(*events.ContactRequestCreated)) (string, map[string]string) {
		e := forwardtest.Request(t, change)
		return shown(t, chat.Body(t, true, forward.Delivery{Events: []events.Event{e}}))
	}
	all, links := look(func(p *events.ContactRequestCreated) { p.Insertion.URL = "https://www.portal.example/d/1?a=1&b=2" })
	for _, want := range []string{"Frau Nora Beispiel", "E-mail: nora.beispiel@example.org", "Phone: 079 000 01 23"} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing: %s", want, all)
		}
	}
	if len(links) != 3 || !strings.HasPrefix(links["✉️ Write an e-mail"], "mailto:nora.beispiel@example.org?subject=Helle%203.5-") ||
		links["📞 Call"] != "tel:+41790000123" || links["🔗 portal.example"] != "https://www.portal.example/d/1?a=1&b=2" {
		t.Errorf("%v", links)
	}
	all, links = look(func(p *events.ContactRequestCreated) {
		p.Contact.Email, p.Contact.Phone, p.Contact.PhoneRaw, p.Insertion.URL = "a@b.ch?bcc=all@evil.example", "", "call me", "javascript:alert(1)"
	})
	if len(links) != 0 || !strings.Contains(all, "Phone: call me") {
		t.Errorf("%v %s", links, all)
	}
}

func FuzzRender(f *testing.F) {
	chat.Fuzz(f, slices.Concat([]string{"{{DATE(2026-11-20T09:42:00Z)}}"}, hostile, forwardtest.Worst)...)
}
