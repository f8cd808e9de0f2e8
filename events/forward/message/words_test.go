package message

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

func TestTheTableOfWordsIsComplete(t *testing.T) {
	source := ""
	for _, file := range []string{"message.go", "lead.go", "words.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += regexp.MustCompile(`" \+\s+"`).ReplaceAllString(string(text), "")
	}
	said := []string{incomplete}
	for _, title := range titles {
		said = append(said, title)
	}
	for _, call := range regexp.MustCompile(`w\.(?:t|fact|count)\((?:[^"()]|\([^"()]*\))*"([^"]*)"(?:, "([^"]*)")?`).FindAllStringSubmatch(source, -1) {
		said = append(said, call[1], cmp.Or(call[2], call[1]))
	}
	for _, english := range said {
		if table[english] == nil {
			t.Errorf("%q is not translated", english)
		}
	}
	for english, row := range table {
		if !slices.Contains(said, english) {
			t.Errorf("nobody says %q", english)
		}
		for _, text := range row {
			if text == "" || strings.Count(text, "%s") != strings.Count(english, "%s") || strings.Contains(text, "ß") {
				t.Errorf("%q: %q", english, text)
			}
		}
	}
}

func TestTimesAndPricesFollowTheLanguage(t *testing.T) {
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 9, 41, 0, 0, time.UTC)
	price := &events.Price{Amount: "1250000", Currency: "CHF", Interval: "MONTH"}
	for language, want := range map[Language]string{
		"":      "20.11.2026, 10:41 CET; CHF 1’250’000 a month; 2 new contact requests",
		German:  "20.11.2026, 10:41 CET; CHF 1’250’000 pro Monat; 2 neue Kontaktanfragen",
		French:  "20.11.2026, 10:41 CET; CHF 1\u00a0250\u00a0000 par mois; 2 nouvelles demandes de contact",
		Italian: "20.11.2026, 10:41 CET; CHF 1’250’000 al mese; 2 nuove richieste di contatto",
	} {
		w := writer{Options: Options{Location: zurich}, words: words{language}}
		got := w.when(at) + "; " + w.price(price) + "; " + w.count(2, "%s new contact request", "%s new contact requests")
		if got != want {
			t.Errorf("%s: %q", language, got)
		}
	}
}

func TestColonsAndQuotesFollowTheLanguage(t *testing.T) {
	for language, want := range map[Language]string{
		"": "New contact request: “x”", German: "Neue Kontaktanfrage: «x»", Italian: "Nuova richiesta di contatto: «x»",
		French: "Nouvelle demande de contact\u00a0: «\u00a0x\u00a0»",
	} {
		if got := (words{language}).t("New contact request") + language.Colon() + language.Quoted("x"); got != want {
			t.Errorf("%q: %q", language, got)
		}
	}
	for english := range table {
		if text := (words{French}).t(english); strings.Contains(text, " :") || strings.Contains(text, " ;") {
			t.Errorf("%q begins a line with a colon", text)
		}
	}
}
