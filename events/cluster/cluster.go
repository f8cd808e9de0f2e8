// Package cluster is what several doorbells that share agencies on one NATS cluster know of each other: who is a member,
// which part of the ceiling of requests each may use, which agency should be whose, and what must be paused by all. It owns no
// agency and fences no write: that does the head of an agency in its stream. What is here keeps the ceiling, keeps doorbells from
// doing the same work twice, and notices a death.
//
// Everything stands in one bucket of the user's own JetStream, with three replicas, whose keys expire after [Options.TTL]:
//
//	member.<member>     one lease per doorbell: name, run, digest and generation of its configuration
//	permit.1 … permit.12   leases too, each worth a twelfth of the ceiling
//	configuration       the highest generation so far and its digest; never expires
//	pause.<scope>       for how long nothing is sent for a scope; never expires, and only grows longer
//
// A lease is created only where there is none, renewed every [Options.Renew] and deleted, always on condition that its key
// stands as it was last seen; so of two members one wins, whatever order their messages arrive in. The holder counts from the
// *sending* of the last renewal that was acknowledged, and stops when [Options.Grace] has passed by its monotonic or by its wall clock,
// whichever says more: a machine that was suspended, or whose clock is set back, does not go on too long. The server counts
// from later, and to a larger number; so a lease is in use by at most one. This needs servers whose own clocks agree within TTL less
// Grace, as after an election another one counts. Clocks of members are never compared.
//
// [Cluster.Rate] is the sum of the permits that are held, within their deadline, and settled. Members of the configuration in force divide
// them evenly, in order of their names. Who holds more than its share stops to use a permit, then deletes it; who takes one waits a pace
// before using it: a second, or the time between two requests if that is longer, so that what was sent under it before counts
// no more. After a crash the permits expire with the member, 20 s after its last renewal.
//
// [Cluster.Wanted] is a rendezvous hash over the members of the configuration in force that hold permits: when one goes, only its
// agencies move. They are claimed at once, but an owner that lives gives an agency up only for a member that has held permits for a
// whole TTL without a break ([Cluster.Release]): one that comes and goes moves nothing. What a member declines ([Cluster.Decline]) falls
// to another one.
//
// A member acts only under the configuration in force. Whoever brings a higher generation replaces it; a lower one, or the
// same with another digest, gives its permits up, stays visible, and says why in [View.Problem].
//
// [state] decides all of it as a function of what was seen and of the time, without I/O; [Cluster] carries out what it decides.
package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// Permits is how many equal parts the ceiling has: even shares for 2, 3, 4, 6 and 12 members, and as many writes for any ceiling.
// From the thirteenth on a member waits for a permit.
const Permits = 12

// Options of a member. What is zero has the value in brackets.
type Options struct {
	Conn       *nats.Conn    // without a reconnect buffer
	Name       string        // of the cluster: letters, digits, - and _
	Member     string        // the same after a restart, and of no other doorbell
	Run        string        // of the member, another one at each start [random]
	Host       string        // where it runs, for people
	Digest     string        // of all that must be equal for two doorbells to continue each other's work
	Generation uint64        // raised when the digest changes
	Ceiling    float64       // requests per second over all members; while theirs differ, the largest counts
	TTL        time.Duration // of a lease [20 s]
	Renew      time.Duration // [4 s]
	Grace      time.Duration // after which a lease is not used any more [15 s]
	Replicas   int           // of the bucket [3]
	Logger     *slog.Logger

	clock func() moment
}

// View is what a member knows of its cluster at one moment. It is not changed; Changed is closed when there is a newer one.
type View struct {
	Members []Member // those that live, of whatever configuration, by name
	Pauses  []Pause
	Problem string // why this member must not act under its configuration; empty: it may
	Changed <-chan struct{}

	changed chan struct{}
}

// Member is a doorbell whose lease has not expired.
type Member struct {
	Name       string
	Host       string
	Since      time.Time // by its own clock
	Digest     string
	Generation uint64
	Watches    string // see [Cluster.Watches]
	Equal      bool   // its configuration is the one in force
	Permits    int

	holding  time.Duration // since when it holds permits, by our monotonic clock
	declines string
}

// Pause is until when nothing is sent for a scope, by the clock of this machine.
type Pause struct {
	Scope string
	Until time.Time
	Why   string
}

