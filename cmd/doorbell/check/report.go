package check

import (
	"cmp"
	"fmt"
	"io"
	"slices"
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

// Sections of the report, in their order.
const (
	sectionConfig    = "configuration"
	sectionDaemon    = "daemon"
	SectionDisk      = "disk"
	SectionNATS      = "NATS"
	SectionPage      = "page"
	SectionAPI       = "API"
	SectionResponses = "responses"
)

// Report is what `doorbell check` found, and what it prints with --json. It holds no key and no
// value from a record.
type Report struct {
	OK            bool     `json:"ok"` // run would work; warnings are allowed
	ExitCode      int      `json:"exitCode"`
	DaemonRunning bool     `json:"daemonRunning"`
	Requests      int      `json:"requests"` // begun at the API
	Lines         []Line   `json:"lines"`
	Agencies      []Agency `json:"agencies"`
}

// Line is one finding.
type Line struct {
	Section string `json:"section"`
	Level   string `json:"level"` // ok, warn, fail
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"` // what to do about it
}

// Agency is the access to one agency.
type Agency struct {
	AgencyID       string `json:"agencyId"`
	Access         string `json:"access"` // ok, refused, failed, halted, not_asked
	Status         int    `json:"status,omitempty"`
	ProbableReason string `json:"probableReason,omitempty"`
	Insertions     int    `json:"insertions"` // that its list has; -1: unknown

	line Line
}

// Access of an agency.
const (
	AccessOK       = "ok"
	AccessRefused  = "refused"
	accessFailed   = "failed"
	AccessHalted   = "halted"
	AccessNotAsked = "not_asked"
)

func newReport() *Report { return &Report{OK: true, Lines: []Line{}, Agencies: []Agency{}} }

func (r *Report) ok(section, format string, args ...any) {
	r.add(exit.Done, Line{section, LevelOK, fmt.Sprintf(format, args...), ""})
}

func (r *Report) warn(section, text, remedy string) {
	r.add(exit.Done, Line{section, levelWarn, text, remedy})
}

func (r *Report) fail(section, text, remedy string) {
	r.add(exit.CodeFailed, Line{section, LevelFail, text, remedy})
}

// refuse adds an error with which run would end.
func (r *Report) refuse(section string, err error) {
	code, sentences, hint := exit.Outcome(err)
	for n, s := range sentences {
		if n > 0 {
			hint = ""
		}
		r.add(code, Line{section, LevelFail, s, hint})
	}
}

// add adds a line. The exit code of a check is 69, 78 and 74, in this order, where run would end
// with them because of a failure, and 1 where anything else would not work.
func (r *Report) add(code int, l Line) {
	codes := []int{exit.Done, exit.CodeFailed, exit.CodeIO, exit.CodeConfig, exit.CodeUnavailable}
	if l.Level == LevelFail {
		r.OK, r.ExitCode = false, codes[max(1, slices.Index(codes, code), slices.Index(codes, r.ExitCode))]
	}
	r.Lines = append(r.Lines, l)
}

func (r *Report) count(level string) (n int) {
	for _, l := range r.Lines {
		if l.Level == level {
			n++
		}
	}
	return n
}

// Err is the outcome of the command.
func (r *Report) Err() error {
	if r.OK {
		return nil
	}
	text := "doorbell run would not start"
	switch {
	case r.DaemonRunning:
		text = "the daemon does not work as it should"
	case r.ExitCode == exit.CodeFailed:
		text = "doorbell run would start, but not work as it should"
	}
	return &exit.Error{
		Code: r.ExitCode, Hint: "the report says what to do about each",
		Err: fmt.Errorf("%s: %s failed", text, ops.Counted(r.count(LevelFail), "check")),
	}
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer, o ops.TextOptions) error {
	var b strings.Builder
	colors := map[string]string{
		LevelFail: o.Paint(LevelFail, ops.Red), levelWarn: o.Paint(levelWarn, ops.Yellow),
	}
	section := ""
	for _, l := range r.Lines {
		if l.Section != section {
			section = l.Section
			fmt.Fprintln(&b, section)
		}
		head := fmt.Sprintf("  %-4s  ", l.Level)
		text := o.Wrap(head+l.Text, len(head))
		fmt.Fprintln(&b, strings.Replace(text, l.Level, cmp.Or(colors[l.Level], l.Level), 1))
		if l.Remedy != "" {
			fmt.Fprintln(&b, o.Wrap("        → "+l.Remedy, 10))
		}
	}
	if r.OK {
		verdict := "doorbell run would work"
		if r.DaemonRunning {
			verdict = "the daemon works"
		}
		fmt.Fprintf(&b, "%s; %s, %s to the API\n", verdict,
			ops.Counted(r.count(levelWarn), "warning"), ops.Counted(r.Requests, "request"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
