package daemon

import (
	"errors"
	"fmt"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/relay"
)

// hangLimit is how long a loop that keeps leads coming may be without a heartbeat: several times
// what it takes at most where all is well, whatever the API and NATS do. It hangs then, and a
// restart is the only thing that helps. A receiver can ask two workers to wait, one after the
// other.
const (
	hangLimit          = 10 * time.Minute
	forwarderHangLimit = 3 * time.Hour
)

// Health reports whether the daemon lives, which depends on no other service, and whether it can
// do its work. It never waits.
func (a *Daemon) Health() ops.Health {
	now, relay := a.watched.Load(), a.relay.Status()
	alive := func(name string, last time.Time, limit time.Duration) ops.Check {
		return ops.Alive(name, last, now.made, limit)
	}
	polls, staleness := now.poller.Turned()
	checks := []ops.Check{
		alive("store", a.housekeeping.Turned(), hangLimit), alive("polling", polls, hangLimit),
		alive("staleness", staleness, hangLimit), alive("relay", relay.Turned, hangLimit),
	}
	if a.o.Receivers != nil {
		checks = append(checks, alive("forwarders", a.forwarding.turned(), forwarderHangLimit))
	}
	return ops.NewHealth(append(checks, a.space(), a.natsCheck(relay), now.check())...)
}

// space is fine if there is room for what is found.
func (a *Daemon) space() ops.Check {
	c := ops.Check{Name: "space", OK: true}
	if is := a.housekeeping.Space(); is.Full {
		c.OK, c.Text = false,
			fmt.Sprintf("the store holds %d of %d MiB (DOORBELL_STORE_MAX): polling waits until there is room", is.InUse>>20, is.Max>>20)
	}
	return c
}

// natsCheck is fine if NATS is connected and its stream takes events.
func (a *Daemon) natsCheck(r relay.Status) ops.Check {
	c := ops.Check{Name: "NATS", OK: r.Open, Text: r.Problem}
	if problem := a.serverStatus().Problem; problem != "" {
		c.OK, c.Text = false, problem
	}
	if !c.OK && c.Text == "" {
		c.Text = "the stream has not been checked yet"
	}
	return c
}

// check is fine if no agency waits for the stream. A halted agency does not matter.
func (w *watched) check() ops.Check {
	if n := len(w.waiting); n > 0 {
		return ops.Check{
			Name: "watch",
			Text: "new to this store, and waiting for the stream: " + ops.Counted(n, "agency"),
		}
	}
	return ops.Check{Name: "watch", OK: true}
}

// turned is the oldest heartbeat of the forwarder's workers; of one that is not at work, which is
// tried again all the time, it is now.
func (f *forwarding) turned() time.Time {
	now, oldest := f.working(), time.Now()
	if now == nil {
		return oldest
	}
	for _, l := range now.Status() {
		if l.Turned.Before(oldest) {
			oldest = l.Turned
		}
	}
	return oldest
}

// well says why not all is well: what the headline of the status says, or what keeps the daemon
// from being ready.
func (a *Daemon) well() error {
	s, err := a.status()
	if err != nil {
		return err
	}
	for _, c := range a.Health().Checks {
		if !c.OK {
			return fmt.Errorf("%s: %s", c.Name, c.Text)
		}
	}
	if summary := s.Summary(); summary != "" {
		return errors.New(summary + "; see doorbell status")
	}
	return nil
}
