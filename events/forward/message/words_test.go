package message

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// said are the texts that leads are told with: every literal that the code hands to t, fact and count.
func said(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{incomplete: true}
	for _, file := range []string{"message.go", "lead.go", "text.go", "words.go"} {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if s, ok := call.Fun.(*ast.SelectorExpr); !ok || !slices.Contains([]string{"t", "fact", "count"}, s.Sel.Name) {
				return true
			}
			args := call.Args
			if call.Fun.(*ast.SelectorExpr).Sel.Name == "fact" {
				args = args[:1]
			}
			for _, argument := range args {
				ast.Inspect(argument, func(n ast.Node) bool {
					if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
						text, err := strconv.Unquote(l.Value)
						if err != nil {
							t.Fatal(err)
						}
						all[text] = true
					}
					return true
				})
			}
			return true
		})
	}
	return all
}

func TestTheTableOfWordsIsComplete(t *testing.T) {
	all := said(t)
	for english := range all {
		row, known := table[english]
		for i, text := range row {
			if !known || text == "" || strings.Count(text, "%s") != strings.Count(english, "%s") || strings.Contains(text, "ß") {
				t.Errorf("%q in %s: %q", english, Languages[i+1], text)
			}
		}
	}
	for english := range table {
		if !all[english] {
			t.Errorf("nobody says %q", english)
		}
	}
	for _, l := range Languages {
		h := locales[l]
		if h.group == "" || h.colon == "" || h.quoted == "" {
			t.Errorf("%s: %+v", l, h)
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
