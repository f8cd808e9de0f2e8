package store_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/store"
)

// rounds multiplies the cases: go test ./store -run Flipped -rounds 160 -timeout 1h.
var rounds = flag.Int("rounds", 1, "how many times 25 bytes of a store are changed, one at a time, in each of two ways")

// flipsIn names what this program, instead of testing, changes: a mode, a seed, the first one and how many, and a directory.
const flipsIn = "STORE_TEST_FLIPS"

// TestAFlippedByteIsHarmlessOrDamage changes one byte anywhere in the file of a store, mostly where its pages say how they are
// made, before it is opened or while it is open. Then all of it is read, written to, and read again. Either it is ErrDamaged, or what
// is read is what was written; at most keys are lost. bbolt can follow some bytes in a circle until the process ends, so these are
// other processes.
func TestAFlippedByteIsHarmlessOrDamage(t *testing.T) {
	if what := os.Getenv(flipsIn); what != "" {
		flipAll(t, what)
		return
	}
	t.Parallel()
	name := t.Name()
	for _, mode := range []string{"start", "open"} {
		t.Run(mode, func(t *testing.T) {
			seed, dir, count, flips := rand.Uint64(), t.TempDir(), map[string]int{}, 25**rounds
			for from := 0; from < flips; {
				c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+name+"$")
				var complaint bytes.Buffer
				c.Stderr = &complaint
				c.Env = append(os.Environ(), "GOGC=100", fmt.Sprintf("%s=%s %d %d %d %s", flipsIn, mode, seed, from, flips, dir))
				out, err := c.Output()
				began := from
				var last string
				for line := range strings.Lines(string(out)) {
					var n int
					if _, failed := fmt.Sscan(line, &n, &last); failed != nil {
						break // the report of the test
					}
					if from = n + 1; last != "reading" {
						count[last]++
					}
				}
				if from == began {
					t.Fatalf("seed %d, flip %d: no result: %v\n%s%.3000s", seed, from, err, out, complaint.String())
				}
				died := regexp.MustCompile("out of memory|stack overflow|" + helptest.TooMuchMemory).Match(complaint.Bytes())
				switch {
				case died && (last == "reading" || last == "damaged"): // or bbolt still runs in a circle after the damage was met
					count["died"]++ // nothing is written then
				case last == "wrong" || err != nil:
					t.Errorf("seed %d, flip %d: %s: %v\n%.3000s", seed, from-1, last, err, complaint.String())
				}
			}
			t.Logf("seed %d: %v", seed, count)
			if count["damaged"]+count["died"] < flips/10 || count["harmless"] < flips/20 {
				t.Errorf("%v says nothing", count)
			}
			if count["died"] > 1+flips/50 {
				t.Errorf("%d of %d flips end the process", count["died"], flips)
			}
		})
	}
}

// flipAll changes bytes one at a time, and prints the outcome of each.
func flipAll(t *testing.T, what string) {
	debug.SetMaxStack(64 << 20)
	helptest.LimitMemory()
	var mode, dir string
	var seed uint64
	var from, to int
	_, err := fmt.Sscan(what, &mode, &seed, &from, &to, &dir)
	must(t, err)
	dir = filepath.Join(dir, strconv.Itoa(os.Getpid()))
	file, holds := aFurnishedStore(t, dir)
	for n := from; n < to; n++ {
		write(t, filepath.Join(dir, "doorbell.db"), string(file))
		switch err := flipped(t, n, mode, dir, holds, rand.New(rand.NewPCG(seed, uint64(n)))); {
		case err == nil:
			fmt.Println(n, "harmless")
		case errors.Is(err, store.ErrDamaged) && !errors.Is(err, errWrong):
			fmt.Println(n, "damaged")
		default:
			fmt.Println(n, "wrong")
			panic(err)
		}
	}
}

