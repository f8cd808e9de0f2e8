package poller

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// refusalLimit is how many still-listed insertions must be refused, without a good answer between, before all contact
// requests of an agency halt.
const refusalLimit = 3

// retryRefused is how often a halted insertion is tried again while its agency is well.
const retryRefused = 24 * time.Hour

// isHalted says whether a request must not be made. It is asked before every single one.
func (a *agency) isHalted(r listings.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.halts[haltScope{scope: events.ScopeAgency}]; ok {
		return true
	}
	if r.Operation != listings.OperationContactRequests {
		return false
	}
	if _, ok := a.halts[haltScope{scope: events.ScopeContactRequests}]; ok {
		return true
	}
	if r.Reference == "" {
		return false
	}
	if l := a.looks[r.Reference]; l != nil && l.refusal != nil {
		return true
	}
	h, ok := a.halts[haltScope{events.ScopeInsertion, r.Reference}]
	return ok && time.Since(h.Tried) < retryRefused
}

// refusedContacts is a refusal of one insertion's contact requests. The insertion waits, and the list is asked once: it
// tells whether the agency is refused, the insertion gone, or only this insertion not ours to read. Where several are
// refused and none was answered since, all wait for that. What was asked before a halt ended decides nothing after it.
func (a *agency) refusedContacts(reference string, err error, sent time.Time) error {
	renewed, commitErr := a.renewHalt(reference)
	if renewed || commitErr != nil || a.freedSince(sent) {
		return commitErr
	}
	var answer *listings.StatusError
	if !errors.As(err, &answer) {
		return fmt.Errorf("agency %s: a refusal without an answer: %w", a.id, err)
	}
	l := a.look(reference)
	a.touch(troubleInsertion, reference)
	a.mu.Lock()
	l.refusal = &refusal{answer, time.Now()}
	waiting := 0
	for _, other := range a.looks {
		if other.refusal != nil && !a.lastAnswer.After(other.refusal.at) {
			waiting++
		}
	}
	a.confirming = a.confirming || waiting >= refusalLimit
	a.mu.Unlock()
	a.pause()
	a.doubtList()
	return nil
}

// confirmed lets the polls go on that waited for a walk.
func (a *agency) confirmed() {
	a.mu.Lock()
	was := a.confirming
	a.confirming = false
	a.mu.Unlock()
	if was {
		a.pause()
	}
}

// renewHalt makes an insertion that was tried again in vain wait for another day, without a word.
func (a *agency) renewHalt(reference string) (halted bool, err error) {
	a.committing.Lock() // a person may be ending it
	defer a.committing.Unlock()
	scope := haltScope{events.ScopeInsertion, reference}
	a.mu.Lock()
	h, halted := a.halts[scope]
	a.mu.Unlock()
	if !halted {
		return false, nil
	}
	h.Tried = time.Now().UTC()
	if err := a.p.store.Update(func(tx *store.Tx) error { return tx.PutHalt(a.id, h) }); err != nil {
		return true, err
	}
	a.mu.Lock()
	a.halts[scope] = h
	a.mu.Unlock()
	return true, nil
}

// haltedUntil is when a halted insertion is tried again; otherwise is for one that waits for something else.
func (a *agency) haltedUntil(reference string, otherwise time.Time) time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if h, ok := a.halts[haltScope{events.ScopeInsertion, reference}]; ok {
		return h.Tried.Add(retryRefused)
	}
	return otherwise
}

// judgeRefused decides, after a complete walk, about insertions whose contact requests were refused. One that is no longer
// listed is disappearing, which is no alarm. One that is still listed halts, if others are answered; if none is, all
// contact requests of the agency halt. As long as neither is known, the next walk decides.
func (a *agency) judgeRefused(w *walk) error {
	listed, errs, answered := a.refusedAndListed(w)
	if len(listed) == 0 {
		return nil
	}
	defer a.pause()
	switch {
	case len(listed) >= refusalLimit && !answered:
		return a.refusedKey(events.ScopeContactRequests, errs[listed[0]])
	case len(listed)+a.haltedAmong(w.seen) < w.published && !answered: // somebody is left who may be answered
		return nil
	}
	for _, reference := range listed {
		if err := a.halt(events.ScopeInsertion, reference, errs[reference]); err != nil {
			return err
		}
		a.admit(reference)
	}
	return nil
}

