package poller

import (
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// load reads what the store knows: it notes the begin of the watch of a new agency, ends halts of other keys, and schedules
// the insertions.
func (a *agency) load() error {
	var remembered watch.Access
	var polled []store.Insertion
	now := time.Now()
	err := a.p.store.View(func(tx *store.Tx) error {
		state, _ := tx.Agency(a.id)
		a.publish(watch.Effects{State: &state, Raised: tx.Alarms(a.id)})
		remembered = watch.RestoreAccess(a.id, tx.Halts(a.id), now)
		for i := range tx.Insertions(a.id) {
			if !stillPolled(i, now) {
				continue
			}
			polled = append(polled, i)
			if i.GoneSince.IsZero() {
				a.known++
			} else {
				a.gone++
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	a.p.scheduler.view(func(s *schedule.Schedule) { s.Enter(a.id) })
	a.restoreHealth()
	if err := a.begin(now); err != nil {
		return err
	}
	key := a.key()
	a.allowed.Store(&remembered)
	_, err = a.changeAccess(func(x watch.Access) watch.AccessChange {
		return x.Configure(key, time.Now())
	})
	if err != nil {
		return err
	}
	failures, err := a.failures() // not before: with a halt the refusals end that came before its end
	if err != nil {
		return err
	}
	a.line(polled, a.restoreFailures(failures, now), now)
	a.forgetOthers(failures)
	a.pause()
	a.p.metrics.latenciesOf(a.id) // tells zero until there is one
	return nil
}

// stillPolled says whether an insertion is published, or is polled for last contact requests.
func stillPolled(i store.Insertion, now time.Time) bool {
	return !i.Outside && (i.GoneSince.IsZero() || now.Sub(i.GoneSince) <= watch.LateArrivals)
}

// line schedules what is polled: immediately what must not wait, which is what appeared after the baseline and windows that
// are open; later what the process before had to wait for. When the others were polled last is not known. They are spread over an
// interval, so that a restart is no burst; but where too few were polled in time, each counts as late until it is polled.
func (a *agency) line(polled []store.Insertion, waiting map[string]time.Time, now time.Time) {
	_, late := a.published().alarms[watch.AlarmOf(watch.Stale, listings.OperationContactRequests, "")]
	a.p.scheduler.change(func(s *schedule.Schedule) {
		for n, i := range polled {
			last := time.Time{}
			switch {
			case i.Polled && late:
				last = i.LastPoll
			case i.Polled:
				last = now.Add(-a.p.o.PollInterval * time.Duration(len(polled)-n) / time.Duration(len(polled)))
			}
			s.Add(a.id, i.Reference, appearedAt(i), last, now)
			switch until := waiting[i.Reference]; {
			case until.After(now):
				s.Put(a.id, i.Reference, until)
			case !i.Polled && !i.Baseline || !i.OpenSince.IsZero():
				s.Urge(a.id, i.Reference)
			}
		}
	})
}

// begin notes the begin of the watch, once. Under another filter than before, what comes and goes by it is not announced: a
// silent baseline of the difference begins.
func (a *agency) begin(now time.Time) error {
	filter := a.p.o.Filter.Encode()
	a.committing.Lock()
	defer a.committing.Unlock()
	return a.commit(func(tx *store.Tx) (e watch.Effects, err error) {
		state, exists := tx.Agency(a.id)
		switch {
		case exists && state.Filter == filter:
			return e, nil
		case !exists:
			state.WatchStart, state.Filter = now.UTC(), filter
			e.State = &state
			return e, nil
		}
		a.p.log.Info("filter changed: what comes and goes by it is not announced", "agency", a.id)
		return watch.Refilter(a.id, state, filter, holds(tx.Insertions(a.id)), now.UTC()), nil
	})
}

// forgetOthers drops the failures and alarms of insertions that are not polled any more.
func (a *agency) forgetOthers(failures []store.Failure) {
	failed := map[string]struct{}{}
	for _, t := range failures {
		if t.Scope == failureInsertion {
			failed[t.Name] = struct{}{}
		}
	}
	for id := range a.published().alarms {
		if id.Reference != "" {
			failed[id.Reference] = struct{}{}
		}
	}
	for reference := range failed {
		if !a.p.scheduler.has(a.id, reference) {
			a.forget(reference)
		}
	}
}
