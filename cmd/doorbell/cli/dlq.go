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
	return "It shows no person's data. The stream is named after DOORBELL_SUBJECT_PREFIX, as LISTINGS_DLQ; letters go after DOORBELL_RETENTION.\n\nExample:\n  doorbell dlq ls"
}

// letterChoice are the flags that choose dead letters.
type letterChoice struct {
	Numbers []uint64 `arg:"" optional:"" name:"number" help:"Numbers as doorbell dlq ls shows them."`
	All     bool     `help:"All of them."`
	JSON    bool     `name:"json" help:"Print JSON."`
}

// Validate refuses what chooses nothing, or twice.
func (c *letterChoice) Validate() error {
	switch {
	case c.All && len(c.Numbers) > 0:
		return errors.New("--all: leave the numbers out")
	case !c.All && len(c.Numbers) == 0:
		return errors.New("write the numbers that doorbell dlq ls shows, or --all")
	}
	return nil
}

// DLQRetryCmd is `doorbell dlq retry`.
type DLQRetryCmd struct{ letterChoice }

func (DLQRetryCmd) Help() string {
	return "What a receiver takes is erased. It is sent with the settings of this command's environment: set the variables of the receiver as for " +
		"doorbell run.\n\nExample:\n  doorbell dlq retry 12 13"
}

// DLQDropCmd is `doorbell dlq drop`.
type DLQDropCmd struct{ letterChoice }

func (DLQDropCmd) Help() string {
	return "Nothing of them is left in the files of the server. The events stay in stream and event log; doorbell replay --to sends them again.\n\n" +
		"Example:\n  doorbell dlq drop 12"
}

// letterbox is where dead letters lie.
type letterbox struct {
	conn    stream.Conn
	letters *forward.DeadLetters
	daemon  *ops.Client // of an embedded server, whose guests may not erase; else nil
}

func openLetterbox(ctx context.Context, c *config.Config) (*letterbox, error) {
	conn, err := connectStream(ctx, c)
	if err != nil {
		return nil, err
	}
	letters, err := forward.OpenDeadLetters(conn, c.Base.SubjectPrefix, c.Base.Stream())
	if err != nil {
		conn.Close()
		return nil, exit.Failed(err, "check the NATS_* settings")
	}
	b := &letterbox{conn: conn, letters: letters}
	if c.NATS.URL == "" {
		b.daemon = options.Client(c.Base)
	}
	return b, nil
}

// list is bounded by the stream.
func (b *letterbox) list(ctx context.Context) ([]forward.Letter, error) {
	list := []forward.Letter{}
	for l, err := range b.letters.List(ctx) {
		if err != nil {
			return nil, exit.Failed(stream.Explain(b.conn, err), "is the NATS server up, and has this user the right to read the stream of dead letters?")
		}
		list = append(list, l)
	}
	return list, nil
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
	list, err := b.list(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return p.printJSON(list)
	}
	if len(list) == 0 {
		return p.print("no dead letters\n")
	}
	rows := []string{"NUMBER\tAT\tFORWARDER\tAGENCY\tTYPE\tTRIES\tREASON"}
	for _, l := range list {
		rows = append(rows, fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%s", l.Number, l.At.Format(time.RFC3339), printable(l.Forwarder), printable(l.AgencyID), printable(string(l.Type)), l.Attempts, printable(l.Reason)))
	}
	return p.printTable("", rows, "")
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
	if len(configured.Routes()) == 0 {
		return exit.Config(errors.New("no receiver is configured"), "set the variables of the receiver as for doorbell run, like DOORBELL_SLACK_URL")
	}
	return eachLetter(ctx, p, cfg, &c.letterChoice, "sent", func(b *letterbox, l forward.Letter) error {
		sending, cancel := context.WithTimeout(ctx, 2*time.Minute)
		defer cancel()
		err := b.letters.Resend(sending, l.Number, func(string) []forward.Route { return routesFor(configured.Routes(), l) })
		if err != nil {
			return retryError(err, l)
		}
		if err := b.drop(ctx, l.Number); err != nil {
			return fmt.Errorf("it was sent, but the letter is still there: %w", err)
		}
		return nil
	})
}

// routesFor are the routes of the letter's forwarder; where that had a name of its own, those that
// lead to the letter's destination, or all where one kind of receiver is configured: the address
// may be another one by now.
func routesFor(all []forward.Route, l forward.Letter) (routes []forward.Route) {
	oneKind := !slices.ContainsFunc(all, func(r forward.Route) bool { return r.Forwarder != all[0].Forwarder })
	for _, r := range all {
		ofOther := !slices.Contains(receivers.Kinds, l.Forwarder) && (oneKind || r.Receiver.Traits().Destination == l.Destination)
		if r.Forwarder == l.Forwarder || ofOther {
			routes = append(routes, r)
		}
	}
	return routes
}

// retryError says why a letter was not sent, and quotes of the receiver only what may be quoted.
func retryError(err error, l forward.Letter) error {
	switch {
	case errors.Is(err, forward.ErrNoReceiver):
		return fmt.Errorf("no receiver is configured for it: it is of the forwarder %s, for %s", l.Forwarder, l.Destination)
	case errors.Is(err, forward.ErrNoLetter), errors.Is(err, forward.ErrUnreadable):
		return err
	}
	word, reason := receivers.Outcome(err)
	return fmt.Errorf("%s: %s", map[string]string{"refused": "refused", "later": "not taken now"}[word], reason)
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
	list, err := b.list(ctx)
	if err != nil {
		return err
	}
	outcomes, bad, missing := []letterOutcome{}, 0, 0
	for _, l := range c.choose(list) {
		if ctx.Err() != nil {
			break
		}
		o := letterOutcome{Number: l.Number, Outcome: done}
		err := forward.ErrNoLetter
		if !l.At.IsZero() {
			err = do(b, l)
		}
		switch {
		case errors.Is(err, forward.ErrNoLetter):
			missing++
			o.Outcome, o.Reason = "failed", forward.ErrNoLetter.Error()
		case err != nil:
			o.Outcome, o.Reason = "failed", err.Error()
			bad++
		}
		outcomes = append(outcomes, o)
		if !c.JSON {
			fmt.Fprintln(p.stdout, printable(strings.TrimSuffix(fmt.Sprintf("%d %s: %s", o.Number, o.Outcome, o.Reason), ": ")))
		}
	}
	if c.JSON {
		if err := p.printJSON(outcomes); err != nil {
			return err
		}
	} else if len(outcomes) == 0 {
		fmt.Fprintln(p.stdout, "no dead letters")
	}
	switch {
	case bad > 0:
		return exit.Failed(fmt.Errorf("%d of %d dead letters stay", bad, len(outcomes)-missing), "")
	case missing > 0:
		return exit.Failed(fmt.Errorf("no dead letter has %s", numbered(missing, len(outcomes))), "doorbell dlq ls shows those that there are")
	}
	return nil
}

// numbered says of how many numbers something is said.
func numbered(some, all int) string {
	if all == 1 {
		return "this number"
	}
	return fmt.Sprintf("%d of these %d numbers", some, all)
}

// choose are the letters that are meant; one that is not there has its number alone.
func (c *letterChoice) choose(list []forward.Letter) []forward.Letter {
	if c.All {
		return list
	}
	var chosen []forward.Letter
	for _, n := range c.Numbers {
		l := forward.Letter{Number: n}
		if at := slices.IndexFunc(list, func(l forward.Letter) bool { return l.Number == n }); at >= 0 {
			l = list[at]
		}
		chosen = append(chosen, l)
	}
	return chosen
}
