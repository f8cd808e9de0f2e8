package email

import (
	"encoding/json"
	"mime"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

func TestPricesAreWrittenAsInSwitzerland(t *testing.T) {
	for _, row := range []struct{ amount, currency, interval, want string }{
		{"2890", "CHF", "MONTH", "CHF 2’890.– a month"},
		{"2890.5", "CHF", "MONTH", "CHF 2’890.50 a month"},
		{"2890.00", "CHF", "", "CHF 2’890.–"},
		{"1250000", "CHF", "", "CHF 1’250’000.–"},
		{"999", "EUR", "WEEK", "EUR 999.– a week"},
		{"-5", "CHF", "", "CHF -5.–"},
		{"12.345", "CHF", "", "CHF 12.345"},
		{"1e3", "CHF", "SEASON", "CHF 1e3 per season"},
		{"", "CHF", "MONTH", ""},
		{"300", "", "", "300.–"},
	} {
		if got := price(&events.Price{Amount: json.Number(row.amount), Currency: row.currency, Interval: row.interval}); got != row.want {
			t.Errorf("%+v: %q", row, got)
		}
	}
	if got := price(nil); got != "" {
		t.Error(got)
	}
}

func TestTimesAgoAreInOneUnit(t *testing.T) {
	for ago, want := range map[time.Duration]string{
		-time.Hour: "just now", 3 * time.Second: "just now", 54 * time.Second: "54 seconds ago", 5 * time.Minute: "5 minutes ago",
		3 * time.Hour: "3 hours ago", 50 * time.Hour: "2 days ago",
	} {
		if got := since(now.Add(-ago), now); got != want {
			t.Errorf("%s: %q", ago, got)
		}
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
	got, wasCut := lines("  Hello\r\n\r\n\r\n\u202eworld\u200b \t x\v\u2028end\x00  ", 100)
	if want := []string{"Hello", "", "world   x", "", "end"}; !slices.Equal(got, want) || wasCut {
		t.Errorf("%q, %t", got, wasCut)
	}
	got, wasCut = lines(strings.Repeat("é", 50), 10)
	if want := []string{strings.Repeat("é", 9) + "…"}; !slices.Equal(got, want) || !wasCut {
		t.Errorf("%q, %t", got, wasCut)
	}
	if got := line("a\n b\u00a0\tc  "+strings.Repeat("x", 100), 10); got != "a b c xxx…" {
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

func TestTheSubjectNamesThePropertyAndNotThePerson(t *testing.T) {
	o := newOutlet(t, nil)
	want := map[string]string{
		"contact_request.created":  "New contact request: Helle 3.5-Zimmerwohnung im Seefeld, 8008 Zürich",
		"contact_request.redacted": "Contact request erased: seefeld#1203#H2#0305",
		"test":                     "[TEST] New contact request: Helle 3.5-Zimmerwohnung im Seefeld, 8008 Zürich",
		"replayed":                 "[replayed] New contact request: Helle 3.5-Zimmerwohnung im Seefeld, 8008 Zürich",
		"sparse":                   "New contact request: seefeld#1203#H2#0305",
		"digest":                   "2 new contact requests and 2 changes",
		"access.halted":            "[doorbell alert] A100: The API refuses the key",
		"halts":                    "[doorbell alert] 3 agencies: The API refuses the key",
		"watch.recovered":          "[doorbell] A100: All is well again: the API answers",
	}
	for name, d := range deliveries(t) {
		got := o.compose(d, now).page.Subject
		if want[name] != "" && got != want[name] {
			t.Errorf("%s: %q", name, got)
		}
		if strings.Contains(got, "Nora") || strings.Contains(got, "Beispiel") {
			t.Errorf("%s: the subject names a person", name)
		}
	}
}

func TestARefusedKeyOfTwoHundredAgenciesIsToldOnce(t *testing.T) {
	var d forward.Delivery
	for i := range 200 {
		d.Events = append(d.Events, with(t, example(t, events.TypeAccessHalted), func(p map[string]any) {
			p["agencyId"] = "A" + string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10))
		}))
	}
	p := newOutlet(t, nil).compose(d, now).page
	if len(p.Items) != 1 || p.Subject != "[doorbell alert] 200 agencies: The API refuses the key" || !strings.Contains(p.Items[0].Facts[0].Text, "A059 and 140 more") {
		t.Errorf("%d items, %q, %q", len(p.Items), p.Subject, p.Items[0].Facts[0])
	}
}

func TestIdsAreTheSameForTheSameDelivery(t *testing.T) {
	o, all := newOutlet(t, nil), deliveries(t)
	seen := map[string]string{}
	for name, d := range all {
		id := o.compose(d, now).id
		if again := o.compose(d, now.Add(time.Hour)).id; again != id {
			t.Errorf("%s: %s and %s", name, id, again)
		}
		if other := seen[id]; other != "" {
			t.Errorf("%s and %s are both %s", name, other, id)
		}
		seen[id] = name
		if len(id) > 100 || strings.ContainsAny(id, "<> \r\n") || !strings.HasSuffix(id, ".email@agency.example") {
			t.Errorf("%s: %q", name, id)
		}
	}
}

func TestAllMailsOfAnInsertionAreOneThread(t *testing.T) {
	o, all := newOutlet(t, nil), deliveries(t)
	created := o.compose(all["contact_request.created"], now).thread
	if changed := o.compose(all["insertion.changed"], now).thread; changed != created || created == "" {
		t.Errorf("%q and %q", created, changed)
	}
	if other := o.compose(all["insertion.appeared"], now).thread; other == created {
		t.Error("two insertions, one thread")
	}
	if digest := o.compose(all["digest"], now).thread; digest != "" {
		t.Errorf("a digest of several: %q", digest)
	}
	same := forward.Delivery{Events: []events.Event{all["contact_request.created"].Events[0], all["insertion.changed"].Events[0]}}
	if digest := o.compose(same, now).thread; digest != created {
		t.Errorf("a digest of one: %q", digest)
	}
	elsewhere := with(t, all["contact_request.created"].Events[0], func(p map[string]any) { p["agencyId"] = "B1" })
	if other := o.compose(forward.Delivery{Events: []events.Event{elsewhere}}, now).thread; other == created {
		t.Error("the same reference of two agencies is one thread")
	}
}

func TestAnAnswerGoesToThePersonIfItCan(t *testing.T) {
	o := newOutlet(t, nil)
	for email, want := range map[string]string{
		"nora.beispiel@example.org": `"Nora Beispiel" <nora.beispiel@example.org>`, " nora@example.org ": `"Nora Beispiel" <nora@example.org>`,
		"": "", "nora": "", "nora@example.org, other@example.org": "", "nora@example.org\r\nBcc: x@example.org": "", "Other <nora@example.org>": "", "zoë@example.org": "",
	} {
		e := with(t, example(t, events.TypeContactRequestCreated), func(p map[string]any) { p["contact"].(map[string]any)["email"] = email })
		got := ""
		if r := o.compose(forward.Delivery{Events: []events.Event{e}}, now).replyTo; r != nil {
			got = r.String()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", email, got, want)
		}
	}
	if r := o.compose(deliveries(t)["digest"], now).replyTo; r != nil {
		t.Error("a digest is of several people")
	}
	if r := o.compose(deliveries(t)["test"], now).replyTo; r != nil {
		t.Error("a test is of nobody")
	}
	if got := plainName("office@agency.example"); got != "" {
		t.Errorf("a name that looks like an address: %q", got)
	}
}

func TestASubjectIsDecodedToWhatWasMeant(t *testing.T) {
	for _, text := range []string{
		"Short and plain", "=?utf-8?B?4oCu?=", "Zürich", "a_b=c?d", strings.Repeat("ä long one ", 12), strings.Repeat("x", 150), "",
	} {
		header := subject(text)
		got, err := new(mime.WordDecoder).DecodeHeader(strings.ReplaceAll(header, "\r\n", ""))
		if err != nil || got != strings.TrimSpace(text) || !ascii(header) {
			t.Errorf("%q: %q, decoded %q, %v", text, header, got, err)
		}
		for l := range strings.SplitSeq("Subject: "+header, "\r\n") {
			if len(l) > 76 {
				t.Errorf("%d characters: %q", len(l), l)
			}
		}
	}
}
