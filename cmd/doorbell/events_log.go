package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/store"
)

// EventFilter are the flags that choose events of the log.
type EventFilter struct {
	Agency       string  `placeholder:"AGENCY" help:"Only events of this agency."`
	Type         string  `placeholder:"TYPE" help:"Only events of this type: contact_request.created, or access.> for several."`
	Insertion    string  `placeholder:"REFERENCE" help:"Only events of this insertion and its contact requests."`
	Since        Moment  `placeholder:"MOMENT" help:"Only what was recorded at this moment or later: 2026-11-20T09:00:00Z, or 2h for that long ago."`
	Until        Moment  `placeholder:"MOMENT" help:"Only what was recorded before this moment."`
	FromSequence *uint64 `placeholder:"N" help:"Only events of this sequence or a higher one; each agency counts its own."`
	ToSequence   *uint64 `placeholder:"N" help:"Only events of this sequence or a lower one."`
	Origin       string  `placeholder:"ORIGIN" help:"Only news (live), or only what was there before the watch began (baseline)."`
}

// valid refuses what no event can be.
func (f *EventFilter) valid() error {
	switch {
	case f.Type != "" && !knownType(f.Type):
		return errNoType
	case f.Origin != "" && f.Origin != string(events.OriginLive) && f.Origin != string(events.OriginBaseline):
		return errors.New("--origin: write live or baseline")
	case f.FromSequence != nil && *f.FromSequence == 0:
		return errors.New("--from-sequence: sequences begin with 1")
	case f.ToSequence != nil && *f.ToSequence == 0:
		return errors.New("--to-sequence: sequences begin with 1")
	case f.FromSequence != nil && f.ToSequence != nil && *f.FromSequence > *f.ToSequence:
		return errors.New("--from-sequence: is higher than --to-sequence")
	}
	return validAgency("--agency", f.Agency, f.Agency == "")
}

// query is what the flags mean at a moment.
func (f *EventFilter) query(now time.Time) (ops.EventQuery, error) {
	q := ops.EventQuery{
		AgencyID: f.Agency, Type: f.Type, PropertyReferenceID: f.Insertion, Origin: events.Origin(f.Origin),
		Since: f.Since.Time(now), Until: f.Until.Time(now),
	}
	if f.FromSequence != nil {
		q.FromSequence = *f.FromSequence
	}
	if f.ToSequence != nil {
		q.ToSequence = *f.ToSequence
	}
	switch {
	case q.Since.After(now):
		return q, usageError("--since: lies in the future", "write a moment like 2026-11-20T09:00:00Z, or 2h for that long ago")
	case !q.Since.IsZero() && !q.Until.IsZero() && !q.Since.Before(q.Until):
		return q, usageError("--until: is not after --since", "write a later moment, or leave one of them out")
	}
	return q, nil
}

// eventLog is the log of a daemon, or that of a store which no daemon holds.
type eventLog interface {
	Events(ctx context.Context, q ops.EventQuery) iter.Seq2[ops.LoggedEvent, error]
	CountEvents(ctx context.Context, q ops.EventQuery) (ops.EventCounts, error)
}

// openLog returns the log of the daemon in the data directory; if none runs, that of its store, which nothing writes to as
// long as it is not closed. The store is nil where a daemon answers.
func openLog(ctx context.Context, b Base) (eventLog, *store.Store, error) {
	daemon := ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile))
	if _, err := daemon.Status(ctx); err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return daemon, nil, nil
	}
	kept, err := openToRead(b)
	if err != nil {
		return nil, nil, err
	}
	return ops.Log{Store: kept}, kept, nil
}

// openToRead opens the store of a daemon that does not run, and changes nothing in it.
func openToRead(b Base) (*store.Store, error) {
	kept, err := store.OpenReadOnly(store.Options{Dir: b.DataDir})
	var locked *store.LockedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, failed(fmt.Errorf("no daemon answers, and there is no store in %s", b.DataDir),
			"set DOORBELL_DATA_DIR to the data directory of the daemon")
	case errors.As(err, &locked):
		return nil, unavailable(fmt.Errorf("the daemon holds the store and does not answer: %w", err), adviceOnHolder)
	case err != nil:
		return nil, storeError(err, b.DataDir)
	}
	return kept, nil
}

// noEvent says that nothing was found, or that there is nothing to be found.
func noEvent(ctx context.Context, log eventLog) string {
	for range log.Events(ctx, ops.EventQuery{Newest: 1}) {
		return "the event log holds no such event"
	}
	return "the event log is empty: nothing has happened since the watch began"
}

// logError says what to do about a log that cannot be read.
func logError(err error, b Base) error {
	switch {
	case errors.Is(err, ops.ErrNoAnswer):
		return failed(fmt.Errorf("the daemon was asked: %w", err), "look at its log, and ask again")
	case errors.Is(err, store.ErrDamaged):
		return storeError(err, b.DataDir)
	}
	return failed(err, ops.Hint(err))
}
