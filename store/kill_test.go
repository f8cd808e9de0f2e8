package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

// busyIn names the directory in which this program, instead of testing, keeps a store busy until it is killed.
const busyIn = "STORE_TEST_BUSY_IN"

func TestMain(m *testing.M) {
	if what := os.Getenv(flipsIn); what != "" {
		limitMemory()
		if err := flipAll(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if dir := os.Getenv(busyIn); dir != "" {
		fmt.Fprintln(os.Stderr, busy(dir))
		os.Exit(1)
	}
	var memory syscall.Statfs_t // here processes end, never the machine: no disk has to be waited for
	if err := syscall.Statfs("/dev/shm", &memory); err == nil && memory.Bavail*uint64(memory.Bsize) > 1<<30 {
		os.Setenv("TMPDIR", "/dev/shm")
	}
	os.Exit(m.Run())
}

// limitMemory ends the process where it would take all memory: there are files that let bbolt run in a circle. What is only reserved,
// for an entry that declares itself huge, takes none; where the system does not report how much is resident, nothing is limited.
func limitMemory() {
	debug.SetMaxStack(64 << 20)
	go func() {
		for range time.Tick(10 * time.Millisecond) {
			var total, resident int
			text, err := os.ReadFile("/proc/self/statm")
			if _, failed := fmt.Sscan(string(text), &total, &resident); err != nil || failed != nil {
				return
			}
			if resident*os.Getpagesize() > 1<<30 {
				fmt.Fprintln(os.Stderr, "out of memory")
				os.Exit(2)
			}
		}
	}()
}

// busy appends, publishes, trims, erases, copies and compacts without end, and prints the newest sequence after each commit.
func busy(dir string) error {
	e, err := events.New(&events.WatchGapDetected{
		Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Operation: "insertions", Reason: "walk_incomplete", Reached: 3,
	})
	for n := 1; err == nil; n++ {
		var s *store.Store
		if s, err = store.Open(store.Options{Dir: dir, BaseURL: baseURL}); err != nil {
			return err
		}
		for range 6 {
			var last events.Event
			err = s.Update(func(tx *store.Tx) (err error) {
				for range 50 {
					one, failed := tx.Append(e)
					last, err = one, errors.Join(err, failed, tx.PutRecord("A100", strconv.Itoa(n), []byte("{}")))
				}
				return err
			})
			if err != nil {
				return err
			}
			fmt.Println(last.Sequence)
			if err := send(s, n); err != nil {
				return err
			}
		}
		_, failed := s.Erase("A100", []store.Request{{Reference: strconv.Itoa(n), ID: "1"}}) // so that the next start compacts
		_, err = store.ReceiveBackup(context.Background(), filepath.Join(dir, "copy"), true, into(s))
		err = errors.Join(err, failed, s.Close())
	}
	return err
}

// send acknowledges the log, and trims.
func send(s *store.Store, n int) error {
	last, err := s.LastPosition()
	if err != nil {
		return err
	}
	e, _, err := s.Lookup(last)
	if err != nil {
		return err
	}
	err = s.Acknowledge(events.Cursor{Position: last, ID: e.ID, StreamSequence: last, StreamCreated: era}, map[string]uint64{"A100": last})
	_, failed := s.Trim(time.Now().Add(time.Hour), 30+n)
	return errors.Join(err, failed)
}

func TestAKillAtAnyInstantLeavesASoundStoreWithAllThatWasCommitted(t *testing.T) {
	t.Parallel()
	dir, newest := t.TempDir(), uint64(0)
	for life := range 10 * *rounds {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), busyIn+"="+dir)
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		must(t, err)
		kill := sync.OnceFunc(func() {
			time.AfterFunc(20*time.Millisecond+rand.N(400*time.Millisecond), func() { c.Process.Kill() })
		})
		if life%5 < 4 { // otherwise it lives until it has committed something, however slow the machine is
			kill()
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			kill()
			n, err := strconv.ParseUint(lines.Text(), 10, 64)
			if err != nil || n <= newest {
				t.Errorf("sequence %q after %d", lines.Text(), newest)
			}
			newest = n
		}
		if err := c.Wait(); c.ProcessState.ExitCode() != -1 {
			t.Fatalf("it exited by itself: %v", err)
		}
		checkIfThere(t, filepath.Join(dir, "doorbell.db"))
		checkIfThere(t, filepath.Join(dir, "copy"))
	}
	s := open(t, dir)
	if e := appended(t, s, event(t, "A100")); e.Sequence <= newest || newest == 0 {
		t.Errorf("the log continues with %d, %d was committed", e.Sequence, newest)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".doorbell-*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}

// checkIfThere verifies a file; one that was not created yet, or not filled yet, is accepted.
func checkIfThere(t *testing.T, path string) {
	t.Helper()
	r, err := store.Verify(t.Context(), path)
	empty := err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, store.ErrEmpty) || r.Bytes == 0)
	if !empty && (err != nil || len(r.Findings) > 0) {
		t.Errorf("%s: %v, %q", filepath.Base(path), err, r.Findings)
	}
}