// Cluster is one member.
type Cluster struct {
	o   Options
	log *slog.Logger
	js  jetstream.JetStream

	grant   atomic.Pointer[grant]
	view    atomic.Pointer[View]
	watches atomic.Pointer[string] // digest; nil: nobody told

	mu       sync.Mutex
	pauses   map[string]Pause         // not passed on to the loop yet
	declines map[string]time.Duration // until when, by the monotonic clock; by token

	updates chan update
	poked   chan struct{} // capacity 1
	leaving atomic.Bool
	ended   chan struct{}
}

// Join checks that the servers can carry a cluster, and makes its bucket if there is none. An error that wraps [ErrSetup] names
// what somebody has to change; any other may pass.
func Join(ctx context.Context, o Options) (*Cluster, error) {
	o.TTL, o.Renew, o.Grace = cmp.Or(o.TTL, 20*time.Second), cmp.Or(o.Renew, 4*time.Second), cmp.Or(o.Grace, 15*time.Second)
	o.Run = cmp.Or(o.Run, rand.Text())
	o.Replicas, o.Logger = cmp.Or(o.Replicas, 3), cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.clock == nil {
		start := time.Now()
		o.clock = func() moment { now := time.Now(); return moment{now.Sub(start), now.Round(0)} }
	}
	switch {
	case !validName(o.Name):
		return nil, fmt.Errorf("%w: a cluster's name is made of letters, digits, - and _; %q is not", ErrSetup, o.Name)
	case o.Member == "" || o.Generation == 0 || !(o.Ceiling > 0):
		return nil, fmt.Errorf("%w: a member needs a name, a generation from 1 and a ceiling above 0", ErrSetup)
	case o.Renew >= o.Grace || o.Grace >= o.TTL:
		return nil, fmt.Errorf("%w: it must hold that renew %s < grace %s < TTL %s", ErrSetup, o.Renew, o.Grace, o.TTL)
	}
	js, err := jetstream.New(o.Conn)
	if err != nil {
		return nil, err
	}
	c := &Cluster{
		o: o, js: js, log: o.Logger, pauses: map[string]Pause{}, declines: map[string]time.Duration{}, updates: make(chan update), poked: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	c.grant.Store(&grant{})
	c.view.Store(newView())
	return c, c.check(ctx)
}

func newView() *View {
	v := &View{changed: make(chan struct{})}
	v.Changed = v.changed
	return v
}

// View returns what is known now.
func (c *Cluster) View() *View { return c.view.Load() }

// Watches tells the others a digest of what this member would watch. It may differ for a while, where lists are changed one after the
// other; it decides nothing.
func (c *Cluster) Watches(digest string) { c.watches.Store(&digest) }

// Alive says whether this member may act: ask the API, claim an agency, commit. It is to be looked at immediately before.
func (c *Cluster) Alive() bool {
	return !c.leaving.Load() && c.grant.Load().alive(c.o.clock(), c.o.Grace)
}

// Rate is how many requests per second this member may send now; 0: none. It is to be looked at immediately before each request, as it
// falls by itself when a deadline passes.
func (c *Cluster) Rate() float64 {
	if c.leaving.Load() {
		return 0
	}
	return c.o.Ceiling * float64(c.grant.Load().permits(c.o.clock(), c.o.Grace)) / Permits
}

// Wanted is the member that should own an agency; empty: none can.
func (c *Cluster) Wanted(agency string) string { return c.View().wanted(agency) }

// Release says whether this member, as its owner, should give an agency up for another one to claim.
func (c *Cluster) Release(agency string) bool {
	return c.View().release(c.o.Member, agency, c.o.clock().mono, c.o.TTL)
}

// Decline leaves an agency to the other members for so long, if there is one that holds permits and does not decline it, too: [Cluster.Release]
// says at once that it is to be given up.
func (c *Cluster) Decline(agency string, long time.Duration) {
	c.mu.Lock()
	c.declines[events.Token(agency)] = c.o.clock().mono + long
	c.mu.Unlock()
	c.poke()
}

// declined is what is declined now.
func (c *Cluster) declined(now moment) string {
	maps.DeleteFunc(c.declines, func(_ string, until time.Duration) bool { return now.mono >= until })
	return strings.Join(slices.Sorted(maps.Keys(c.declines)), " ")
}

// Dead says whether the lease of a run of a member has ended: also by another run of it. The bucket's leader says so: a replica,
// and what was watched, may be behind.
func (c *Cluster) Dead(ctx context.Context, member, run string) (bool, error) {
	e, err := c.read(ctx, memberKey(member))
	return err == nil && (e.gone || e.value.Run != run), err
}

// Pause lets all members know that nothing is to be sent for a scope, which is the base URL's name or a key's fingerprint and no secret.
// It returns at once; what was said is written as soon as it can be. A pause that lasts longer stands.
func (c *Cluster) Pause(scope string, until time.Time, why string) {
	c.mu.Lock()
	if until.After(c.pauses[scope].Until) {
		c.pauses[scope] = Pause{scope, until, why}
	}
	c.mu.Unlock()
	c.poke()
}

// Leave ends the membership: nothing may be sent from the call on; its leases are deleted, and Run ends. What cannot be
// deleted before ctx ends expires. Agencies are to be released before.
func (c *Cluster) Leave(ctx context.Context) error {
	c.leaving.Store(true)
	c.poke()
	select {
	case <-c.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Cluster) poke() {
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

// Run is a member until it has left, or until ctx ends, which is like a crash: its leases expire. It is called once.
func (c *Cluster) Run(ctx context.Context) error {
	defer close(c.ended)
	defer c.grant.Store(&grant{})
	ctx, cancel := context.WithCancel(ctx)
	g, watching := errgroup.WithContext(ctx)
	g.Go(func() error { c.watch(watching); return nil })
	g.Go(func() error { defer cancel(); return c.renew(watching) })
	return g.Wait()
}

// renew is the loop: what is seen and the time decide what is written.
func (c *Cluster) renew(ctx context.Context) error {
	s := newState(c.o, c.o.Run)
	tick := time.NewTicker(c.o.Renew / 16)
	defer tick.Stop()
	alive, failing := false, false
	for {
		select {
		case <-ctx.Done():
			return nil
		case u := <-c.updates:
			s.observe(u, c.o.clock())
		case <-c.poked:
		case <-tick.C:
		}
		s.leaving = c.leaving.Load()
		if digest := c.watches.Load(); digest != nil {
			s.me.Watches = *digest
		}
		c.mu.Lock()
		for _, p := range c.pauses {
			s.pause(p)
		}
		clear(c.pauses)
		s.me.Declines = c.declined(c.o.clock())
		c.mu.Unlock()

		todo := s.due(c.o.clock())
		c.publish(s) // what is given up is not used any more, before that is written
		if len(todo) > 0 {
			err := c.do(ctx, s, todo)
			if c.publish(s); err != nil && !failing && ctx.Err() == nil {
				c.log.Warn("cluster: write failed; retrying", "err", c.explain(err).Error())
			}
			failing = err != nil
		}
		was := alive
		switch alive = c.Alive(); {
		case s.left():
			return nil
		case s.twin:
			return fmt.Errorf("%w: another doorbell is in cluster %s as %s: give each a name of its own", ErrSetup, c.o.Name, c.o.Member)
		case alive && !was:
			c.log.Info("cluster: member")
		case was && !alive && !s.leaving:
			c.log.Error("cluster: not a member; nothing is sent to the API")
		}
	}
}

// publish shows what the state allows, and what it knows if that has changed.
func (c *Cluster) publish(s *state) {
	if c.grant.Store(s.grant()); !s.changed {
		return
	}
	s.changed = false
	v := s.view(c.o.clock())
	old := c.view.Swap(v)
	close(old.changed)
	if !slices.Equal(v.names(), old.names()) {
		c.log.Info("cluster: members changed", "members", v.names())
	}
	if v.Problem != "" && v.Problem != old.Problem {
		c.log.Error("cluster: this member does not act", "err", v.Problem)
	}
}

// do carries out what is due, all at once, and lets the state know what came of it. A mere conflict is no error.
func (c *Cluster) do(ctx context.Context, s *state, todo []write) error {
	ctx, cancel := context.WithTimeout(ctx, c.o.Renew/2)
	defer cancel()
	results := make([]func(), len(todo))
	var g errgroup.Group
	for i, w := range todo {
		g.Go(func() error {
			sent := c.o.clock()
			revision, err := c.write(ctx, w)
			if err == nil {
				results[i] = func() { s.acknowledged(w, revision, sent, c.o.clock()) }
				return nil
			}
			if !conflict(err) {
				return fmt.Errorf("%s: %w", w.key, err)
			}
			e, err := c.read(ctx, w.key) // another one was first, or an answer of ours was lost
			if err == nil {
				results[i] = func() { s.refused(w, e, c.o.clock()) }
			}
			return err
		})
	}
	err := g.Wait()
	for _, result := range results {
		if result != nil {
			result()
		}
	}
	return err
}

// ErrSetup is wrapped by what somebody has to change; trying again does not help.
var ErrSetup = errors.New("cluster")
