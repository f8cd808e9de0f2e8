package message

import (
	"cmp"
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/events"
)

// Language is one in which leads are written.
type Language string

// The languages. The zero value is English.
const (
	English Language = "en"
	German  Language = "de"
	French  Language = "fr"
	Italian Language = "it"
)

// Languages are all there are.
var Languages = []Language{English, German, French, Italian}

// words speak a language. What they say in English is what the code says.
type words struct{ language Language }

func (w words) tag() Language { return cmp.Or(w.language, English) }

// t translates. A word without a translation, which a test does not allow, stays English.
func (w words) t(english string) string {
	if row := table[english]; row != nil {
		return spaced.Replace(row[slices.Index(Languages, w.tag())])
	}
	return english
}

// spaced keeps the word before a colon or a semicolon in French on its line.
var spaced = strings.NewReplacer(" :", "\u00a0:", " ;", "\u00a0;")

// Colon is what is written between a label and its value, with its space.
func (l Language) Colon() string { return spaced.Replace(locales[words{l}.tag()].colon) }

// Quoted is a person's own words, in quotation marks.
func (l Language) Quoted(s string) string { return fmt.Sprintf(locales[words{l}.tag()].quoted, s) }

// count is a number with its noun; nothing is empty.
func (w words) count(n int, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return strings.Replace(w.t(one), "%s", "1", 1)
	}
	return strings.Replace(w.t(many), "%s", w.grouped(fmt.Sprint(n)), 1)
}

// locale is how a language writes numbers, labels and quotations.
type locale struct{ group, colon, quoted string }

var locales = map[Language]locale{
	English: {"’", ": ", "“%s”"},
	German:  {"’", ": ", "«%s»"},
	French:  {"\u00a0", " : ", "«\u00a0%s\u00a0»"},
	Italian: {"’", ": ", "«%s»"},
}

// Zone returns the time zone with a name, UTC if there is none.
func Zone(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		return time.UTC
	}
	return zone
}

// when is a time where the readers are, to the minute, with its zone; empty for none.
func (w writer) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(w.Location).Format("02.01.2006, 15:04 MST")
}

// price is an amount of money: CHF 2’890 a month.
func (w words) price(p *events.Price) string {
	if p == nil || p.Amount == "" {
		return ""
	}
	interval := Line(p.Interval, 32)
	switch interval {
	case "", "ONETIME":
		interval = ""
	case "MONTH":
		interval = w.t("a month")
	default:
		interval = "/ " + strings.ToLower(interval)
	}
	return joined(" ", Line(p.Currency, 8), w.amount(Line(p.Amount.String(), 32)), interval)
}

// amount groups the digits of a number. What is no plain number stays as it is.
func (w words) amount(n string) string {
	whole, fraction, _ := strings.Cut(n, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return n
	}
	return w.grouped(whole) + n[len(whole):]
}

func (w words) grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + locales[w.tag()].group + digits[i:]
	}
	return digits
}

// table has every text of a lead in all languages, as they are written in Switzerland, by the
// English one. Its first row names the languages.
var table = func() map[string][]string {
	rows, err := csv.NewReader(strings.NewReader(wordsFile)).ReadAll()
	if err != nil {
		panic(err) // a test would have failed
	}
	table := map[string][]string{}
	for _, row := range rows[1:] {
		table[row[0]] = row
	}
	return table
}()

//go:embed words.csv
var wordsFile string
