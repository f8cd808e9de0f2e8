package main

import (
	"io"
	"strings"
	"testing"
)

func TestEveryRowHasItsFiguresAndTheGoalsFollow(t *testing.T) {
	var b strings.Builder
	if err := simulate([]string{"-seeds", "1-2", "-n", "400", "-rate", "0.2", "-days", "0.2"}, &b); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		_, after, found := strings.Cut(b.String(), "\n"+r.name+": "+r.about)
		block, _, _ := strings.Cut(after, "\n\n")
		if !found || strings.Count(block, "\n") != 5 {
			t.Errorf("row %s:\n%s", r.name, block)
		}
	}
	_, after, _ := strings.Cut(b.String(), "\ngoals\n")
	for _, g := range goals {
		if !strings.Contains(after, "  "+g.row+": ") || !strings.Contains(after, g.what) {
			t.Errorf("no %s of %s in\n%s", g.what, g.row, after)
		}
	}
	if strings.Contains(b.String(), "NaN") {
		t.Error("a row has no contact requests")
	}
}

func TestWhatIsNotThereIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-seeds", "x"}, {"-seeds", "2-1"}, {"-row", "none"}} {
		if simulate(args, io.Discard) == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
