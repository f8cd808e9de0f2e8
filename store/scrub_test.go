package store_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/store"
)

// TestWhatIsNotUsedAnyMoreIsNowhereInTheFileAfterAScrub holds random operations against a map, with readers that stay while others
// write, and files that are reopened or killed; and looks at the raw file after each Scrub.
func TestWhatIsNotUsedAnyMoreIsNowhereInTheFileAfterAScrub(t *testing.T) {
	dirs := t.TempDir()
	few(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := &scrubbed{model: model{dirs: dirs, now: era}, records: map[string]string{}}
		m.open(rt, m.fresh(rt), store.Options{})
		defer func() {
			m.release(rt)
			m.s.Close()
			check(t, m.s.Path())
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.put, "erase": m.erase, "hold": m.hold, "release": m.release, "scrub": m.scrub,
			"goOn": func(rt *rapid.T) {
				m.release(rt)
				rapid.SampledFrom([]func(*rapid.T){m.reopen, m.kill}).Draw(rt, "how")(rt)
			},
			"": func(rt *rapid.T) { rt.Helper(); sameRecords(rt, m.s.View, m.records) },
		})
	})
}

type scrubbed struct {
	model
	records map[string]string // by reference; each holds a mark of its own
	gone    []string          // marks that must not be found any more
	leads   int
	held    func() // ends the readers; nil: there is none
}

// put writes records, and a lead now and then, in one commit.
func (m *scrubbed) put(rt *rapid.T) {
	var list []string
	err := m.s.Update(func(tx *store.Tx) (err error) {
		for range rapid.IntRange(1, 5).Draw(rt, "records") {
			reference := fmt.Sprint("r", rapid.IntRange(0, 40).Draw(rt, "which"))
			mark := rand.Text()
			if was := m.records[reference]; was != "" {
				list = append(list, markOf(was))
			}
			m.records[reference] = fmt.Sprintf("%q", mark+strings.Repeat(".", rapid.IntRange(0, 9000).Draw(rt, "size")))
			err = errors.Join(err, tx.PutRecord("A100", reference, []byte(m.records[reference])))
		}
		return err
	})
	if err != nil {
		rt.Fatal(err)
	}
	m.gone = append(m.gone, list...)
}

func markOf(record string) string { return record[1:27] }

// erase appends somebody's contact request, and erases it.
func (m *scrubbed) erase(rt *rapid.T) {
	m.leads++
	mark, request := rand.Text(), store.Request{Reference: "a#b##", ID: fmt.Sprint("c", m.leads)}
	e, err := events.New(&events.ContactRequestCreated{
		Common: events.Common{AgencyID: "A100", ObservedAt: era}, PropertyReferenceID: request.Reference, ContactRequestID: request.ID,
		Identity: events.IdentityID, Contact: events.Contact{Message: mark}, Record: fmt.Appendf(nil, `{"message":%q}`, mark),
	})
	if err == nil {
		err = m.s.Update(func(tx *store.Tx) error { _, err := tx.Append(e); return err })
	}
	if err != nil {
		rt.Fatal(err)
	}
	if erased, err := m.s.Erase("A100", []store.Request{request}); err != nil || len(erased) != 1 {
		rt.Fatalf("%d events were erased: %v", len(erased), err)
	}
	m.gone = append(m.gone, mark)
}

// hold begins to read, and goes on until release.
func (m *scrubbed) hold(rt *rapid.T) {
	m.release(rt)
	want := maps.Clone(m.records)
	begun, end, ended := make(chan bool), make(chan bool), make(chan error, 1)
	s := m.s
	go func() {
		ended <- s.View(func(tx *store.Tx) error {
			close(begun)
			<-end
			sameRecords(rt, func(f func(*store.Tx) error) error { return f(tx) }, want)
			return nil
		})
	}()
	<-begun
	m.held = func() {
		close(end)
		if err := <-ended; err != nil {
			rt.Error(err)
		}
	}
}

func (m *scrubbed) release(*rapid.T) {
	if m.held != nil {
		m.held()
	}
	m.held = nil
}

