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

// usualWidth is that of a terminal whose width is unknown.
const usualWidth = 80

// Terminal is what is known of the screen that a command writes to; the zero value is a file.
type Terminal struct {
	ops.TextOptions
	is bool // a person reads
}

// terminalOf looks at w. NO_COLOR and TERM are honoured as all programs do.
func (p *program) terminalOf(w io.Writer) Terminal {
	if !isTerminal(w) {
		return Terminal{}
	}
	value := lookup(p.environ)
	t := Terminal{is: true}
	t.Width, t.Color = usualWidth, value("NO_COLOR") == "" && value("TERM") != "dumb"
	if width, _, err := term.GetSize(int(w.(*os.File).Fd())); err == nil {
		t.Width = cmp.Or(width, usualWidth)
	}
	return t
}

// isTerminal reports whether a person sits at a reader or writer.
func isTerminal(rw any) bool {
	f, ok := rw.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// print writes lines for people. On a terminal they are broken between words, and what follows is
// indented.
func (p *program) print(text string) error { return p.printTo(p.stdout, text) }

// note says something beside the output.
func (p *program) note(format string, args ...any) {
	_ = p.printTo(p.stderr, fmt.Sprintf(format, args...)+"\n") // there is no other place to report it
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

// confirm asks a person at the terminal. Without a terminal it refuses, with would in the error, and
// --yes is needed. It is nil for a yes, and where ctx ends.
func (p *program) confirm(ctx context.Context, yes bool, would, question string) error {
	if yes {
		return nil
	}
	if !isTerminal(p.stdin) {
		return exit.Usage(would+", and there is nobody to ask", "--yes does it")
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

// paintEvent makes a lead bold.
func (t Terminal) paintEvent(line string, of events.Type) string {
	if of == events.TypeContactRequestCreated {
		return t.Paint(line, ops.Bold)
	}
	return line
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
