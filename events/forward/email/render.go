package email

import (
	_ "embed"
	"html/template"
	"strings"
	"unicode/utf8"

	"doorbell/events/forward/message"
)

//go:embed mail.html
var htmlSource string

var htmlTemplate = template.Must(template.New("mail").Funcs(template.FuncMap{
	"url": func(u message.URL) template.URL { return template.URL(u) },
}).Parse(htmlSource))

// page is a message as a mail.
type page struct{ message.Message }

// Color is that of the tone.
func (p page) Color() template.CSS {
	return map[message.Tone]template.CSS{
		message.Lead: "#1a5fb4", message.Quiet: "#5e5c64",
		message.Good: "#1e7b4b", message.Alert: "#c01c28",
	}[p.Tone]
}

// Loud says that a person has to act.
func (p page) Loud() bool { return p.Tone == message.Alert }

// Index says that a list of what follows is of use.
func (p page) Index() bool { return len(p.Items) > 1 }

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
	if p.Index() {
		for _, i := range p.Items {
			if i.Group != "" {
				b.WriteString(i.Group + "\n")
			}
			b.WriteString(indent + i.Line + "\n")
		}
		b.WriteString("\n")
	}
	for n, i := range p.Items {
		if n > 0 || p.Heading != "" {
			paragraph(&b, rule)
		}
		text(&b, i, p.Language)
	}
	paragraph(&b, "-- \n"+strings.Join(p.Foot, "\n"))
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func paragraph(b *strings.Builder, s string) {
	if s != "" {
		b.WriteString(s + "\n\n")
	}
}

func text(b *strings.Builder, i message.Item, l message.Language) {
	paragraph(b, strings.ToUpper(i.Group))
	paragraph(b, i.Label)
	paragraph(b, strings.Trim(i.Heading+"\n"+i.Under, "\n"))
	if len(i.Quote) > 0 {
		paragraph(b, "> "+strings.Join(i.Quote, "\n> "))
	}
	paragraph(b, i.Note)
	paragraph(b, i.Advice)
	if i.Command != "" {
		paragraph(b, indent+"$ "+i.Command)
	}
	widest := 0
	for _, f := range i.Facts {
		widest = max(widest, min(utf8.RuneCountInString(f.Label), 28))
	}
	for _, f := range i.Facts {
		b.WriteString(f.Label + strings.TrimRight(l.Colon(), " ") +
			strings.Repeat(" ", max(0, widest-utf8.RuneCountInString(f.Label))+2) + f.Text + "\n")
		if strings.HasPrefix(string(f.URL), "http") {
			b.WriteString(indent + string(f.URL) + "\n")
		}
	}
	b.WriteString("\n")
}
