package cli

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
)

func TestEachErrorHasItsExitCode(t *testing.T) {
	cause := errors.New("cause")
	for _, tt := range []struct {
		err  error
		code int
		text string
	}{
		{nil, 0, ""},
		{cause, 1, "doorbell: cause\n"},
		{exit.Failed(cause, "try"), 1, "doorbell: cause\n  try\n"},
		{exit.Usage("wrong", ""), 2, "doorbell: wrong\n"},
		{exit.Unavailable(cause, "look"), 69, "doorbell: cause\n  look\n"},
		{exit.IO(cause, ""), 74, "doorbell: cause\n"},
		{exit.Config(cause, "set"), 78, "doorbell: cause\n  set\n"},
		{fmt.Errorf("open: %w", exit.IO(cause, "free")), 74, "doorbell: open: cause\n  free\n"},
		{&config.Error{Problems: []config.Problem{{Name: "A", Text: "is b"}, {Name: "C", Text: "is d"}}}, 78, "doorbell: A is b\ndoorbell: C is d\n  `doorbell config` shows what is in effect and where it comes from\n"},
		{errors.New("a\x1b[2J\nb\u202e"), 1, "doorbell: a\uFFFD[2J\uFFFDb\uFFFD\n"},
	} {
		var out bytes.Buffer
		if code := report(&out, tt.err); code != tt.code || out.String() != tt.text {
			t.Errorf("%v: code %d and %q, want %d and %q", tt.err, code, out.String(), tt.code, tt.text)
		}
	}
}
