package relay

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/schemas/schematest"
)

// memLog is an event log that forgets nothing and can be made to fail.
type memLog struct {
	mu       sync.Mutex
	events   []events.Event // in the order of their positions, which have gaps behind a reserved one
	last     uint64
	cursor   events.Cursor
	newest   map[string]uint64
	onAppend func()
	storeID  string
	broken   error // of Acknowledge
	commits  int   // of the cursor
}

func newMemLog() *memLog { return &memLog{newest: map[string]uint64{}, storeID: "s1"} }

func (l *memLog) Agencies() ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, e := range l.events {
		if !slices.Contains(all, e.AgencyID) {
			all = append(all, e.AgencyID)
		}
	}
	sort.Strings(all)
	return all, nil
}

func (l *memLog) Events(after uint64, limit, maxBytes int) ([]events.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := sort.Search(len(l.events), func(i int) bool { return l.events[i].Sequence > after })
	size := 0
	var found []events.Event
	for _, e := range l.events[next:] {
		if size += len(e.Data); len(found) > 0 && (len(found) >= limit || size > maxBytes) {
			break
		}
		found = append(found, e)
	}
	return found, nil
}

func (l *memLog) Lookup(position uint64) (events.Event, bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.Sequence == position {
			return e, true, nil
		}
	}
	return events.Event{}, false, nil
}

func (l *memLog) LastPosition() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last, nil
}

func (l *memLog) Reserve(position uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = max(l.last, position)
	return nil
}

func (l *memLog) Cursor() (events.Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursor, nil
}

func (l *memLog) Acknowledge(c events.Cursor, newest map[string]uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	c.Highest = max(c.Highest, c.Position, l.cursor.Highest)
	l.cursor = c
	l.commits++
	for agency, position := range newest {
		l.newest[agency] = max(l.newest[agency], position)
	}
	return nil
}

func (l *memLog) Last(agency string) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newest[agency], nil
}

func (l *memLog) OnAppend(wake func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onAppend = wake
}

// erase takes the person out of the events with these positions.
func (l *memLog) erase(positions ...uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.events {
		if slices.Contains(positions, e.Sequence) {
			l.events[i] = e.Erase()
		}
	}
}

// append adds an event made by events.New.
func (l *memLog) append(e events.Event) {
	l.mu.Lock()
	l.add(e, time.Now())
	l.mu.Unlock()
	l.tell()
}

func (l *memLog) add(e events.Event, recorded time.Time) {
	if err := schematest.Check(string(e.Type), e.Data); err != nil {
		panic(err) // a test appends what no doorbell would
	}
	l.last++
	l.events = append(l.events, e.Stamp(l.last, recorded, l.storeID))
}

// tell says that the log has grown.
func (l *memLog) tell() {
	l.mu.Lock()
	wake := l.onAppend
	l.mu.Unlock()
	if wake != nil {
		wake()
	}
}

// ring appends n contact requests of an agency, in one commit.
func (l *memLog) ring(t testing.TB, agency string, n int) {
	t.Helper()
	l.ringAt(t, agency, n, time.Now())
}

func (l *memLog) ringAt(t testing.TB, agency string, n int, recorded time.Time) {
	t.Helper()
	for range n {
		number := len(l.list(agency)) + 1
		l.mu.Lock()
		l.add(contactRequest(t, agency, number, "Guten Tag"), recorded)
		l.mu.Unlock()
	}
	l.tell()
}

func contactRequest(t testing.TB, agency string, number int, message string) events.Event {
	t.Helper()
	e, err := events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: agency, ObservedAt: time.Now()},
		PropertyReferenceID: fmt.Sprintf("seefeld#%d#H2#", number%7),
		ContactRequestID:    fmt.Sprintf("%s-%d", agency, number),
		Identity:            events.IdentityID,
		Contact:             events.Contact{LastName: "Beispiel", Message: message},
		Record:              []byte(`{"id":1}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// copyOf is the log as another process with a copy of the store would see it.
func (l *memLog) copyOf() *memLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newMemLog()
	c.events, c.last, c.cursor, c.storeID = slices.Clone(l.events), l.last, l.cursor, l.storeID
	return c
}

// setBack takes the log back to what a copy of it was.
func (l *memLog) setBack(to *memLog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events, l.last, l.cursor = slices.Clone(to.events), to.last, to.cursor
}

func (l *memLog) list(agency string) (all []events.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.AgencyID == agency {
			all = append(all, e)
		}
	}
	return all
}

func (l *memLog) breakCommits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errors.New("commit: input/output error")
}
