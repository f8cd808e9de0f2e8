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
	a.restoreHealth()
	if err := a.begin(now); err != nil {
		return err
	}
	key := a.key()
	remembered.Key, remembered.LastAnswer = key, a.access().LastAnswer
	a.allowed.Store(&remembered)
	_, err = a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Configure(key, time.Now()) })
	if err != nil {
		return err
	}
	a.restoreKeyWait(now)
	a.line(polled, now)
	a.forgetOthers()
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
func (a *agency) line(polled []store.Insertion, now time.Time) {
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
			if !i.Polled && !i.Baseline || !i.OpenSince.IsZero() {
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

// forgetOthers drops what is remembered of insertions that are no longer polled: alarms and silent halts.
func (a *agency) forgetOthers() {
	others := map[string]struct{}{}
	for id := range a.published().alarms {
		others[id.Reference] = struct{}{}
	}
	for s, h := range a.access().Halts {
		if h.Silent {
			others[s.Reference] = struct{}{}
		}
	}
	for reference := range others {
		if reference != "" && !a.p.scheduler.has(a.id, reference) {
			a.forget(reference)
		}
	}
}

// restoreKeyWait goes on with the wait that the API asked for. A moment that is implausibly far away, because a clock jumped, is
// not waited for.
func (a *agency) restoreKeyWait(now time.Time) {
	state := a.published().state
	if state.KeyOf != a.key().Fingerprint() || !state.KeyUntil.After(now) {
		return
	}
	wait := min(state.KeyUntil.Sub(now), watch.LongestKeyWait)
	a.p.keyBackoff(state.KeyOf).change(func(b watch.Backoff) watch.Backoff { return b.Throttled(now, now, wait) })
	a.p.budget.resume(now)
}
