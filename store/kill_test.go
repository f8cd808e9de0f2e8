package store_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/store"
)

// busyIn names the directory in which this program, instead of testing, keeps a store busy until it is killed.
const busyIn = "STORE_TEST_BUSY_IN"

func TestMain(m *testing.M) {
	helptest.KeepInMemory()
	os.Exit(m.Run())
}

// busy appends, publishes, trims, erases, copies and compacts without end, and prints the newest sequence after each commit.
func busy(t *testing.T, dir string) {
	for n := 1; ; n++ {
		s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
		must(t, err)
		for range 6 {
			var last events.Event
			update(t, s, func(tx *store.Tx) (err error) {
				for range 50 {
					one, failed := tx.Append(event(t, "A100"))
					last, err = one, errors.Join(err, failed, tx.PutRecord("A100", strconv.Itoa(n), []byte("{}")))
				}
				return err
			})
			fmt.Println(last.Sequence)
			publish(t, s, last.Sequence)
			_, err := s.Trim(time.Now().Add(time.Hour), 30+n)
			must(t, err)
		}
		erases(t, s, store.Request{Reference: strconv.Itoa(n), ID: "1"}) // so that the next start compacts
		_, err = store.ReceiveBackup(t.Context(), filepath.Join(dir, "copy"), true, into(s))
		must(t, errors.Join(err, s.Close()))
	}
}

func TestAKillAtAnyInstantLeavesASoundStoreWithAllThatWasCommitted(t *testing.T) {
	if dir := os.Getenv(busyIn); dir != "" {
		busy(t, dir)
	}
	t.Parallel()
	dir, newest := t.TempDir(), uint64(0)
	for life := range 10 * *rounds {
		c := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
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
