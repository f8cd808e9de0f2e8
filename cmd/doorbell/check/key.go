package check

import (
	"context"
	"fmt"
	"io"
)

// Key requests the list of every configured agency once, with the key of the configuration, and
// prints a line for each. It uses neither the store nor the daemon: the key in use, its halts and
// its polls stay as they are. refused counts the agencies that the key was not seen to open. The
// error is that of the context or of a failed write.
func Key(ctx context.Context, o Options, out io.Writer) (refused int, err error) {
	c := &checker{Options: o, report: newReport()}
	p, client, _ := c.client()
	if client == nil {
		return len(p.Agencies), c.report.Err()
	}
	c.access(ctx, client, p)
	for _, a := range c.report.Agencies {
		text := a.text
		if a.Access != AccessOK {
			refused++
		}
		if a.Access == AccessRefused { // whether others open is seen here
			text = fmt.Sprintf("status %d, %s", a.Status, text)
		}
		if _, err := fmt.Fprintf(out, "%s: %s\n", a.AgencyID, text); err != nil {
			return refused, err
		}
	}
	return refused, ctx.Err()
}