// flipped opens a store of which a byte has changed, or changes one of a store that is open. Where it
// was in the head of what was committed last, the store holds at its start what it held before.
func flipped(t *testing.T, n int, mode, dir string, holds []map[string]string, random *rand.Rand) error {
	path := filepath.Join(dir, "doorbell.db")
	if mode == "start" {
		flip(t, path, random)
	}
	fmt.Println(n, "reading")
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	if err != nil {
		return err
	}
	if mode == "open" {
		defer time.AfterFunc(time.Minute, func() { panic("it does not come to an end") }).Stop()
		holds = holds[:1]
		flip(t, path, random)
	}
	return errors.Join(stillThere(s, holds), s.Close())
}

// flip changes a byte of a file.
func flip(t *testing.T, path string, random *rand.Rand) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	read := func(b []byte, at int64) []byte {
		_, err := f.ReadAt(b, at)
		must(t, err)
		return b
	}
	at := random.Int64N(pagesOf(read(make([]byte, 8192), 0))) * 4096
	page := read(make([]byte, 32), at)
	switch random.IntN(4) {
	case 0:
		at += random.Int64N(4096)
	case 1:
		at += random.Int64N(16)
	default: // where the entries of the page are
		at += 16 + random.Int64N(min(4080, 16*int64(max(1, binary.NativeEndian.Uint16(page[10:])))))
	}
	b := read(page[:1], at)
	b[0] ^= byte(1 + random.IntN(255))
	_, err = f.WriteAt(b, at)
	must(t, err)
}

// aFurnishedStore is the file of a closed store with something of everything, and what it holds now and held one commit before.
// Some pages are free.
func aFurnishedStore(t *testing.T, dir string) (file []byte, holds []map[string]string) {
	s, err := store.Open(store.Options{Dir: dir, BaseURL: baseURL})
	must(t, err)
	furnishInto(t, s)
	for _, n := range []int{10, 1} {
		trim(t, s, era.AddDate(100, 0, 0), n, n)
		what, err := everything(s)
		must(t, err)
		holds = append([]map[string]string{what}, holds...)
	}
	must(t, s.Close())
	file, err = os.ReadFile(s.Path())
	must(t, err)
	return file[:pagesOf(file)*4096], holds
}

// pagesOf is how many pages the newer head of a file counts.
func pagesOf(head []byte) int64 {
	return int64(max(binary.NativeEndian.Uint64(head[16+40:]), binary.NativeEndian.Uint64(head[4096+16+40:])))
}

var errWrong = errors.New("the store holds something else")

// stillThere reads all of a store, changes something, and reads it again.
func stillThere(s *store.Store, want []map[string]string) error {
	changed := store.Insertion{Reference: "a#zz", Episode: 1}
	for range 2 {
		got, err := everything(s)
		if err != nil {
			return err
		}
		if err := partOfOne(got, want); err != nil {
			return err
		}
		err = s.Update(func(tx *store.Tx) error {
			i, known := tx.Insertion("A100", "a#7##")
			if !known { // it was lost, and is learned again
				i = store.Insertion{Reference: "a#7##", Episode: 1}
			}
			return errors.Join(tx.PutInsertion("A100", i), tx.PutInsertion("A100", changed), tx.PutContactRequests("A100", "a#zz", store.ContactRequest{ID: "new"}))
		})
		if err != nil {
			return err
		}
		if got, err = everything(s); err != nil {
			return err
		}
		want = []map[string]string{got}
	}
	return nil
}

