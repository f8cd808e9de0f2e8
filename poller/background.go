package poller

import (
	"fmt"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/store"
)

// background is what the store remembers that an answer is judged by.
type background struct {
	insertion store.Insertion
	state     store.Agency
	known     []store.ContactRequest
	names     []string                // fields that the agency's contact requests ever had
	summary   events.InsertionSummary // of the insertion as it was last listed
	seen      store.Seen
}

// readBackground reads what is remembered.
func (p *poll) readBackground(tx *store.Tx) (m background, err error) {
	i, exists, err := tx.Insertion(p.a.id, p.reference)
	if err == nil && !exists {
		err = fmt.Errorf("agency %s: an insertion is polled that is not remembered", p.a.id)
	}
	if err != nil {
		return m, err
	}
	if m.state, _, err = tx.Agency(p.a.id); err != nil {
		return m, err
	}
	if m.known, err = tx.ContactRequests(p.a.id, p.reference); err != nil {
		return m, err
	}
	polled, err := tx.LastPoll(p.a.id, p.reference)
	if err != nil {
		return m, err
	}
	if polled.After(i.LastPoll) {
		i.LastPoll = polled
	}
	m.insertion = i
	m.summary = summary(listings.Insertion{Reference: p.reference, Record: tx.Record(p.a.id, p.reference)})
	if m.names, err = tx.FieldNames(p.a.id); err != nil {
		return m, err
	}
	m.seen = tx.Seen()
	return m, nil
}

// readBackgroundMeanwhile begins to read what is remembered: an answer has come that is not the one of before, and while it is decoded
// another processor has time. An error comes again where it is told.
func (p *poll) readBackgroundMeanwhile() {
	p.backgroundMeanwhile()
	ahead := make(chan background, 1)
	p.ahead = ahead
	go func() {
		var m background
		err := p.a.p.store.View(func(tx *store.Tx) (err error) {
			m, err = p.readBackground(tx)
			return err
		})
		if err != nil {
			m = background{}
		}
		ahead <- m
	}()
}

// backgroundMeanwhile waits for what is being read. It is no part of a transaction: one that waits for another to begin may keep
// a commit waiting that has to map the file anew, and that one keeps the other.
func (p *poll) backgroundMeanwhile() {
	if p.ahead != nil {
		p.read = <-p.ahead
		p.ahead = nil
	}
}

// background is what is remembered: as it was read meanwhile, unless something was committed since; once, for who judges by it may
// change it.
func (p *poll) background(tx *store.Tx) (background, error) {
	m := p.read
	if p.read = (background{}); tx.GoOn(m.seen) {
		return m, nil
	}
	return p.readBackground(tx)
}
