package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/poller/watch"
	"doorbell/store"
)

// before stands in front of every request: halted scopes are not asked, a key or base URL that needs patience gets it,
// and the budget has the last word.
func (p *Poller) before(ctx context.Context, r listings.Request) error {
	a := p.agency(r.AgencyID)
	if a == nil {
		return fmt.Errorf("agency %s is not watched: %w", r.AgencyID, context.Canceled) // it has just been retired
	}
	if err := a.mayAsk(r); err != nil {
		return err
	}
	if err := a.waitForSpace(ctx, r); err != nil {
		return err
	}
	// The key first: who waits long for a key must not hold the one try at the base URL meanwhile.
	reasons := keyAndBase{p.keyBackoff(r.Key), p.base}
	for {
		tickets, err := a.admitted(ctx, r, reasons)
		if err != nil {
			return err
		}
		err = p.budget.waitAs(ctx, r.Operation == listings.OperationInsertions, r.AgencyID)
		if err == nil {
			err = a.mayAsk(r)
		}
		if err == nil && reasons.stillAdmit(tickets) {
			p.crew.sent(pollName{r.AgencyID, r.Reference}, time.Now())
			return nil
		}
		reasons.release(tickets)
		if err != nil {
			return err
		}
	}
}

// attempt stands immediately in front of every request that is sent, when its connection is there: what it is for may have
// halted since before let it pass, its key or the base URL may have failed, the disk may be full. One that is sent once more is
// one more, and waits for the budget first.
func (p *Poller) attempt(ctx context.Context, r listings.Request, passed time.Time, again bool) error {
	if again {
		if err := p.budget.wait(ctx, r.Operation == listings.OperationInsertions); err != nil {
			return err
		}
	}
	a := p.agency(r.AgencyID)
	if a == nil {
		return fmt.Errorf("agency %s is not watched: %w", r.AgencyID, context.Canceled) // it has just been retired
	}
	if err := a.mayAsk(r); err != nil {
		return err
	}
	if p.full.Load() {
		return &watch.WaitError{Until: time.Now().Add(spaceEvery)}
	}
	for _, reason := range (keyAndBase{p.keyBackoff(r.Key), p.base}) {
		if until, failed := reason.failedSince(passed); failed {
			return &watch.WaitError{Until: until}
		}
	}
	return nil
}

// mayAsk says whether a request may be made at all: its scope is not halted, and its key is still the configured one.
func (a *agency) mayAsk(r listings.Request) error {
	switch {
	case a.isHalted(r):
		return watch.ErrHalted
	case a.outdated(r), a.onTrial(r), a.undecided(r):
		return &watch.WaitError{Until: time.Now()}
	}
	return nil
}

// undecided says whether the list was refused to the key of a request, and it is not decided yet what follows.
func (a *agency) undecided(r listings.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refusedKey != "" && a.refusedKey == r.Key
}

// newsWithin is how soon a walk that waits notices a halt or another key.
const newsWithin = 5 * time.Second

// keyAndBase are what a request may have to wait for. They give a ticket each.
type (
	keyAndBase [2]*backoff
	tickets    [2]time.Time
)

// admitted asks every reason; a walk, which has a goroutine of its own, waits where it has to.
func (a *agency) admitted(ctx context.Context, r listings.Request, all keyAndBase) (given tickets, err error) {
	for n, reason := range all {
		for {
			now := time.Now()
			ticket, wait, ok := reason.admit(now)
			if ok {
				given[n] = ticket
				break
			}
			err := error(&watch.WaitError{Until: now.Add(wait)})
			if r.Operation == listings.OperationInsertions {
				if err = sleep(ctx, min(wait, newsWithin)); err == nil {
					err = a.mayAsk(r)
				}
			}
			if err != nil {
				for i, earlier := range all[:n] {
					earlier.release(given[i])
				}
				return given, err
			}
		}
	}
	return given, nil
}

// stillAdmit says whether nothing has failed while a request waited for the budget.
func (all keyAndBase) stillAdmit(given tickets) bool {
	for n, reason := range all {
		if !reason.valid(given[n]) {
			return false
		}
	}
	return true
}

func (all keyAndBase) release(given tickets) {
	for n, reason := range all {
		reason.release(given[n])
	}
}

