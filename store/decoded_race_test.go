package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// openEmpty opens a new store.
func openEmpty(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir(), BaseURL: "https://api.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// asWritten reads what is kept decoded from the file.
func (tx *Tx) asWritten(agency string) (a Agency, exists bool, names []string) {
	if v := tx.bucket(bucketAgencies).Get([]byte(agency)); v != nil {
		exists = json.Unmarshal(v, &a) == nil
	}
	if v := tx.bucket(bucketFieldNames).Get([]byte(agency)); v != nil {
		_ = json.Unmarshal(v, &names)
	}
	return a, exists, names
}

// wantAsWritten compares what a transaction reads with what is in the file at its moment.
func wantAsWritten(tx *Tx, agency string) error {
	want, exists, wantNames := tx.asWritten(agency)
	got, known, err := tx.Agency(agency)
	if err != nil || known != exists || !reflect.DeepEqual(got, want) {
		return fmt.Errorf("agency %s at %d: read %v %+v (%v), written %v %+v", agency, tx.commit(), known, got, err, exists, want)
	}
	names, err := tx.fieldNames(agency)
	if err != nil || !slices.Equal(names.list, wantNames) {
		return fmt.Errorf("names of %s at %d: read %q (%v), written %q", agency, tx.commit(), names.list, err, wantNames)
	}
	// which refer to names and forms
	_, err = tx.ContactRequests(agency, "a")
	return err
}

// TestWhatIsKeptDecodedIsWhatATransactionFindsInTheFile has readers that stay for a while, writers that commit and writers that
// do not, and holds all that is read against the file.
func TestWhatIsKeptDecodedIsWhatATransactionFindsInTheFile(t *testing.T) {
	s := openEmpty(t)
	agencies := []string{"A100", "B200", "C300"}
	var readers, writer sync.WaitGroup
	var done atomic.Bool
	var reads atomic.Int64
	for seed := range uint64(4) {
		readers.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for !done.Load() {
				err := s.View(func(tx *Tx) error {
					for range 1 + random.IntN(6) {
						reads.Add(1)
						tx.names, tx.known, tx.groups = map[string]*fieldNames{}, map[string]*forms{}, map[string]*group{} // read anew
						if err := wantAsWritten(tx, agencies[random.IntN(len(agencies))]); err != nil {
							return err
						}
						runtime.Gosched()
					}
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writer.Go(func() {
		random := rand.New(rand.NewPCG(7, 7))
		for n := range 150 {
			err := s.Update(func(tx *Tx) error { return writeSome(tx, random, agencies, n) })
			if err != nil && !errors.Is(err, errUnchanged) {
				t.Error(err)
			}
		}
	})
	writer.Wait()
	done.Store(true)
	readers.Wait()
	if reads.Load() < 100 {
		t.Errorf("only %d reads", reads.Load())
	}
}

// writeSome writes and reads, and then may not want to have written.
func writeSome(tx *Tx, random *rand.Rand, agencies []string, n int) error {
	for range 1 + random.IntN(3) {
		id := agencies[random.IntN(len(agencies))]
		a, _, err := tx.Agency(id)
		if err != nil {
			return err
		}
		a.CompleteWalks = n
		if random.IntN(2) == 0 {
			a.SetOperation("insertions", Operation{Size: n})
		}
		if err := tx.PutAgency(id, a); err != nil {
			return err
		}
		if random.IntN(2) == 0 {
			c := ContactRequest{ID: fmt.Sprint(n % 20), Rules: uint32(n % 30), Fields: []Field{{Name: fmt.Sprint("field", n%40)}}}
			if err := tx.PutContactRequest(id, "a", c); err != nil {
				return err
			}
			if err := tx.flush(); err != nil {
				return err
			}
		}
		if err := wantAsWritten(tx, agencies[random.IntN(len(agencies))]); err != nil {
			return err
		}
	}
	if random.IntN(3) == 0 {
		return errUnchanged
	}
	return nil
}

func TestWhatIsWrittenIsSeenByItsTransactionAloneUntilItIsCommitted(t *testing.T) {
	s := openEmpty(t)
	want := func(tx *Tx, walks int) error {
		a, _, err := tx.Agency("A100")
		if a.CompleteWalks != walks {
			t.Errorf("read %d, want %d", a.CompleteWalks, walks)
		}
		return err
	}
	view := func(walks int) {
		t.Helper()
		for range 2 {
			if err := s.View(func(tx *Tx) error { return want(tx, walks) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	put := func(before, walks int, end error) {
		t.Helper()
		err := s.Update(func(tx *Tx) error {
			err := errors.Join(want(tx, before), tx.PutAgency("A100", Agency{CompleteWalks: walks}), want(tx, walks), want(tx, walks))
			view(before)
			return errors.Join(err, want(tx, walks), end)
		})
		if !errors.Is(err, end) {
			t.Fatal(err)
		}
	}
	put(0, 1, nil)
	view(1)
	put(1, 2, errUnchanged)
	view(1)
	if err := s.Update(func(tx *Tx) error { return tx.PutAgency("B200", Agency{}) }); err != nil { // under the same number
		t.Fatal(err)
	}
	view(1)
	put(1, 3, nil)
	view(3)
}

func TestATransactionThatStaysReadsWhatWasThereWhenItBegan(t *testing.T) {
	s := openEmpty(t)
	put := func(walks int) {
		t.Helper()
		if err := s.Update(func(tx *Tx) error { return tx.PutAgency("A100", Agency{CompleteWalks: walks}) }); err != nil {
			t.Fatal(err)
		}
	}
	read := func(tx *Tx) int {
		a, _, err := tx.Agency("A100")
		if err != nil {
			t.Fatal(err)
		}
		return a.CompleteWalks
	}
	put(1)
	err := s.View(func(before *Tx) error {
		put(2)
		return s.View(func(after *Tx) error {
			if b, a, b2, a2 := read(before), read(after), read(before), read(after); b != 1 || a != 2 || b2 != 1 || a2 != 2 {
				t.Errorf("read %d and %d before, %d and %d after", b, b2, a, a2)
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestWhatIsLargeIsNotKeptDecoded(t *testing.T) {
	s := openEmpty(t)
	for size, kept := range map[int]bool{mostDecoded / 2: true, mostDecoded: false} {
		err := s.Update(func(tx *Tx) error { return tx.PutAgency("A100", Agency{Filter: strings.Repeat("x", size)}) })
		if err != nil {
			t.Fatal(err)
		}
		err = s.View(func(tx *Tx) error { _, _, err := tx.Agency("A100"); return err })
		if last := s.decodedOf("A100").state.last.Load(); err != nil || (last != nil && len(last.value.Filter) == size) != kept {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestAnAgencyIsDecodedByWhoHasPutIt(t *testing.T) {
	s := openEmpty(t)
	for n := range 3 {
		if err := s.Update(func(tx *Tx) error { return tx.PutAgency("A100", Agency{CompleteWalks: n}) }); err != nil {
			t.Fatal(err)
		}
		last := s.decodedOf("A100").state.last.Load()
		if last == nil || last.value.CompleteWalks != n || last.commit < s.decodedOf("A100").state.written.Load() {
			t.Errorf("after the %d. time %+v is kept", n+1, last)
		}
	}
}

func TestAnAgencyThatIsPutLeavesItsNamesDecoded(t *testing.T) {
	s := openEmpty(t)
	read := func() *asOf[*fieldNames] {
		t.Helper()
		if err := s.View(func(tx *Tx) error { _, err := tx.ContactRequests("A100", "a"); return err }); err != nil {
			t.Fatal(err)
		}
		return s.decodedOf("A100").names.last.Load()
	}
	c := ContactRequest{ID: "1", Fields: []Field{{Name: "email"}}}
	if err := s.Update(func(tx *Tx) error { return tx.PutContactRequest("A100", "a", c) }); err != nil {
		t.Fatal(err)
	}
	before := read()
	if err := s.Update(func(tx *Tx) error { return tx.PutAgency("A100", Agency{}) }); err != nil {
		t.Fatal(err)
	}
	if after := read(); before == nil || after != before {
		t.Error("the names were decoded again")
	}
}

func TestAnIDThatIsMadeOf16BytesIsKeptInAsMany(t *testing.T) {
	for id, want := range map[string]byte{
		"7f0c2b1e-6d1f-4a53-9a57-00000000000b": contactUUID, "7f0c2b1e6d1f4a539a5700000000000b": contactHexID,
		"7F0C2B1E-6D1F-4A53-9A57-00000000000B": 0, "7f0c2b1e-6d1f-4a53-9a570-0000000000b": 0, "4001234567": 0,
	} {
		packed, kind := packID(id)
		if got := string(appendID(nil, packed, kind)); kind != want || got != id || kind != 0 && len(packed) != 16 {
			t.Errorf("%s becomes %d bytes of kind %d, and then %s", id, len(packed), kind, got)
		}
	}
}
