package daemon

import (
	"testing"
	"time"

	"doorbell/events"
	"doorbell/store"
)

func TestAPersonWhoseEventHasLeftTheLogIsNotReplayed(t *testing.T) {
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example.com"})
	must(t, err)
	defer s.Close()
	lead, err := events.New(&events.ContactRequestCreated{
		Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "see#1", ContactRequestID: "1", Identity: events.IdentityID,
	})
	must(t, err)
	if err := s.Update(func(tx *store.Tx) error { lead, err = tx.Append(lead); return err }); err != nil {
		t.Fatal(err)
	}
	gone := lead
	gone.Sequence++
	for want, e := range map[bool]events.Event{false: lead, true: gone} {
		if erased, err := erasedIn(s)(e); erased != want || err != nil {
			t.Errorf("position %d: %t, %v", e.Sequence, erased, err)
		}
	}
}