func (m *scrubbed) scrub(rt *rapid.T) {
	if m.held != nil {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := m.s.Scrub(ctx); !errors.Is(err, context.Canceled) {
			rt.Errorf("while somebody reads: %v", err)
		}
		m.release(rt)
	}
	scrubs(rt, m.s)
	f, err := os.Open(m.s.Path())
	if err != nil {
		rt.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		rt.Fatal(err)
	}
	text, err := syscall.Mmap(int(f.Fd()), 0, int(info.Size()), syscall.PROT_READ, syscall.MAP_SHARED) // to read it would take the race detector longer than all else
	if err != nil {
		rt.Fatal(err)
	}
	defer syscall.Munmap(text)
	for _, mark := range m.gone {
		if bytes.Contains(text, []byte(mark)) {
			rt.Errorf("one of %d that are gone is still there", len(m.gone))
		}
	}
	for _, record := range m.records {
		if !bytes.Contains(text, []byte(markOf(record))) {
			rt.Error("one that is not gone is not found")
		}
	}
}

func scrubs(t rapid.TB, s *store.Store) {
	t.Helper()
	if err := s.Scrub(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func sameRecords(t rapid.TB, view func(func(*store.Tx) error) error, want map[string]string) {
	t.Helper()
	if err := view(func(tx *store.Tx) error {
		for reference, record := range want {
			if got := tx.Record("A100", reference); string(got) != record {
				t.Errorf("the record of %s is another one, of %d bytes", reference, len(got))
			}
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

func TestAfterAScrubTheFileMayDoWithoutItsNewestHeadAgain(t *testing.T) {
	dir, want := t.TempDir(), map[string]string{}
	s := open(t, dir)
	for n := range 30 {
		reference := fmt.Sprint("r", n%7)
		want[reference] = fmt.Sprintf("%q", strings.Repeat("x", 500*n))
		update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", reference, []byte(want[reference])) })
	}
	scrubs(t, s)
	text, err := os.ReadFile(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	newest := slices.MaxFunc([]int{0, page}, func(a, b int) int { return bytes.Compare(reversed(text[a+64:a+72]), reversed(text[b+64:b+72])) })
	clear(text[newest+72 : newest+80]) // its checksum
	copied := t.TempDir()
	if err := os.WriteFile(filepath.Join(copied, "doorbell.db"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	torn := open(t, copied)
	if !torn.Torn() {
		t.Error("no head is torn")
	}
	sameRecords(t, torn.View, want)
}

// reversed makes a little-endian number one that sorts.
func reversed(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}

func TestAScrubReachesTheEndOfTheFileInSmallCommits(t *testing.T) {
	dir, mark := t.TempDir(), []byte(rand.Text())
	s := open(t, dir)
	for _, record := range [][]byte{bytes.Repeat(mark, 10<<20/len(mark)), []byte("{}")} {
		update(t, s, func(tx *store.Tx) error { return tx.PutRecord("A100", "a", record) })
	}
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	end, err := f.Seek(-int64(len(mark)), io.SeekEnd)
	if _, failed := f.WriteAt(mark, end); err != nil || failed != nil { // as a commit that was cut off, behind all that is used
		t.Fatal(err, failed)
	}
	before := s.Commits()
	scrubs(t, s)
	if n := s.Commits() - before; n != 6 {
		t.Errorf("%d commits for 10 MB", n)
	}
	text, err := os.ReadFile(s.Path())
	if n := bytes.Count(text, mark); n > 0 || err != nil {
		t.Errorf("%d marks are left: %v", n, err)
	}
}

// BenchmarkScrub is of a file of 200 MB, half of which is free.
func BenchmarkScrub(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		now := era
		s := openAt(b, b.TempDir(), &now)
		for n := range 200 {
			update(b, s, func(tx *store.Tx) (err error) {
				for m := range 100 {
					err = errors.Join(err, tx.PutRecord("A100", fmt.Sprintf("%04d%04d", m, n), bytes.Repeat([]byte("x"), 8000)))
				}
				return err
			})
		}
		update(b, s, func(tx *store.Tx) (err error) {
			for n := range 200 {
				for m := range 50 {
					err = errors.Join(err, tx.PutRecord("A100", fmt.Sprintf("%04d%04d", m, n), []byte("x")))
				}
			}
			return err
		})
		before := s.Commits()
		began := time.Now()
		b.StartTimer()
		scrubs(b, s)
		b.StopTimer()
		info, _ := os.Stat(s.Path())
		inUse, _ := s.InUse()
		b.Logf("%v, %d commits, %d of %d MB in use", time.Since(began), s.Commits()-before, inUse>>20, info.Size()>>20)
		b.StartTimer()
	}
}
