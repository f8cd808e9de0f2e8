package cli

import (
	"fmt"
	"io"
	"strings"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
)

// report prints an error as people see it and returns its exit code.
func report(w io.Writer, t Terminal, err error) int {
	code, sentences, hint := exit.Outcome(err)
	for _, s := range sentences {
		fmt.Fprintln(w, strings.Join(ops.Fit("doorbell: "+s, 2, t.Width), "\n"))
	}
	if hint != "" {
		fmt.Fprintln(w, strings.Join(ops.Fit("  "+hint, 2, t.Width), "\n"))
	}
	return code
}

// printable is ops.Printable.
func printable(line string) string { return ops.Printable(line) }