func (all keyAndBase) dismiss(sent time.Time) {
	for _, reason := range all {
		reason.dismissed(sent)
	}
}

// after is told of every request that was made: it keeps the patience with key and base URL.
func (p *Poller) after(r listings.Request, o listings.Outcome) {
	key := p.keyBackoff(r.Key)
	now := time.Now()
	sent := now.Add(-o.Duration)
	if r.Operation == listings.OperationContactRequests {
		p.crew.took(pollName{r.AgencyID, r.Reference}, o.Duration, o.Err == nil, now)
	}
	changed := false
	class := watch.Classify(o.Err)
	if o.Status != 0 {
		p.budget.answered(class == watch.ClassBusy)
	}
	switch class {
	case watch.ClassNone:
		if a := p.agency(r.AgencyID); a != nil {
			p.answered(a, r.Key, true, r.Operation, sent, now)
		}
		changed = either(p.answers(sent), p.serves(key, r, sent))
	case watch.ClassRefused:
		if a := p.agency(r.AgencyID); a != nil {
			p.answered(a, r.Key, false, r.Operation, sent, now)
		}
		changed = either(p.answers(sent), p.serves(key, r, sent))
	case watch.ClassAside, watch.ClassDrift:
		changed = either(p.answers(sent), p.serves(key, r, sent))
	case watch.ClassBusy:
		p.answers(sent)
		p.budget.slow(sent, now)
		p.beg(key, r, sent, now, watch.RetryAfter(o.Err))
		changed = true
	case watch.ClassDown:
		p.baseDown(sent, now, o.Err)
		key.dismissed(sent)
		changed = true
	case watch.ClassTransient:
		var status *listings.StatusError
		if errors.As(o.Err, &status) {
			changed = p.answers(sent) // an unhappy answer is an answer
			if status.Status == http.StatusServiceUnavailable {
				p.budget.slow(sent, now) // it may be too much for it, though it does not say so
			}
		}
		keyAndBase{key, p.base}.dismiss(sent)
	default:
		keyAndBase{key, p.base}.dismiss(sent)
	}
	if changed {
		p.touchAll(troubleName{troubleKey, r.Key}, troubleName{troubleBase, ""})
		p.pauseAll()
	}
}

// touchAll notes that troubles that agencies share have changed: each of them may have written it down.
func (p *Poller) touchAll(names ...troubleName) {
	for _, a := range p.watched() {
		for _, n := range names {
			a.touch(n.scope, n.name)
		}
	}
}

func either(a, b bool) bool { return a || b }

func (p *Poller) baseDown(sent, now time.Time, err error) {
	before, _, _ := p.base.state()
	p.base.failed(p.o.API.BaseURL, sent, now)
	if first := !p.down.Swap(true); first || before == 0 { // also where the process before has found it down
		p.log.Warn("the API does not answer; is the base URL right, and the network?", "err", err)
	}
}

// answers notes that somebody answers at the base URL, and says whether that is news.
func (p *Poller) answers(sent time.Time) bool {
	ended := p.base.succeeded(sent)
	if ended {
		p.log.Info("the API answers again")
	}
	return ended
}

// beg lets a key wait because the API asked for patience, and says so when it begins.
func (p *Poller) beg(key *backoff, r listings.Request, sent, now time.Time, wait time.Duration) {
	before, _, _ := key.state()
	key.begged(sent, now, wait)
	if before == 0 {
		_, _, until := key.state()
		p.log.Warn("the API asks for patience: what uses this key waits", "key", r.Key, "wait", until.Sub(now).Round(time.Second))
	}
}

// serves notes that the API serves a key, and says whether that is news.
func (p *Poller) serves(key *backoff, r listings.Request, sent time.Time) bool {
	ended := key.succeeded(sent)
	if ended {
		p.log.Info("the API serves the key again", "key", r.Key)
	}
	return ended
}

func (p *Poller) keyBackoff(name string) *backoff {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.keys[name] == nil {
		p.keys[name] = newBackoff(time.Second, watch.LongestKeyWait)
	}
	return p.keys[name]
}

// pauseAll looks anew at what keeps the polls of each agency.
func (p *Poller) pauseAll() {
	for _, a := range p.watched() {
		a.pause()
	}
}

