package daemon

import (
	"context"
	"iter"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/report"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/poller/listings"
	"doorbell/store"
)

// report counts what became of the leads since a moment.
func (a *Daemon) report(ctx context.Context, q ops.ReportRequest) (report.Report, error) {
	return a.reportOf(ctx, q.Since, time.Now(), nil)
}

// reportOf counts what became of the leads that were recorded between two moments, of some
// agencies.
func (a *Daemon) reportOf(ctx context.Context, from, to time.Time, includes func(agency string) bool) (r report.Report, err error) {
	cursor, err := a.store.Cursor()
	if err != nil {
		return r, err
	}
	s := report.Source{
		From: from, To: to, Zone: a.o.Zone, Includes: includes, Acknowledged: cursor.Highest,
		Events: recorded(ctx, a.store, from, to), Listings: a.listings(), Letters: a.letters(ctx),
	}
	s.Deliveries, s.Problems = a.deliveries()
	return report.New(s)
}

// deliveries returns how leads stand with the receivers of this daemon; nil: it has none. While its
// forwarder does not run, nothing is known.
func (a *Daemon) deliveries() (of func(events.Event) []forward.Delivered, problems []string) {
	if a.o.Receivers == nil {
		return nil, nil
	}
	if now := a.forwarding.working(); now != nil {
		return now.Delivered, nil
	}
	return func(events.Event) []forward.Delivered { return []forward.Delivered{{}} },
		[]string{"the forwarders do not run, so it is not known what they have delivered"}
}

// letters yields the dead letters, over a connection of its own.
func (a *Daemon) letters(ctx context.Context) iter.Seq2[forward.Letter, error] {
	return func(yield func(forward.Letter, error) bool) {
		conn, err := a.dial()
		if err != nil {
			yield(forward.Letter{}, err)
			return
		}
		defer conn.Close()
		all, err := forward.OpenDeadLetters(conn, a.o.SubjectPrefix, a.o.Stream)
		if err != nil {
			yield(forward.Letter{}, err)
			return
		}
		all.List(ctx)(yield)
	}
}

// Pages bound what is held of the log at a time.
const (
	pageEvents = 256
	pageBytes  = 8 << 20
)

// recorded yields the events that were recorded between two moments, the newest first. It ends at
// the first page that is older throughout: a clock that was set back mixes up neighbours, not
// pages.
func recorded(ctx context.Context, s *store.Store, from, to time.Time) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for before, older := uint64(0), false; !older; {
			list, next, err := s.EventsBefore("", before, pageEvents, pageBytes)
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				yield(events.Event{}, err)
				return
			}
			older = true
			for _, e := range list {
				if e.RecordedTime.Before(from) {
					continue
				}
				if older = false; e.RecordedTime.Before(to) && !yield(e, nil) {
					return
				}
			}
			if before = next; next == 0 {
				return
			}
		}
	}
}

// listings yields what the watched agencies publish now. It reads an agency at a time.
func (a *Daemon) listings() iter.Seq2[report.Listing, error] {
	return func(yield func(report.Listing, error) bool) {
		for _, id := range a.agencies.ids() {
			var list []report.Listing
			err := a.store.View(func(tx *store.Tx) error {
				for i := range tx.Insertions(id) {
					if i.GoneSince.IsZero() && !i.Outside {
						title := listings.Insertion{Record: tx.Record(id, i.Reference)}.Summary().Title
						list = append(list, report.Listing{AgencyID: id, Reference: i.Reference, Title: title})
					}
				}
				return nil
			})
			if err != nil {
				yield(report.Listing{}, err)
				return
			}
			for _, l := range list {
				if !yield(l, nil) {
					return
				}
			}
		}
	}
}
