package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/term"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// Size of a terminal that does not tell its own.
const (
	usualWidth  = 80
	usualHeight = 24
)

// Terminal is what is known of the screen that a command writes to; the zero value is a file.
type Terminal struct {
	ops.TextOptions      // without a height
	is              bool // a person reads
	height          int
	moves           bool // it can be drawn anew
}

// terminalOf looks at w. NO_COLOR and TERM are honoured as all programs do.
func (p *program) terminalOf(w io.Writer) Terminal {
	if !isTerminal(w) {
		return Terminal{}
	}
	value := lookup(p.environ)
	dumb := value("TERM") == "dumb"
	t := Terminal{is: true, height: usualHeight, moves: !dumb}
	t.Width, t.Color = usualWidth, value("NO_COLOR") == "" && !dumb
	if width, height, err := term.GetSize(int(w.(*os.File).Fd())); err == nil {
		t.Width, t.height = cmp.Or(width, usualWidth), cmp.Or(height, usualHeight)
	}
	return t
}

// isTerminal reports whether a person sits at a reader or writer.
func isTerminal(rw any) bool {
	f, ok := rw.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// print writes lines for people. On a terminal they are broken between words, and what follows is indented.
func (p *program) print(text string) error { return p.printTo(p.stdout, text) }

// note says something beside the output.
func (p *program) note(format string, args ...any) {
	_ = p.printTo(p.stderr, fmt.Sprintf(format, args...)+"\n") // nobody could be told
}

func (p *program) printTo(w io.Writer, text string) error {
	t := p.terminalOf(w)
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indent := len(line) - len(strings.TrimLeft(line, " ")) + 2
		if _, err := fmt.Fprintln(w, strings.Join(ops.Fit(line, indent, t.Width), "\n")); err != nil {
			return err
		}
	}
	return nil
}

// confirm asks a person at the terminal. Where none sits there, nobody says what would be done, and --yes has to say it. It is nil for a
// yes, and where ctx ends.
func (p *program) confirm(ctx context.Context, yes bool, nobody, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(p.stdin) {
		return exit.Usage(nobody+", and there is nobody to ask", "--yes does it")
	}
	return ask(ctx, p.stdin, p.stderr, question+" [y/N] ")
}

func ask(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() { // it may outlive the question: a read cannot be ended
		text, _ := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return nil
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
	}
	return exit.Failed(errors.New("nothing was done"), "")
}

// printTable prints rows, whose cells have tabs between them, and what stands above and below.
func (p *program) printTable(above string, rows []string, below string) error {
	return p.print(above + ops.Aligned(rows, 0) + below)
}

// fitEvent breaks the line of an event on a terminal, where a lead is bold. A file has a line for each.
func (t Terminal) fitEvent(line string, of events.Type) string {
	line = strings.Join(ops.Fit(line, 4, t.Width), "\n")
	if of == events.TypeContactRequestCreated {
		return t.Paint(line, ops.Bold)
	}
	return line
}

// screen draws frames in the place of each other, on the second screen that terminals have: what was written before stays as it
// is, and nothing scrolls away.
type screen struct {
	w    io.Writer
	open bool
}

// draw shows at most as many lines as the terminal has. All of it is one write, and every line ends what stood there before: so
// nothing flickers.
func (s *screen) draw(lines []string) error {
	var b strings.Builder
	if !s.open {
		b.WriteString("\x1b[?1049h\x1b[?25l\x1b[?7l") // the second screen, no cursor, no line goes over the edge
		s.open = true
	}
	b.WriteString("\x1b[?2026h\x1b[H" + strings.Join(lines, "\x1b[K\r\n") + "\x1b[K\x1b[J\x1b[?2026l")
	_, err := io.WriteString(s.w, b.String())
	return err
}

// close gives the terminal back as it was.
func (s *screen) close() {
	if s.open {
		io.WriteString(s.w, "\x1b[?7h\x1b[?25h\x1b[?1049l") //nolint:errcheck // it is gone
		s.open = false
	}
}

// lookup finds variables in a list as os.Environ gives it.
func lookup(environ []string) func(string) string {
	return func(name string) string {
		for _, v := range environ {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		return ""
	}
}
