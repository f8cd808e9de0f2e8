package cli

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// lostStore leaves a stream behind whose last events of the agencies are three hours old, and no store. It returns contact requests that
// were written since.
func lostStore(s doorbelltest.Scene, t *testing.T, agencies ...string) (rung map[string]bool) {
	t.Helper()
	before := func() time.Time { return time.Now().Add(-3 * time.Hour) }
	lost := filepath.Join(s.Dir, "lost")
	kept, err := store.Open(store.Options{Dir: lost, BaseURL: s.URL, Now: before})
	must(t, err)
	err = kept.Update(func(tx *store.Tx) error {
		for _, id := range agencies {
			e, err := events.New(&events.WatchBaselined{
				Common: events.Common{AgencyID: id, ObservedAt: before()}, StartedAt: before(), Complete: true,
			})
			if err == nil {
				_, err = tx.Append(e)
			}
			if err = errors.Join(err, tx.PutAgency(id, store.Agency{WatchStart: before()})); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	cfg, err := config.Read(s.Environ)
	must(t, err)
	var p program
	conn, err := p.openNATS(t.Context(), cfg)
	must(t, err)
	r, err := relay.New(relay.Options{
		Log: kept, Conn: conn, Prefix: cfg.Base.SubjectPrefix, Stream: cfg.Base.Stream(), MaxAge: cfg.Base.Retention, Embedded: true, StoreID: kept.ID(),
	})
	must(t, err)
	must(t, r.RunOnce(t.Context()))
	p.close()
	must(t, errors.Join(kept.Close(), os.RemoveAll(lost)))
	rung = map[string]bool{}
	for _, i := range s.Model.Truth().Insertions {
		id, err := s.Model.AddContactRequest(i.AgencyID, i.Reference, sandbox.ContactRequest{CreatedAt: time.Now().Add(-time.Hour / 2), LastName: "Muster"})
		must(t, err)
		rung[id] = true
	}
	return rung
}

// TestAnAgencyIsComparedWithTheStreamOfALostStore is about an agency that is there at the start, and one that is added later. Each contact
// request that was written while no doorbell ran is announced once.
func TestAnAgencyIsComparedWithTheStreamOfALostStore(t *testing.T) {
	t.Parallel()
	s := doorbelltest.SceneOf(t, 1, []string{"A100", "B200"})
	rung := lostStore(s, t, "A100", "B200")
	more := make(chan struct{})
	a := s.Open(t, "127.0.0.1:0", func(o *daemon.Options) {
		o.Keys = func(ctx context.Context, set func([]poller.AgencyKeys) error) error {
			select {
			case <-more:
			case <-ctx.Done():
				return nil
			}
			err := set(append(o.Poller.Agencies, poller.AgencyKeys{ID: "B200", Key: listings.NewKey(doorbelltest.TestKey)}))
			<-ctx.Done()
			return err
		}
	})
	doorbelltest.RunUntilTheEnd(t, a)
	sub := doorbelltest.SubscribeTo(t, a.Server().ClientURL())
	close(more)
	missing := len(rung)
	sub.Await(t, "what was written while no doorbell ran", func(m doorbelltest.Arrival) bool {
		untold, ours := rung[m.Body.ContactRequestID]
		if m.Kind() == "contact_request.created" && ours {
			if !untold {
				t.Errorf("a contact request of %s is announced twice", m.Body.AgencyID)
			}
			rung[m.Body.ContactRequestID] = false
			missing--
		}
		return missing == 0
	})
}
