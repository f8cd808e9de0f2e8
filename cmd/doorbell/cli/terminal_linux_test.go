package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"doorbell/cmd/doorbell/doorbelltest"
)

// openTerminal makes a terminal of the given width: what is written to the one end a person would read at the other.
func openTerminal(t *testing.T, width uint16) (screen, inside *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	must(t, err)
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	must(t, err)
	size := unix.Winsize{Col: width}
	must(t, unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &size))
	return screen, inside
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	if p := (&program{}); p.terminalOf(&bytes.Buffer{}) != (Terminal{}) {
		t.Error("a buffer is a terminal")
	}
	terminal, inside := openTerminal(t, 90)
	defer terminal.Close()
	defer inside.Close()
	for environ, want := range map[string]bool{"TERM=xterm": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		got := (&program{environ: []string{environ}}).terminalOf(inside)
		if got.Color != want || got.Width != 90 {
			t.Errorf("%s: %+v", environ, got)
		}
	}
}

func TestNoLineIsWiderThanTheTerminal(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	d := doorbelltest.Launch(t, s.With("DOORBELL_API_KEY="+doorbelltest.OtherKey), "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Event(t, "access.halted", "A100")
	const width = 70
	for _, args := range []string{"status", "check", "events ls"} {
		screen, inside := openTerminal(t, width)
		seen := make(chan string)
		go func() {
			text, _ := io.ReadAll(screen) // ends with an error where the other end is closed
			seen <- string(text)
		}()
		Main(t.Context(), strings.Fields(args), nil, inside, inside, s.Environ)
		inside.Close()
		text := <-seen
		screen.Close()
		for line := range strings.Lines(regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(text, "")) {
			if line = strings.TrimRight(line, "\r\n"); utf8.RuneCountInString(line) > width && strings.Contains(strings.TrimSpace(line), " ") {
				t.Errorf("%s: %d columns: %s", args, utf8.RuneCountInString(line), line)
			}
		}
		if text == "" {
			t.Errorf("%s printed nothing", args)
		}
	}
	d.Stop(t)
}
