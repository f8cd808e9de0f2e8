package ops

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/store"
)

var start = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// journal is a store whose clock a test moves.
type journal struct {
	*store.Store
	now time.Time
	all []events.Event

	published uint64
}

func newJournal(t *testing.T, agencies ...string) *journal {
	t.Helper()
	j := &journal{now: start}
	s, err := store.Open(store.Options{
		Dir: t.TempDir(), BaseURL: "https://api.example.com", Now: func() time.Time { return j.now },
	})
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	for _, id := range agencies {
		must(t, s.Update(func(tx *store.Tx) error { return tx.PutAgency(id, store.Agency{}) }))
	}
	j.Store = s
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write appends events in one commit.
func (j *journal) write(t *testing.T, payloads ...events.Payload) {
	t.Helper()
	must(t, j.Update(func(tx *store.Tx) error {
		for _, p := range payloads {
			e, err := events.New(p)
			if err == nil {
				e, err = tx.Append(e)
			}
			if err != nil {
				return err
			}
			j.all = append(j.all, e)
		}
		return nil
	}))
}

// publish is what the relay does once the stream has taken the first unsent events.
func (j *journal) publish(t *testing.T, n int) {
	t.Helper()
	c, err := j.Cursor()
	must(t, err)
	c.Position += uint64(n)
	must(t, j.Acknowledge(c, nil))
	j.published += uint64(n)
}

func appeared(agency, reference string) *events.InsertionAppeared {
	return &events.InsertionAppeared{
		Common: events.Common{AgencyID: agency, ObservedAt: start}, PropertyReferenceID: reference, Episode: 1,
		Record: []byte(`{"title":"<b>Ruhig & zentral</b>","n":9007199254740993}`),
	}
}

func lead(id string) *events.ContactRequestCreated {
	return &events.ContactRequestCreated{
		Common: events.Common{AgencyID: "A100", ObservedAt: start}, PropertyReferenceID: "r", ContactRequestID: id,
		Contact: events.Contact{LastName: "Beispiel-zq7"},
	}
}

func halted(agency string) *events.AccessHalted {
	return &events.AccessHalted{Common: events.Common{AgencyID: agency, Origin: events.OriginBaseline, ObservedAt: start}, Scope: events.ScopeAgency}
}

// random fills a journal with three agencies, one of them silent, whose clock now and then jumps back.
func random(t *testing.T, r *rand.Rand, size int) *journal {
	t.Helper()
	j := newJournal(t, "A100", "B200", "C300", "D400")
	for n := 0; n < size; {
		var some []events.Payload
		for range 1 + r.IntN(50) {
			agency := []string{"A100", "B200", "C300"}[r.IntN(3)]
			if r.IntN(10) == 0 {
				some = append(some, halted(agency))
			} else {
				some = append(some, appeared(agency, fmt.Sprintf("ref#%d", r.IntN(5))))
			}
		}
		j.write(t, some...)
		n += len(some)
		j.now = j.now.Add(time.Duration(r.IntN(1000)-50) * time.Millisecond)
	}
	j.publish(t, 400)
	return j
}

func anyQuery(r *rand.Rand, j *journal) (q EventQuery) {
	moment := func() time.Time { return start.Add(time.Duration(r.Int64N(int64(j.now.Sub(start)) + 1))) }
	for _, set := range []func(){
		func() { q.AgencyID = []string{"A100", "B200", "C300", "D400"}[r.IntN(4)] },
		func() { q.Type = []string{"access.>", "access.halted", "insertion.appeared", "watch.>"}[r.IntN(4)] },
		func() { q.PropertyReferenceID = fmt.Sprintf("ref#%d", r.IntN(6)) },
		func() { q.Since = moment() },
		func() { q.Until = moment() },
		func() { q.FromSequence = 1 + r.Uint64N(400) },
		func() { q.ToSequence = 1 + r.Uint64N(400) },
		func() { q.Newest = 1 + r.IntN(300) },
		func() { q.Published = true },
	} {
		if r.IntN(4) == 0 {
			set()
		}
	}
	return q
}

// meant is what a query should find, by the words of its description.
func meant(j *journal, q EventQuery) (list []events.Event) {
	for _, e := range j.all {
		ok := (q.AgencyID == "" || e.AgencyID == q.AgencyID) &&
			(q.PropertyReferenceID == "" || e.Reference == q.PropertyReferenceID) &&
			(q.Type == "" || string(e.Type) == q.Type || q.Type == "access.>" && e.Type == events.TypeAccessHalted) &&
			!e.RecordedTime.Before(q.Since) && (q.Until.IsZero() || e.RecordedTime.Before(q.Until)) &&
			e.Sequence >= q.FromSequence && (q.ToSequence == 0 || e.Sequence <= q.ToSequence)
		if ok && (e.Sequence <= j.published || !q.Published) {
			list = append(list, e)
		}
	}
	return list[max(0, len(list)-cmp.Or(q.Newest, len(list))):]
}

// collected returns what was found, and checks that it shows what the stream has confirmed.
func (j *journal) collected(t *testing.T, found iter.Seq2[LoggedEvent, error]) (list []events.Event) {
	t.Helper()
	for e, err := range found {
		must(t, err)
		if list = append(list, e.Event); e.Acknowledged != (e.Event.Sequence <= j.published) {
			t.Errorf("event %d is reported as confirmed: %t", e.Event.Sequence, e.Acknowledged)
		}
	}
	return list
}

// TestAQueryFindsWhatItMeansInOrder queries the log itself, and a daemon over its socket.
func TestAQueryFindsWhatItMeansInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	j := random(t, r, 1000)
	log := Log{j.Store}
	daemon := served(t, Verbs{Events: log.Events, CountEvents: log.CountEvents})
	same := func(a, b events.Event) bool {
		return a.ID == b.ID && a.Sequence == b.Sequence && string(a.Data) == string(b.Data)
	}
	for range 25 {
		q := anyQuery(r, j)
		want := meant(j, q)
		if found := j.collected(t, log.Events(t.Context(), q)); !slices.EqualFunc(found, want, same) {
			t.Fatalf("%+v: %d events, want %d, or others", q, len(found), len(want))
		}
		if found := j.collected(t, daemon.Events(t.Context(), q)); !slices.EqualFunc(found, want, same) {
			t.Fatalf("%+v: the daemon returns other events", q)
		}
		q.Newest = 0
		if c, err := CountEvents.Ask(t.Context(), daemon, q); err != nil || c.Total != len(meant(j, q)) {
			t.Fatalf("%+v: %d counted (%v), want %d", q, c.Total, err, len(meant(j, q)))
		}
	}
}

