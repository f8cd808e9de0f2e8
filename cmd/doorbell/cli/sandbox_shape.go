package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/shape"
)

// serveShape serves made-up responses in the form that `check --shape` wrote, until it is stopped.
func (c *SandboxCmd) serveShape(ctx context.Context, p *program) error {
	file, err := os.Open(c.Shape)
	if err != nil {
		return exit.IO(err, "name a file that doorbell check --shape wrote")
	}
	defer file.Close()
	f, err := shape.Read(file)
	if err != nil {
		return exit.Failed(fmt.Errorf("%s: %w", c.Shape, err), "write it with doorbell check --shape")
	}
	agency := c.Agencies[0] // only one, as the path of contact requests names none
	h, err := f.Handler(shape.Options{Key: madeUpKey, Agencies: []string{agency}})
	if err != nil {
		return exit.Failed(err, "")
	}
	out := p.stdout
	if c.JSON {
		out = p.stderr
	}
	l, err := listen(out, "the API", c.Listen)
	if err != nil {
		return err
	}
	defer l.Close()
	go serveUntil(ctx, l, h)
	m := madeUp{url: "http://" + l.Addr().String(), agencies: []string{agency}}
	if c.JSON {
		err = p.printJSON(m.object(""))
	} else {
		_, err = fmt.Fprintf(out, "Made-up responses in the form of %s are at %s, for agency %s.\nWatch them from another terminal:\n\n  %s ./doorbell run\n\nPress Ctrl-C to end it.\n",
			c.Shape, m.url, agency, strings.Join(m.environ(), " "))
	}
	if err == nil {
		<-ctx.Done()
	}
	return err
}

var prefixes = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// validPlay rejects flags that exclude each other.
func (c *SandboxCmd) validPlay() error {
	switch {
	case c.Shape != "" && (c.Scenario != "" || c.Events):
		return errors.New("--shape: cannot be combined with --scenario or --events")
	case c.Events && c.Scenario != "":
		return errors.New("--events: cannot be combined with --scenario")
	case c.Events && !prefixes.MatchString(c.Prefix):
		return errors.New("--prefix: is not a NATS subject; write letters, digits, - and _, parts separated by dots")
	case !c.Events && (c.NATS != "" || c.Prefix != "" && c.Prefix != defaultPrefix):
		return errors.New("--nats, --prefix: need --events")
	}
	return nil
}