// haltedAmong counts insertions that are halted.
func (a *agency) haltedAmong(references map[string]struct{}) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for scope := range a.halts {
		if _, among := references[scope.reference]; among && scope.scope == events.ScopeInsertion {
			n++
		}
	}
	return n
}

// refusedAndListed returns the refused insertions that a walk listed, why they were refused, and whether there was a good
// answer of contact requests since. A refusal while the walk was under way is left to the next one. Those that
// disappeared are not polled any more.
func (a *agency) refusedAndListed(w *walk) (listed []string, errs map[string]error, answered bool) {
	var over []string
	errs = map[string]error{}
	a.mu.Lock()
	for reference, l := range a.looks {
		if l.refusal == nil || l.refusal.at.After(w.began) {
			continue
		}
		if _, seen := w.seen[reference]; seen {
			listed = append(listed, reference)
			errs[reference] = l.refusal.answer
			answered = answered || a.lastAnswer.After(l.refusal.at)
			continue
		}
		if _, gone := w.gone[reference]; gone {
			over = append(over, reference)
		}
	}
	a.mu.Unlock()
	for _, reference := range over {
		a.forget(reference)
	}
	slices.Sort(listed)
	return listed, errs, answered
}

// admit ends the waiting of refused insertions; all of them where none is named.
func (a *agency) admit(reference string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for r, l := range a.looks {
		if l.refusal != nil && (reference == "" || r == reference) {
			l.refusal = nil
			a.touched[troubleName{troubleInsertion, r}] = struct{}{}
		}
	}
}

// wellAsked notes a good answer of contact requests to a request that showed a key, and ends the halt of an insertion that
// was tried again.
func (a *agency) wellAsked(reference string, key listings.Key) error {
	if err := a.worked(listings.OperationContactRequests, key); err != nil {
		return err
	}
	a.mu.Lock()
	a.lastAnswer = time.Now()
	_, halted := a.halts[haltScope{events.ScopeInsertion, reference}]
	a.mu.Unlock()
	if !halted {
		return nil
	}
	a.committing.Lock()
	defer a.committing.Unlock()
	a.mu.Lock()
	h, halted := a.halts[haltScope{events.ScopeInsertion, reference}]
	a.mu.Unlock()
	if !halted {
		return nil
	}
	return a.endHalts([]store.Halt{h}, "retry_succeeded")
}

// endHalts lets scopes be asked again and says so, and remembers what is known of the keys, in one transaction. The caller
// holds committing.
func (a *agency) endHalts(list []store.Halt, cause string) error {
	if err := a.pay(); err != nil {
		return err
	}
	keys := a.ring().Stored()
	err := a.commit(func(tx *store.Tx) ([]events.Payload, error) {
		told, err := endAll(tx, a.id, list, cause)
		return told, errors.Join(err, putKeys(tx, a.id, keys))
	})
	if err == nil {
		a.resumed(list)
	}
	return err
}

// resumed makes the process follow the store after halts have ended there.
func (a *agency) resumed(list []store.Halt) {
	a.dropHalts(list)
	for _, h := range list {
		a.admit(h.Reference)
		if h.Reference != "" {
			a.urge(h.Reference)
		}
	}
}

func (a *agency) dropHalts(list []store.Halt) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, h := range list {
		delete(a.halts, haltScope{h.Scope, h.Reference})
	}
	if refusedKeys(list) {
		a.freed = time.Now()
	}
}

// freedSince says whether a halt of the agency, or of all its contact requests, has ended since a moment.
func (a *agency) freedSince(moment time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return moment.Before(a.freed)
}

// ErrUnknownAgency is returned when an agency is named that is not watched.
var ErrUnknownAgency = errors.New("agency is not watched")

// Resume ends the halts of an agency, or of one insertion of it, and asks again at once. It returns how many it ended.
func (p *Poller) Resume(agencyID, reference string) (ended int, err error) {
	a := p.agency(agencyID)
	if a == nil {
		return 0, fmt.Errorf("%w: %s", ErrUnknownAgency, agencyID)
	}
	if ended, err = a.resume(reference); ended > 0 {
		a.goOn()
	}
	return ended, err
}

