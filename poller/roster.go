package poller

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// roster is who is watched. Once in use it is replaced as a whole and never changed, so that it can be read at any time.
type roster struct {
	byID  map[string]*agency
	order []*agency // of the configuration
}

func newRoster(size int) *roster { return &roster{byID: make(map[string]*agency, size)} }

func (r *roster) add(a *agency) {
	r.byID[a.id] = a
	r.order = append(r.order, a)
}

// agency returns a watched agency, nil if it is not watched.
func (p *Poller) agency(id string) *agency { return p.roster.Load().byID[id] }

// watched returns the watched agencies in the order of the configuration.
func (p *Poller) watched() []*agency { return p.roster.Load().order }

// ErrRetiresAll is returned by SetAgencies when none of the agencies that are watched would stay. That is rather a
// mistake than a wish; a restart does it.
var ErrRetiresAll = errors.New("none of the watched agencies is left")

// SetAgencies says who is watched from now on and with which keys; it may be called while Run is under way. A new agency
// is watched at once. One that is not named any more is retired: nothing is asked and nothing is said of it, and what is
// remembered stays; named again, it goes on from there. A changed pair of keys ends the halts under the one before.
//
// It returns when nothing is under way for those who were retired. After ErrRetiresAll nothing has changed; after any
// other error it may be called again, if the error lets the process live.
func (p *Poller) SetAgencies(list []AgencyKeys) error {
	p.setting.Lock()
	defer p.setting.Unlock()
	before := p.roster.Load()
	if err := before.accepts(list); err != nil {
		return err
	}
	after, err := p.next(before, list)
	if err != nil {
		return err
	}
	if err := p.retire(before, after); err != nil {
		return err
	}
	for _, k := range list {
		if a := before.byID[k.ID]; a != nil {
			if err := a.configure(k); err != nil {
				return fmt.Errorf("agency %s: %w", k.ID, err)
			}
		}
	}
	return nil
}

func (r *roster) accepts(list []AgencyKeys) error {
	named := make(map[string]bool, len(list))
	stay := 0
	for _, k := range list {
		if named[k.ID] {
			return fmt.Errorf("agency %s is named twice", k.ID)
		}
		named[k.ID] = true
		if r.byID[k.ID] != nil {
			stay++
		}
	}
	if stay == 0 && len(r.order) > 0 {
		return ErrRetiresAll
	}
	return nil
}

// next is the roster that follows another.
func (p *Poller) next(before *roster, list []AgencyKeys) (*roster, error) {
	after := newRoster(len(list))
	for _, k := range list {
		if a := before.byID[k.ID]; a != nil {
			after.add(a)
			continue
		}
		a := newAgency(p, k)
		if err := a.load(); err != nil {
			p.turns.leave(k.ID)
			for _, came := range after.order {
				if before.byID[came.id] == nil {
					p.turns.leave(came.id)
				}
			}
			return nil, fmt.Errorf("agency %s: %w", k.ID, err)
		}
		after.add(a)
		p.log.Info("agency is watched", "agency", k.ID)
	}
	return after, nil
}

// retire replaces the roster, ends what is under way for those who are not in the new one, and waits for that.
func (p *Poller) retire(before, after *roster) (err error) {
	var gone []*agency
	for _, a := range before.order {
		if after.byID[a.id] == nil {
			gone = append(gone, a)
			a.leaveOff()
		}
	}
	p.roster.Store(after)
	select {
	case p.came <- struct{}{}:
	default:
	}
	for _, a := range gone {
		a.active.Wait()
		err = errors.Join(err, a.keepMemory())
		p.turns.leave(a.id)
		p.log.Info("agency is retired; what is remembered of it stays", "agency", a.id)
	}
	return err
}

// leaveOff lets nothing begin for the agency any more and asks what is under way to end.
func (a *agency) leaveOff() {
	a.pausing.Lock()
	defer a.pausing.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end()
}

// while does something for the agency as long as it is watched; otherwise it does the other thing, if any. An end
// because it was retired is no error.
func (a *agency) while(ctx context.Context, do func(context.Context) error, otherwise func()) error {
	a.mu.Lock()
	retired := a.retiring.Err() != nil
	if !retired {
		a.active.Add(1)
	}
	watching := a.watchingUnder(ctx)
	a.mu.Unlock()
	if retired {
		otherwise()
		return nil
	}
	defer a.active.Done()
	err := do(watching)
	if ctx.Err() == nil && a.retiring.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// watching is the context of all that is done for an agency under another one, which is that of Run.
type watching struct {
	under, ctx context.Context
	stop       func() // nil: there is none yet
}

// watchingUnder returns a context that ends with ctx or when the agency is retired. The caller holds a.mu.
func (a *agency) watchingUnder(ctx context.Context) context.Context {
	w := &a.watching
	if w.under == ctx {
		return w.ctx
	}
	if w.stop != nil {
		w.stop() // the one before is over
	}
	w.under = ctx
	var cancel context.CancelFunc
	w.ctx, cancel = context.WithCancel(ctx)
	detach := context.AfterFunc(a.retiring, cancel)
	w.stop = func() { detach(); cancel() }
	return w.ctx
}

// muster starts the walks of all who are watched, also of those who come later.
func (p *Poller) muster(ctx context.Context, g *errgroup.Group) error {
	walking := map[*agency]bool{}
	for {
		now := map[*agency]bool{}
		for _, a := range p.watched() {
			now[a] = true
			if !walking[a] {
				g.Go(func() error { return a.while(ctx, a.walks, func() {}) })
			}
		}
		walking = now
		select {
		case <-p.came:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
