package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
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

func TestTheWatchDrawsInPlaceFollowsTheWindowAndLivesThroughARestart(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")

	terminal, inside := openTerminal(t, 100, 30)
	watch := exec.Command(doorbelltest.Binary(t), "status", "--watch")
	watch.Env, watch.Stdout, watch.Stderr = s.Environ, inside, inside
	watch.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := watch.Start(); err != nil {
		t.Fatal(err)
	}
	inside.Close()
	seen := doorbelltest.Transcript{Grown: make(chan struct{}, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		chunk := make([]byte, 1<<16)
		for {
			n, err := terminal.Read(chunk)
			if err != nil { // the other end is closed
				return
			}
			_, _ = seen.Write(bytes.ReplaceAll(chunk[:n], []byte("\r"), nil))
		}
	}()
	seen.Await(t, "1049h(?s:.*)\nA100 +watching ")
	resize(t, terminal, 60, 3)
	seen.Await(t, `\x1b\[\?2026h\x1b\[H[^\n]*\n[^\n]*\n[^\n]*\x1b\[J`) // three lines
	resize(t, terminal, 100, 30)
	d.Stop(t)
	seen.Await(t, "no daemon has answered in "+s.Dir+" for ")
	before := len(seen.String())
	doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.Eventually(t, "the daemon on the screen", func() bool {
		return strings.Contains(seen.String()[before:], " UTC; every 2s") && strings.Contains(seen.String()[before:], "up ")
	})
	if err := watch.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := watch.Wait(); err != nil {
		t.Errorf("Ctrl-C does not end it with 0: %v", err)
	}
	<-read
	terminal.Close()
	text := seen.String()
	if !strings.HasSuffix(text, "\x1b[?1049l") || strings.Count(text, "\x1b[?1049h") != 1 {
		t.Errorf("the terminal is not given back as it was: %q", text[max(0, len(text)-60):])
	}
	if strings.Contains(text, "\x1b[2J") {
		t.Error("it flickers: the screen is emptied before it is drawn")
	}
	doorbelltest.HoldsNobody(t, text)
}

func TestColoursAreForTerminalsThatWantThem(t *testing.T) {
	if p := (&program{}); p.terminalOf(&bytes.Buffer{}) != (Terminal{}) {
		t.Error("a buffer is a terminal")
	}
	terminal, inside := openTerminal(t, 90, 20)
	defer terminal.Close()
	defer inside.Close()
	for environ, want := range map[string][2]bool{"TERM=xterm": {true, true}, "NO_COLOR=1": {false, true}, "TERM=dumb": {false, false}} {
		got := (&program{environ: []string{environ}}).terminalOf(inside)
		if got.Color != want[0] || got.moves != want[1] || got.Width != 90 || got.height != 20 {
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
	for _, args := range []string{"status", "check", "config", "events ls", "events show 1", "resume A100", "poll A100", "run"} {
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
