package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/events/cluster"
	"doorbell/events/relay"
	"doorbell/poller"
	"doorbell/store"
)

// ClusterOptions say with whom a Daemon shares its agencies, on one external NATS.
type ClusterOptions struct {
	Name       string // empty: with nobody
	Generation uint64 // of the configuration; the highest one is in force

	Lease time.Duration // for tests and demonstrations: the whole time of a lease; 0: the default, which elections of servers do not outlast
}

// digest is of the settings that members must have alike: with others they would judge, tell or name differently what they find.
func (o Options) digest() string {
	p := o.Poller
	text, _ := json.Marshal([]any{ // it is made of what JSON has
		o.SubjectPrefix, o.Stream, p.API.BaseURL, p.API.InsertionsPath, p.API.ContactRequestsPath, fmt.Sprint(p.API.TimeZone), p.Announce, p.Confirm,
		p.HoldFor, p.Filter.Encode(), p.IgnoreInsertion, p.IgnoreContact, p.IDFields,
	})
	return short(text)
}

// watches is a digest of agencies, keys, and what of a person is said. That nothing is left out is not in it: members of releases
// that could not leave anything out say the same.
func watches(list []poller.AgencyKeys) string {
	all := make([]string, len(list))
	for n, k := range list {
		all[n] = k.ID + " " + k.Key.Fingerprint() + " " + k.Next.Fingerprint()
		if k.People != "" && k.People != events.PeopleFull {
			all[n] += " " + string(k.People)
		}
	}
	slices.Sort(all)
	return short([]byte(strings.Join(all, "\n")))
}

func short(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// sharing is who owns which of the agencies, where several doorbells share them. One loop decides: it claims what this member should
// own, gives up what another one should, and forgets what another one has claimed. Only an agency that is ours, and whose events and rows
// the relay has brought in line with the stream, is polled; see admission.
type sharing struct {
	on     bool                            // else nothing is shared
	run    string                          // names this process
	member atomic.Pointer[cluster.Cluster] // nil: not yet

	mu    sync.Mutex
	owned map[string]bool
	held  map[string]bool // where our name may stand in the head: what is owned, and what is to be released
	lost  []string
	news  chan struct{} // capacity 1

	heads     map[string]relay.Head // by token of the agency, as the stream has shown them
	newEpochs uint64                // that it has shown
	since     map[string]time.Time  // when what needs attention began
}

const (
	// settleEvery is how often it is looked who should own what, beside what is heard of the members.
	settleEvery = time.Second
	// joinWithin is how long servers have to answer one who joins.
	joinWithin = 5 * time.Second
	// claimWithin is how long a claim may take, with all that is loaded after it.
	claimWithin = 30 * time.Second
	// claimsAtOnce is how many agencies are claimed and loaded side by side.
	claimsAtOnce = 4
	// clusterReplicas is how many copies the servers keep of each stream.
	clusterReplicas = 3
)

// ours are those of a list that this member owns.
func (s *sharing) ours(list []poller.AgencyKeys) []poller.AgencyKeys {
	if !s.on {
		return list
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(list), func(k poller.AgencyKeys) bool { return !s.owned[k.ID] })
}

// has says whether an agency is ours, and whether our name may stand in its head.
func (s *sharing) has(id string) (owned, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owned[id], s.held[id]
}

// lose notes that another doorbell has claimed an agency.
func (s *sharing) lose(id string) {
	s.mu.Lock()
	s.lost = append(s.lost, id)
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// nextLost is an agency that another doorbell has claimed, and that is not forgotten yet; empty: there is none.
func (s *sharing) nextLost() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lost) == 0 {
		return ""
	}
	return s.lost[0]
}

