package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Levels of a line of the report.
const (
	levelOK   = "ok"
	levelWarn = "warn"
	levelFail = "fail" // run would not work
)

// Sections of the report, in their order.
const (
	sectionConfig  = "configuration"
	sectionDaemon  = "daemon"
	sectionAPI     = "API"
	sectionAnswers = "answers"
	sectionBudget  = "budget"
	sectionNATS    = "NATS"
	sectionPage    = "page"
	sectionOutlets = "outlets"
	sectionDisk    = "disk"
)

// checkReport is what `doorbell check` found; with --json it is printed as it is. It holds no key and no value from a record.
type checkReport struct {
	OK            bool            `json:"ok"` // run would work; warnings are allowed
	ExitCode      int             `json:"exitCode"`
	DaemonRunning bool            `json:"daemonRunning"`
	Requests      int             `json:"requests"` // that were sent to the API
	Lines         []checkLine     `json:"lines"`
	Agencies      []checkedAgency `json:"agencies"`
	Answers       *checkedAnswers `json:"answers,omitempty"`
	Learned       *learned        `json:"learned,omitempty"`
}

// checkLine is one finding.
type checkLine struct {
	Section string `json:"section"`
	Level   string `json:"level"` // ok, warn, fail
	Text    string `json:"text"`
	Remedy  string `json:"remedy,omitempty"` // what to do about it

	code int // exit code with which run would end because of it; 0: it would go on
}

// checkedAgency is how an agency answers.
type checkedAgency struct {
	AgencyID       string `json:"agencyId"`
	Access         string `json:"access"` // ok, refused, failed, halted, not_asked
	Status         int    `json:"status,omitempty"`
	ProbableReason string `json:"probableReason,omitempty"`
	Insertions     int    `json:"insertions"` // that the API tells of; -1: unknown
	AtLeast        bool   `json:"atLeast"`    // there may be more
}

// Access of an agency.
const (
	accessOK       = "ok"
	accessRefused  = "refused"
	accessFailed   = "failed"
	accessHalted   = "halted"
	accessNotAsked = "not_asked"
)

func (r *checkReport) ok(section, format string, args ...any) {
	r.add(checkLine{Section: section, Level: levelOK, Text: fmt.Sprintf(format, args...)})
}

func (r *checkReport) warn(section, text, remedy string) {
	r.add(checkLine{Section: section, Level: levelWarn, Text: text, Remedy: remedy})
}

func (r *checkReport) fail(section, text, remedy string) {
	r.add(checkLine{Section: section, Level: levelFail, Text: text, Remedy: remedy})
}

// refuse notes an error with which run would end.
func (r *checkReport) refuse(section string, err error) {
	code, sentences, hint := outcome(err)
	for _, s := range sentences {
		r.add(checkLine{Section: section, Level: levelFail, Text: s, Remedy: hint, code: code})
		hint = ""
	}
}

func (r *checkReport) add(l checkLine) { r.Lines = append(r.Lines, l) }

func (r *checkReport) count(level string) (n int) {
	for _, l := range r.Lines {
		if l.Level == level {
			n++
		}
	}
	return n
}

// conclude decides: 69, 78 and 74 where run would end with them, in this order, 1 for everything else that would not work.
func (r *checkReport) conclude() {
	codes := []int{exitDone, exitFailed, exitIO, exitConfig, exitUnavailable}
	worst := 0
	for _, l := range r.Lines {
		if l.Level == levelFail {
			worst = max(worst, 1, slices.Index(codes, l.code))
		}
	}
	r.OK, r.ExitCode = worst == 0, codes[worst]
}

// err is the report as the outcome of the command.
func (r *checkReport) err() error {
	if r.OK {
		return nil
	}
	text := "doorbell run would not work: "
	if r.DaemonRunning {
		text = "the daemon does not work as it should: "
	}
	if n := r.count(levelFail); n > 1 {
		text += fmt.Sprintf("%d things fail", n)
	} else {
		text += "one thing fails"
	}
	return &exitError{r.ExitCode, text, "the report says of each what to do", nil}
}

const checkWidth = 110

func (r *checkReport) writeText(w io.Writer) error {
	var b strings.Builder
	section := ""
	for _, l := range r.Lines {
		if l.Section != section {
			section = l.Section
			fmt.Fprintln(&b, section)
		}
		fmt.Fprintf(&b, "  %-4s  %s\n", l.Level, wrapped(printable(l.Text), 8))
		if l.Remedy != "" {
			fmt.Fprintf(&b, "        → %s\n", wrapped(printable(l.Remedy), 10))
		}
	}
	verdict := "doorbell run would work"
	if r.DaemonRunning {
		verdict = "the daemon works"
	}
	if r.OK {
		fmt.Fprintf(&b, verdict+"; %s, %s to the API\n", several(r.count(levelWarn), "warning"), several(r.Requests, "request"))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// several counts things: one warning, 3 warnings, no warnings.
func several(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "one " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// wrapped breaks a text into lines that fit a terminal; all but the first are indented.
func wrapped(text string, indent int) string {
	var b strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		length := len([]rune(word))
		switch {
		case i == 0:
		case column+1+length > checkWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += length
	}
	return b.String()
}
