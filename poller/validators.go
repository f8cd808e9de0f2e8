package poller

import (
	"context"
	"math/rand/v2"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// validators let a question be asked as "only if something has changed". They belong to the answer whose hash is
// remembered, and are never trusted for longer than verifyEvery.
type validators struct {
	size           int // how many were asked for
	etag, modified string
	until          time.Time // the next question is unconditional from then on
	denied         int       // answers since that nothing has changed
}

// asked is what an insertion was answered last that a question can be tied to; nil where there is nothing.
type asked struct{ *validators }

// current are the validators; zero where there are none.
func (a asked) current() validators {
	if a.validators == nil {
		return validators{}
	}
	return *a.validators
}

// deny counts an answer that nothing has changed.
func (a asked) deny() {
	if a.validators != nil {
		a.denied++
	}
}

// verifyEvery is how often, at least, an insertion is asked without a condition.
const verifyEvery = time.Hour

// confirm takes over the validators of an answer that is remembered.
func (a *asked) confirm(e listings.Envelope) {
	v := validators{size: e.Size, etag: e.ETag, modified: e.LastModified, until: e.Received.Add(verifyEvery - rand.N(verifyEvery/6))}
	if *a = (asked{}); v.known() {
		a.validators = &v
	}
}

func (v validators) expect() listings.Expect {
	return listings.Expect{ETag: v.etag, LastModified: v.modified}
}

func (v validators) known() bool { return v.etag != "" || v.modified != "" }

// expect is what the next question may be left unanswered for, and the answer that need not be decoded; nothing where all
// of it is wanted in any case.
func (p *poll) expect(size int) listings.Expect {
	now, v := time.Now(), p.look.validators.current()
	if p.look.body == (listings.Sum{}) || p.wideDue(now) || p.look.rules != p.a.windows.currentRules() {
		return listings.Expect{}
	}
	e := listings.Expect{Known: func(h listings.Sum) bool { return h == p.look.body || h == p.look.records }}
	if v.size == size && !p.a.windows.lies() && now.Before(v.until) {
		e.ETag, e.LastModified = v.etag, v.modified
	}
	return e
}

// doubt looks at an answer that is not the remembered one: where the API had said, or still says, that nothing has
// changed, it is not asked that way again as long as the process lives. What it returns asks, if need be, once the answer
// is committed.
func (p *poll) doubt(page *listings.ContactRequestsPage) func(context.Context) error {
	v := p.look.validators.current()
	if !v.known() || v.size != page.Size || p.a.windows.lies() || page.Body == p.look.body {
		return func(context.Context) error { return nil }
	}
	if page.ETag == v.etag && page.LastModified == v.modified {
		p.distrust()
	}
	return func(ctx context.Context) error {
		if v.denied == 0 || p.a.windows.lies() {
			return nil
		}
		q := watch.NewestFirst(page.Size)
		q.Expect = v.expect()
		again, err := p.ask(ctx, q)
		if err == nil && again.NotModified {
			p.distrust()
		}
		return err
	}
}

func (p *poll) distrust() {
	p.a.windows.lied()
	p.a.p.log.Warn("the API says that contact requests have not changed where they have; it is not asked that way any more", "agency", p.a.id)
}
