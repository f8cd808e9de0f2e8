package store_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"doorbell/store"
)

func TestPagesThatWereReadAreGivenBack(t *testing.T) {
	const records = 10_000 // 20 MB
	s := open(t, t.TempDir())
	record := bytes.Repeat([]byte("1234567890"), 200)
	put := func(n int) {
		update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", fmt.Sprintf("%06d", n), record) })
	}
	update(t, s, func(tx *store.Tx) error {
		for n := range records {
			if err := tx.PutRecord("A100", fmt.Sprintf("%06d", n), record); err != nil {
				return err
			}
		}
		return nil
	})
	read := func(tx *store.Tx, n int) error {
		if !bytes.Equal(tx.Record("A100", fmt.Sprintf("%06d", n)), record) {
			t.Fatal("a record is another one than was written")
		}
		if n%100 == 0 {
			if kB := mapped(t, s.Path()); kB > 6000 {
				t.Fatalf("%d kB are mapped", kB)
			}
		}
		return nil
	}
	for n := range records / 10 { // each in a transaction of its own, and between others that write
		if err := s.View(func(tx *store.Tx) error { return read(tx, n*7919%records) }); err != nil {
			t.Fatal(err)
		}
		if n%10 == 0 {
			put(n * 7907 % records)
		}
	}
	err := s.View(func(tx *store.Tx) error { // and in a single one
		for n := range records {
			if err := read(tx, n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
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
