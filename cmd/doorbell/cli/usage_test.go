package cli

import (
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

// TestWrongInputsAreRefusedWithOneSentence types the lines of testdata/wrong.txt.
func TestWrongInputsAreRefusedWithOneSentence(t *testing.T) {
	t.Parallel()
	n := 0
	for line := range strings.Lines(readText(t, "testdata/wrong.txt")) {
		typed, words, ok := strings.Cut(strings.TrimRight(line, "\n"), "|")
		if strings.HasPrefix(line, "#") || !ok {
			continue
		}
		n++
		args := strings.Fields(strings.ReplaceAll(typed, `\e`, "\x1b"))
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "''", "")
		}
		got := doorbelltest.Run(t, nil, args...)
		sentence, hint, _ := strings.Cut(got.Stderr, "\n  doorbell ")
		if got.Code != exit.CodeUsage || got.Stdout != "" || !strings.HasPrefix(sentence, "doorbell: ") ||
			strings.Contains(sentence, "\n") || !strings.Contains(hint, "--help") || strings.Contains(got.Stderr, "\x1b") {
			t.Errorf("%q: %+v", args, got)
		}
		doorbelltest.Has(t, sentence, strings.TrimPrefix(words, " "))
	}
	if n < 60 {
		t.Errorf("only %d wrong inputs", n)
	}
}
