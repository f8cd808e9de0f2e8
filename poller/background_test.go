package poller

import (
	"testing"
	"testing/synctest"

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
		p.backgroundMeanwhile()
		read := p.read
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
		if p.read.known != nil {
			t.Error("it would count twice")
		}
	}
}

// Where a commit has to map the file anew, it waits for the transactions that read, and keeps others from beginning: one of those
// must not wait for one of these.
func TestNoTransactionWaitsForWhatIsReadMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		err = s.Update(func(tx *store.Tx) error { return tx.PutInsertion("A100", store.Insertion{Reference: "a#1##"}) })
		if err != nil {
			t.Fatal(err)
		}
		ahead, judged := make(chan background, 1), false
		p := &poll{a: &agency{p: &Poller{store: s}, id: "A100"}, reference: "a#1##", ahead: ahead}
		go func() {
			_ = s.View(func(tx *store.Tx) (err error) { _, err = p.background(tx); return err })
			judged = true
		}()
		synctest.Wait()
		if !judged {
			t.Error("a transaction waits for one that has not begun")
		}
		ahead <- background{}
		synctest.Wait()
	})
}