// resume ends halts because a person says so. Where a key was refused, both may be tried again, the current one first.
func (a *agency) resume(reference string) (ended int, err error) {
	a.committing.Lock()
	defer a.committing.Unlock()
	before := a.ring()
	list := slices.DeleteFunc(a.currentHalts(), func(h store.Halt) bool { return reference != "" && h.Reference != reference })
	if len(list) == 0 {
		return 0, nil
	}
	if refusedKeys(list) {
		a.setRing(before.Anew())
	}
	if err := a.endHalts(list, "operator"); err != nil {
		a.setRing(before)
		return 0, err
	}
	return len(list), nil
}

// refusedKeys says whether one of the halts came of refused keys.
func refusedKeys(list []store.Halt) bool {
	return slices.ContainsFunc(list, func(h store.Halt) bool { return h.Scope != events.ScopeInsertion })
}

// goOn asks again after halts have ended.
func (a *agency) goOn() {
	a.pause()
	a.wakeWalk()
	select {
	case a.evidence <- struct{}{}: // nothing waits to be told any more
	default:
	}
}

func (a *agency) currentHalts() []store.Halt {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := make([]store.Halt, 0, len(a.halts))
	for _, h := range a.halts {
		list = append(list, h)
	}
	slices.SortFunc(list, func(x, y store.Halt) int { return x.Since.Compare(y.Since) })
	return list
}

// halt stops asking for a scope, and says so: halt and event are one transaction. The flag is set first: no request is
// started after the refusal was read, even if the commit takes long.
func (a *agency) halt(scope events.Scope, reference string, cause error) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	status, err := a.refusal(cause)
	if status == nil {
		return err
	}
	return a.enterHalt(scope, reference, status, a.ring())
}

// enterHalt is halt, and remembers the keys, in the same transaction. Where others of the key are still asked, the event waits for
// what one of them is answered, see tellHalt. The caller holds committing.
func (a *agency) enterHalt(scope events.Scope, reference string, status *listings.StatusError, keys watch.Keys) error {
	now := time.Now().UTC()
	a.mu.Lock()
	h := store.Halt{
		Scope: scope, Reference: reference, Operation: string(status.Operation), Status: status.Status, Since: now, Tried: now,
		Key: status.Request.Key, Body: string(status.Body), Asked: a.refusedQuestion.UTC(),
	}
	a.mu.Unlock()
	others, settled := a.explain(&h, keys)
	var event *events.AccessHalted
	if settled {
		h.Asked = time.Time{}
		event = a.haltEvent(h, keys, others)
	}
	a.mu.Lock()
	_, already := a.halts[haltScope{scope, reference}]
	a.halts[haltScope{scope, reference}] = h
	a.keys = keys
	a.mu.Unlock()
	if already {
		return nil
	}
	if scope != events.ScopeInsertion {
		a.admit("")
		a.pause()
	}
	owed := owedHalt{h, event, keys}
	err := a.writeHalt(owed)
	if errors.Is(err, store.ErrNoSpace) {
		a.owed = append(a.owed, owed) // it is in force all the same
	}
	return err
}

// explain writes into a halt why it probably came, by what others of the key were answered since its question; nothing is asked.
func (a *agency) explain(h *store.Halt, keys watch.Keys) (others events.AgenciesOfKey, settled bool) {
	others, since := a.p.othersOfKey(a, h.Key, h.Asked)
	h.ProbableReason, settled = watch.Reason(h.Scope, events.Evidence{Body: h.Body, OtherAgenciesOfKey: others}, since)
	h.Advice = watch.Advice(h.ProbableReason, a.id, h.Reference)
	if h.Scope != events.ScopeInsertion && len(keys.Known.Refused) > 1 {
		h.Advice = "Both keys were refused, this one last. " + h.Advice
	}
	return others, settled
}

func (a *agency) haltEvent(h store.Halt, keys watch.Keys, others events.AgenciesOfKey) *events.AccessHalted {
	a.mu.Lock()
	defer a.mu.Unlock()
	return watch.HaltEvent(a.id, h, keys.Slot(h.Key), others, a.lastGood)
}

