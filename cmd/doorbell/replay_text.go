package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// printCounts says how many events are meant, by agency and type.
func printCounts(p *program, c ops.EventCounts, asJSON bool) error {
	if asJSON {
		return p.printJSON(c)
	}
	t := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENCY\tTYPE\tEVENTS\tSEQUENCES")
	for _, a := range c.Agencies {
		types := slices.SortedFunc(maps.Keys(a.Types), func(x, y events.Type) int {
			return cmp.Or(cmp.Compare(a.Types[y], a.Types[x]), cmp.Compare(x, y))
		})
		for _, kind := range types {
			fmt.Fprintf(t, "%s\t%s\t%d\t\n", a.AgencyID, kind, a.Types[kind])
		}
		fmt.Fprintf(t, "%s\tall\t%d\t%d to %d\n", a.AgencyID, a.Total, a.FirstSequence, a.LastSequence)
	}
	if len(c.Agencies) > 0 {
		if err := t.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(p.stdout, "%s would be replayed\n", ops.Counted(c.Total, "event"))
	return err
}

// confirm asks before many events; without a person to ask it refuses.
func (c *ReplayCmd) confirm(ctx context.Context, p *program, total int) error {
	if c.Yes || total <= mostUnasked {
		return nil
	}
	if in, ok := p.stdin.(*os.File); !ok || !isTerminal(in) {
		return usageError(fmt.Sprintf("%d events would be replayed, and there is nobody to ask", total), "--yes does it; --dry-run says what they are")
	}
	return ask(ctx, p.stdin, p.stderr, fmt.Sprintf("%d events will be replayed. Go on? [y/N] ", total))
}

// ask is nil for a yes, and if ctx ends.
func ask(ctx context.Context, in io.Reader, out io.Writer, question string) error {
	fmt.Fprint(out, question)
	answer := make(chan string, 1)
	go func() { // it may outlive the question: a read cannot be ended
		text, _ := bufio.NewReader(io.LimitReader(in, 100)).ReadString('\n')
		answer <- strings.ToLower(strings.TrimSpace(text))
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(out)
		return nil
	case text := <-answer:
		if text == "y" || text == "yes" {
			return nil
		}
	}
	return failed(errors.New("nothing was replayed"), "")
}

// again are the flags that mean the same events once more, of the same job. Moments are written out: two hours ago will be
// another one.
func (c *ReplayCmd) again(q ops.ReplayRequest) string {
	var flags []string
	add := func(name, value string) {
		if value != "" {
			flags = append(flags, "--"+name+" "+quoted(value))
		}
	}
	moment := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	number := func(n *uint64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatUint(*n, 10)
	}
	add("agency", c.Agency)
	add("type", c.Type)
	add("insertion", c.Insertion)
	add("since", moment(q.Query.Since))
	add("until", moment(q.Query.Until))
	add("from-sequence", number(c.FromSequence))
	add("to-sequence", number(c.ToSequence))
	add("origin", c.Origin)
	add("job", q.Job)
	if c.Rate != nil {
		add("rate", strconv.FormatFloat(*c.Rate, 'g', -1, 64))
	}
	if c.Yes {
		flags = append(flags, "--yes")
	}
	return strings.Join(flags, " ")
}

// quoted is a value as a shell takes it.
func quoted(value string) string {
	if strings.ContainsFunc(value, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-.:,/", r))
	}) {
		return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
	}
	return value
}
