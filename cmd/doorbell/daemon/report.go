package daemon

import (
	"context"
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
func (a *Daemon) reportOf(ctx context.Context, from, to time.Time,
	includes func(agency string) bool,
) (r report.Report, err error) {
	cursor, err := a.store.Cursor()
	if err != nil {
		return r, err
	}
	published, err := a.listings()
	if err != nil {
		return r, err
	}
	s := report.Source{
		From: from, To: to, Zone: a.o.Zone, Includes: includes, Acknowledged: cursor.Highest,
		Listings: published, Letters: a.letters().List(ctx),
		Events: eventsOf(
			ops.Log{Store: a.store}.Events(ctx, ops.EventQuery{Since: from, Until: to})),
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
		[]string{"the forwarders are not running, so it is not known what they have delivered"}
}

// listings returns what the watched agencies publish now. It reads an agency at a time.
func (a *Daemon) listings() (list []report.Listing, err error) {
	for _, id := range a.ids() {
		err := a.store.View(func(tx *store.Tx) error {
			for i := range tx.Insertions(id) {
				if i.GoneSince.IsZero() && !i.Outside {
					title := listings.Insertion{Record: tx.Record(id, i.Reference)}.Summary().Title
					list = append(list,
						report.Listing{AgencyID: id, Reference: i.Reference, Title: title})
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
