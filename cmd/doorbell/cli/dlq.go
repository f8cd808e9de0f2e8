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

// DLQCmd holds the commands about dead letters: events that a receiver refused for good.
type DLQCmd struct {
	Ls    DLQLsCmd    `cmd:"" group:"commands" help:"List the events that receivers permanently rejected, and why."`
	Retry DLQRetryCmd `cmd:"" group:"commands" help:"Send them once more."`
	Drop  DLQDropCmd  `cmd:"" group:"commands" help:"Erase them."`
}

// DLQLsCmd is `doorbell dlq ls`.
type DLQLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (DLQLsCmd) Help() string {
	return "It shows no person's data.\n\nExample:\n  doorbell dlq ls"
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

// DLQDropCmd is `doorbell dlq drop`.
type DLQDropCmd struct{ letterChoice }

func (DLQDropCmd) Help() string {
	return "The events stay in stream and event log.\n\nExample:\n  doorbell dlq drop 12"
}

// letterbox is where dead letters lie, and those that there were when it was opened.
type letterbox struct {
	conn    stream.Conn
	letters *forward.DeadLetters
	list    []forward.Letter
	daemon  *ops.Client // of an embedded server, whose guests may not erase; else nil
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
	if b.letters, err = forward.OpenDeadLetters(conn, c.Base.SubjectPrefix, c.Base.Stream()); err == nil {
		err = b.read(ctx)
	}
	if err != nil {
		defer conn.Close()
		return nil, exit.Failed(stream.Explain(conn, err), "is the NATS server up, and has this user the right to read the stream of dead letters?")
	}
	return b, nil
}

func (b *letterbox) read(ctx context.Context) error {
	for l, err := range b.letters.List(ctx) {
		if err != nil {
			return err
		}
		b.list = append(b.list, l)
	}
	return nil
}

// drop erases a letter, through the daemon where only that may do it.
func (b *letterbox) drop(ctx context.Context, number uint64) error {
	if b.daemon == nil {
		return b.letters.Drop(ctx, number)
	}
	_, err := ops.DropLetter.Ask(ctx, b.daemon, ops.DropLetterRequest{Number: number})
	if errors.Is(err, ops.ErrNoAnswer) {
		return fmt.Errorf("dead letter %d: only the daemon may erase it, and none answers in DOORBELL_DATA_DIR", number)
	}
	return err
}

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
			ops.Printable(l.Forwarder), ops.Printable(l.AgencyID), ops.Printable(string(l.Type)), l.Attempts, ops.Printable(l.Reason)))
	}
	return p.printTable(rows)
}

// letterOutcome is what became of a dead letter.
type letterOutcome struct {
	Number  uint64 `json:"number"`
	Outcome string `json:"outcome"` // sent, dropped, failed
	Reason  string `json:"reason,omitempty"`
}

func (c *DLQRetryCmd) Run(ctx context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupForward)
	if err != nil {
		return err
	}
	p.warn(cfg.Warnings)
	configured, err := receivers.Open(cfg, release)
	if err != nil {
		return err
	}
	defer configured.Close()
	return eachLetter(ctx, p, cfg, &c.letterChoice, "sent", func(b *letterbox, l forward.Letter) error {
		sending, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		err := b.letters.Resend(sending, l.Number, routesFor(configured.Routes(), l))
		switch {
		case err == nil:
			return b.drop(ctx, l.Number)
		case errors.Is(err, forward.ErrNoReceiver):
			return fmt.Errorf("no receiver is configured for it: it is of the forwarder %s, for %s", l.Forwarder, l.Destination)
		case errors.Is(err, forward.ErrNoLetter), errors.Is(err, forward.ErrUnreadable):
			return err
		}
		word, reason := receivers.Outcome(err) // quotes of the receiver only what may be quoted
		return errors.New(word + ": " + reason)
	})
}

// routesFor are the routes of the letter's forwarder; where that had a name of its own, those that
// lead to the letter's destination.
func routesFor(all []forward.Route, l forward.Letter) (routes []forward.Route) {
	for _, r := range all {
		if r.Forwarder == l.Forwarder || !slices.Contains(receivers.Kinds, l.Forwarder) && r.Receiver.Traits().Destination == l.Destination {
			routes = append(routes, r)
		}
	}
	return routes
}

func (c *DLQDropCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	return eachLetter(ctx, p, cfg, &c.letterChoice, "dropped", func(b *letterbox, l forward.Letter) error {
		return b.drop(ctx, l.Number)
	})
}

// eachLetter does something with every letter that was chosen, and says what came of it.
func eachLetter(ctx context.Context, p *program, cfg *config.Config, c *letterChoice, done string, do func(*letterbox, forward.Letter) error) error {
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
	outcomes, bad := []letterOutcome{}, 0
	for _, n := range c.Numbers {
		o := letterOutcome{Number: n, Outcome: done}
		err := forward.ErrNoLetter
		if at := slices.IndexFunc(b.list, func(l forward.Letter) bool { return l.Number == n }); at >= 0 {
			err = do(b, b.list[at])
		}
		if err != nil {
			o.Outcome, o.Reason = "failed", err.Error()
			bad++
		}
		outcomes = append(outcomes, o)
		if !c.JSON {
			_ = p.print(strings.TrimSuffix(fmt.Sprintf("%d %s: %s", o.Number, o.Outcome, o.Reason), ": "))
		}
	}
	switch {
	case c.JSON:
		err = p.printJSON(outcomes)
	case len(outcomes) == 0:
		err = p.print("no dead letters")
	}
	if err == nil && bad > 0 {
		err = exit.Failed(fmt.Errorf("%d of %d dead letters stay, or were not there", bad, len(outcomes)), "doorbell dlq ls shows those that there are")
	}
	return err
}
