package people

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/store"
)

// answerLimit is how long an answer of the NATS server is waited for.
const answerLimit = 5 * time.Second

// MayErase says, before anything is changed, whether everything can be erased: nil, or why a stream does not let us.
func (p *Places) MayErase(ctx context.Context) error {
	for _, m := range p.streams("") {
		if err := p.client(m).MayErase(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Begin writes the receipt of an erasure of what was found, which thereby will be done, whatever happens. outOfReach is what the caller knows
// of that to which events went.
func (p *Places) Begin(ctx context.Context, w Wanted, found Found, outOfReach []string) (Receipt, error) {
	agencies, err := p.Store.Agencies()
	if err != nil {
		return Receipt{}, err
	}
	for _, agency := range agenciesOf(found.Requests) {
		if !slices.Contains(agencies, agency) {
			outOfReach = append(outOfReach, "the event log of the doorbell that watches "+agency+" and publishes to the same stream: forget the person there, too")
		}
	}
	if found.Unreadable > 0 {
		outOfReach = append(outOfReach, fmt.Sprintf("messages below the subjects of contact requests that are no events and cannot be read: %d", found.Unreadable))
	}
	now := time.Now().UTC()
	r := Receipt{
		ID: now.Format("20060102T150405Z") + "-" + strings.ToLower(rand.Text()[:6]), Version: p.Version, StoreID: p.Store.ID(), Begun: now,
		Searched: Searched{By: w.By(), AgencyID: w.AgencyID}, Requests: found.Requests, Held: found.Events, Erased: map[string]int{},
		OutOfReach: append(outOfReach, p.outOfReach(ctx)...),
	}
	return r, p.Save(r)
}

// Finish does what is left of an erasure. After an error it may be called again.
func (p *Places) Finish(ctx context.Context, r *Receipt) error {
	err := p.erase(ctx, r)
	if err == nil {
		err = p.lookAtFreePages(r)
	}
	r.Problem = ""
	if err != nil {
		r.Problem = err.Error()
	} else {
		r.Finished = time.Now().UTC()
	}
	return errors.Join(err, p.Save(*r))
}

// lookAtFreePages notes whether the store was compacted since it was erased.
func (p *Places) lookAtFreePages(r *Receipt) error {
	holds, err := p.Store.HoldsErased()
	if r.FreePages = Compacted; holds {
		r.FreePages = AtNextStart
	}
	return err
}

// NoteCompaction is called after the store was opened again, and so compacted. It notes that in receipts that waited for it.
func (p *Places) NoteCompaction() error {
	all, err := Receipts(p.Dir)
	for _, r := range all {
		if r.FreePages != AtNextStart {
			continue
		}
		failed := p.lookAtFreePages(&r)
		if failed == nil && r.FreePages == Compacted {
			failed = p.Save(r)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func (p *Places) erase(ctx context.Context, r *Receipt) error {
	if !r.LogErased { // else it waits for NATS, and is tried often
		if err := p.eraseLogged(r); err != nil {
			return err
		}
	}
	of := map[Request]bool{}
	for _, one := range r.Requests {
		of[one] = true
	}
	wanted := func(e events.Event) bool { return e.HoldsPerson() && of[requestOf(e)] }
	ours, err := p.Store.Agencies()
	if err != nil {
		return err
	}
	erase := func(m messages) error {
		n, err := p.client(m).Erase(ctx, m.filter, func(one *stream.Message) bool {
			e, err := events.Decode(one.Header, one.Data)
			return err == nil && wanted(e)
		})
		if r.Erased[m.place] += n; err != nil {
			return fmt.Errorf("stream %s: %w", m.stream, stream.Explain(p.Conn, err))
		}
		return nil
	}
	for _, agency := range agenciesOf(r.Requests) {
		if p.EraseLive == nil || !slices.Contains(ours, agency) { // of another one's agency nothing is on its way from here
			continue
		}
		n, err := p.EraseLive(ctx, agency, wanted)
		if r.Erased[inStream] += n; err != nil {
			return fmt.Errorf("stream %s: %w", p.Stream, stream.Explain(p.Conn, err))
		}
	}
	for _, m := range p.streams(r.Searched.AgencyID) { // as they were searched: a message may stand under another agency than it says
		if err := erase(m); err != nil {
			return err
		}
	}
	return nil
}

// eraseLogged takes the person out of the log, and lets the snapshot remember it.
func (p *Places) eraseLogged(r *Receipt) error {
	for _, agency := range agenciesOf(r.Requests) {
		erased, err := p.Store.Erase(agency, requestsOf(r.Requests, agency))
		if r.Erased[inLog] += erased; err != nil {
			return err
		}
	}
	r.LogErased = true
	return nil
}

// Overdue are the receipts whose erasure is not finished, and those whose requests the store does not remember as erased, because it
// is from before them. Of the latter the log is erased immediately, before anything reads it, and Finish is to follow; restored counts
// them. What could not be read or written is an error beside what is returned, and no reason not to begin, but for
// store.ErrUnknownOutcome and store.ErrDamaged.
func (p *Places) Overdue() (all []Receipt, restored int, err error) {
	receipts, err := Receipts(p.Dir)
	for _, r := range receipts {
		known := true
		for _, agency := range agenciesOf(r.Requests) {
			erased, failed := p.Store.HasErased(agency, requestsOf(r.Requests, agency))
			known, err = known && erased, errors.Join(err, failed)
		}
		switch finished := !r.Finished.IsZero(); {
		case finished && known:
			continue
		case finished && !known:
			restored++
		}
		if !r.Finished.IsZero() {
			r.FinishedFirst = cmp.Or(r.FinishedFirst, r.Finished)
			r.Again, r.Finished, r.LogErased, r.FreePages = append(r.Again, time.Now().UTC()), time.Time{}, false, ""
			err = errors.Join(err, p.Save(r))
		}
		if !known || !r.LogErased { // a backup may be of the middle of an erasure
			err = errors.Join(err, p.eraseLogged(&r))
		}
		all = append(all, r)
	}
	return all, restored, err
}

func agenciesOf(requests []Request) []string {
	all := map[string]bool{}
	for _, r := range requests {
		all[r.AgencyID] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func requestsOf(requests []Request, agency string) (list []store.Request) {
	for _, r := range requests {
		if r.AgencyID == agency {
			list = append(list, store.Request{Reference: r.PropertyReferenceID, ID: r.ContactRequestID})
		}
	}
	return list
}

// outOfReach is what no erasure reaches, as far as it can be told from here.
func (p *Places) outOfReach(ctx context.Context) (list []string) {
	list = append(list, "mails, Slack messages and webhooks that were sent",
		"the portal, which may go on to show the person",
		"backups that were made before, snapshots of disks, and old blocks that a disk has not used again")
	if names := p.aside(); len(names) > 0 {
		list = append(list, "in the data directory, set aside or copied before: "+strings.Join(names, ", "))
	}
	if !p.Embedded {
		list = append(list, "files of the NATS servers: their logs of replication until they are compacted, mirrors, backups")
	}
	if names := p.consumers(ctx); len(names) > 0 {
		list = append(list, "what consumers of the stream have kept, whom contact_request.redacted tells to erase it too: "+strings.Join(names, ", "))
	}
	return list
}

// aside are the files and folders in the data directory that are not in use, and may hold people.
func (p *Places) aside() (names []string) {
	_ = filepath.WalkDir(p.Dir, func(path string, e fs.DirEntry, err error) error {
		name := filepath.Base(path)
		damaged := strings.Contains(name, ".damaged-")
		if err == nil && (damaged || name != "doorbell.db" && (strings.HasSuffix(name, ".db") || strings.HasPrefix(name, "doorbell.db")) && filepath.Dir(path) == filepath.Clean(p.Dir)) {
			relative, _ := filepath.Rel(p.Dir, path)
			names = append(names, relative)
			if damaged && e.IsDir() {
				return fs.SkipDir
			}
		}
		return nil // what cannot be read is not named
	})
	return names
}

// consumers are those that remember how far they have read.
func (p *Places) consumers(ctx context.Context) (names []string) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	js, err := p.Conn.JetStream()
	if err != nil {
		return nil
	}
	s, err := js.Stream(ctx, p.Stream)
	if err != nil {
		return nil
	}
	for c := range s.ListConsumers(ctx).Info() {
		if c.Config.Durable != "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return names
}
