// Package cli is the command line of doorbell: commands, environment, signals, exit codes and
// wording. The service itself is cmd/doorbell/daemon. Neither contains rules about insertions,
// contact requests or streams; those are in the packages that they import: poller, store, events.
package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/term"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// Process runs the command line of this process and returns its exit code.
func Process() int {
	// net/http logs bytes that a server sends beyond its response, which may hold personal data
	log.SetOutput(io.Discard)
	ctx := untilSignal(context.Background())
	return Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
}

// Main is the whole program as a function: it reads the command line, runs the command and returns
// the exit code. It touches no global state, so that several of them can run in one process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer,
	environ []string,
) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ}
	return report(stderr, p.execute(ctx, args))
}

// report prints an error as people see it and returns its exit code.
func report(w io.Writer, err error) int {
	code, sentences, hint := exit.Outcome(err)
	for _, s := range sentences {
		fmt.Fprintln(w, "doorbell: "+ops.Printable(s))
	}
	if hint != "" {
		fmt.Fprintln(w, "  "+ops.Printable(hint))
	}
	return code
}

// program is what a command may use of the world.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string // as os.Environ gives it

	opened []func() // close what the command has opened
}

// close closes what the command has opened, the last one first.
func (p *program) close() {
	for _, f := range slices.Backward(p.opened) {
		f()
	}
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The second one ends the
// process immediately, without the drain.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exit.CodeFailed)
	}()
	return ctx
}

// Version is what is known of the build.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// release is the version that deploy/changelog.md begins with. A build of a tag sets it to that of
// the tag, with -ldflags="-X doorbell/cmd/doorbell/cli.release=…"; nothing else writes it.
var release = "1.0.0"

// readVersion adds what the Go command wrote into the program.
func readVersion() Version {
	v := Version{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, _ := debug.ReadBuildInfo()
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Revision = s.Value
		}
	}
	return v
}

// VersionCmd is `doorbell version`.
type VersionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *VersionCmd) Run(_ context.Context, p *program) error {
	v := readVersion()
	if c.JSON {
		return p.printJSON(v)
	}
	build := v.Go + ", " + v.Platform
	if v.Revision != "" {
		build = "revision " + v.Revision[:min(12, len(v.Revision))] + ", " + build
	}
	_, err := fmt.Fprintf(p.stdout, "doorbell %s (%s)\n", v.Version, build)
	return err
}

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

// print writes lines for people.
func (p *program) print(text string) error { return printLines(p.stdout, text) }

// note says something beside the output.
func (p *program) note(format string, args ...any) {
	_ = printLines(p.stderr, fmt.Sprintf(format, args...)) // there is no other place to report it
}

// printLines leaves out control sequences that could rewrite a terminal.
func printLines(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := fmt.Fprintln(w, ops.Printable(strings.TrimRight(line, "\n"))); err != nil {
			return err
		}
	}
	return nil
}

// printJSON prints a value as JSON with indentation.
func (p *program) printJSON(v any) error {
	e := json.NewEncoder(p.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// result prints the outcome of a command: an object for programs, a text for people.
func (p *program) result(asJSON bool, object any, text string) error {
	if asJSON {
		return p.printJSON(object)
	}
	return p.print(text)
}

// table aligns rows of cells under their heads. Without rows it is what none says.
func table(none, heads string, rows [][]string) string {
	if len(rows) == 0 {
		return none
	}
	lines := []string{strings.ReplaceAll(heads, "|", "\t")}
	for _, cells := range rows {
		for n := range cells {
			cells[n] = cmp.Or(ops.Printable(cells[n]), "-")
		}
		lines = append(lines, strings.Join(cells, "\t"))
	}
	return ops.Aligned(lines)
}

// warn prints sentences about what is odd but not wrong, for commands that have no log.
func (p *program) warn(sentences []string) {
	for _, s := range sentences {
		p.note("doorbell: warning: %s", s)
	}
}

// confirmed refuses to do without --yes what a person should have seen before.
func confirmed(yes bool, would string) error {
	if yes {
		return nil
	}
	return exit.Usage(would, "add --yes to do it")
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
