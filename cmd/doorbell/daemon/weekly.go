package daemon

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"doorbell/cmd/doorbell/report"
	"doorbell/store"
)

// weekly mails the report of each week, which ends on Monday at 7, to its recipients. The store
// remembers who has it, so that a restart neither repeats nor skips one. What fails is tried again
// until the next week has ended; after a longer outage only the last week is mailed.
type weekly struct {
	to    []report.Recipient
	zone  *time.Location
	store *store.Store
	make  func(ctx context.Context, from, to time.Time, includes func(agency string) bool) (report.Report, error)
	log   *slog.Logger
}

const (
	// settleIn is the first pause: after a start a report would be incomplete.
	settleIn = time.Minute
	// lookEvery is the pause after a failure, and bounds a wait for the end of the week, because a
	// clock may be set.
	lookEvery = time.Hour
)

// mailReports mails the reports until ctx ends. Its error is one of the store, which ends the
// process.
func (a *Daemon) mailReports(ctx context.Context) error {
	w := &weekly{to: a.o.ReportTo, zone: a.o.Zone, store: a.store, make: a.reportOf, log: a.o.Log}
	return w.run(ctx)
}

func (w *weekly) run(ctx context.Context) error {
	for wait := settleIn; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		week := lastMonday(time.Now(), w.zone)
		wait = min(lookEvery, time.Until(week.AddDate(0, 0, 7)))
		problem, err := w.mail(ctx, week)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return err
		case problem != nil:
			w.log.Warn("the weekly report was not mailed; retrying", "err", problem.Error())
		}
	}
}

// mail sends the report of a week to the recipients that lack it. The problem is the last reason
// why one was not sent, the error one of the store.
func (w *weekly) mail(ctx context.Context, week time.Time) (problem, err error) {
	done, err := w.store.Reported()
	switch {
	case err != nil:
		return nil, err
	case done.Week.IsZero(): // it was not watched last week
		return nil, w.store.SetReported(store.Reported{Week: week, All: true})
	case done.Week.Before(week):
		done = store.Reported{Week: week}
	case done.All:
		return nil, nil
	}
	for _, to := range w.to {
		if slices.Contains(done.To, to.Name) {
			continue
		}
		r, err := w.make(ctx, week.AddDate(0, 0, -7), week, to.Includes)
		if err != nil {
			return nil, err
		}
		if err := to.Send(ctx, r); err != nil {
			problem = err
			continue
		}
		done.To = append(done.To, to.Name)
		if err := w.store.SetReported(done); err != nil {
			return nil, err
		}
		w.log.Info("the weekly report was mailed")
	}
	if problem != nil {
		return problem, nil
	}
	done.All, done.To = true, nil
	return nil, w.store.SetReported(done)
}

// lastMonday returns the last Monday at 7 in a zone that is not after now.
func lastMonday(now time.Time, zone *time.Location) time.Time {
	day := now.In(zone)
	at := time.Date(day.Year(), day.Month(), day.Day()-(int(day.Weekday())+6)%7, 7, 0, 0, 0, zone)
	if at.After(now) {
		at = at.AddDate(0, 0, -7)
	}
	return at
}
