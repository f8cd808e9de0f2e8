package check

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// Levels of a line of the report.
const (
	LevelOK   = "ok"
	levelWarn = "warn"
	LevelFail = "fail" // run would not work, or the daemon does not
)

// Sections of the report.
const (
	sectionConfig    = "configuration"
	SectionDisk      = "data"
	SectionNATS      = "NATS"
	SectionPage      = "page"
	SectionAPI       = "API"
	SectionResponses = "responses"
)

// Report is what `doorbell check` found, and what it prints with --json. It holds no key and no
// value from a record.
type Report struct {
	// 0: run would work, or the daemon does; warnings are allowed
	ExitCode      int    `json:"exitCode"`
	DaemonRunning bool   `json:"daemonRunning"`
	Requests      int    `json:"requests"` // begun at the API
	Lines         []Line `json:"lines"`

	failed int
}

// Line is one finding.
type Line struct {
	Section string `json:"section"`
	Level   string `json:"level"` // ok, warn, fail
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"` // what to do about it
}

func (r *Report) ok(section, format string, args ...any) {
	r.Lines = append(r.Lines, Line{section, LevelOK, fmt.Sprintf(format, args...), ""})
}

func (r *Report) warn(section, text, remedy string) {
	r.Lines = append(r.Lines, Line{section, levelWarn, text, remedy})
}

func (r *Report) fail(section, text, remedy string) {
	r.refuse(section, exit.Failed(errors.New(text), remedy))
}

// refuse adds an error with which run would end. The exit code of a check is that of the first such
// error; that something else fails counts where there is none.
func (r *Report) refuse(section string, err error) {
	code, sentences, hint := exit.Outcome(err)
	if r.ExitCode == exit.Done || r.ExitCode == exit.CodeFailed {
		r.ExitCode = code
	}
	for _, s := range sentences {
		r.failed++
		r.Lines = append(r.Lines, Line{section, LevelFail, s, hint})
		hint = ""
	}
}

// Err is the outcome of the command.
func (r *Report) Err() error {
	if r.ExitCode == exit.Done {
		return nil
	}
	return &exit.Error{
		Code: r.ExitCode, Hint: "the report says what to do about each",
		Err: fmt.Errorf("%s failed", ops.Counted(r.failed, "check")),
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer, o ops.TextOptions) error {
	styles := map[string]string{LevelFail: ops.Red, levelWarn: ops.Yellow}
	var b strings.Builder
	for _, l := range r.Lines {
		text := o.Wrap(fmt.Sprintf("%-4s  %s", l.Level, l.Text), 6)
		if style := styles[l.Level]; style != "" {
			text = strings.Replace(text, l.Level, o.Paint(l.Level, style), 1)
		}
		fmt.Fprintln(&b, text)
		if l.Remedy != "" {
			fmt.Fprintln(&b, o.Wrap("      → "+l.Remedy, 8))
		}
	}
	if r.ExitCode == exit.Done {
		fmt.Fprintf(&b, "Nothing stands in the way. %s to the API.\n",
			ops.Counted(r.Requests, "request"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
