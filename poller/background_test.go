package poller

import (
	"testing"

	"doorbell/store"
)

func TestWhatWasReadMeanwhileCountsOnlyIfNothingWasCommittedSince(t *testing.T) {
	for _, committed := range []bool{false, true} {
		s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		put := func(id string) {
			t.Helper()
			err := s.Update(func(tx *store.Tx) error {
				if err := tx.PutInsertion("A100", store.Insertion{Reference: "a#1##"}); err != nil {
					return err
				}
				return tx.PutContactRequest("A100", "a#1##", store.ContactRequest{ID: id})
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		put("1")
		p := &poll{a: &agency{p: &Poller{store: s}, id: "A100"}, reference: "a#1##"}
		p.readBackgroundMeanwhile()
		read := p.backgroundMeanwhile()
		again := make(chan background, 1)
		again <- read
		p.ahead = again
		if committed {
			put("2")
		}
		var m background
		if err := s.View(func(tx *store.Tx) (err error) { m, err = p.background(tx); return err }); err != nil {
			t.Fatal(err)
		}
		if same := &m.known[0] == &read.known[0]; same == committed {
			t.Errorf("after a commit %t, what was read before counts: %t", committed, same)
		}
		if want := map[bool]int{false: 1, true: 2}[committed]; len(m.known) != want {
			t.Errorf("%d contact requests are known, want %d", len(m.known), want)
		}
		if p.ahead != nil {
			t.Error("it would count twice")
		}
	}
}
