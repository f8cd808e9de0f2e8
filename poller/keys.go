package poller

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// configure gives the agency the pair of keys that is configured now, and what of a person its events say.
func (a *agency) configure(k AgencyKeys) error {
	a.people.Store(&k.People)
	if now, keys := watch.NewKeys(k.Key, k.Next), a.access().Keys; now.Current == keys.Current && now.Next == keys.Next {
		return nil
	}
	_, err := a.changeAccess(func(x watch.Access) watch.AccessChange { return x.Configure(k.Key, k.Next, time.Now()) })
	if err == nil {
		a.wakeWalk()
	}
	return err
}

// tryContactRequests polls one insertion if the other key is to be tried with contact requests, and says how long to
// wait before the next try. One without a plain answer is tried again with another insertion. The error is that of a commit.
func (a *agency) tryContactRequests(ctx context.Context) (wait time.Duration, err error) {
	if !a.access().Keys.Tries(listings.OperationContactRequests) {
		return forever, nil
	}
	if wait := a.trying.state().Wait(time.Now()); wait > 0 {
		return wait, nil
	}
	reference, err := a.trialReference()
	if err != nil || reference == "" {
		return forever, err // without insertions there is nothing to ask; the next walk looks again
	}
	trial := func(reference string) {
		a.changeRefusals(func(r *watch.Refusals) { r.Trial = reference })
	}
	trial(reference)
	defer trial("")
	sent := time.Now()
	c, err := a.poll(ctx, reference)
	switch c {
	case watch.ClassCanceled:
		return 0, ctx.Err()
	case watch.ClassFatal:
		return 0, err
	case watch.ClassRefused:
		if err := a.refused(watch.Scope{Scope: events.ScopeContactRequests}, err); err != nil {
			return 0, err
		}
	}
	if !a.access().Keys.Tries(listings.OperationContactRequests) {
		a.trying.succeeded(time.Now())
		return forever, nil
	}
	return time.Until(a.trying.failed(reference, sent, time.Now())), nil
}

// trialReference is a published insertion, another one each time; empty if there is none that may be asked.
func (a *agency) trialReference() (string, error) {
	var all []string
	err := a.p.store.View(func(tx *store.Tx) error {
		for i := range tx.Insertions(a.id) {
			if i.GoneSince.IsZero() && i.Missing == 0 { // of one that may be gone a refusal says nothing
				all = append(all, i.Reference)
			}
		}
		return nil
	})
	all = slices.DeleteFunc(all, func(reference string) bool {
		return a.isHalted(listings.Request{Operation: listings.OperationContactRequests, AgencyID: a.id, Reference: reference})
	})
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[a.trying.state().Failures%len(all)], nil
}

// KeyReport compares the two keys of each agency. It holds no key.
type KeyReport struct {
	Agencies []AgencyKeyReport `json:"agencies"`
	// MayGiveUp: the current key is not needed any more. Text says so, or why not, in plain words.
	MayGiveUp bool   `json:"mayGiveUp"`
	Text      string `json:"text"`
}

// AgencyKeyReport compares the two keys of an agency.
type AgencyKeyReport struct {
	AgencyID string     `json:"agencyId"`
	Current  KeyAnswer  `json:"current"`
	Next     *KeyAnswer `json:"next,omitempty"` // nil: none is configured
	// Ready: the next key does for this agency what the current one does. Text says it in plain words.
	Ready bool   `json:"ready"`
	Text  string `json:"text"`
}

// KeyAnswer is what one request for the list of insertions with a key was answered.
type KeyAnswer struct {
	Slot        string `json:"slot"` // current or next
	Fingerprint string `json:"fingerprint"`
	Status      int    `json:"status,omitempty"`     // 0: there was no answer
	Insertions  *int   `json:"insertions,omitempty"` // absent without a list
	Total       bool   `json:"total"`                // Insertions is the total that the API told, else what its first page held
	Problem     string `json:"problem,omitempty"`    // why there is no list
}

// ErrNoNextKey is returned by VerifyKeys when no agency has a second key.
var ErrNoNextKey = errors.New("no next key is configured")

// ErrVerifying is returned by VerifyKeys while it is under way elsewhere.
var ErrVerifying = errors.New("the keys are being verified already")

// VerifyKeys asks for the list of each agency's insertions with each of its keys, once, within the budget. Whatever the
// answers are: nothing is halted, switched or remembered.
func (p *Poller) VerifyKeys(ctx context.Context) (KeyReport, error) {
	if !p.verifying.TryLock() {
		return KeyReport{}, ErrVerifying
	}
	defer p.verifying.Unlock()
	var list []AgencyKeys
	for _, a := range p.watched() {
		keys := a.access().Keys
		list = append(list, AgencyKeys{ID: a.id, Key: keys.Current, Next: keys.Next})
	}
	return verifyKeys(ctx, p.verifier, list, p.o)
}

// VerifyKeys is Poller.VerifyKeys without a poller, for when none runs. Only the agencies, the API, the filter, the page
// size and the budget are read of the options.
func VerifyKeys(ctx context.Context, o Options) (KeyReport, error) {
	o = o.withDefaults()
	b := newBudget(o.RequestsPerSecond)
	o.API.Gate = oneByOne{b}
	client, err := listings.New(o.API)
	if err != nil {
		return KeyReport{}, err
	}
	return verifyKeys(ctx, client, o.Agencies, o)
}

// oneByOne is the gate of a client that no poller has: it sends one request after the other, within the budget.
type oneByOne struct{ budget *budget }

