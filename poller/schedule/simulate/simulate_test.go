package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
)

// printed is what the command prints for a very small market.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	o, err := parse(append(args, "-n", "400", "-rate", "0.2", "-days", "0.2"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := simulate(&b, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestEveryRowHasALineForEachPolicyAndTheGoalsFollow(t *testing.T) {
	out := printed(t, "-seeds", "1-2")
	for _, r := range rows {
		_, after, found := strings.Cut(out, "\n"+r.name+": "+r.about)
		if !found {
			t.Errorf("no row %s", r.name)
			continue
		}
		block, _, _ := strings.Cut(after, "\n\n")
		for _, p := range r.policies {
			if !strings.Contains(block, "\n  "+p.String()+" ") {
				t.Errorf("row %s has no line for %v:\n%s", r.name, p, block)
			}
		}
	}
	if strings.Contains(out, "NaN") {
		t.Error("a row has no contact requests")
	}
	_, after, _ := strings.Cut(out, "\ngoals\n")
	if n := strings.Count(after, "\n"); n != 13 {
		t.Errorf("%d goals:\n%s", n, after)
	}
}

func TestOnlyWhatIsWishedIsSimulated(t *testing.T) {
	out := printed(t, "-seeds", "3", "-row", "two", "-policies", "turns,doorbell")
	if strings.Contains(out, "10k-5") || strings.Contains(out, "oracle, cap") || !strings.Contains(out, "one agency") {
		t.Error(out)
	}
}

func TestWhatIsNotThereIsRefused(t *testing.T) {
	for _, args := range [][]string{{"-seeds", "x"}, {"-seeds", "2-1"}, {"-seeds", "1-"}, {"-row", "none"}, {"-policies", "none"}} {
		o, err := parse(args)
		if err == nil {
			err = simulate(io.Discard, o)
		}
		if err == nil {
			t.Errorf("%q is taken", args)
		}
	}
}
