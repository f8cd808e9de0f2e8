package ops

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"
)

// TextOptions say where a status is read. The zero value is a file: as wide as it takes.
type TextOptions struct {
	Width int  // of the terminal; 0: no line is cut or broken
	Color bool // states that need attention are red or yellow
}

// Styles of a text on a terminal.
const (
	styleNone = ""
	Bold      = "\x1b[1m"
	Red       = "\x1b[31m"
	Yellow    = "\x1b[33m"
	styleEnd  = "\x1b[0m"
)

// Paint gives a text a style, where there are any.
func (o TextOptions) Paint(text, style string) string {
	if !o.Color || style == styleNone || text == "" {
		return text
	}
	return style + text + styleEnd
}

// styled cuts a line to the width, and gives it a style. Characters that could rewrite a terminal,
// whoever they come from, are not passed on.
func (o TextOptions) styled(line, style string) string {
	line = Printable(line)
	if o.Width > 0 && utf8.RuneCountInString(line) > o.Width {
		line = string([]rune(line)[:max(o.Width-1, 0)]) + "…"
	}
	return o.Paint(line, style)
}

// prose breaks a sentence into lines of a style; all are indented by indent spaces, those after the
// first by two more.
func (o TextOptions) prose(text string, indent int, style string) (lines []string) {
	for _, l := range Fit(strings.Repeat(" ", indent)+strings.Join(strings.Fields(text), " "), indent+2, o.Width) {
		lines = append(lines, o.styled(l, style))
	}
	return lines
}

// Fit breaks a line between words where it is wider than a terminal, whose width is 0 if there is
// none. Further lines are indented by indent spaces. A word stays whole: it may be there to be
// copied.
func Fit(line string, indent, width int) (lines []string) {
	rest := []rune(Printable(line))
	for width > 0 && len(rest) > width {
		word := 0 // the first one's beginning
		for word < len(rest) && rest[word] == ' ' {
			word++
		}
		at := width
		for at > word && rest[at] != ' ' {
			at--
		}
		if at <= word { // it is longer than the line
			for at = word; at < len(rest) && rest[at] != ' '; {
				at++
			}
		}
		lines = append(lines, strings.TrimRight(string(rest[:at]), " "))
		text := strings.TrimLeft(string(rest[at:]), " ")
		if text == "" {
			return lines
		}
		rest = []rune(strings.Repeat(" ", indent) + text)
	}
	return append(lines, string(rest))
}

// fileWidth is how wide prose is where no terminal tells its own width.
const fileWidth = 110

// Prose breaks a line of it between words, also where there is no terminal.
func (o TextOptions) Prose(line string, indent int) string {
	return strings.Join(Fit(line, indent, cmp.Or(o.Width, fileWidth)), "\n")
}

// table is rows, whose cells have tabs between them, and their styles.
type table struct{ rows, styles []string }

func (t *table) add(style string, cells ...string) {
	for n, cell := range cells {
		cells[n] = Printable(cell) // a row is one line, whatever the name of a host holds
	}
	t.rows, t.styles = append(t.rows, strings.Join(cells, "\t")), append(t.styles, style)
}

func (t *table) lines(o TextOptions) []string {
	lines := strings.Split(strings.TrimSuffix(Aligned(t.rows, 0), "\n"), "\n")
	for n := range lines {
		lines[n] = o.styled(lines[n], t.styles[n])
	}
	return lines
}

// Aligned puts the cells of rows, which have tabs between them, below each other; flags are those
// of tabwriter.
func Aligned(rows []string, flags uint) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', flags)
	for _, row := range rows {
		fmt.Fprintln(t, row)
	}
	t.Flush() //nolint:errcheck // a builder takes everything
	return b.String()
}

// Counted returns a number of things: 1 event, 2 events.
func Counted(n int, one string) string {
	switch stem, y := strings.CutSuffix(one, "y"); {
	case n == 1:
		return "1 " + one
	case y:
		return Number(n) + " " + stem + "ies"
	}
	return Number(n) + " " + one + "s"
}

// Number formats n with thousands separators.
func Number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Span formats a duration for people.
func Span(d time.Duration) string {
	switch d = max(d, 0).Round(time.Second); {
	case d < 100*time.Second:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 100*time.Minute:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60), " 0 min")
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// BytesText formats a number of bytes for people.
func BytesText(n int64) string {
	for _, u := range []struct {
		name   string
		factor int64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.factor {
			return fmt.Sprintf("%.3g %s", float64(n)/float64(u.factor), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Shell quotes a word so that it can be pasted into a command line.
func Shell(word string) string {
	simple := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-.,:/=@%+", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !simple(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Printable replaces control and bidirectional characters, which could rewrite a terminal.
func Printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' || unicode.IsGraphic(r) && !unicode.Is(unicode.Z, r) {
			return r
		}
		return '\uFFFD'
	}, line)
}

// Short makes a text from outside safe within a line: no line breaks, at most n characters, and
// nothing that reverses or hides text.
func Short(text string, n int) string {
	runes := []rune(Printable(strings.Join(strings.Fields(text), " ")))
	if len(runes) <= n {
		return string(runes)
	}
	return string(runes[:n-1]) + "…"
}
