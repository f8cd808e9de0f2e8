package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events/forward"
	"doorbell/events/stream"
)

// DLQCmd holds the commands about dead letters: events that a receiver permanently rejected.
type DLQCmd struct {
	Ls    DLQLsCmd    `cmd:"" group:"commands" help:"List the events that receivers permanently rejected, and why."`
	Retry DLQRetryCmd `cmd:"" group:"commands" help:"Send them again."`
	Drop  DLQDropCmd  `cmd:"" group:"commands" help:"Drop them."`
}

const noDeadLetters = "no dead letters"

// DLQLsCmd is `doorbell dlq ls`.
type DLQLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *DLQLsCmd) Run(p *program, dead *deadLetters) error {
	var rows [][]string
	for _, l := range dead.list {
		rows = append(rows, []string{
			strconv.FormatUint(l.Number, 10), l.At.Format(time.RFC3339), l.Forwarder, l.AgencyID,
			string(l.Type), strconv.Itoa(l.Attempts), l.Reason,
		})
	}
	return p.result(c.JSON, dead.list,
		table(noDeadLetters, "NUMBER|AT|FORWARDER|AGENCY|TYPE|TRIES|REASON", rows))
}

// letterChoice are the flags that choose dead letters.
type letterChoice struct {
	Numbers []uint64 `arg:"" optional:"" name:"number" help:"Numbers as doorbell dlq ls shows them."`
	All     bool     `help:"All of them."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// Validate refuses what chooses nothing, or twice.
func (c *letterChoice) Validate() error {
	if c.All == (len(c.Numbers) > 0) {
		return errors.New("write the numbers that doorbell dlq ls shows, or --all")
	}
	return nil
}

// DLQRetryCmd is `doorbell dlq retry`.
type DLQRetryCmd struct{ letterChoice }

func (c *DLQRetryCmd) Run(ctx context.Context, p *program) error {
	cfg, set, err := p.receivers("", "")
	if err != nil {
		return err
	}
	dead, err := p.openDeadLetters(ctx, cfg)
	if err != nil {
		return err
	}
	return c.each(p, dead, "sent", func(l forward.Letter) error {
		sending, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		err := dead.Resend(sending, l.Number, routesFor(set.Routes(), l))
		switch {
		case err == nil:
			return dead.erase(ctx, l.Number)
		case errors.Is(err, forward.ErrNoReceiver), errors.Is(err, forward.ErrUnreadable):
			return err
		}
		word, reason := receivers.Outcome(err) // quotes of the receiver only what may be quoted
		return errors.New(word + ": " + reason)
	})
}

// routesFor are the routes of the letter's forwarder, and those that lead to its destination: a
// forwarder may have a name that no route of this configuration has.
func routesFor(all []forward.Route, l forward.Letter) []forward.Route {
	return slices.DeleteFunc(slices.Clone(all), func(r forward.Route) bool {
		return r.Forwarder != l.Forwarder && r.Receiver.Traits().Destination != l.Destination
	})
}

// DLQDropCmd is `doorbell dlq drop`.
type DLQDropCmd struct{ letterChoice }

func (c *DLQDropCmd) Run(ctx context.Context, p *program, dead *deadLetters) error {
	return c.each(p, dead, "dropped", func(l forward.Letter) error { return dead.erase(ctx, l.Number) })
}

// letterOutcome is what became of a dead letter.
type letterOutcome struct {
	Number  uint64 `json:"number"`
	Outcome string `json:"outcome"` // sent, dropped, failed
	Reason  string `json:"reason,omitempty"`
}

// each does something with every letter that is chosen, and prints what became of it.
func (c *letterChoice) each(p *program, dead *deadLetters, done string, do func(forward.Letter) error) error {
	if c.All {
		for _, l := range dead.list {
			c.Numbers = append(c.Numbers, l.Number)
		}
	}
	outcomes, failed, text := []letterOutcome{}, 0, ""
	for _, n := range c.Numbers {
		o, err := letterOutcome{Number: n, Outcome: done}, forward.ErrNoLetter
		if at := slices.IndexFunc(dead.list, func(l forward.Letter) bool { return l.Number == n }); at >= 0 {
			err = do(dead.list[at])
		}
		if err != nil {
			failed++
			o.Outcome, o.Reason = "failed", err.Error()
		}
		outcomes = append(outcomes, o)
		text += strings.TrimSuffix(fmt.Sprintf("%d %s: %s", n, o.Outcome, o.Reason), ": ") + "\n"
	}
	if len(outcomes) == 0 {
		text = noDeadLetters
	}
	err := p.result(c.JSON, outcomes, text)
	if failed == 0 {
		return err
	}
	return cmp.Or(err,
		exit.Failed(fmt.Errorf("%d of %d dead letters remain, or were not found", failed,
			len(outcomes)),
			"doorbell dlq ls lists them"))
}

// deadLetters are those of a NATS, and the list of those that it held when it was opened.
type deadLetters struct {
	*forward.DeadLetters
	list   []forward.Letter
	daemon *ops.Client // erases those of an embedded server, whose guests may not; else nil
}

func (p *program) openDeadLetters(ctx context.Context, c *config.Config) (*deadLetters, error) {
	conn, err := p.connectStream(ctx, c)
	if err != nil {
		return nil, err
	}
	d := &deadLetters{list: []forward.Letter{}}
	if c.NATS.URL == "" {
		d.daemon = options.Client(c.Base)
	}
	d.DeadLetters = forward.OpenDeadLetters(conn, c.Base.SubjectPrefix, c.Base.Stream())
	for l, failed := range d.List(ctx) {
		d.list, err = append(d.list, l), failed
	}
	if err != nil {
		return nil, exit.Failed(stream.Explain(conn, err),
			"is the NATS server up, and may this user read the stream of dead letters?")
	}
	return d, nil
}

func (d *deadLetters) erase(ctx context.Context, number uint64) error {
	if d.daemon == nil {
		return d.Drop(ctx, number)
	}
	_, err := ops.DropLetter.Ask(ctx, d.daemon, ops.DropLetterRequest{Number: number})
	if errors.Is(err, ops.ErrNoAnswer) {
		return errors.New("only the daemon may erase it, and none answers in DOORBELL_DATA_DIR")
	}
	return err
}
