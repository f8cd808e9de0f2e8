package store_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/store"
)

func TestPagesThatWereReadAreGivenBack(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		record := bytes.Repeat([]byte("0123456789"), 200)
		update(t, s, func(tx *store.Tx) error {
			for n := range 4000 {
				if err := tx.PutRecord("A100", fmt.Sprint(n), record); err != nil {
					return err
				}
			}
			return nil
		})
		readAll := func() {
			err := s.View(func(tx *store.Tx) error {
				for n := range 4000 {
					if !bytes.Equal(tx.Record("A100", fmt.Sprint(n)), record) {
						t.Fatal("a record is another one than was written")
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		readAll()
		if before := mapped(t, s.Path()); before < 4000 {
			t.Fatalf("%d kB are mapped after all was read", before)
		}
		time.Sleep(time.Minute)
		readAll() // what is read in a View is given back after it
		if after := mapped(t, s.Path()); after > 1000 {
			t.Errorf("%d kB are still mapped", after)
		}
		readAll()
		s.Close()
	})
}

// mapped is how many kB of a file this process has mapped and in memory.
func mapped(t *testing.T, path string) (kB int) {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	here := false
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, "-") && strings.Contains(line, " ") && !strings.Contains(strings.Fields(line)[0], ":") {
			here = strings.HasSuffix(line, path)
		}
		var n int
		if _, err := fmt.Sscanf(line, "Rss: %d kB", &n); err == nil && here {
			kB += n
		}
	}
	return kB
}
