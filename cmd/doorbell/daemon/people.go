package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
)

// erasing are the erasures of people's data that are under way.
type erasing struct {
	mu   sync.Mutex       // one at a time
	left []people.Receipt // that could not be finished
}

// places are where people's data stand.
func (a *Daemon) places() *people.Places {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &people.Places{
		Store: a.store, Conn: a.conn, Prefix: a.o.SubjectPrefix, Stream: a.o.Stream, Embedded: a.server != nil, Dir: a.o.DataDir,
		Version: a.o.Version, Cluster: a.sharing.on, EraseLive: a.eraseLive,
	}
}

// eraseLive lets the relay do what it publishes.
func (a *Daemon) eraseLive(ctx context.Context, agency string, wanted func(events.Event) bool) (int, error) {
	n, err := a.currentRelay().Erase(ctx, agency, wanted)
	return n, a.explained(err)
}

// eraseAgain takes those out of the log who were erased before, if the store is from before that, and remembers what was not finished.
// Nobody has read the log by then.
func (a *Daemon) eraseAgain(context.Context) error {
	p := people.Places{Store: a.store, Dir: a.o.DataDir}
	left, restored, err := p.Overdue()
	if errors.Is(err, people.ErrNoReceipt) { // who is in it may come back with a backup; that is no reason to watch nobody
		a.o.Log.Error("a receipt of an erasure cannot be read; put back what was there", "err", err.Error())
		err = nil
	}
	if err != nil {
		return err
	}
	if restored > 0 {
		a.o.Log.Warn("the store held people who had been erased: they are erased again, as the receipts in the data directory say", "count", restored)
	}
	a.erasing.left = left
	return nil
}

// finishErasures tries again what could not be finished, or was cut short by the end of a process.
func (a *Daemon) finishErasures(ctx context.Context) error {
	every(ctx, time.Minute, func() {
		a.erasing.mu.Lock()
		defer a.erasing.mu.Unlock()
		left := a.erasing.left
		a.erasing.left = nil
		for _, r := range left {
			a.finish(ctx, &r)
		}
	})
	return nil
}

// finish does an erasure, or notes that it is to be tried again.
func (a *Daemon) finish(ctx context.Context, r *people.Receipt) {
	log := a.o.Log.With("receipt", r.ID)
	if err := a.places().Finish(ctx, r); err != nil {
		a.erasing.left = append(a.erasing.left, *r)
		log.Warn("an erasure is not finished; it is tried again", "err", err.Error())
		return
	}
	log.Info("an erasure is finished")
}

// find is what all members hold of a person.
func (a *Daemon) find(ctx context.Context, w people.Wanted) (people.Found, error) {
	found, err := a.findHere(ctx, w)
	if !a.sharing.on || err != nil {
		return found, err
	}
	asking, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	for _, member := range a.others() {
		of, failed := ops.Find.Of(asking, member, w)
		found.Add(of)
		err = errors.Join(err, failed)
	}
	return found, err
}

// findHere is what this store and the streams hold of a person. Where something could not be erased, that is said.
func (a *Daemon) findHere(ctx context.Context, w people.Wanted) (people.Found, error) {
	if err := w.Check(); err != nil {
		return people.Found{}, err
	}
	return a.places().Search(ctx, w)
}

func (a *Daemon) export(ctx context.Context, w people.Wanted) ([]people.Exported, error) {
	if err := w.Check(); err != nil {
		return nil, err
	}
	return a.places().Export(ctx, w)
}

// forget erases what is held of a person. Once it has begun it goes on, also when nobody waits for it any more.
func (a *Daemon) forget(ctx context.Context, q ops.ForgetRequest) (r people.Receipt, err error) {
	if err := errors.Join(q.Check(), a.places().MayErase(ctx)); err != nil {
		return r, err
	}
	found := people.Found{Requests: q.Requests}
	var others []*ops.Client
	if len(q.Requests) == 0 {
		if found, err = a.find(ctx, q.Wanted); err != nil {
			return r, err
		}
		if a.sharing.on {
			others = a.others()
		}
	}
	if len(found.Requests) == 0 {
		return r, people.ErrNothing
	}
	if r, err = a.places().Begin(ctx, q.Wanted, found, a.sentBy()); err != nil {
		return r, err
	}
	a.o.Log.Info("an erasure begins", "receipt", r.ID, "count", len(r.Requests))
	ctx = context.WithoutCancel(ctx)
	asking, cancel := context.WithTimeout(ctx, forgetLimit)
	defer cancel()
	q.Requests = found.Requests
	for _, member := range others {
		if of, failed := ops.Forget.Of(asking, member, q); failed != nil || of.Problem != "" {
			r.OutOfReach = append(r.OutOfReach, fmt.Sprintf("member %s of the cluster, which has not finished: repeat it there", member.Member()))
		}
	}
	a.erasing.mu.Lock()
	defer a.erasing.mu.Unlock()
	a.finish(ctx, &r)
	return r, nil
}

// findLimit and forgetLimit are how long other members may take.
const (
	findLimit   = 2 * time.Minute
	forgetLimit = 10 * time.Minute
)

// sentBy names the forwarders by which events went to where nothing can be erased.
func (a *Daemon) sentBy() (list []string) {
	for _, f := range a.forwarders {
		list = append(list, "what forwarder "+f.Name+" has sent")
	}
	return list
}

// ageEvery is how often people are erased who are older than PeopleRetention, and fullAges after how many times everything is read for
// it, and free pages of the store are overwritten.
const (
	ageEvery = time.Hour
	fullAges = 24
)

// agePeople erases people from events that are older than PeopleRetention.
func (a *Daemon) agePeople(ctx context.Context) error {
	turns, scrub := 0, false
	every(ctx, ageEvery, func() {
		full := turns%fullAges == 0
		turns++
		retry(ctx, func(ctx context.Context) error {
			a.erasing.mu.Lock()
			defer a.erasing.mu.Unlock()
			// Where messages go at that age anyway, nothing is to be found behind what is younger.
			n, err := a.ages.Erase(ctx, a.places(), time.Now().Add(-a.o.PeopleRetention), full && a.o.PeopleRetention < a.o.Retention)
			if n > 0 {
				a.o.Log.Info("people were erased from events that are too old", "count", n)
			}
			if scrub = scrub || n > 0; scrub && full && err == nil {
				err = a.store.Scrub(ctx)
				scrub = err != nil
			}
			return err
		}, func(err error) {
			a.o.Log.Warn("people who are held too long are not erased; retrying", "err", err.Error())
		})
	})
	return nil
}