func TestAnAgencyWithoutALogIsReportedWithAHint(t *testing.T) {
	j := newJournal(t, "A100")
	daemon := served(t, Verbs{Events: Log{j.Store}.Events, CountEvents: Log{j.Store}.CountEvents})
	_, err := CountEvents.Ask(t.Context(), daemon, EventQuery{AgencyID: "X"})
	_, _, hint := exit.Outcome(err)
	if err == nil || err.Error() != "the event log has no such agency: X" || hint != "doorbell status lists the agencies" {
		t.Errorf("%v, %q", err, hint)
	}
}

func TestErrorsOfLocalVerbsKeepTheirExitCodeAndHint(t *testing.T) {
	local := Local(Verbs{CountEvents: func(context.Context, EventQuery) (EventCounts, error) {
		return EventCounts{}, exit.IO(errors.New("no space"), "make some")
	}})
	for range 2 { // each on a connection of its own
		_, err := CountEvents.Ask(t.Context(), local, EventQuery{})
		if code, said, hint := exit.Outcome(err); code != exit.CodeIO || said[0] != "no space" || hint != "make some" {
			t.Errorf("%d, %q, %q", code, said, hint)
		}
	}
}

func TestATruncatedResponseIsNotTakenForAWholeOne(t *testing.T) {
	j := newJournal(t, "A100")
	j.write(t, appeared("A100", "a"))
	daemon := served(t, Verbs{Events: func(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error] {
		return func(yield func(LoggedEvent, error) bool) {
			for e, err := range (Log{j.Store}).Events(ctx, q) {
				yield(e, err)
			}
			panic(http.ErrAbortHandler)
		}
	}})
	var last error
	for _, err := range daemon.Events(t.Context(), EventQuery{}) {
		last = err
	}
	if !errors.Is(last, ErrNoAnswer) {
		t.Errorf("it ends with %v", last)
	}
}

// served is a client of a socket with these verbs.
func served(t *testing.T, v Verbs) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := Listen(path)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeSocket(ctx, l, v) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return NewClient(path)
}

func TestAQueryLeavesOutErasedPeopleOnRequest(t *testing.T) {
	j := newJournal(t, "A100")
	j.write(t, lead("a"), appeared("A100", "x"), lead("b"))
	j.publish(t, 3)
	_, err := j.Erase("A100", []store.Request{{Reference: "r", ID: "a"}})
	must(t, err)
	log := Log{j.Store}
	for without, want := range map[bool]int{false: 3, true: 2} {
		found := j.collected(t, log.Events(t.Context(), EventQuery{Published: true, Unerased: without}))
		if len(found) != want {
			t.Errorf("without them %t: %d events, want %d", without, len(found), want)
		}
	}
}

func TestEventsWrittenAndPublishedDuringAQueryDoNotChangeIt(t *testing.T) {
	for _, newest := range []int{0, 500} {
		j := newJournal(t, "A100")
		var list []events.Payload
		for n := range 600 { // some pages
			list = append(list, appeared("A100", fmt.Sprint("ref#", n)))
		}
		j.write(t, list...)
		want, read := j.all[600-cmp.Or(newest, 600):], 0
		for e, err := range (Log{j.Store}.Events(t.Context(), EventQuery{Newest: newest})) {
			must(t, err)
			if read >= len(want) || e.Event.ID != want[read].ID {
				t.Fatalf("newest %d: event %d is another one", newest, read)
			}
			if read++; read%100 == 50 {
				j.publish(t, 80)
				j.write(t, appeared("A100", fmt.Sprint("later#", read)))
			}
		}
		if read != len(want) {
			t.Errorf("newest %d: %d events, want %d", newest, read, len(want))
		}
	}
}
