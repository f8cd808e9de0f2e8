package slack_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/slack"
)

const secretPath = "/services/T0000/B0000/sEcReTsEcReTsEcReT"

var chat = forwardtest.Chat{
	New: func(h forward.Hook) (*forward.Messenger, error) {
		return slack.New(h, message.Options{})
	},
	Path: secretPath, Render: slack.Render, Check: checkMessage,
}

var update = flag.Bool("update", false, "write the payloads in testdata again")

func TestEveryKindOfMessageMatchesItsGoldenFile(t *testing.T) { chat.Pinned(t, *update) }

func TestTheLargestAndWorstTextsAreWithinTheLimits(t *testing.T) { chat.Limits(t) }

func FuzzRender(f *testing.F) { chat.Fuzz(f, append([]string{"<!channel>"}, forwardtest.Worst...)...) }

// TestItIsAReceiverLikeAllOthers: Slack's own word decides what a response means, otherwise the status.
func TestItIsAReceiverLikeAllOthers(t *testing.T) {
	const page = "<html>nora.beispiel@example.org " + secretPath + "</html>"
	later := forwardtest.Retry
	waits, never := forwardtest.Waits, forwardtest.Refused
	chat.Receiver(t, forwardtest.Reply{Status: 200, Body: "ok", Want: forwardtest.Done}, []forwardtest.Reply{
		{Status: 204, Want: forwardtest.Done},
		{Status: 200, Body: "no_service", Want: waits, Says: "no_service: the webhook no longer works; create a new one in Slack"},
		{Status: 400, Body: "invalid_payload", Want: never, Says: "invalid_payload"},
		{Status: 400, Body: "user_not_found", Want: waits},
		{Status: 400, Body: page, Want: never},
		{Status: 403, Body: "action_prohibited", Want: waits},
		{Status: 410, Body: "channel_is_archived", Want: waits},
		{Status: 413, Want: never},
		{Status: 500, Body: "rollup_error", Want: waits},
		{Status: 500, Body: "no_service", Want: waits},
		{Status: 503, Body: page, RetryAfter: "120", Want: later, After: 2 * time.Minute},
		{Status: 429, Body: "rate_limited", RetryAfter: "30", Want: waits, After: 30 * time.Second},
		{Status: 429, Body: "invalid_payload", RetryAfter: "7", Want: waits, After: 7 * time.Second},
		{Status: 429, RetryAfter: "0.5", Want: waits, After: time.Second / 2},
		{Status: 429, RetryAfter: "NaN", Want: waits},
		{Status: 429, RetryAfter: "1e300", Want: waits, After: time.Hour},
		{Status: 429, RetryAfter: "soon", Want: waits},
		{Status: 429, RetryAfter: "Sun, 01 Jan 2226 00:00:00 GMT", Want: waits, After: time.Hour},
		{Status: 429, RetryAfter: "Sun, 01 Jan 2006 00:00:00 GMT", Want: waits},
	}, "sEcReT", "html", "nora", "elsewhere")
}

func TestAnAddressThatIsNotAWebhookIsRefusedAndNotQuoted(t *testing.T) {
	chat.Addresses(t, map[string]string{
		"":                                      "not an address to post to",
		"sEcReT":                                "not an address to post to",
		"https:sEcReT":                          "not an address to post to",
		"https://hooks.slack.com:sEcReT":        "not an address to post to",
		"%sEcReT":                               "not an address to post to",
		"ftp://hooks.slack.com/services/sEcReT": "not an address to post to",
		"http://hooks.slack.com/services/T/B/sEcReT":         "uses plain http",
		"https://hooks.slack.com/triggers/T/1/sEcReT":        "is not that of an incoming webhook",
		"https://hooks.slack.com/":                           "is not that of an incoming webhook",
		"https://hooks.slack.com/services/":                  "is missing",
		"https://chat.example":                               "is missing",
		"https://user:sEcReT@hooks.slack.com/services/T/B/x": "not an address to post to",
		"https://hooks.slack.com/services/T/B/x#sEcReT":      "must not contain #",
	},
		forward.Hook{URL: " https://hooks.slack.com/services/T/B/x\n"}, // as files end
		forward.Hook{URL: "https://chat.example/hooks/abc"},
		forward.Hook{URL: "http://[::1]:1/hooks/abc"},
		forward.Hook{URL: "http://localhost/hooks/abc"},
		forward.Hook{URL: "http://chat.internal/hooks/abc", AllowPlaintext: []string{"Chat.internal"}})
}