// evidenceWithin is how long the event of a halt waits for what others of its key are answered.
const evidenceWithin = 30 * time.Second

// tellHalt tells of a halt whose event waits for its reason: as soon as that is settled, or nothing was heard in time. The halt
// itself stands in the store before.
func (a *agency) tellHalt(ctx context.Context) error {
	began := time.Now()
	for {
		wait, err := a.tellHaltAfter(time.Since(began))
		if err != nil {
			wait, err = a.afterCommitError(err)
		}
		if err != nil || wait <= 0 {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-a.evidence:
		case <-ctx.Done():
		}
		if t.Stop(); ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// tellHaltAfter says how long to wait yet where the reason is not settled after a time; zero: nothing waits to be told.
func (a *agency) tellHaltAfter(waited time.Duration) (wait time.Duration, err error) {
	a.committing.Lock()
	defer a.committing.Unlock()
	a.mu.Lock()
	h := a.halts[haltScope{scope: events.ScopeAgency}]
	a.mu.Unlock()
	if h.Asked.IsZero() {
		return 0, nil
	}
	if err := a.pay(); err != nil {
		return 0, err
	}
	keys := a.ring()
	others, settled := a.explain(&h, keys)
	if wait = evidenceWithin - waited; !settled && wait > 0 {
		return wait, nil
	}
	h.Asked = time.Time{}
	if err := a.writeHalt(owedHalt{h, a.haltEvent(h, keys, others), keys}); err != nil {
		return 0, err
	}
	a.mu.Lock()
	a.halts[haltScope{scope: events.ScopeAgency}] = h
	a.mu.Unlock()
	return 0, nil
}

// othersOfKey counts the other agencies of a key by what is already known; nothing is asked. One works if a question was answered
// well that is younger than asked; since counts those whose list was refused so.
func (p *Poller) othersOfKey(a *agency, key string, asked time.Time) (n events.AgenciesOfKey, since int) {
	for _, other := range p.watched() {
		if other == a {
			continue
		}
		other.mu.Lock()
		keys, good, goodAt, refusedAt := other.keys, other.goodKey, other.goodQuestion, other.refusedQuestion
		_, halted := other.halts[haltScope{scope: events.ScopeAgency}]
		other.mu.Unlock()
		if key != keys.Known.Current && key != keys.Known.Next {
			continue
		}
		// A key that contact requests were refused to still opens the list, if it is shown there.
		listed := !halted && keys.Shown(listings.OperationInsertions).Fingerprint() == key
		switch {
		case keys.WasRefused(key) && !listed:
			n.Refused++
			if !refusedAt.Before(asked) {
				since++
			}
		case good == key && !goodAt.Before(asked):
			n.Working++
		default:
			n.Unknown++
		}
	}
	return n, since
}

// answered notes what an agency was answered to a question, and lets those know whose halts wait for it. Where its list was refused,
// nothing more is sent with that key, however long a commit that is under way keeps the walk from deciding what follows.
func (p *Poller) answered(a *agency, key string, good bool, op listings.Operation, sent, now time.Time) {
	a.mu.Lock()
	switch {
	case good:
		a.lastGood, a.goodKey, a.goodQuestion = now.UTC(), key, sent
	case op == listings.OperationInsertions:
		a.refusedQuestion, a.refused = sent, key
	}
	a.mu.Unlock()
	for _, other := range p.watched() {
		select {
		case other.evidence <- struct{}{}:
		default:
		}
	}
}

// AgencyKeys names an agency and the keys that open it. Next is zero outside a rotation; it is shown only after Key was
// refused, and then for good if it works.
type AgencyKeys struct {
	ID        string
	Key, Next listings.Key
}

// putKeys remembers what is known of an agency's keys.
func putKeys(tx *store.Tx, agencyID string, known store.Keys) error {
	state, exists, err := tx.Agency(agencyID)
	if err != nil || !exists || reflect.DeepEqual(state.Keys, known) {
		return err
	}
	state.Keys = known
	return tx.PutAgency(agencyID, state)
}

// ring is the agency's pair of keys at this moment.
func (a *agency) ring() watch.Keys {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys
}

func (a *agency) setRing(r watch.Keys) {
	a.mu.Lock()
	a.keys = r
	a.mu.Unlock()
}

// keyFor is the key to show with requests of an operation.
func (a *agency) keyFor(o listings.Operation) listings.Key { return a.ring().Shown(o) }

// outdated says whether a request shows another key than the one it would show now. Its answer decides nothing.
func (a *agency) outdated(r listings.Request) bool {
	return r.Key != a.keyFor(r.Operation).Fingerprint()
}

// configure gives the agency the pair of keys that is configured now. Another pair ends the halts under the one before;
// of insertions those that were not refused to the key which is shown now.
func (a *agency) configure(k AgencyKeys) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	before := a.ring()
	if k := watch.NewKeys(k.Key, k.Next); k.Current == before.Current && k.Next == before.Next {
		return nil
	}
	if err := a.hold(before, k); err != nil {
		return err
	}
	a.goOn()
	return nil
}

// hold holds what is known of one pair against another that is configured now. The caller holds committing.
func (a *agency) hold(before watch.Keys, k AgencyKeys) error {
	after, same := watch.NewKeys(k.Key, k.Next).Restore(before.Known)
	shown := after.Active().Fingerprint()
	var over []store.Halt
	for _, h := range a.currentHalts() {
		if h.Scope == events.ScopeInsertion && h.Key != shown || h.Scope != events.ScopeInsertion && !same {
			over = append(over, h)
		}
	}
	a.setRing(after) // first: what the old one is still answered decides nothing
	if len(over) > 0 || !reflect.DeepEqual(before.Stored(), after.Stored()) {
		if err := a.endHalts(over, "key_changed"); err != nil {
			a.setRing(before)
			return err
		}
	}
	if !same {
		a.admit("")
	}
	return nil
}

// restore takes up what the store knows of keys and halts, and holds it against the pair that is configured.
func (a *agency) restore(known store.Keys, halts []store.Halt) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	configured := a.ring()
	for _, h := range halts {
		a.halts[haltScope{h.Scope, h.Reference}] = h
	}
	before := configured
	if known = watch.KnownKeys(known, halts); known.Current != "" {
		before.Known = known
	}
	return a.hold(before, AgencyKeys{ID: a.id, Key: configured.Current, Next: configured.Next})
}

