package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
	"unsafe"

	"doorbell/cmd/doorbell/doorbelltest"
)

// openTerminal makes a terminal of the given size: what is written to the one end a person would read at the other.
func openTerminal(t *testing.T, width, height uint16) (screen, inside *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	var number, unlocked uint32
	for request, argument := range map[uintptr]unsafe.Pointer{syscall.TIOCSPTLCK: unsafe.Pointer(&unlocked), syscall.TIOCGPTN: unsafe.Pointer(&number)} {
		if _, _, failure := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(argument)); failure != 0 {
			t.Fatal(failure)
		}
	}
	inside, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	resize(t, screen, width, height)
	return screen, inside
}

func resize(t *testing.T, screen *os.File, width, height uint16) {
	t.Helper()
	size := [4]uint16{height, width}
	if _, _, failure := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size))); failure != 0 {
		t.Fatal(failure)
	}
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	if p := (&program{}); p.terminalOf(&bytes.Buffer{}) != (Terminal{}) {
		t.Error("a buffer is a terminal")
	}
	terminal, inside := openTerminal(t, 90, 20)
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
		screen, inside := openTerminal(t, width, 30)
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
