package store_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/store"
)

// TestTheStoreIsAMap holds random operations against plain maps: over transactions that fail, files that are reopened, killed,
// copied, restored and compacted, and logs that are trimmed.
func TestTheStoreIsAMap(t *testing.T) {
	dirs := t.TempDir()
	few(t)
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{
			dirs: dirs, now: era, insertions: map[string]store.Insertion{}, requests: map[string]store.ContactRequest{},
		}
		m.open(rt, m.fresh(rt), store.Options{})
		defer func() {
			m.s.Close()
			check(t, m.s.Path())
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"put":     m.put,
			"abort":   m.abort,
			"publish": m.publish,
			"reserve": m.reserve,
			"trim":    m.trim,
			"goOn": func(rt *rapid.T) {
				rapid.SampledFrom([]func(*rapid.T){m.reopen, m.kill, m.restore, m.compact}).Draw(rt, "how")(rt)
			},
			"": m.compare,
		})
	})
}

// few bounds the steps of a case, unless they were asked for: most of them wait for the disk.
func few(t *testing.T) {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "rapid.") })
	if !asked {
		if err := errors.Join(flag.Set("rapid.steps", "15"), flag.Set("rapid.checks", "60")); err != nil {
			t.Fatal(err)
		}
	}
}

type model struct {
	s          *store.Store
	dirs       string
	now        time.Time
	insertions map[string]store.Insertion
	requests   map[string]store.ContactRequest
	log        []events.Event // what is kept of it
	cursor     events.Cursor
	position   uint64 // the last that was used
}

var (
	agencyIDs  = []string{"A", "A1", "B200"} // in order
	references = []string{"a##", "a#", "##", "a#b#c#d", "ä /x"}
)

func (m *model) fresh(rt *rapid.T) string {
	dir, err := os.MkdirTemp(m.dirs, "")
	if err != nil {
		rt.Fatal(err)
	}
	return dir
}

func (m *model) open(rt *rapid.T, dir string, o store.Options) {
	o.Dir, o.BaseURL, o.Now = dir, baseURL, func() time.Time { return m.now }
	s, err := store.Open(o)
	if err != nil {
		rt.Fatal(err)
	}
	m.s = s
}

func (m *model) reopen(rt *rapid.T) {
	m.s.Close()
	m.open(rt, filepath.Dir(m.s.Path()), store.Options{})
}

// kill goes on with the files as they are on disk while the store is open.
func (m *model) kill(rt *rapid.T) {
	dir := m.fresh(rt)
	if err := os.CopyFS(dir, os.DirFS(filepath.Dir(m.s.Path()))); err != nil {
		rt.Fatal(err)
	}
	m.s.Close()
	m.open(rt, dir, store.Options{})
}

// restore goes on with a backup, in another place.
func (m *model) restore(rt *rapid.T) {
	dir := m.fresh(rt)
	if _, err := store.ReceiveBackup(context.Background(), filepath.Join(dir, "doorbell.db"), false, into(m.s)); err != nil {
		rt.Fatal(err)
	}
	m.s.Close()
	m.open(rt, dir, store.Options{})
}

func (m *model) compact(rt *rapid.T) {
	dir := filepath.Dir(m.s.Path())
	if err := store.WantCompaction(m.s); err != nil {
		rt.Fatal(err)
	}
	m.s.Close()
	m.open(rt, dir, store.Options{})
	if holds, err := m.s.HoldsErased(); err != nil || holds {
		rt.Fatalf("it was not compacted: %v", err)
	}
}

func (m *model) draw(rt *rapid.T) (agency, reference string, i store.Insertion, r store.ContactRequest) {
	agency = rapid.SampledFrom(agencyIDs).Draw(rt, "agency")
	reference = rapid.SampledFrom(references).Draw(rt, "reference")
	i = store.Insertion{
		Reference: reference, Episode: rapid.IntRange(1, 9).Draw(rt, "episode"), Missing: rapid.IntRange(0, 3).Draw(rt, "missing"),
		Baseline: rapid.Bool().Draw(rt, "baseline"), Rules: rapid.Uint32().Draw(rt, "rules"),
		Start: time.UnixMilli(rapid.Int64Range(1, 1<<42).Draw(rt, "start")).UTC(),
	}
	r = store.ContactRequest{ID: rapid.StringMatching(`[a-z0-9]{1,3}`).Draw(rt, "id"), Epoch: rapid.IntRange(0, 3).Draw(rt, "epoch")}
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"email", "phone", "status", "contact/name"}), 0, 4, rapid.ID).Draw(rt, "fields") {
		r.Fields = append(r.Fields, store.Field{Name: name, Empty: rapid.Bool().Draw(rt, "empty")})
	}
	return agency, reference, i, r
}

