package cli

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// logged makes a data directory whose log has n contact requests of two agencies in turn, and a halt of the second.
// Either all of them are published, or the first half.
func logged(t *testing.T, requests int, published bool) []string {
	t.Helper()
	dir := doorbelltest.ShortDir(t)
	s, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	must(t, err)
	err = s.Update(func(tx *store.Tx) error {
		for n := range requests + 1 {
			agency := []string{"A100", "B200"}[n%2]
			if err := tx.PutAgency(agency, store.Agency{}); err != nil {
				return err
			}
			e, err := events.New(rung(agency, n))
			if n == requests {
				e, err = events.New(&events.AccessHalted{Common: events.Common{AgencyID: "B200", ObservedAt: time.Now()}, Scope: events.ScopeAgency, Status: 403, ProbableReason: "key_rejected", Resume: "doorbell resume B200"})
			}
			if err != nil {
				return err
			}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	upTo := uint64(requests + 1)
	if !published {
		upTo /= 2
	}
	must(t, s.Acknowledge(events.Cursor{Position: upTo}, nil))
	must(t, s.Close())
	return doorbelltest.Fit("DOORBELL_DATA_DIR=" + dir)
}

// rung is a person's contact request.
func rung(agency string, n int) *events.ContactRequestCreated {
	person := "Muster" + sandbox.Marker
	return &events.ContactRequestCreated{
		Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}, PropertyReferenceID: fmt.Sprintf("see#%d##", n%3),
		ContactRequestID: fmt.Sprint("id-", n), Identity: events.IdentityID, Score: []byte("7.25"), Insertion: events.InsertionSummary{Title: "Ruhig & <zentral>"},
		Contact: events.Contact{FirstName: "Nora", LastName: person, Email: person + "@example.org", Message: "Guten Tag " + person},
		Record:  []byte(`{"id":"id-` + fmt.Sprint(n) + `","` + person + `":"` + person + `","lastName":"` + person + `","n":9007199254740993}`),
	}
}

func TestTheLogIsListedWithoutADaemonAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	environ := logged(t, 100, false)
	dir := settingOf(environ, "DOORBELL_DATA_DIR")
	before := doorbelltest.Tree(t, dir)
	got := doorbelltest.Run(t, environ, "events", "ls")
	list := doorbelltest.Lines(got.Stdout)
	if got.Code != 0 || len(list) != 50 {
		t.Fatalf("%d lines: %+v", len(list), got)
	}
	doorbelltest.Has(t, got.Stderr, "the newest 50; --limit 0 prints all")
	doorbelltest.Has(t, list[49], "   101  ", "B200   Polling stopped", "the API refuses the key", "(waits)", time.Now().UTC().Format("2006-01-02"))
	doorbelltest.Has(t, doorbelltest.Run(t, environ, "events", "show", strings.Fields(list[49])[0]).Stdout, "access.halted")
	doorbelltest.Has(t, list[48], "   100  ", "B200   New lead", "see#", "“Ruhig & <zentral>”  score 7.25")
	for _, text := range list {
		if !strings.Contains(text, "waits") { // they are the second half
			t.Errorf("confirmed: %s", text)
		}
	}
	doorbelltest.HoldsNobody(t, got.Stdout+got.Stderr)
	mustBeUntouched(t, dir, before)
}

func TestADaemonThatHoldsTheStoreAndDoesNotAnswerIsUnavailable(t *testing.T) {
	t.Parallel()
	dir := doorbelltest.ShortDir(t)
	held, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	must(t, err)
	defer held.Close()
	before := doorbelltest.Tree(t, dir)
	var all sync.WaitGroup // each waits for the lock
	for _, args := range [][]string{{"status", "--check"}, {"resume", "A100"}, {"events", "show", "1"}} {
		all.Go(func() {
			got := doorbelltest.Run(t, []string{"DOORBELL_DATA_DIR=" + dir}, args...)
			if got.Code != exit.CodeUnavailable || got.Stdout != "" {
				t.Errorf("%q: %+v", args, got)
			}
			doorbelltest.Has(t, got.Stderr, "holds the store and does not answer", dir)
		})
	}
	all.Wait()
	mustBeUntouched(t, dir, before)
}

func settingOf(environ []string, name string) (value string) {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
