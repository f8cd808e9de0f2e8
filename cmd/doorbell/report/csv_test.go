package report

import (
	"encoding/csv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestACellIsNeverAFormula(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		"Nora Muster-zq7":         "Nora Muster-zq7",
		"=1+1":                    "'=1+1",
		"+41790000123":            "'+41790000123",
		"-2":                      "'-2",
		"@SUM(A1)":                "'@SUM(A1)",
		"\t=1":                    "' =1",
		"\tx":                     "' x",
		" \u00a0=1":               "'  =1",
		"\r\n=1":                  "' =1",
		"＝1":                      "'＝1",
		"a\r\nb\nc":               "a b c",
		"a;\"b\"":                 "a;\"b\"",
		"\u202egnp":               " gnp",
		"a=b":                     "a=b",
		"\xff=1":                  "\ufffd=1",
		"Zürich, 3½ Zimmer 😀":     "Zürich, 3½ Zimmer 😀",
		"\u2028=HYPERLINK(\"x\")": "' =HYPERLINK(\"x\")",
	} {
		if got := Cell(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestCSVOpensInASwissExcel(t *testing.T) {
	var b strings.Builder
	c, err := NewCSV(&b, "name", "message")
	must(t, err)
	if err := c.Row("Zoë", "one;\r\n\"two\""); err != nil {
		t.Fatal(err)
	}
	if want := "\ufeffname;message\r\nZoë;\"one; \"\"two\"\"\"\r\n"; b.String() != want {
		t.Errorf("written: %q, want %q", b.String(), want)
	}
}

func FuzzARowIsOneLineWithoutFormulas(f *testing.F) {
	f.Add("=1", "a\nb;c")
	f.Add("\"\r\n=2;3", "\t-")
	f.Fuzz(func(t *testing.T, one, two string) {
		var b strings.Builder
		c, _ := NewCSV(&b, "a", "b")
		must(t, c.Row(one, two))
		if n := strings.Count(b.String(), "\n"); n != 2 || strings.Count(b.String(), "\r") != 2 || !utf8.ValidString(b.String()) {
			t.Errorf("%q has %d lines", b.String(), n)
		}
		r := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\ufeff")))
		r.Comma = ';'
		rows, err := r.ReadAll()
		if err != nil || len(rows) != 2 || len(rows[1]) != 2 {
			t.Fatalf("%q is read as %q, %v", b.String(), rows, err)
		}
		for _, cell := range rows[1] {
			if begin := strings.TrimSpace(cell); begin != "" && strings.ContainsAny(begin[:1], "=+-@") {
				t.Errorf("%q begins like a formula", cell)
			}
		}
	})
}
