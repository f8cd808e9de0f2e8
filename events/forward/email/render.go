package email

import (
	_ "embed"
	"html/template"
	"strings"
	"unicode/utf8"
)

//go:embed mail.html
var htmlSource string

var htmlTemplate = template.Must(template.New("mail").Parse(htmlSource))

// html is the page for those who see it: one column, no remote content, light and dark.
func (p page) html() (string, error) {
	var b strings.Builder
	err := htmlTemplate.Execute(&b, p)
	return b.String(), err
}

const (
	rule   = "----------------------------------------"
	indent = "  "
)

// text is the page for those who read it as text.
func (p page) text() string {
	var b strings.Builder
	paragraph(&b, strings.ToUpper(p.Label))
	paragraph(&b, p.Mark)
	paragraph(&b, p.Heading)
	for i, item := range p.Items {
		if i > 0 || p.Heading != "" {
			paragraph(&b, rule)
		}
		item.text(&b)
	}
	paragraph(&b, "-- \n"+strings.Join(p.Foot, "\n"))
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func paragraph(b *strings.Builder, s string) {
	if s != "" {
		b.WriteString(s + "\n\n")
	}
}

func (i item) text(b *strings.Builder) {
	paragraph(b, i.Label)
	paragraph(b, joined("\n", i.Heading, i.Under))
	if len(i.Quote) > 0 {
		paragraph(b, "> "+strings.Join(i.Quote, "\n> "))
	}
	paragraph(b, i.Note)
	paragraph(b, i.Advice)
	paragraph(b, prefixed(indent+"$ ", i.Command))
	widest := 0
	for _, f := range i.Facts {
		widest = max(widest, min(utf8.RuneCountInString(f.Label), 28))
	}
	for _, f := range i.Facts {
		b.WriteString(f.Label + ":" + strings.Repeat(" ", max(0, widest-utf8.RuneCountInString(f.Label))+2) + f.Text + "\n")
		if strings.HasPrefix(string(f.URL), "http") {
			b.WriteString(indent + string(f.URL) + "\n")
		}
	}
	b.WriteString("\n")
}