// join makes this daemon a member, as soon as the servers can be asked. The error is what somebody has to change.
func (a *Daemon) join(ctx context.Context, conn *nats.Conn) (member *cluster.Cluster, err error) {
	c := a.o.Cluster
	host, _ := os.Hostname() // only shown
	for {
		once, cancel := context.WithTimeout(ctx, joinWithin)
		member, err = cluster.Join(once, cluster.Options{
			Conn: conn, Name: c.Name, Member: a.store.ID(), Run: a.sharing.run, Host: host, Digest: a.o.digest(), Generation: max(c.Generation, 1),
			Ceiling: a.o.Poller.RequestsPerSecond, TTL: c.Lease, Renew: c.Lease / 5, Grace: c.Lease * 3 / 4, Logger: a.o.Log.With("part", "cluster"),
		})
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, nil
		case err == nil:
			return member, nil
		case errors.Is(err, cluster.ErrSetup):
			return nil, exit.Config(fmt.Errorf("DOORBELL_CLUSTER: %w", err), "")
		default:
			a.o.Log.Error("the cluster cannot be joined yet: nothing is polled", "err", err.Error())
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(settleEvery):
		}
	}
}

// share is a member of the cluster, until ctx ends; the membership goes on until leave, or the end of publishing.
func (a *Daemon) share(ctx, publishing context.Context) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	member, err := a.join(ctx, conn)
	if err != nil || ctx.Err() != nil {
		HangUp(conn)
		return err
	}
	ended := make(chan error, 1)
	go func() {
		defer HangUp(conn)
		ended <- member.Run(publishing)
	}()
	s := &a.sharing
	s.member.Store(member)
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	for {
		if err := a.settle(ctx, member); errors.Is(err, store.ErrNoSpace) {
			a.o.Log.Error("agencies cannot be claimed or given up without space", "err", err)
		} else if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case err := <-ended: // it has a twin
			return exit.Config(fmt.Errorf("DOORBELL_CLUSTER: %w", err), "")
		case <-tick.C:
		case <-member.View().Changed:
		case <-s.news:
		}
	}
}

// handOver is how long a member waits before it begins what another one may still do: by then that one has heard of it and has sent what
// it had in hand. One that hears nothing stops by its lease, which ends earlier for itself than for others.
const handOver = 8 * time.Second

// inTurn does something as long as it is this member's part, again and again, until ctx ends: of several doorbells one does it. Where the
// agencies are shared with nobody, it just does it.
func (a *Daemon) inTurn(ctx context.Context, what string, do func(context.Context)) {
	s := &a.sharing
	if !s.on {
		do(ctx)
		return
	}
	ours := func() bool {
		m := s.member.Load()
		return m != nil && m.Alive() && m.Wanted(what) == a.store.ID()
	}
	until := func(is bool, long time.Duration) bool { // that has been so for so long
		tick := time.NewTicker(settleEvery / 4)
		defer tick.Stop()
		for since := time.Now(); time.Since(since) < long || ours() != is; {
			if ours() != is {
				since = time.Now()
			}
			select {
			case <-ctx.Done():
				return false
			case <-tick.C:
			}
		}
		return true
	}
	for until(true, handOver) {
		turn, end := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			do(turn)
		}()
		until(false, 0)
		end()
		<-done
	}
}

// mayUse is how many requests per second this member may send now.
func (s *sharing) mayUse() float64 {
	if m := s.member.Load(); m != nil && m.Alive() {
		return m.Rate()
	}
	return 0
}

// throttled lets the other members know that the API asked a key to wait.
func (s *sharing) throttled(key string, until time.Time) {
	if m := s.member.Load(); m != nil {
		m.Pause(key, until, "throttled")
	}
}

// settle makes this member own what it should, as far as that can be had. The error is the store's.
func (a *Daemon) settle(ctx context.Context, member *cluster.Cluster) error {
	s, d := &a.sharing, &a.admission
	for id := s.nextLost(); id != ""; id = s.nextLost() {
		a.o.Log.Warn("another doorbell has claimed the agency", "agency", id)
		if err := a.disown(id); err != nil {
			return err
		}
		if err := a.store.Drop(id); err != nil {
			return err
		}
		s.mu.Lock()
		delete(s.held, id)
		s.lost = s.lost[1:]
		s.mu.Unlock()
	}
	d.mu.Lock()
	wanted := slices.Clone(d.wanted)
	d.mu.Unlock()
	member.Watches(watches(wanted))
	for _, pause := range member.View().Pauses {
		a.poller.Throttle(pause.Scope, pause.Until)
	}
	var claims errgroup.Group
	claims.SetLimit(claimsAtOnce)
	for _, k := range wanted {
		owned, held := s.has(k.ID)
		wanted := member.Wanted(k.ID) == a.store.ID()
		switch {
		case owned && member.Release(k.ID), !owned && held && !wanted:
			claims.Go(func() error { return a.giveUp(ctx, k.ID) })
		case !owned && wanted && member.Alive():
			claims.Go(func() error { return a.claim(ctx, member, k.ID) })
		}
	}
	return claims.Wait()
}

