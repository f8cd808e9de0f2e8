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
			dirs: dirs, now: era, insertions: map[string]store.Insertion{}, requests: map[string]store.ContactRequest{}, logs: map[string]*logModel{},
		}
		for _, agency := range agencyIDs {
			m.logs[agency] = &logModel{first: 1}
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
			"import":  m.imports,
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
	logs       map[string]*logModel
	others     uint64 // events of another store
}

// logModel is an event log: what is kept of it, and how far it is published.
type logModel struct {
	first    uint64 // sequence of the first one
	ids      []string
	at       []time.Time
	cursor   uint64 // of the last that is published
	position uint64 // of the last that was appended
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
	if _, err := store.ReceiveBackup(context.Background(), filepath.Join(dir, "doorbell.db"), false, store.Verify, into(m.s)); err != nil {
		rt.Fatal(err)
	}
	m.s.Close()
	m.open(rt, dir, store.Options{Restored: true})
}

func (m *model) compact(rt *rapid.T) {
	dir := filepath.Dir(m.s.Path())
	m.s.Close()
	if _, err := store.Compact(context.Background(), store.Options{Dir: dir}, store.Verify, func(int64) error { return nil }); err != nil {
		rt.Fatal(err)
	}
	m.open(rt, dir, store.Options{})
}

func (m *model) publish(rt *rapid.T) {
	agency := rapid.SampledFrom(agencyIDs).Draw(rt, "agency")
	l := m.logs[agency]
	list, err := m.s.Unsent(agency, rapid.IntRange(1, 5).Draw(rt, "events"), 1<<30)
	if err != nil {
		rt.Fatal(err)
	}
	for i := range list {
		l.cursor++
		list[i].Sequence = l.cursor
	}
	if len(list) == 0 {
		return
	}
	if err := m.s.Publish(agency, list, cursorAt(list[len(list)-1])); err != nil {
		rt.Fatal(err)
	}
}

// imports takes over an event of another store, and sometimes one that is unsent here too: what is published then stands before
// all that is unsent.
func (m *model) imports(rt *rapid.T) {
	agency := rapid.SampledFrom(agencyIDs).Draw(rt, "agency")
	l := m.logs[agency]
	done := max(0, int(l.cursor+1-l.first))
	e, err := events.New(&events.WatchRecovered{Common: events.Common{AgencyID: agency, ObservedAt: m.now}, Ends: "gap_detected", Since: m.now})
	if err != nil {
		rt.Fatal(err)
	}
	m.others++
	e = e.Stamp(1<<40+m.others, m.now, "theother")
	if unsent := l.ids[done:]; len(unsent) > 0 && rapid.Bool().Draw(rt, "known") {
		n := rapid.IntRange(0, len(unsent)-1).Draw(rt, "which")
		e.ID = unsent[n]
		l.ids, l.at = slices.Delete(l.ids, done+n, done+n+1), slices.Delete(l.at, done+n, done+n+1)
	}
	l.cursor++
	if err := m.s.Import(agency, []events.Event{e.WithSequence(l.cursor)}, cursorAt(e.WithSequence(l.cursor))); err != nil {
		rt.Fatal(err)
	}
	l.ids, l.at = slices.Insert(l.ids, done, e.ID), slices.Insert(l.at, done, e.RecordedTime)
}

func (m *model) trim(rt *rapid.T) {
	before := m.now.Add(-time.Duration(rapid.IntRange(0, 60).Draw(rt, "minutes")) * time.Minute)
	most, want := rapid.IntRange(0, 10).Draw(rt, "most"), 0
	for _, agency := range agencyIDs {
		for l := m.logs[agency]; want < most && l.first < l.cursor && l.at[0].Before(before); want++ {
			l.first, l.ids, l.at = l.first+1, l.ids[1:], l.at[1:]
		}
	}
	if n, err := m.s.Trim(before, most); n != want || err != nil {
		rt.Fatalf("%d events were trimmed, want %d: %v", n, want, err)
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
		r.Fields = append(r.Fields, store.Field{Name: name, Digest: [3]byte{byte(rapid.IntRange(0, 255).Draw(rt, "digest"))}})
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
	l := m.logs[agency]
	l.ids, l.at = append(l.ids, appended.ID), append(l.at, m.now)
	if appended.Position <= l.position {
		rt.Errorf("position %d follows %d", appended.Position, l.position)
	}
	l.position = appended.Position
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
	for _, agency := range agencyIDs {
		m.compareLog(rt, agency)
	}
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

func (m *model) compareLog(rt *rapid.T, agency string) {
	l := m.logs[agency]
	read, err := m.s.Read(agency, 0, 1<<20, 1<<30)
	unsent, err2 := m.unsent(agency)
	last, err3 := m.s.Last(agency)
	cursor, err4 := m.s.Cursor(agency)
	if err := errors.Join(err, err2, err3, err4); err != nil {
		rt.Fatal(err)
	}
	var ids []string
	for n, e := range read {
		if ids = append(ids, e.ID); e.Sequence != l.first+uint64(n) {
			rt.Errorf("%s: event %d has the place of %d", agency, e.Sequence, l.first+uint64(n))
		}
	}
	ids = append(ids, unsent...)
	if !slices.Equal(ids, l.ids) || cursor.Sequence != l.cursor || last != l.cursor {
		rt.Errorf("%s: %d events, published to %d, %d; want %d from %d, published to %d", agency, len(ids), last, cursor.Sequence, len(l.ids), l.first, l.cursor)
	}
}

// unsent are the ids of what is unsent, less what the stream has told: the log may still hold it.
func (m *model) unsent(agency string) (ids []string, err error) {
	found, err := m.s.Unsent(agency, 1<<20, 1<<30) // it ends before what was told
	if err != nil {
		return nil, err
	}
	for _, e := range found {
		ids = append(ids, e.ID)
	}
	l := m.logs[agency]
	if done := int(l.cursor + 1 - l.first); len(ids) < len(l.ids)-done {
		ids = append(ids, l.ids[done+len(ids):]...) // they are met when those before are published
	}
	return ids, nil
}
