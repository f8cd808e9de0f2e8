package ops

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"doorbell/events/forward/message"
)

// TextOptions say where a text is read. The zero value is a file.
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

// Wrap breaks a line between words where it is wider than the terminal. Further lines are indented
// by indent spaces. A word stays whole: it may be there to be copied.
func (o TextOptions) Wrap(line string, indent int) string {
	line = Printable(line)
	if o.Width == 0 {
		return line
	}
	var b strings.Builder
	at := 0
	for n, word := range strings.Split(line, " ") {
		size := utf8.RuneCountInString(word)
		switch {
		case n > 0 && at+1+size > o.Width && at > indent:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		case n > 0:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += size
	}
	return b.String()
}

// table is rows, whose cells have tabs between them, and their styles.
type table struct{ rows, styles []string }

func (t *table) add(style string, cells ...string) {
	for n, cell := range cells {
		cells[n] = Printable(cell) // a row is one line, whatever the name of a host holds
	}
	t.rows, t.styles = append(t.rows, strings.Join(cells, "\t")), append(t.styles, style)
}

// lines are an empty line and the rows; none if there are no rows.
func (t table) lines(o TextOptions) []string {
	if len(t.rows) == 0 {
		return nil
	}
	lines := []string{""}
	for n, line := range strings.Split(strings.TrimSuffix(Aligned(t.rows), "\n"), "\n") {
		if o.Width > 0 {
			line = message.Fit(line, o.Width)
		}
		lines = append(lines, o.Paint(line, t.styles[n]))
	}
	return lines
}

// Aligned puts the cells of rows, which have tabs between them, below each other.
func Aligned(rows []string) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
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
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60),
			" 0 min")
	}
	return fmt.Sprintf("%d days", int(d.Hours())/24)
}

// Ago says how long ago something was.
func Ago(at, now time.Time) string {
	if at.IsZero() {
		return "none yet"
	}
	return Span(now.Sub(at)) + " ago"
}

// Seconds is Span of a number of seconds.
func Seconds(s float64) string { return Span(time.Duration(s * float64(time.Second))) }

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
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' ||
			strings.ContainsRune("_-.,:/=@%+", r)
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