func (g oneByOne) Wait(ctx context.Context, _ listings.Request) error { return g.budget.wait(ctx) }

func (g oneByOne) Admit(ctx context.Context, _ listings.Request, _ time.Time, again bool) error {
	if again {
		return g.budget.wait(ctx)
	}
	return nil
}

func (oneByOne) Done(listings.Request, listings.Outcome) {}

func verifyKeys(ctx context.Context, client *listings.Client, list []AgencyKeys, o Options) (KeyReport, error) {
	report := KeyReport{Agencies: []AgencyKeyReport{}}
	pairs := 0
	for _, k := range list {
		if !k.Next.IsZero() {
			pairs++
		}
	}
	if pairs == 0 {
		return report, ErrNoNextKey
	}
	for _, k := range list {
		one := AgencyKeyReport{AgencyID: k.ID, Current: KeyAnswer{Slot: "current", Fingerprint: k.Key.Fingerprint()}}
		if !k.Next.IsZero() {
			one.Next = &KeyAnswer{Slot: "next", Fingerprint: k.Next.Fingerprint()}
			one.Current.ask(ctx, client, k.ID, k.Key, o)
			one.Next.ask(ctx, client, k.ID, k.Next, o)
		}
		if err := ctx.Err(); err != nil {
			return report, err
		}
		one.judge()
		report.Agencies = append(report.Agencies, one)
	}
	report.judge()
	return report, nil
}

// ask fills in what one request is answered; two, if the API refuses the number of records that the first asks for.
func (k *KeyAnswer) ask(ctx context.Context, client *listings.Client, agencyID string, key listings.Key, o Options) {
	q := listings.InsertionsQuery{PageSize: o.PageSize, Other: o.Filter}
	page, err := client.Insertions(ctx, key, agencyID, q)
	if watch.RefusedSize(err) {
		q.PageSize = 0
		page, err = client.Insertions(ctx, key, agencyID, q)
	}
	var status *listings.StatusError
	var drift *listings.DriftError
	switch {
	case errors.As(err, &status):
		k.Status, k.Problem = status.Status, statusProblem(status)
	case errors.As(err, &drift):
		k.Status, k.Problem = drift.Status, err.Error()
	case err != nil:
		k.Problem = err.Error()
	default:
		k.Status = http.StatusOK
		n := len(page.Insertions)
		if k.Total = page.Total >= 0; k.Total {
			n = page.Total
		}
		k.Insertions = &n
	}
}

func statusProblem(s *listings.StatusError) string {
	if s.Body == listings.BodyHTML || s.Body == listings.BodyChallenge {
		return "the answer did not come from the API itself"
	}
	return http.StatusText(s.Status)
}

func (k KeyAnswer) works() bool { return k.Insertions != nil }

// refused says whether a key was plainly refused; what is neither refused nor works is not known.
func (k KeyAnswer) refused() bool {
	return k.Status == http.StatusForbidden || k.Status == http.StatusUnauthorized
}

// judge says whether the next key does what the current one does.
func (r *AgencyKeyReport) judge() {
	switch {
	case r.Next == nil:
		r.Text = "has no next key; not verified"
	case !r.Current.works() && !r.Current.refused():
		r.Text = "the current key got no plain answer, so that nothing can be compared; try again"
	case !r.Next.works() && !r.Next.refused():
		r.Text = "the next key got no plain answer; try again"
	case r.Current.refused() && r.Next.refused():
		r.Text = "neither key works: the agency does not exist there, or is linked to neither"
	case r.Next.refused():
		r.Text = "the next key is refused, the current one works: ask the provider to link the agency to the next key"
	case r.Current.refused():
		r.Ready, r.Text = true, "the current key is refused already, the next one works"
	default:
		r.compare(*r.Current.Insertions, *r.Next.Insertions)
	}
}

// compare holds the numbers of insertions against each other. Between two requests one may come or go.
func (r *AgencyKeyReport) compare(current, next int) {
	difference := max(current-next, next-current)
	switch {
	case difference == 0:
		r.Ready, r.Text = true, "both keys work and see the same"
	case difference <= 1+current/100 && next > 0:
		r.Ready = true
		r.Text = fmt.Sprintf("both keys work; they saw %d and %d insertions, a moment apart: some may have come or gone in between", current, next)
	default:
		r.Text = fmt.Sprintf("both keys work, but the current one sees %d insertions and the next one %d: ask the provider why", current, next)
	}
}

// judge says whether the current key may be given up: only if the next one does what it does, for every agency that has it.
func (r *KeyReport) judge() {
	given := map[string]bool{} // fingerprints of the keys that would be given up
	for _, a := range r.Agencies {
		if a.Next != nil {
			given[a.Current.Fingerprint] = true
		}
	}
	var not []string
	works := false
	for n := range r.Agencies {
		a := &r.Agencies[n]
		switch {
		case a.Next == nil && given[a.Current.Fingerprint]:
			a.Text = "has no next key, and its only one is a key that would be given up"
			not = append(not, a.AgencyID)
		case a.Next == nil:
		case a.Ready:
			works = true
		case !a.Current.refused() || !a.Next.refused():
			not = append(not, a.AgencyID)
		}
	}
	switch {
	case len(not) > 0:
		r.Text = fmt.Sprintf("Do not give up the current key yet: see %s.", strings.Join(not, ", "))
	case !works:
		r.Text = "Do not give up the current key yet: the next one works for no agency."
	default:
		r.MayGiveUp = true
		r.Text = "The current key may be given up: the next one works wherever it works. Make the next key the current one, then " +
			"tell the provider to deactivate the old one."
	}
}
