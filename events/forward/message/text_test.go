package message

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"doorbell/events"
)

func TestTitlesBeginWithTheNameOfTheInstallation(t *testing.T) {
	lead := events.Event{AgencyID: "A100", Type: events.TypeContactRequestCreated, Data: []byte("{}"), Origin: events.OriginReplay}
	alert := events.Event{AgencyID: "A100", Type: events.TypeWatchStale, Data: []byte("{}")}
	for want, all := range map[string][]events.Event{
		"[staging] [replayed] New contact request":            {lead},
		"[staging] [replayed] 2 new contact requests":         {lead, lead},
		"[staging] No successful response for too long: A100": {alert},
	} {
		m := Write(all, false, Options{Instance: "staging"})
		if !strings.HasPrefix(m.Title, want) || !strings.HasPrefix(m.Subject, "[staging] ") {
			t.Errorf("%q and %q", m.Title, m.Subject)
		}
		if m = Write(all, false, Options{}); strings.Contains(m.Title+m.Subject, "staging") {
			t.Errorf("%q and %q", m.Title, m.Subject)
		}
	}
}

func TestPricesAreWrittenAsInSwitzerland(t *testing.T) {
	for _, row := range []struct{ amount, currency, interval, want string }{
		{"2890", "CHF", "MONTH", "CHF 2’890 a month"},
		{"2890.5", "CHF", "", "CHF 2’890.5"},
		{"1250000", "CHF", "", "CHF 1’250’000"},
		{"999", "EUR", "WEEK", "EUR 999 / week"},
		{"-5", "CHF", "", "CHF -5"},
		{"1e3", "CHF", "SEASON", "CHF 1e3 / season"},
		{"", "CHF", "MONTH", ""},
		{"300", "", "", "300"},
	} {
		if got := (words{}).price(&events.Price{Amount: json.Number(row.amount), Currency: row.currency, Interval: row.interval}); got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
	}
	if got := (words{}).price(nil); got != "" {
		t.Error(got)
	}
}

func TestScoresAreShownAsTheyAre(t *testing.T) {
	for raw, want := range map[string]string{`72.5`: "72.5", `"high"`: "high", `null`: "", ``: "", `{"a":1}`: "", `true`: ""} {
		if got := scalar(json.RawMessage(raw)); got != want {
			t.Errorf("%s: %q", raw, got)
		}
	}
}

func TestTextsKeepTheirLinesAndLoseWhatCannotBeSeen(t *testing.T) {
	got, wasCut := Lines("  Hello\r\n\r\n\r\n\u202eworld\u200b \t x\v\u2028end\x00  ", 100)
	if want := []string{"Hello", "", "world   x", "", "end"}; !slices.Equal(got, want) || wasCut {
		t.Errorf("%q, %t", got, wasCut)
	}
	got, wasCut = Lines(strings.Repeat("é", 50), 10)
	if want := []string{strings.Repeat("é", 9) + "…"}; !slices.Equal(got, want) || !wasCut {
		t.Errorf("%q, %t", got, wasCut)
	}
	if got := Line("a\n b\u00a0\tc  "+strings.Repeat("x", 100), 10); got != "a b c xxx…" {
		t.Errorf("%q", got)
	}
}

func TestALinkLeadsToWhatItSays(t *testing.T) {
	for text, want := range map[string]string{
		"nora@example.org": "mailto:nora@example.org?subject=A%20%26%20B", "nora+x@example.org": "mailto:nora%2Bx@example.org?subject=A%20%26%20B",
		"nora": "", "nora@example.org,x@example.org": "", "Nora <nora@example.org>": "", "nora@exämple.org": "", "a?cc=x@example.org": "mailto:a%3Fcc%3Dx@example.org?subject=A%20%26%20B",
		"nora@localhost": "", "\"a b\"@example.org": "",
	} {
		if got := string(mailLink(text, "A & B")); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"+41790000123": "tel:+41790000123", "079 000 01 23": "tel:0790000123", "+41 (0)79 000-01.23": "tel:+41790000123",
		"*#21#": "", "1234": "", "call me": "", "+4179000012345678": "",
	} {
		if got := string(telLink(text)); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	for text, want := range map[string]string{
		"https://www.portal.example/d/1?a=b#c": "https://www.portal.example/d/1?a=b#c portal.example", "javascript:alert(1)": " ", "//portal.example": " ",
		"https://u:p@portal.example": " ", "https://port al.example": " ", "ftp://portal.example": " ", "https://portal.example/ü": "https://portal.example/%C3%BC portal.example",
	} {
		if link, host := webLink(text); string(link)+" "+host != want {
			t.Errorf("%q: %q %q", text, link, host)
		}
	}
}

func TestAMessageInHTMLIsReadAsText(t *testing.T) {
	for text, want := range map[string]string{
		"<p>Bonjour,<br/>je suis &quot;là&quot; &amp; libre <b>samedi</b>.</p><p>3 &lt; 4?</p>": "Bonjour,\nje suis \"là\" & libre samedi.\n3 < 4?",
		"<DIV class='x'>one</DIV><a href=\"https://evil.example\">two</a>":                      "one\ntwo",
		"3 < 4 &amp; <script>x</script> <3 a@b <nora@example.org>":                              "3 < 4 &amp; <script>x</script> <3 a@b <nora@example.org>",
		"<pre <b": "<pre <b",
	} {
		if got, _ := Lines(Untagged(text), 1000); strings.Join(got, "\n") != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