// refusal is what a request was refused with. None, without an error, is one whose key is not shown any more: that says
// nothing about the one that is.
func (a *agency) refusal(cause error) (*listings.StatusError, error) {
	var status *listings.StatusError
	if !errors.As(cause, &status) {
		return nil, fmt.Errorf("agency %s: halt without a refusal: %w", a.id, cause)
	}
	if a.outdated(status.Request) {
		a.wakeWalk()
		return nil, nil
	}
	return status, nil
}

// refusedKey decides what a refusal means that would halt the agency or all of its contact requests: the other key is
// tried, or the halt comes.
func (a *agency) refusedKey(scope events.Scope, cause error) error {
	a.committing.Lock()
	defer a.committing.Unlock()
	status, err := a.refusal(cause)
	if status == nil {
		return err
	}
	before := a.ring()
	after, try := before.Refuse(status.Operation)
	if !try {
		return a.enterHalt(scope, "", status, after)
	}
	a.setRing(after) // first: no request with this key is started any more
	a.trying.succeeded(time.Now())
	err = a.p.store.Update(func(tx *store.Tx) error { return putKeys(tx, a.id, after.Stored()) })
	a.p.log.Warn("a key is refused; the other one is tried", "agency", a.id, "operation", string(status.Operation),
		"status", status.Status, "refused", before.Slot(status.Request.Key).Slot, "tried", after.Slot(after.Other().Fingerprint()).Slot)
	if scope == events.ScopeContactRequests {
		a.admit("")
	}
	a.goOn()
	return err
}

// worked notes a good answer to a request that showed a key. If that key was tried with this operation, it is the active
// one from now on.
func (a *agency) worked(o listings.Operation, key listings.Key) error {
	if r := a.ring(); !r.Tries(o) || r.Shown(o) != key {
		return nil
	}
	a.committing.Lock()
	defer a.committing.Unlock()
	before := a.ring()
	if !before.Tries(o) || before.Shown(o) != key {
		return nil
	}
	after := before.Switched()
	if err := a.commitSwitch(before, after); err != nil {
		return err
	}
	a.setRing(after)
	a.admit("")
	a.pause()
	return nil
}

