// Package skiptest skips tests if the machine lacks a third-party program or root rights, and
// counts them, so that a green run shows what it did not test. It is for tests only.
package skiptest

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Variable names the file that gets a line for each test that is skipped: its name and why. Without
// it nothing is written.
const Variable = "DOORBELL_TEST_SKIPPED"

// Skipf ends a test with what is missing, and how to get it.
func Skipf(tb testing.TB, format string, args ...any) {
	tb.Helper()
	why := fmt.Sprintf(format, args...)
	if path := os.Getenv(Variable); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			tb.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(tb.Name() + ": " + strings.ReplaceAll(why, "\n", " ") + "\n"); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Skip(why)
}