// partOfOne reports whether a store holds nothing but what it is to hold, or held a commit before. Keys may be lost.
func partOfOne(got map[string]string, wants []map[string]string) (err error) {
	for _, want := range wants {
		err = nil
		for k, v := range got {
			if is, exists := want[k]; !exists || is != v {
				err = fmt.Errorf("%w: %q is %.300q, want %.300q", errWrong, k, v, is)
			}
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// everything is all that a store holds, read one by one and in passing.
func everything(s *store.Store) (map[string]string, error) {
	all := map[string]string{}
	agencies, err := s.Agencies()
	for _, agency := range agencies {
		all["agencies "+agency] = ""
	}
	for _, agency := range []string{"A100", "B200", "C300"} {
		note := func(what string, value any) { all[agency+" "+what] = fmt.Sprint(value) }
		err = errors.Join(err, s.View(func(tx *store.Tx) error {
			if a, known := tx.Agency(agency); known {
				note("state", a.WatchStart)
			}
			for _, h := range tx.Halts(agency) {
				note("halt "+string(h.Scope), h)
			}
			for _, a := range tx.Alarms(agency) {
				note("alarm "+a.Kind, a)
			}
			for i := range tx.Insertions(agency) {
				note("listed "+i.Reference, i)
			}
			return nil
		}))
		for n := range 42 {
			err = errors.Join(err, s.View(func(tx *store.Tx) error {
				reference := fmt.Sprintf("a#%d##", n)
				if i, known := tx.Insertion(agency, reference); known {
					note("insertion "+reference, i)
				}
				if r := tx.Record(agency, reference); r != nil {
					note("record "+reference, string(r))
				}
				if c := tx.ContactRequests(agency, reference); c != nil {
					note("contact requests "+reference, c)
				}
				return nil
			}))
		}
		list, _, err1 := s.EventsAfter(agency, 0, 1000, 1<<30)
		back, _, err2 := s.EventsBefore(agency, 0, 1000, 1<<30)
		for _, e := range append(list, back...) {
			note(fmt.Sprint("event ", e.Sequence), e.ID+string(e.Data))
		}
		err = errors.Join(err, err1, err2)
	}
	cursor, failed := s.Cursor()
	if cursor != (events.Cursor{}) { // without one all events are offered again
		all["cursor"] = fmt.Sprint(cursor)
	}
	return all, errors.Join(err, failed)
}

func TestAfterDamageNothingIsReadOrWritten(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: baseURL})
	must(t, err)
	furnishInto(t, s)
	select {
	case <-s.Failed():
		t.Error("it is damaged from the beginning")
	default:
	}
	text, err := os.ReadFile(s.Path())
	must(t, err)
	for at := 8192; at < len(text); at += 4096 { // as it was seen from outside: the high byte of the size of a key
		if binary.NativeEndian.Uint16(text[at+8:]) == 2 {
			text[at+16+8+3] ^= 0x7f
		}
	}
	f, err := os.OpenFile(s.Path(), os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(text[8192:], 8192)
	}
	must(t, errors.Join(err, f.Close()))
	insertions := func(tx *store.Tx) error {
		for range tx.Insertions("A100") {
		}
		return nil
	}
	if err := s.View(insertions); !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), s.Path()) {
		t.Fatalf("got %v", err)
	}
	<-s.Failed()
	_, err = s.InUse()
	for _, err := range []error{err, s.View(insertions), s.Failure(), s.Update(func(*store.Tx) error { return nil }), s.Acknowledge(events.Cursor{}, nil)} {
		if !errors.Is(err, store.ErrDamaged) {
			t.Errorf("afterwards: %v", err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(s.Path()); err != nil || !bytes.Equal(now, text) {
		t.Errorf("something was written: %v", err)
	}
}

func TestAMistakeOfACallerIsNoDamage(t *testing.T) {
	s := open(t, t.TempDir())
	for name, mistake := range map[string]func(){
		"index": func() { var none []int; _ = none[s.Commits()+7] },
		"nil":   func() { var none *store.Insertion; none.Episode++ },
		"own":   func() { panic("x") },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: nothing panicked", name)
				}
			}()
			err := s.View(func(*store.Tx) error { mistake(); return nil })
			t.Errorf("%s: %v", name, err)
		}()
	}
	if err := s.Failure(); err != nil {
		t.Error(err)
	}
}