// forever is the pause of what only a person ends.
const forever = 100 * 365 * 24 * time.Hour

// pause stops or lets go the agency's polls, as halts and patience say. Where something failed, one at a time is let go.
func (a *agency) pause() {
	a.pausing.Lock() // who looks last has the last word
	defer a.pausing.Unlock()
	if a.retiring.Err() != nil {
		return // another agency of this id may be in the schedule by now
	}
	now := time.Now()
	until, oneByOne := time.Time{}, false
	asked := listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id}
	if a.isHalted(asked) || a.onTrial(asked) {
		until = now.Add(forever)
	}
	for _, reason := range []*backoff{a.p.keyBackoff(a.keyFor(asked.Operation).Fingerprint()), a.p.base, a.asking} {
		failures, _, next := reason.state()
		if failures == 0 || reason == a.asking && failures < operationLimit {
			continue
		}
		oneByOne = true
		if next.After(until) {
			until = next
		}
	}
	a.mu.Lock()
	if a.confirming && until.Before(now.Add(time.Hour)) {
		until = now.Add(time.Hour) // the end of the walk comes first
	}
	a.mu.Unlock()
	a.p.turns.change(a.id, func(s *schedule.Schedule, p *party) { s.Pause(p.handle, until, oneByOne) })
}

// spaceEvery is how often it is tried whether a full disk has space again.
const spaceEvery = 5 * time.Second

// waitForSpace asks nothing while nothing could be remembered. A walk waits here; a poll goes back into the schedule.
func (a *agency) waitForSpace(ctx context.Context, r listings.Request) error {
	for a.p.full.Load() {
		if r.Operation != listings.OperationInsertions {
			return &watch.WaitError{Until: time.Now().Add(spaceEvery)}
		}
		if err := sleep(ctx, spaceEvery); err != nil {
			return err
		}
		if err := a.mayAsk(r); err != nil {
			return err
		}
	}
	return nil
}

// outOfSpace stops the asking. What was to be written may be larger than what is tried, so each time is longer.
func (p *Poller) outOfSpace(err error) {
	if p.full.Swap(true) {
		return
	}
	now := time.Now()
	p.space.failed("", now, now)
	select {
	case p.filled <- struct{}{}:
	default:
	}
	if !p.waiting.Swap(true) {
		p.log.Error("polling waits for space", "err", err)
	}
}

// watchSpace writes what is owed as soon as there is space again, and lets the asking go on, until ctx is done. It says so only
// when the space has lasted as long as the waiting, or RetryMax: a little of it comes and goes.
func (p *Poller) watchSpace(ctx context.Context) error {
	var since time.Time // when there was space again
	lasts := time.NewTimer(0)
	defer lasts.Stop()
	for {
		select {
		case <-p.filled:
		case <-lasts.C:
			if !p.full.Load() && p.waiting.Swap(false) {
				p.log.Info("there is space again: polling goes on")
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		}
		began := time.Now()
		if began.Sub(since) > p.o.RetryMax {
			p.space.succeeded(time.Now())
		}
		if err := p.untilWritten(ctx); err != nil {
			return err
		}
		since = time.Now()
		p.full.Store(false)
		lasts.Reset(min(since.Sub(began), p.o.RetryMax))
		p.pauseAll()
	}
}

// untilWritten tries to write until it works.
func (p *Poller) untilWritten(ctx context.Context) error {
	_, _, until := p.space.state()
	if err := sleep(ctx, time.Until(until)); err != nil {
		return err
	}
	for {
		if err := p.tryToWrite(); !errors.Is(err, store.ErrNoSpace) {
			return err
		}
		if err := sleep(ctx, spaceEvery); err != nil {
			return err
		}
	}
}

// tryToWrite writes what is owed, and something of every agency in any case.
func (p *Poller) tryToWrite() error {
	for _, a := range p.watched() {
		a.committing.Lock()
		err := a.pay()
		a.committing.Unlock()
		if err != nil {
			return err
		}
	}
	return p.store.Update(func(tx *store.Tx) error {
		for _, a := range p.watched() {
			state, known, err := tx.Agency(a.id)
			if err == nil && known {
				err = tx.PutAgency(a.id, state)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