func (m *model) put(rt *rapid.T) {
	agency, reference, i, r := m.draw(rt)
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 20).Draw(rt, "minutes")) * time.Minute)
	var appended events.Event
	err := m.s.Update(func(tx *store.Tx) error {
		e, err := events.New(&events.WatchRecovered{Common: events.Common{AgencyID: agency, ObservedAt: m.now}, Ends: "stale", Since: m.now})
		if err != nil {
			return err
		}
		appended, err = tx.Append(e)
		return errors.Join(err, tx.PutInsertion(agency, i), tx.PutContactRequests(agency, reference, r))
	})
	if err != nil {
		rt.Fatal(err)
	}
	m.log = append(m.log, appended)
	if appended.Sequence != m.position+1 {
		rt.Errorf("position %d follows %d", appended.Sequence, m.position)
	}
	m.position = appended.Sequence
	m.insertions[agency+"|"+reference] = i
	m.requests[agency+"|"+reference+"|"+r.ID] = r
}

func (m *model) abort(rt *rapid.T) {
	agency, reference, i, r := m.draw(rt)
	boom := errors.New("boom")
	err := m.s.Update(func(tx *store.Tx) error {
		return errors.Join(tx.PutInsertion(agency, i), tx.PutContactRequests(agency, reference, r), boom)
	})
	if !errors.Is(err, boom) {
		rt.Fatal(err)
	}
}

func (m *model) compare(rt *rapid.T) {
	insertions, requests := map[string]store.Insertion{}, map[string]store.ContactRequest{}
	m.compareLog(rt)
	err := m.s.View(func(tx *store.Tx) error {
		for _, agency := range agencyIDs {
			for i := range tx.Insertions(agency) {
				insertions[agency+"|"+i.Reference] = i
				for _, r := range tx.ContactRequests(agency, i.Reference) {
					requests[agency+"|"+i.Reference+"|"+r.ID] = r
				}
			}
		}
		return nil
	})
	if err != nil {
		rt.Fatal(err)
	}
	if !reflect.DeepEqual(insertions, m.insertions) || !reflect.DeepEqual(requests, m.requests) {
		rt.Errorf("the store holds\n%+v\n%+v\nwant\n%+v\n%+v", insertions, requests, m.insertions, m.requests)
	}
}

// publish acknowledges some events, or lets the cursor go back.
func (m *model) publish(rt *rapid.T) {
	c := events.Cursor{Highest: m.cursor.Highest}
	if n := rapid.IntRange(-1, len(m.log)-1).Draw(rt, "upTo"); n >= 0 {
		c.Position, c.ID, c.StreamSequence, c.StreamCreated = m.log[n].Sequence, m.log[n].ID, uint64(n+1), era
	}
	if err := m.s.Acknowledge(c, nil); err != nil {
		rt.Fatal(err)
	}
	c.Highest = max(c.Highest, c.Position)
	m.cursor = c
}

func (m *model) reserve(rt *rapid.T) {
	position := m.position + uint64(rapid.IntRange(0, 5).Draw(rt, "more"))
	if err := m.s.Reserve(position); err != nil {
		rt.Fatal(err)
	}
	m.position = position
}

func (m *model) trim(rt *rapid.T) {
	before := m.now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(rt, "minutes")) * time.Minute)
	limit, want := rapid.IntRange(0, 10).Draw(rt, "limit"), 0
	for ; want < limit && len(m.log) > 0 && m.log[0].Sequence < m.cursor.Position && m.log[0].RecordedTime.Before(before); want++ {
		m.log = m.log[1:]
	}
	if n, err := m.s.Trim(before, limit); n != want || err != nil {
		rt.Fatalf("%d events were trimmed, want %d: %v", n, want, err)
	}
}

func (m *model) compareLog(rt *rapid.T) {
	read, err := m.s.Events(0, 1<<20, 1<<30)
	last, err2 := m.s.LastPosition()
	cursor, err3 := m.s.Cursor()
	if err := errors.Join(err, err2, err3); err != nil {
		rt.Fatal(err)
	}
	if !slices.EqualFunc(read, m.log, func(a, b events.Event) bool { return reflect.DeepEqual(a, b) }) || cursor != m.cursor || last != m.position {
		rt.Errorf("%d events, cursor %+v, last %d; want %d, %+v, %d", len(read), cursor, last, len(m.log), m.cursor, m.position)
	}
}