func TestNobodyIsMissingInAList(t *testing.T) {
	for _, piece := range forwardtest.Worst {
		for _, same := range []bool{true, false} {
			body := string(chat.Body(t, true, forward.Delivery{Events: forwardtest.Crowd(t, piece, same)}))
			for i := range 20 {
				if who := fmt.Sprintf("Person%c", 'A'+i); !strings.Contains(body, who) {
					t.Errorf("%.20q, one insertion %v: %s is missing", piece, same, who)
				}
			}
		}
	}
}

func show(t *testing.T, full bool, change func(*events.ContactRequestCreated)) string {
	t.Helper()
	return string(chat.Body(t, full, forward.Delivery{Events: []events.Event{forwardtest.Request(t, change)}}))
}

func TestShortShowsFirstNameAndInitial(t *testing.T) {
	for want, c := range map[string]events.Contact{
		"Nora B.":     {FirstName: "Nora", LastName: "Beispiel"},
		"Nora C.":     {FirstName: "Nora Maria", LastName: "von Curti"},
		"Élodie É.":   {FirstName: "Élodie", LastName: "étienne"},
		"Max M.":      {FullName: "Max Peter Muster"},
		"Cher":        {FullName: "Cher"},
		"D.":          {LastName: "Dupont"},
		"Somebody":    {Company: "Nora Beispiel GmbH"},
		"Somebody\"":  {FirstName: "nora@example.org"},
		"Somebody\",": {FirstName: "0790000123"},
		"<!here>":     {FirstName: "<!here>"},
	} {
		body := show(t, false, func(p *events.ContactRequestCreated) { p.Contact = c })
		if !strings.Contains(body, "New contact request: "+want) {
			t.Errorf("%+v is not shown as %s: %s", c, want, body)
		}
	}
}

func TestShortShowsNoAddressAndNoNumber(t *testing.T) {
	body := show(t, false, func(p *events.ContactRequestCreated) {
		p.Contact = events.Contact{
			FirstName: "Nora", LastName: "Beispiel", Email: "nora@example.org", Phone: "+41790000123",
			PhoneRaw: "079 000 01 23", Company: "Beispiel AG", Message: "Wir sind zu zweit.\nAb 1.2.2027.",
		}
	})
	for _, hidden := range []string{"Beispiel\"", "example.org", "@", "079", "000", "mailto", "tel:", "Beispiel AG"} {
		if strings.Contains(body, hidden) {
			t.Errorf("%s is shown: %s", hidden, body)
		}
	}
	for _, kept := range []string{"Wir sind zu zweit. Ab 1.2.2027.", "CHF 2’890 a month", "Score: 72.5", "seefeld#1203#H2#0305"} {
		if !strings.Contains(body, kept) {
			t.Errorf("%s is missing: %s", kept, body)
		}
	}
	list := string(chat.Body(t, false, forward.Delivery{Events: forwardtest.Requests(t)}))
	if strings.Contains(list, "@") || strings.Contains(list, "+41") || strings.Contains(list, "Muster") {
		t.Errorf("the list shows too much: %s", list)
	}
}

func TestOnlyWebAddressesBecomeLinks(t *testing.T) {
	for address, want := range map[string]string{
		"https://portal.example/d/1":        "<https://portal.example/d/1|portal.example>",
		"http://portal.example/?a=1&b=*x*":  "<http://portal.example/?a=1&amp;b=%2Ax%2A|portal.example>",
		"https://portal.example/a|b>c<!x y": "<https://portal.example/a%7Cb%3Ec%3C%21x%20y|portal.example>",
		"javascript:alert(1)":               "",
		"//portal.example/":                 "",
		"https://пример.example/":           "",
		"https://":                          "",
	} {
		body := show(t, false, func(p *events.ContactRequestCreated) { p.Insertion.URL = address })
		if want == "" && strings.Contains(body, "🔗") || !strings.Contains(body, want) {
			t.Errorf("%s became %s", address, body)
		}
	}
}

func TestALeadWhosePersonWasLeftOutOrErasedSaysSo(t *testing.T) {
	const portal, erased = "your portal has all of it", "was erased before this was sent"
	for _, full := range []bool{false, true} {
		body := show(t, full, func(p *events.ContactRequestCreated) { p.Contact, p.Record, p.Truncated = events.Contact{}, nil, true })
		if !strings.Contains(body, "New contact request: Somebody") || !strings.Contains(body, portal) {
			t.Errorf("full %v, without the person: %s", full, body)
		}
		e := forwardtest.Request(t, func(*events.ContactRequestCreated) {}).Erase()
		body = string(chat.Body(t, full, forward.Delivery{Events: []events.Event{e}}))
		if !strings.Contains(body, "New contact request: Somebody") || !strings.Contains(body, erased) ||
			strings.Contains(body, portal) || strings.Contains(body, "Nora") {
			t.Errorf("full %v, erased: %s", full, body)
		}
	}
}
