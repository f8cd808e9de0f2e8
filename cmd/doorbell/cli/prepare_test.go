package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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

// watching are the agencies of a scene, all with the one key.
func watching(agencies []string) func(*daemon.Options) {
	return func(o *daemon.Options) {
		o.Poller.Agencies = nil
		for _, id := range agencies {
			o.Poller.Agencies = append(o.Poller.Agencies, poller.AgencyKeys{ID: id, Key: listings.NewKey(doorbelltest.TestKey)})
		}
	}
}

// lostStore leaves a stream behind whose last events of the agencies are three hours old, and no store. It returns contact requests that
// were written since.
func lostStore(s doorbelltest.Scene, t *testing.T, agencies []string) (rung map[string]bool) {
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
			if err != nil {
				return err
			}
			if _, err := tx.Append(e); err != nil {
				return err
			}
			if err := tx.PutAgency(id, store.Agency{WatchStart: before()}); err != nil {
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

// hears waits until all of the contact requests were announced, each once.
func hears(sub *doorbelltest.Subscriber, t *testing.T, rung map[string]bool) {
	t.Helper()
	missing := len(rung)
	sub.Await(t, "what was written while nobody watched", func(a doorbelltest.Arrival) bool {
		untold, ours := rung[a.Body.ContactRequestID]
		if a.Kind() == "contact_request.created" && ours {
			if !untold {
				t.Errorf("a contact request of %s is announced twice", a.Body.AgencyID)
			}
			rung[a.Body.ContactRequestID] = false
			missing--
		}
		return missing == 0
	})
}

func TestNoneOfTwoHundredAgenciesIsWatchedBeforeTheStreamHasReplacedTheLostStore(t *testing.T) {
	t.Parallel()
	var agencies []string
	for n := range 200 {
		agencies = append(agencies, fmt.Sprintf("A%03d", n))
	}
	s := doorbelltest.SceneOf(t, 1, agencies)
	rung := lostStore(s, t, agencies)
	life(s, t, func(_ *daemon.Daemon, sub *doorbelltest.Subscriber) { hears(sub, t, rung) }, watching(agencies), func(o *daemon.Options) {
		o.Poller.PollInterval, o.Poller.WalkInterval = time.Minute, time.Minute
	})
}

func TestWithNATSAwayAtTheStartAKnownAgencyIsPolledImmediatelyAndANewOneIsReportedAsWaiting(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	port := doorbelltest.FreePort(t)
	url := func(o *daemon.Options) { o.NATS.URL = fmt.Sprintf("nats://127.0.0.1:%d", port) }
	life(s, t, func(_ *daemon.Daemon, sub *doorbelltest.Subscriber) { sub.Baselined(t, "A100") }, watching([]string{"A100"}))
	said := &doorbelltest.Transcript{Grown: make(chan struct{}, 1)}
	a := s.Open(t, "off", watching([]string{"A100", "B200"}), url, func(o *daemon.Options) {
		o.Log = slog.New(slog.NewTextHandler(said, nil))
	})
	doorbelltest.RunUntilTheEnd(t, a)
	s.GoesOn(t, "A100", 5)
	said.Await(t, "level=WARN msg=\"agencies that are new to this store wait[^\n]* agencies=1")
	status, err := a.Verbs().Status()
	if err != nil || status.Watch.Agencies[1].AgencyID != "B200" || status.Watch.Agencies[1].State != "waiting_for_stream" {
		t.Errorf("the status is %+v, %v", status.Watch.Agencies, err)
	}
	if h := a.Health(); h.Ready || !strings.Contains(fmt.Sprint(h), "waiting for the stream: 1 agency") {
		t.Errorf("the health is %+v", h)
	}
	if n := s.Model.Requests(sandbox.Filter{AgencyID: "B200"}); n != 0 {
		t.Errorf("%d requests for an agency that waits", n)
	}
	id := s.Ring(t, "B200") // since the begin of its watch
	sub := doorbelltest.SubscribeTo(t, doorbelltest.StartNATS(t, port))
	sub.Request(t, id)
}

func TestAnAgencyAddedLaterIsComparedFirst(t *testing.T) {
	t.Parallel()
	s := doorbelltest.SceneOf(t, 1, []string{"A100", "B200"})
	rung := lostStore(s, t, []string{"A100", "B200"})
	more := make(chan struct{})
	life(s, t, func(_ *daemon.Daemon, sub *doorbelltest.Subscriber) {
		close(more)
		hears(sub, t, rung)
	}, watching([]string{"A100"}), func(o *daemon.Options) {
		o.Keys = func(ctx context.Context, set func([]poller.AgencyKeys) error) error {
			var all daemon.Options
			watching([]string{"A100", "B200"})(&all)
			select {
			case <-more:
				if err := set(all.Poller.Agencies); err != nil {
					return err
				}
				<-ctx.Done()
			case <-ctx.Done():
			}
			return nil
		}
	})
}
