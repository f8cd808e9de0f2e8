package ops

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// TextOptions say where a status is read. The zero value is a file: as wide and as long as it takes.
type TextOptions struct {
	Width  int  // of the terminal; 0: no line is cut or broken
	Height int  // lines that are seen at once; 0: all are
	Color  bool // states that want a look are red or yellow
}

// Styles of a line on a terminal.
const (
	styleNone   = ""
	styleBold   = "\x1b[1m"
	styleRed    = "\x1b[31m"
	styleYellow = "\x1b[33m"
	styleEnd    = "\x1b[0m"
)

// styled cuts a line to the width, and gives it a style.
func (o TextOptions) styled(line, style string) string {
	line = o.cut(line)
	if !o.Color || style == styleNone || line == "" {
		return line
	}
	return style + line + styleEnd
}

// cut shortens a line to the width. Characters that could rewrite a terminal, whoever they come from, are not passed on.
func (o TextOptions) cut(line string) string {
	line = strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Z, r) {
			return r
		}
		return unicode.ReplacementChar
	}, line)
	if o.Width <= 0 || utf8.RuneCountInString(line) <= o.Width {
		return line
	}
	return string([]rune(line)[:max(o.Width-1, 0)]) + "…"
}

// wrap breaks a sentence into lines; all are indented by so many spaces, those after the first by two more.
func (o TextOptions) wrap(text string, indent int) (lines []string) {
	margin := strings.Repeat(" ", indent)
	if o.Width <= 0 {
		return []string{o.cut(margin + text)}
	}
	line := margin
	for word := range strings.FieldsSeq(text) {
		switch empty := strings.TrimSpace(line) == ""; {
		case empty:
			line += word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > o.Width:
			lines = append(lines, o.cut(line))
			line = margin + "  " + word
		default:
			line += " " + word
		}
	}
	return append(lines, o.cut(line))
}

// table is rows of cells. Columns are as wide as their widest cell.
type table struct {
	rows   [][]string
	styles []string
}

func (t *table) add(style string, cells ...string) {
	t.rows, t.styles = append(t.rows, cells), append(t.styles, style)
}

func (t *table) lines(o TextOptions) []string {
	var widths []int
	for _, row := range t.rows {
		for n, cell := range row {
			if n == len(widths) {
				widths = append(widths, 0)
			}
			widths[n] = max(widths[n], utf8.RuneCountInString(cell))
		}
	}
	lines := make([]string, len(t.rows))
	for r, row := range t.rows {
		var b strings.Builder
		for n, cell := range row {
			b.WriteString(cell)
			if n < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[n]-utf8.RuneCountInString(cell)+2))
			}
		}
		lines[r] = o.styled(b.String(), t.styles[r])
	}
	return lines
}

// Headline is the first line of a screen.
func (o TextOptions) Headline(text string) string { return o.styled(text, styleBold) }
