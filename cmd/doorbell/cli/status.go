package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/poller"
	"doorbell/store"
)

// StatusCmd is `doorbell status`.
type StatusCmd struct {
	JSON  bool `name:"json" help:"Print JSON; with --watch one object a line, whenever the daemon was asked."`
	Check bool `xor:"how" help:"Exit with 1 if anything needs attention: halted, held, stale, full or not answering; NATS not connected, or events waiting for it for a minute; a receiver off, getting nothing from NATS, or failing for five minutes; no daemon running."`
	Watch bool `xor:"how" help:"Ask again every two seconds, until stopped; also through a restart of the daemon."`
}

func (StatusCmd) Help() string {
	return "Asks the daemon over its socket; if none runs, it reads what the store remembers. Each problem comes with the command " +
		"that solves it. Agencies that need attention come first.\n\nExamples:\n  doorbell status\n  doorbell status --check || echo look at it\n  doorbell status --watch"
}

func (c *StatusCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if c.Watch {
		return watchStatus(ctx, p, cfg.Base, c.JSON)
	}
	s, err := status(ctx, cfg.Base)
	if err != nil {
		return err
	}
	if err := printStatus(p, s, c.JSON); err != nil {
		return err
	}
	switch {
	case c.Check && !s.Running:
		return exit.Failed(errors.New("no daemon runs"), "start it with doorbell run")
	case c.Check && s.Summary() != "":
		return exit.Failed(errors.New(s.Summary()), "doorbell status says more, and the commands that end it")
	}
	return nil
}

func printStatus(p *program, s ops.Status, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(p.stdout).Encode(s)
	}
	return printLines(p.stdout, s.Lines(p.terminalOf(p.stdout).TextOptions))
}

func printLines(w io.Writer, lines []string) error {
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// status asks the daemon; if none runs, it reads what the store remembers.
func status(ctx context.Context, b config.Base) (ops.Status, error) {
	s, err := options.Client(b).Status(ctx)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return s, err
	}
	kept, err := readStopped(b)
	if err != nil {
		return ops.Status{}, err
	}
	defer kept.Close()
	w, err := poller.Remembered(kept)
	if err != nil {
		return ops.Status{}, exit.IO(err, "")
	}
	inUse, err := kept.InUse()
	if err != nil {
		return ops.Status{}, exit.IO(err, "")
	}
	s = ops.Status{Version: release, StoreID: kept.ID(), DataDir: b.DataDir, Watch: w}
	s.Store = ops.NewStoreStatus(store.NewSpace(inUse, int64(b.StoreMax)))
	progress, err := kept.Progress()
	if err != nil {
		return s, exit.IO(err, "")
	}
	for _, a := range w.Agencies {
		is := progress[a.AgencyID]
		s.Relay = append(s.Relay, ops.RelayStatus{AgencyID: a.AgencyID, Acknowledged: is.Acknowledged, Pending: uint64(is.Unsent)})
	}
	return s, nil
}

// watchEvery is how often `status --watch` asks, and watchPatience how long it waits for an answer.
const (
	watchEvery    = 2 * time.Second
	watchPatience = 5 * time.Second
)

// statusWatch is `status --watch` at work.
type statusWatch struct {
	p      *program
	base   config.Base
	asJSON bool
	screen screen // used on a terminal that can be drawn anew
	last   ops.Status
	fresh  bool      // it was not shown yet
	away   time.Time // nobody answers since then
}

// watchStatus asks until ctx ends. Once it has begun, no failure of the daemon ends it.
func watchStatus(ctx context.Context, p *program, b config.Base, asJSON bool) error {
	w := &statusWatch{p: p, base: b, asJSON: asJSON, screen: screen{w: p.stdout}}
	defer w.screen.close()
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	if err := w.begin(ctx); err != nil || ctx.Err() != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.ask(ctx)
			if ctx.Err() != nil {
				return nil
			}
		}
		if err := w.show(); err != nil {
			return err
		}
	}
}

// begin looks for a daemon, or at the store of one that does not run, and ends where there is neither. Later the store is left
// alone: a daemon that starts wants it for itself.
func (w *statusWatch) begin(ctx context.Context) error {
	s, err := status(ctx, w.base)
	var known *exit.Error
	switch {
	case ctx.Err() != nil:
		return nil
	case errors.As(err, &known) && known.Code == exit.CodeUnavailable: // it may be starting
		w.nobody()
	case err != nil:
		return err
	default:
		w.last, w.fresh = s, true
		if !s.Running {
			w.nobody()
		}
	}
	return w.show()
}

func (w *statusWatch) ask(ctx context.Context) {
	asking, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	s, err := options.Client(w.base).Status(asking)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		w.nobody()
	default:
		w.last, w.fresh, w.away = s, true, time.Time{}
	}
}

// nobody remembers since when nobody answers. Where no terminal shows it, it is said once.
func (w *statusWatch) nobody() {
	if !w.away.IsZero() {
		return
	}
	w.away = time.Now()
	if w.asJSON || !w.p.terminalOf(w.p.stdout).moves {
		w.p.note("no daemon answers in %s; retrying every %s", printable(w.base.DataDir), watchEvery)
	}
}

// show writes what is known: a new frame on a terminal, else a block or an object for each answer.
func (w *statusWatch) show() error {
	t := w.p.terminalOf(w.p.stdout)
	switch {
	case !w.asJSON && t.moves:
		return w.screen.draw(w.frame(t))
	case !w.fresh:
		return nil
	}
	w.fresh = false
	if w.asJSON {
		return json.NewEncoder(w.p.stdout).Encode(w.last)
	}
	lines := w.last.Lines(t.TextOptions)
	return printLines(w.p.stdout, slices.Concat([]string{"--- " + time.Now().UTC().Format(time.RFC3339)}, lines, []string{""}))
}

// frame is what the terminal shows: when this was, or for how long nobody has answered, and below it what is known.
func (w *statusWatch) frame(t Terminal) []string {
	now := time.Now()
	head := now.UTC().Format("15:04:05") + " UTC; every " + watchEvery.String() + ", Ctrl-C ends it"
	if !w.away.IsZero() {
		head = fmt.Sprintf("no daemon has answered in %s for %s; retrying every %s", w.base.DataDir, now.Sub(w.away).Round(time.Second), watchEvery)
	}
	o := t.TextOptions
	o.Height = max(t.height-1, 1)
	lines := []string{o.Headline(head)}
	if w.last.StoreID != "" {
		lines = append(lines, w.last.Lines(o)...)
	}
	return lines
}
