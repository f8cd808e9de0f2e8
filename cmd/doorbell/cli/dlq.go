package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	Retry DLQRetryCmd `cmd:"" group:"commands" help:"Send them once more."`
	Drop  DLQDropCmd  `cmd:"" group:"commands" help:"Erase them."`
}

// DLQLsCmd is `doorbell dlq ls`.
type DLQLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (DLQLsCmd) Help() string { return "It shows no person's data.\n\nExample:\n  doorbell dlq ls" }

func (c *DLQLsCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	b, err := openLetterbox(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	switch {
	case c.JSON:
		return p.printJSON(b.list)
	case len(b.list) == 0:
		return p.print("no dead letters")
	}
	rows := []string{"NUMBER\tAT\tFORWARDER\tAGENCY\tTYPE\tTRIES\tREASON"}
	for _, l := range b.list {
		rows = append(rows, fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%s", l.Number, l.At.Format(time.RFC3339),
			ops.Printable(l.Forwarder), ops.Printable(l.AgencyID), ops.Printable(string(l.Type)), l.Attempts,
			ops.Printable(l.Reason)))
	}
	return p.printTable(rows)
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

func (DLQRetryCmd) Help() string {
	return "Set the variables of the receiver as for doorbell run.\n\nExample:\n  doorbell dlq retry 12 13"
}

func (c *DLQRetryCmd) Run(ctx context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupForward)
	if err != nil {
		return err
	}
	p.warn(cfg.Warnings)
	set, err := receivers.Open(cfg, release)
	if err != nil {
		return err
	}
	defer set.Close()
	return c.each(ctx, p, cfg, "sent", func(b *letterbox, l forward.Letter) error {
		sending, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		err := b.Resend(sending, l.Number, routesFor(set.Routes(), l))
		switch {
		case err == nil:
			return b.erase(ctx, l.Number)
		case errors.Is(err, forward.ErrNoReceiver):
			return fmt.Errorf("no receiver is configured for it: it is of the forwarder %s, for %s", l.Forwarder, l.Destination)
		case errors.Is(err, forward.ErrUnreadable):
			return err
		}
		word, reason := receivers.Outcome(err) // quotes of the receiver only what may be quoted
		return errors.New(word + ": " + reason)
	})
}

// routesFor are the routes of the letter's forwarder; where that has a name of its own, those that
// lead to the letter's destination.
func routesFor(all []forward.Route, l forward.Letter) (routes []forward.Route) {
	named := !slices.Contains(receivers.Kinds, l.Forwarder)
	for _, r := range all {
		if r.Forwarder == l.Forwarder || named && r.Receiver.Traits().Destination == l.Destination {
			routes = append(routes, r)
		}
	}
	return routes
}

// DLQDropCmd is `doorbell dlq drop`.
type DLQDropCmd struct{ letterChoice }

func (DLQDropCmd) Help() string {
	return "The events stay in stream and event log.\n\nExample:\n  doorbell dlq drop 12"
}

func (c *DLQDropCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	return c.each(ctx, p, cfg, "dropped", func(b *letterbox, l forward.Letter) error {
		return b.erase(ctx, l.Number)
	})
}

// letterOutcome is what became of a dead letter.
type letterOutcome struct {
	Number  uint64 `json:"number"`
	Outcome string `json:"outcome"` // sent, dropped, failed
	Reason  string `json:"reason,omitempty"`
}

// each does something with every letter that is chosen, and prints what became of it.
func (c *letterChoice) each(ctx context.Context, p *program, cfg *config.Config, done string,
	do func(*letterbox, forward.Letter) error,
) error {
	b, err := openLetterbox(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.conn.Close()
	if c.All {
		for _, l := range b.list {
			c.Numbers = append(c.Numbers, l.Number)
		}
	}
	outcomes, failed, text := []letterOutcome{}, 0, ""
	for _, n := range c.Numbers {
		o, err := letterOutcome{Number: n, Outcome: done}, forward.ErrNoLetter
		if at := slices.IndexFunc(b.list, func(l forward.Letter) bool { return l.Number == n }); at >= 0 {
			err = do(b, b.list[at])
		}
		if err != nil {
			failed++
			o.Outcome, o.Reason = "failed", err.Error()
		}
		outcomes = append(outcomes, o)
		text += strings.TrimSuffix(fmt.Sprintf("%d %s: %s", n, o.Outcome, o.Reason), ": ") + "\n"
	}
	switch {
	case c.JSON:
		err = p.printJSON(outcomes)
	case len(outcomes) == 0:
		err = p.print("no dead letters")
	default:
		err = p.print(text)
	}
	if err == nil && failed > 0 {
		err = exit.Failed(fmt.Errorf("%d of %d dead letters stay, or were not there", failed, len(outcomes)),
			"doorbell dlq ls lists them")
	}
	return err
}

// letterbox is the dead letters of a NATS, and the list of those that it held when it was opened.
type letterbox struct {
	*forward.DeadLetters
	conn   stream.Conn
	list   []forward.Letter
	daemon *ops.Client // erases those of an embedded server, whose guests may not; else nil
}

func openLetterbox(ctx context.Context, c *config.Config) (*letterbox, error) {
	conn, err := connectStream(ctx, c)
	if err != nil {
		return nil, err
	}
	b := &letterbox{conn: conn, list: []forward.Letter{}}
	if c.NATS.URL == "" {
		b.daemon = options.Client(c.Base)
	}
	b.DeadLetters, err = forward.OpenDeadLetters(conn, c.Base.SubjectPrefix, c.Base.Stream())
	if err == nil {
		for l, failed := range b.List(ctx) {
			b.list, err = append(b.list, l), failed
		}
	}
	if err != nil {
		defer conn.Close()
		return nil, exit.Failed(stream.Explain(conn, err),
			"is the NATS server up, and may this user read the stream of dead letters?")
	}
	return b, nil
}

func (b *letterbox) erase(ctx context.Context, number uint64) error {
	if b.daemon == nil {
		return b.Drop(ctx, number)
	}
	_, err := ops.DropLetter.Ask(ctx, b.daemon, ops.DropLetterRequest{Number: number})
	if errors.Is(err, ops.ErrNoAnswer) {
		return errors.New("only the daemon may erase it, and none answers in DOORBELL_DATA_DIR")
	}
	return err
}
