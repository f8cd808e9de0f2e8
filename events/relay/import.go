package relay

import (
	"fmt"
	"time"

	"doorbell/events"
)

// The stream is the second memory: what it holds of an agency and the log does not, because the log is a restored backup or
// a new one, is taken over page by page.

const (
	importEvents = 256
	importBytes  = 1 << 20
	// maxSequence is the highest sequence that is believed: there is room to count on.
	maxSequence = 1 << 62
)

// importing is what a look has found in the stream that the log does not have.
type importing struct {
	page  []events.Event // in the order of the stream
	news  []events.Event // those of them that continue the log
	bytes int
}

// imported is what was taken over and not reported yet.
type imported struct {
	from, to uint64
	events   int
	news     bool // there are others among them than reports like ours
	reported time.Time
}

// newcomer returns the event that a message is, if it is one of this agency in every respect. That the log does not have it
// is known already.
func (l *lane) newcomer(m *stored) (events.Event, bool) {
	sequence, id, ok := m.claim()
	if !ok || sequence > maxSequence {
		return events.Event{}, false
	}
	e, err := events.Decode(m.header, m.data)
	ok = err == nil && e.ID == id && e.AgencyID == l.agency && e.StoreID != "" && e.Origin != events.OriginReplay &&
		m.subject == events.Subject(l.r.o.Prefix, l.agency, e.Type)
	return e, ok
}

// adopt takes a message over that is an event of this agency and not in the log.
func (l *lane) adopt(e events.Event, m *stored) error {
	late := e.Sequence <= max(l.place.Sequence, l.cursor.Sequence)
	if late {
		if wanted, err := l.late(e, m); err != nil || !wanted {
			return err
		}
	}
	if len(l.incoming.page) == 0 {
		if err := l.flush(); err != nil {
			return err
		}
		if err := l.store(); err != nil {
			return err
		}
	}
	l.incoming.page = append(l.incoming.page, e)
	l.incoming.bytes += len(e.Data)
	if !late {
		l.incoming.news = append(l.incoming.news, e)
		l.advance(e, m.sequence)
	}
	if len(l.incoming.page) >= importEvents || l.incoming.bytes >= importBytes {
		return l.takeOver()
	}
	return nil
}

// late is an event whose sequence the published part of the log has for another one: two stores counted on their own. Its
// id is remembered, if that is wanted. Where the log has nothing at that sequence any more, one of our own was trimmed.
func (l *lane) late(e events.Event, m *stored) (wanted bool, err error) {
	there, err := l.logged(e.Sequence)
	switch {
	case err != nil:
		return false, err
	case there == nil: // perhaps it was imported, then trimmed
		return e.StoreID != l.r.o.StoreID, nil
	case there.ID == e.ID:
		return false, nil
	}
	l.strayed(m)
	return true, nil
}

// logged is the event that the log has at a sequence, or will have with the page that was read; nil if there is none.
func (l *lane) logged(sequence uint64) (*events.Event, error) {
	for i := range l.incoming.page {
		if l.incoming.page[i].Sequence == sequence {
			return &l.incoming.page[i], nil
		}
	}
	found, err := l.r.o.Log.Read(l.agency, sequence-1, 1, 1)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if len(found) == 0 || found[0].Sequence != sequence {
		return nil, nil
	}
	return &found[0], nil
}

// takeOver commits the page that was read. While a lost tail is sent again the cursor stays.
func (l *lane) takeOver() error {
	page, news := l.incoming.page, l.incoming.news
	if len(page) == 0 {
		return nil
	}
	cursor := l.place
	if cursor.Sequence < l.cursor.Sequence {
		cursor = l.cursor
	}
	if err := l.r.o.Log.Import(l.agency, page, cursor); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.incoming, l.unsent = importing{}, nil // what waits may have been told
	l.cursor = cursor
	l.show(func(a *AgencyStatus) { a.Acknowledged = l.cursor.Sequence })
	if len(news) == 0 {
		return nil
	}
	d := &l.imported
	if d.events == 0 {
		d.from = news[0].Sequence
	}
	d.to, d.events = news[len(news)-1].Sequence, d.events+len(news)
	for _, e := range news {
		d.news = d.news || e.Type != events.TypeWatchStreamRepaired
	}
	return nil
}

// reportImport tells what was taken over, at most once a minute. Reports alone are not reported: two doorbells of one agency
// would never end.
func (l *lane) reportImport() error {
	d := &l.imported
	if d.events == 0 || time.Since(d.reported) < reportEvery && !d.reported.IsZero() {
		return nil
	}
	l.r.o.Logger.Warn("events of the stream were taken into the log, which did not have them", "agency", l.agency,
		"from", d.from, "to", d.to, "count", d.events)
	if !d.news {
		*d = imported{reported: d.reported}
		return nil
	}
	if err := l.report(reasonImported, d.from, d.to, 0); err != nil {
		return err
	}
	*d = imported{reported: time.Now()}
	return nil
}