// commitSwitch remembers that the other key is shown from now on and says so, in one transaction. Halts of insertions that
// were refused to the old key end with it. The caller holds committing.
func (a *agency) commitSwitch(before, after watch.Keys) error {
	from, to := before.Slot(before.Active().Fingerprint()), after.Slot(after.Active().Fingerprint())
	now := time.Now().UTC()
	var over []store.Halt
	for _, h := range a.currentHalts() {
		if h.Key != to.Fingerprint {
			over = append(over, h)
		}
	}
	err := a.commit(func(tx *store.Tx) ([]events.Payload, error) {
		switched := &events.AccessKeySwitched{
			Common: events.Common{AgencyID: a.id, ObservedAt: now}, From: from, To: to, Advice: watch.SwitchAdvice(to.Slot),
		}
		told, err := endAll(tx, a.id, over, "key_changed")
		return append([]events.Payload{switched}, told...), errors.Join(err, putKeys(tx, a.id, after.Stored()))
	})
	if err == nil {
		a.resumed(over)
	}
	return err
}

// onTrial says whether a request must wait because a key is being tried: contact requests wait for what the list says, and
// all but one for what that one is answered.
func (a *agency) onTrial(r listings.Request) bool {
	if r.Operation != listings.OperationContactRequests {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.keys.Known.Trying != "" && (!a.keys.Tries(r.Operation) || r.Reference != a.trial || r.Reference == "")
}

// tryContactRequests polls one insertion if the other key is to be tried with contact requests, and says how long to
// wait before the next try. One without a plain answer is tried again with another insertion. The error is fatal.
func (a *agency) tryContactRequests(ctx context.Context) (wait time.Duration, err error) {
	if !a.ring().Tries(listings.OperationContactRequests) {
		return forever, nil
	}
	if _, _, until := a.trying.state(); time.Until(until) > 0 {
		return time.Until(until), nil
	}
	reference, err := a.trialReference()
	if err != nil || reference == "" {
		return forever, err // without insertions there is nothing to ask; the next walk looks again
	}
	a.setTrial(reference)
	defer a.setTrial("")
	sent := time.Now()
	c, err := a.poll(ctx, reference)
	switch c {
	case watch.ClassCanceled:
		return 0, ctx.Err()
	case watch.ClassFatal:
		return a.afterCommitError(err)
	case watch.ClassRefused:
		if err := a.refusedKey(events.ScopeContactRequests, err); err != nil {
			return a.afterCommitError(err)
		}
	}
	if !a.ring().Tries(listings.OperationContactRequests) {
		a.trying.succeeded(time.Now())
		return forever, nil
	}
	return time.Until(a.trying.failed(reference, sent, time.Now())), nil
}

func (a *agency) setTrial(reference string) {
	a.mu.Lock()
	a.trial = reference
	a.mu.Unlock()
}

// trialReference is a published insertion, another one each time; empty if there is none that may be asked.
func (a *agency) trialReference() (string, error) {
	var all []string
	err := a.p.store.View(func(tx *store.Tx) error {
		return tx.Insertions(a.id, func(i store.Insertion) error {
			if i.GoneSince.IsZero() && i.Missing == 0 { // of one that may be gone a refusal says nothing
				all = append(all, i.Reference)
			}
			return nil
		})
	})
	all = slices.DeleteFunc(all, func(reference string) bool {
		return a.isHalted(listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: reference})
	})
	if err != nil || len(all) == 0 {
		return "", err
	}
	a.trials++
	return all[(a.trials-1)%len(all)], nil
}

// Refusal says why an agency was probably refused and what to do about it, as the watch would say it at its halt. others
// are the other agencies of the same key.
func Refusal(agencyID string, refused *listings.StatusError, others events.AgenciesOfKey) (reason, remedy string) {
	reason, _ = watch.Reason(events.ScopeAgency, events.Evidence{Body: string(refused.Body), OtherAgenciesOfKey: others}, others.Refused)
	return reason, watch.Advice(reason, agencyID, "")
}
