package daemon

import (
	"context"
	"errors"
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
	tried func(err error) // is called after each attempt, with nil if it succeeded

	failures int       // attempts in a row that failed
	since    time.Time // when the first attempt at this week was made
	week     time.Time // of these attempts
}

// Pauses after attempts that failed: they double.
const (
	shortestPause = time.Minute
	longestPause  = time.Hour
)

// lookEvery bounds a wait for the end of the week, because a clock may be set.
const lookEvery = time.Hour

// A report waits when it would be incomplete, as after a start, or when leads of the last moments
// are still on their way. It does not wait longer than this.
const (
	completeWithin = time.Hour
	settledWithin  = 5 * time.Minute
)

// mailReports mails the reports until ctx ends. Its error is one of the store, which ends the
// process.
func (a *Daemon) mailReports(ctx context.Context) error {
	w := &weekly{to: a.o.ReportTo, zone: a.o.Zone, store: a.store, make: a.reportOf, tried: func(err error) {
		if err != nil {
			a.o.Log.Warn("the report of the week is not mailed; retrying", "err", err.Error())
			return
		}
		a.o.Log.Info("the report of the week is mailed")
	}}
	return w.run(ctx)
}

func (w *weekly) run(ctx context.Context) error {
	for ctx.Err() == nil {
		wait, err := w.turn(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
	return nil
}

// turn mails what is due, and returns how long to wait for the next turn.
func (w *weekly) turn(ctx context.Context) (wait time.Duration, err error) {
	now := time.Now()
	week := lastMonday(now, w.zone)
	done, err := w.store.Reported()
	if err != nil {
		return 0, err
	}
	switch {
	case done.Week.IsZero(): // it was not watched last week
		done = store.Reported{Week: week, All: true}
		if err := w.store.SetReported(done); err != nil {
			return 0, err
		}
	case done.Week.Before(week):
		done = store.Reported{Week: week}
	}
	if !w.week.Equal(week) {
		w.week, w.since, w.failures = week, now, 0
	}
	if !done.All {
		problem, err := w.mail(ctx, week, &done)
		if err != nil || ctx.Err() != nil {
			return 0, err
		}
		w.tried(problem)
		if problem != nil {
			w.failures++
			return min(longestPause, shortestPause<<min(w.failures-1, 10)), nil
		}
	}
	return min(lookEvery, time.Until(week.AddDate(0, 0, 7))), nil
}

// mail sends the report of a week to the recipients that lack it. The problem is the last reason
// why one was not sent, the error one of the store.
func (w *weekly) mail(ctx context.Context, week time.Time, done *store.Reported) (problem, err error) {
	for _, to := range w.to {
		if slices.Contains(done.To, to.Name) {
			continue
		}
		r, err := w.make(ctx, week.AddDate(0, 0, -7), week, to.Includes)
		if err != nil {
			return nil, err
		}
		err = w.early(r)
		if err == nil {
			err = to.Send(ctx, r)
		}
		if err != nil {
			problem = err
			continue
		}
		done.To = append(done.To, to.Name)
		if err := w.store.SetReported(*done); err != nil {
			return nil, err
		}
	}
	if problem != nil {
		return problem, nil
	}
	done.All, done.To = true, nil
	return nil, w.store.SetReported(*done)
}

// early returns why a report waits; nil: it does not.
func (w *weekly) early(r report.Report) error {
	waited := time.Since(w.since)
	switch {
	case len(r.Problems) > 0 && waited < completeWithin:
		return errors.New("it would be incomplete: " + r.Problems[0])
	case r.Total.Waiting+r.Total.Seen-r.Total.Published > 0 && waited < settledWithin:
		return errors.New("leads are on their way")
	}
	return nil
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
