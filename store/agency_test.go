package store

import (
	"errors"
	"slices"
	"testing"
)

func openEmpty(t *testing.T) *Store {
	t.Helper()
	s, err := Open(Options{Dir: t.TempDir(), BaseURL: "https://api.example.org"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestWhatIsWrittenIsSeenByItsTransactionAloneUntilItIsCommitted(t *testing.T) {
	s := openEmpty(t)
	want := func(tx *Tx, walks int) error {
		a, _ := tx.Agency("A100")
		if a.CompleteWalks != walks {
			t.Errorf("read %d, want %d", a.CompleteWalks, walks)
		}
		return nil
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
	put(1, 2, errors.New("boom"))
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
		a, _ := tx.Agency("A100")
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

func TestAlarmsAreKeptByAgency(t *testing.T) {
	s := openEmpty(t)
	one := Alarm{AlarmID: AlarmID{Kind: "window_full", Operation: "contact_requests", Reference: "a#b##"}, Missing: 7}
	other := Alarm{AlarmID: AlarmID{Kind: "stale", Operation: "insertions"}, Example: "a#1##"}
	write := func(do func(tx *Tx) error) {
		t.Helper()
		if err := s.Update(do); err != nil {
			t.Fatal(err)
		}
	}
	want := func(alarms ...Alarm) {
		t.Helper()
		err := s.View(func(tx *Tx) error {
			if !slices.Equal(tx.Alarms("A100"), alarms) || len(tx.Alarms("A1")) != 0 {
				t.Errorf("%v", tx.Alarms("A100"))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	write(func(tx *Tx) error {
		return errors.Join(tx.PutAlarm("A100", one), tx.PutAlarm("A100", other))
	})
	want(other, one)
	write(func(tx *Tx) error {
		one.Missing = 8
		return errors.Join(tx.PutAlarm("A100", one), tx.DeleteAlarm("A100", other.AlarmID))
	})
	want(one)
}