// claim tries to become the owner of an agency.
func (a *Daemon) claim(ctx context.Context, member *cluster.Cluster, id string) error {
	s := &a.sharing
	s.mu.Lock()
	s.held[id] = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, claimWithin)
	defer cancel()
	a.admission.mu.Lock()
	delete(a.admission.synced, id) // of a claim before this one
	a.admission.mu.Unlock()
	h, err := a.currentRelay().Claim(ctx, id, func(owner, run string) (bool, error) { return member.Dead(ctx, owner, run) })
	if errors.Is(err, relay.ErrLog) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		a.o.Log.Warn("the agency cannot be claimed yet", "agency", id, "err", err.Error())
	}
	s.mu.Lock()
	if err == nil && h.Owner != a.store.ID() { // another one has it, and lives
		delete(s.held, id)
	}
	if err != nil || h.Owner != a.store.ID() {
		s.mu.Unlock()
		return nil
	}
	s.owned[id] = true
	s.mu.Unlock()
	a.o.Log.Info("agency claimed", "agency", id, "epoch", h.Epoch)
	return a.reset()
}

// disown ends all work for an agency.
func (a *Daemon) disown(id string) error {
	s, d := &a.sharing, &a.admission
	s.mu.Lock()
	delete(s.owned, id)
	s.mu.Unlock()
	d.mu.Lock()
	delete(d.known, id)
	delete(d.since, id)
	delete(d.synced, id)
	d.mu.Unlock()
	return a.reset()
}

// claimAgain lets all be claimed once more that is ours: a relay that has just been made knows of no claim.
func (a *Daemon) claimAgain() error {
	s := &a.sharing
	s.mu.Lock()
	ours := slices.Collect(maps.Keys(s.owned))
	s.mu.Unlock()
	for _, id := range ours {
		if err := a.disown(id); err != nil {
			return err
		}
	}
	return nil
}

// reset tells the poller who is ours.
func (a *Daemon) reset() error {
	a.admission.mu.Lock()
	wanted := a.admission.wanted
	a.admission.mu.Unlock()
	return a.setAgencies(wanted)
}

// giveUp lets another doorbell have an agency: it is not polled any more, what was found is published, then the claim ends. Where that
// fails, settle tries again.
func (a *Daemon) giveUp(ctx context.Context, id string) error {
	s := &a.sharing
	if owned, _ := s.has(id); owned {
		if err := a.disown(id); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, drainLimit)
	defer cancel()
	err := a.currentRelay().Release(ctx, id)
	switch {
	case errors.Is(err, relay.ErrLog):
		return err
	case err == nil:
		s.mu.Lock()
		delete(s.held, id)
		s.mu.Unlock()
	case ctx.Err() == nil:
		a.o.Log.Warn("the agency is not released yet", "agency", id, "err", err.Error())
	}
	return nil
}

// leave releases all agencies and ends the membership.
func (a *Daemon) leave(ctx context.Context) {
	s := &a.sharing
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.held))
	s.mu.Unlock()
	var releases errgroup.Group
	releases.SetLimit(claimsAtOnce)
	for _, id := range all {
		releases.Go(func() error {
			err := a.currentRelay().Release(ctx, id)
			if err != nil {
				a.o.Log.Warn("the agency is not released", "agency", id, "err", err.Error())
			}
			return nil
		})
	}
	_ = releases.Wait()
	if m := s.member.Load(); m != nil {
		_ = m.Leave(ctx) // or the lease expires
	}
}
