package poller

import (
	"errors"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// errIdentity ends the judgement of an answer where it has to be decided first what tells contact requests apart.
var errIdentity = errors.New("no identity")

// judgement is what an answer says, in the light of what is remembered.
type judgement struct {
	result
	insertion store.Insertion
	state     store.Agency
	diff      watch.ContactsDiff
	gap       store.Trouble // that has ended, where one has
}

// apply judges an answer by what is remembered and commits what it changes. Where that is nothing, it costs no commit.
// Where identify is wanted, it stops with errIdentity instead of judging without.
func (p *poll) apply(page *listings.ContactRequestsPage, a watch.Answer, identify bool) (result, error) {
	var j judgement
	look := func(tx *store.Tx) (_ bool, err error) {
		j, err = p.judge(tx, page, a, identify)
		return j.changes(), err
	}
	err := p.a.p.store.Change(look, func(tx *store.Tx) error { return p.write(tx, j, page.Received) })
	return j.result, err
}

func (p *poll) judge(tx *store.Tx, page *listings.ContactRequestsPage, a watch.Answer, identify bool) (j judgement, err error) {
	i, state, known, err := p.remembered(tx)
	if err != nil {
		return j, err
	}
	s, err := p.sight(tx, i, state, page.Received)
	if err != nil {
		return j, err
	}
	if identify && len(a.Requests) > 0 && (!p.learned(state) || watch.Unfit(state.IDField, a.Identities, known) != "") {
		return j, errIdentity
	}
	d := watch.DiffContactRequests(s, known, a)
	r := result{catchUp: p.catchUp.Clone(), rules: watch.RulesOf(state, d), since: d.Since, waits: watch.Waits(d.Events, s)}
	r.verdict = r.catchUp.Judge(p.circumstances(i, known, a, s.Skew), a, d)
	gap, told := p.a.windows.gap(p.reference)
	r.recovered = told && r.verdict != watch.Open && r.catchUp.Whole
	return judgement{r, i, state, d, gap}, nil
}

// changes says whether there is something to write.
func (j judgement) changes() bool {
	return len(j.diff.Puts) > 0 || watch.MustWrite(j.insertion, j.diff, j.verdict) || j.recovered
}
