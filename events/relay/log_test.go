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

// memLog is an event log that forgets nothing and can be told to fail.
type memLog struct {
	mu       sync.Mutex
	events   map[string][]events.Event // those that are published, then those that are not and have no sequence
	cursors  map[string]events.Cursor
	onAppend func(agency string)
	storeID  string
	broken   error // of SetCursor
}

func newMemLog() *memLog {
	return &memLog{
		events: make(map[string][]events.Event), cursors: make(map[string]events.Cursor),
		storeID: "s1",
	}
}

func (l *memLog) Agencies() ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for a := range l.events {
		all = append(all, a)
	}
	sort.Strings(all)
	return all, nil
}

func (l *memLog) Cursor(agency string) (events.Cursor, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cursors[agency], nil
}

func (l *memLog) SetCursor(agency string, c events.Cursor) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	l.cursors[agency] = c
	return nil
}

// unsent is where the events of a log begin that have no sequence.
func unsent(log []events.Event) int {
	return sort.Search(len(log), func(i int) bool { return log[i].Sequence == 0 })
}

// first returns as much of a log as may be read at once.
func first(log []events.Event, maxEvents, maxBytes int) []events.Event {
	size := 0
	for i := range log {
		size += len(log[i].Data)
		if i == maxEvents || i > 0 && size > maxBytes {
			log = log[:i]
			break
		}
	}
	return slices.Clone(log)
}

func (l *memLog) Read(agency string, after uint64, maxEvents, maxBytes int) ([]events.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.events[agency]
	log = log[:unsent(log)]
	next := sort.Search(len(log), func(i int) bool { return log[i].Sequence > after })
	return first(log[next:], maxEvents, maxBytes), nil
}

func (l *memLog) Unsent(agency string, maxEvents, maxBytes int) ([]events.Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.events[agency]
	return first(log[unsent(log):], maxEvents, maxBytes), nil
}

func (l *memLog) CountUnsent(agency string) (n int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.events[agency]
	return len(log) - unsent(log), nil
}

func (l *memLog) Publish(agency string, list []events.Event, c events.Cursor) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	log := l.events[agency]
	next := unsent(log)
	for i, e := range list {
		if at := &log[next+i]; at.ID != e.ID || next+i > 0 && e.Sequence <= log[next+i-1].Sequence {
			panic(fmt.Sprintf("%s is published as %d behind %+v", e.ID, e.Sequence, at))
		}
		log[next+i].Sequence = e.Sequence // it may have been erased meanwhile
	}
	l.cursors[agency] = c
	return nil
}

// erase takes the person out of the events with these positions.
func (l *memLog) erase(agency string, positions ...uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, e := range l.events[agency] {
		if slices.Contains(positions, e.Position) {
			l.events[agency][i] = e.Erase()
		}
	}
}

func (l *memLog) Append(e events.Event) error {
	l.mu.Lock()
	l.add(e, time.Now())
	l.mu.Unlock()
	l.tell(e.AgencyID)
	return nil
}

func (l *memLog) add(e events.Event, recorded time.Time) {
	if err := schematest.Check(string(e.Type), e.Data); err != nil {
		panic(err) // a test appends what no doorbell would
	}
	log := l.events[e.AgencyID]
	l.events[e.AgencyID] = append(log, e.Stamp(uint64(len(log)+1), recorded, l.storeID))
}

// tell says that the log of an agency has grown.
func (l *memLog) tell(agency string) {
	l.mu.Lock()
	wake := l.onAppend
	l.mu.Unlock()
	if wake != nil {
		wake(agency)
	}
}

func (l *memLog) OnAppend(wake func(agency string)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onAppend = wake
}

// ring appends n contact requests of an agency, in one commit.
func (l *memLog) ring(t testing.TB, agency string, n int) {
	t.Helper()
	l.ringAt(t, agency, n, time.Now())
}

func (l *memLog) ringAt(t testing.TB, agency string, n int, recorded time.Time) {
	t.Helper()
	l.mu.Lock()
	for range n {
		number := len(l.events[agency]) + 1
		l.add(contactRequest(t, agency, number, "Guten Tag"), recorded)
	}
	l.mu.Unlock()
	l.tell(agency)
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
	for a, list := range l.events {
		c.events[a] = append([]events.Event(nil), list...)
	}
	for a, cursor := range l.cursors {
		c.cursors[a] = cursor
	}
	return c
}

func (l *memLog) list(agency string) []events.Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]events.Event(nil), l.events[agency]...)
}

func (l *memLog) length(agency string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.events[agency])
}

func (l *memLog) breakCommits() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = errors.New("commit: input/output error")
}

// Import is the rule of the store in few words: what comes in is published, and dropped where it waits.
func (l *memLog) Import(agency string, list []events.Event, c events.Cursor) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	var log, unsent []events.Event
	for _, e := range l.events[agency] {
		if e.Sequence != 0 {
			log = append(log, e)
		} else if !slices.ContainsFunc(list, func(known events.Event) bool { return known.ID == e.ID }) {
			unsent = append(unsent, e)
		}
	}
	for _, e := range list {
		if len(log) == 0 || e.Sequence > log[len(log)-1].Sequence {
			log = append(log, e)
		}
	}
	l.events[agency], l.cursors[agency] = append(log, unsent...), c
	return nil
}
