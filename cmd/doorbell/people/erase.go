package people

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/store"
)

// answerLimit is how long to wait for a reply of the NATS server.
const answerLimit = 5 * time.Second

// MayErase tests, before anything is changed, whether the streams let us erase. It returns why not.
func (p *Places) MayErase(ctx context.Context) error {
	for _, m := range p.streams("") {
		if err := p.client(m).MayErase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Begin writes the receipt of an erasure of contact requests that were found, and takes the person
// out of the log. Once the receipt is written the erasure will be finished, whatever happens: an
// error beside a receipt is for FinishAll to make good.
func (p *Places) Begin(w Wanted, requests []Request) (Receipt, error) {
	if len(requests) == 0 {
		return Receipt{}, ErrNothing
	}
	agencies, err := p.Store.Agencies()
	if err != nil {
		return Receipt{}, err
	}
	now := time.Now().UTC()
	r := Receipt{
		ID:      now.Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:6]),
		Version: p.Version, StoreID: p.Store.ID(), Begun: now, AgencyID: w.AgencyID,
		Requests: requests, Erased: map[string]int{},
		OutOfReach: slices.Clone(outOfReach),
	}
	for agency := range byAgency(requests) {
		if !slices.Contains(agencies, agency) {
			r.OutOfReach = append(r.OutOfReach,
				"the event log of the doorbell that watches "+agency+
					" and publishes to the same stream: forget the person there too")
		}
	}
	if err := p.Save(r); err != nil {
		return Receipt{}, err
	}
	return r, errors.Join(p.eraseLogged(&r), p.Save(r))
}

// outOfReach is what no erasure reaches.
var outOfReach = []string{
	"mails, messages in Slack and Teams, and webhooks that were sent",
	"what consumers of the stream and the portal have kept",
	"backups, folders that were set aside, and old blocks of disks",
	"logs and mirrors of NATS servers of your own",
}

// FinishAll finishes the erasures that have begun, the oldest first, up to one that fails. Nothing
// may be on its way into the stream meanwhile.
func (p *Places) FinishAll(ctx context.Context) (finished []Receipt, err error) {
	all, _ := Receipts(p.Dir) // EraseAgain reports those that cannot be read
	for _, r := range all {
		if !r.Finished.IsZero() {
			continue
		}
		if err := p.Finish(ctx, &r); err != nil {
			return finished, fmt.Errorf("receipt %s: %w", r.ID, err)
		}
		finished = append(finished, r)
	}
	return finished, nil
}

// Finish does what is left of an erasure. After an error it may be called again. Nothing may be on
// its way into the stream meanwhile.
func (p *Places) Finish(ctx context.Context, r *Receipt) error {
	if r.Attempts++; r.Attempts == 2 && p.Embedded {
		r.OutOfReach = append(r.OutOfReach, cutShort)
	}
	err := p.Save(*r)
	if err == nil {
		err = p.eraseLogged(r)
	}
	if err == nil {
		err = p.eraseMessages(ctx, r)
	}
	if err == nil {
		err = p.noteFreePages(r)
	}
	r.Problem = ""
	if err != nil {
		r.Problem = err.Error()
	} else {
		r.Finished = time.Now().UTC()
	}
	return errors.Join(err, p.Save(*r))
}

// cutShort is out of reach where an erasure was interrupted: the server notes that a message is
// deleted before it overwrites the bytes, and a second request finds no message.
const cutShort = "this erasure was interrupted: files of the embedded NATS server may still hold one message that is deleted but not overwritten; " +
	"to be sure, stop doorbell, delete the folder jetstream, and start again: the stream is recreated from the event log"

// eraseLogged takes the person out of the log, and marks the contact requests as erased.
func (p *Places) eraseLogged(r *Receipt) error {
	for agency, requests := range byAgency(r.Requests) {
		n, err := p.Store.Erase(agency, requests)
		if r.Erased[inLog] += n; err != nil {
			return err
		}
	}
	return nil
}

// eraseMessages erases the messages of the contact requests from the streams. They are read as they
// were searched: a message may be below another agency than it says.
func (p *Places) eraseMessages(ctx context.Context, r *Receipt) error {
	wanted := map[Request]bool{}
	for _, one := range r.Requests {
		wanted[one] = true
	}
	for _, m := range p.streams(r.AgencyID) {
		n, err := p.client(m).Erase(ctx, m.filter, func(one *stream.Message) bool {
			if p.Progress != nil {
				p.Progress()
			}
			e, err := events.Decode(one.Header, one.Data)
			return err == nil && e.HoldsPerson() && wanted[requestOf(e)]
		})
		if r.Erased[m.place] += n; err != nil {
			return fmt.Errorf("stream %s: %w", m.stream, stream.Explain(p.Conn, err))
		}
	}
	return nil
}

// noteFreePages notes whether the store was compacted since the person was erased from it.
func (p *Places) noteFreePages(r *Receipt) error {
	holds, err := p.Store.HoldsErased()
	if r.FreePages = Compacted; holds {
		r.FreePages = AtNextStart
	}
	return err
}

// EraseAgain is called once the store is opened, and so compacted, before anything reads the log.
// Where the store does not know the contact requests of a receipt as erased, because it was
// restored from a backup, it takes their people out of the log again, and leaves the rest to
// FinishAll. It returns how many finished erasures that are. What could not be read or written is
// an error, and no reason not to start, except store.ErrUnknownOutcome and store.ErrDamaged.
func (p *Places) EraseAgain() (restored int, err error) {
	all, err := Receipts(p.Dir)
	for n := range all { // first: erasing again needs the next compaction
		if r := &all[n]; r.FreePages == AtNextStart {
			failed := p.noteFreePages(r)
			if failed == nil {
				failed = p.Save(*r)
			}
			err = errors.Join(err, failed)
		}
	}
	for _, r := range all {
		known := true
		for agency, requests := range byAgency(r.Requests) {
			erased, failed := p.Store.HasErased(agency, requests)
			known, err = known && erased, errors.Join(err, failed)
		}
		if known && !r.Finished.IsZero() {
			continue
		}
		if !r.Finished.IsZero() {
			restored++
			r.Finished, r.Attempts, r.FreePages = time.Time{}, 0, ""
		}
		// a backup may be of the middle of an erasure
		err = errors.Join(err, p.eraseLogged(&r), p.Save(r))
	}
	return restored, err
}

// byAgency returns contact requests by agency.
func byAgency(requests []Request) map[string][]store.Request {
	all := map[string][]store.Request{}
	for _, r := range requests {
		all[r.AgencyID] = append(all[r.AgencyID],
			store.Request{Reference: r.PropertyReferenceID, ID: r.ContactRequestID})
	}
	return all
}
