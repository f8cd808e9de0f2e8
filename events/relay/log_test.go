package relay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/schemas/schematest"
	"doorbell/store"
)

// eventLog is a store that can be set back and made to fail.
type eventLog struct {
	*store.Store
	t      testing.TB
	dir    string
	wake   func()
	at     time.Time // when what is appended is recorded; zero: now
	broken error     // of Acknowledge
}

func newLog(t testing.TB) *eventLog {
	t.Helper()
	l := &eventLog{t: t, dir: t.TempDir()}
	l.open()
	t.Cleanup(func() { must(t, l.Close()) })
	return l
}

func (l *eventLog) open() {
	l.t.Helper()
	now := func() time.Time {
		if l.at.IsZero() {
			return time.Now()
		}
		return l.at
	}
	var err error
	l.Store, err = store.Open(store.Options{Dir: l.dir, BaseURL: "https://api.example.org", Now: now})
	must(l.t, err)
	if l.wake != nil {
		l.Store.OnAppend(l.wake)
	}
}

func (l *eventLog) OnAppend(wake func()) {
	l.wake = wake
	l.Store.OnAppend(wake)
}

// Agencies are those with events: nothing else is remembered of them.
func (l *eventLog) Agencies() ([]string, error) {
	all, err := l.Events(0, 1<<30, 1<<40)
	found := map[string]bool{}
	for _, e := range all {
		found[e.AgencyID] = true
	}
	return slices.Sorted(maps.Keys(found)), err
}

func (l *eventLog) Acknowledge(c events.Cursor, newest map[string]uint64) error {
	if l.broken != nil {
		return l.broken
	}
	return l.Store.Acknowledge(c, newest)
}

// cursor is how far the log is published.
func (l *eventLog) cursor() events.Cursor {
	l.t.Helper()
	c, err := l.Cursor()
	must(l.t, err)
	return c
}

// erase takes the person out of the events with these positions.
func (l *eventLog) erase(positions ...uint64) {
	l.t.Helper()
	for _, position := range positions {
		e, _, err := l.Lookup(position)
		must(l.t, err)
		_, err = l.Erase(e.AgencyID, []store.Request{store.RequestOf(e)})
		must(l.t, err)
	}
}

// append adds events made by events.New, in one commit.
func (l *eventLog) append(list ...events.Event) {
	l.t.Helper()
	must(l.t, l.Update(func(tx *store.Tx) error {
		for _, e := range list {
			schematest.Validate(l.t, string(e.Type), e.Data) // a test appends nothing that no doorbell would
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// ring appends n contact requests of an agency.
func (l *eventLog) ring(t testing.TB, agency string, n int) {
	t.Helper()
	number := len(l.list(agency))
	var all []events.Event
	for range n {
		number++
		all = append(all, contactRequest(t, agency, number, "Guten Tag"))
	}
	l.append(all...)
}

func (l *eventLog) ringAt(t testing.TB, agency string, n int, recorded time.Time) {
	t.Helper()
	l.at = recorded
	l.ring(t, agency, n)
	l.at = time.Time{}
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
	must(t, err)
	return e
}

// backup is a copy of the store.
func (l *eventLog) backup() []byte {
	l.t.Helper()
	var b bytes.Buffer
	must(l.t, l.Backup(&b, func(int64) {}))
	return b.Bytes()
}

// setBack puts a backup in the place of the store; nil: it is lost.
func (l *eventLog) setBack(to []byte) {
	l.t.Helper()
	path := filepath.Join(l.dir, "doorbell.db")
	err := errors.Join(l.Close(), os.Remove(path))
	if to != nil {
		err = errors.Join(err, os.WriteFile(path, to, 0o600))
	}
	must(l.t, err)
	l.open()
}

func (l *eventLog) list(agency string) []events.Event {
	l.t.Helper()
	all, _, err := l.EventsAfter(agency, 0, 1<<30, 1<<40)
	must(l.t, err)
	return all
}
