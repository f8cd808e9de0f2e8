package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/store"
)

// streamVerify is the part of `doorbell verify` that compares the event log with the stream.
type streamVerify struct {
	Repair bool `help:"Send again what the stream lacks, after a question."`
	Yes    bool `help:"With --repair: ask nothing."`
}

// mender compares and mends: the daemon, or this process where none runs.
type mender interface {
	compare(ctx context.Context) ([]relay.Comparison, error)
	resend(ctx context.Context, agencyID string) (sent int, err error)
}

// verifyStream compares log and stream from end to end, prints what differs unless that is to be JSON, and sends again what is
// missing if that is wanted. The error says that they differ.
func verifyStream(ctx context.Context, p *program, config *Config, o streamVerify, asJSON bool) (found []relay.Comparison, err error) {
	m, done, err := findMender(ctx, config)
	if err != nil {
		return nil, err
	}
	defer done()
	found, err = m.compare(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, failed(fmt.Errorf("there is no stream %s", config.Base.Stream), noStreamAdvice(config))
	}
	if err != nil {
		return nil, failed(err, "see `doorbell check` about NATS")
	}
	missing := 0
	for _, c := range found {
		missing += c.CountMissing()
	}
	if o.Repair && missing > 0 {
		if !asJSON {
			if err := printComparison(p.stdout, found); err != nil {
				return found, err
			}
		}
		if err := confirm(p, o, missing); err != nil {
			return found, err
		}
		if found, err = mend(ctx, p, m, found); err != nil {
			return found, err
		}
	}
	if !asJSON {
		if err := printComparison(p.stdout, found); err != nil {
			return found, err
		}
	}
	for _, c := range found {
		if !c.Well() {
			return found, failed(errors.New("log and stream differ"), adviceOf(found))
		}
	}
	return found, nil
}

// noStreamAdvice is for a stream that is missing as a whole, which --repair does not make.
func noStreamAdvice(c *Config) string {
	if c.NATS.URL != "" && c.Base.StreamManage == "off" {
		return "make it, as DOORBELL_STREAM_MANAGE=off asks, and start doorbell run, which sends again what the log holds"
	}
	return "start doorbell run: it makes the stream, and sends again what the log holds"
}

func adviceOf(found []relay.Comparison) string {
	for _, c := range found {
		if len(c.Missing) > 0 {
			return "doorbell verify --repair sends again what is missing"
		}
	}
	return "what the log lacks, a daemon takes over at its next look; the rest stays as it is"
}

// mend sends again, and compares once more.
func mend(ctx context.Context, p *program, m mender, found []relay.Comparison) ([]relay.Comparison, error) {
	for _, c := range found {
		if len(c.Missing) == 0 {
			continue
		}
		sent, err := m.resend(ctx, c.AgencyID)
		if err != nil {
			return nil, failed(err, "try again in two minutes; nothing is sent twice")
		}
		fmt.Fprintf(p.stderr, "%s: %s sent again\n", c.AgencyID, ops.Counted(sent, "event"))
	}
	return m.compare(ctx)
}

// confirm asks a person. Where none sits at a terminal, --yes has to say it.
func confirm(p *program, o streamVerify, missing int) error {
	if o.Yes {
		return nil
	}
	if !atTerminal(p.stdin) {
		return usageError("--repair: nobody can be asked here", "add --yes to send again what is missing")
	}
	fmt.Fprintf(p.stderr, "Send %s again? Ids and sequences stay; in the stream they stand behind later ones. [y/N] ", ops.Counted(missing, "event"))
	line, _ := bufio.NewReader(io.LimitReader(p.stdin, 100)).ReadString('\n')
	if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
		return failed(errors.New("nothing was sent"), "")
	}
	return nil
}

func atTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	return ok && isTerminal(f)
}

func printComparison(w io.Writer, found []relay.Comparison) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENCY\tLOG\tSTREAM\tWAITING\tEXPIRED\tMISSING\tFOREIGN\t")
	for _, c := range found {
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t\n", c.AgencyID, c.Logged, c.Streamed, c.Waiting, c.Expired, c.CountMissing(), c.Foreign)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, c := range found {
		for _, l := range []struct{ what, which string }{
			{"published, and missing in the stream", ranges(c.Missing)},
			{"in the stream, and not in the log", ranges(c.Unlogged)},
			{"different in the stream", numbers(c.Different)},
			{"more than once in the stream", numbers(c.Doubled)},
			{"out of order in the stream", numbers(c.Misplaced)},
		} {
			if l.which != "" {
				fmt.Fprintf(w, "%s: %s: %s\n", c.AgencyID, l.what, l.which)
			}
		}
	}
	return nil
}

// mostRanges is how many entries of a list people see; --json has more.
const mostRanges = 20

func ranges(list []relay.Range) string {
	var parts []string
	for i, r := range list {
		switch {
		case i == mostRanges:
			return strings.Join(append(parts, "…"), ", ")
		case r.From == r.To:
			parts = append(parts, fmt.Sprint(r.From))
		default:
			parts = append(parts, fmt.Sprintf("%d to %d", r.From, r.To))
		}
	}
	return strings.Join(parts, ", ")
}

func numbers(list []uint64) string {
	all := make([]relay.Range, len(list))
	for i, n := range list {
		all[i] = relay.Range{From: n, To: n}
	}
	return ranges(all)
}

// findMender is the daemon, or, if none runs, the store and its NATS, opened here.
func findMender(ctx context.Context, c *Config) (mender, func(), error) {
	client := ops.NewClient(filepath.Join(c.Base.DataDir, daemon.SocketFile))
	if _, err := client.Status(ctx); !errors.Is(err, ops.ErrNoAnswer) {
		return throughDaemon{client}, func() {}, err
	}
	kept, err := openStopped(c.Base)
	if err != nil {
		return nil, nil, err
	}
	own, err := openStream(ctx, c, kept)
	if err != nil {
		kept.Close()
		return nil, nil, err
	}
	return own, func() { own.close(); kept.Close() }, nil
}

type throughDaemon struct{ client *ops.Client }

func (d throughDaemon) compare(ctx context.Context) (found []relay.Comparison, err error) {
	return found, d.client.Compare(ctx, &found)
}

func (d throughDaemon) resend(ctx context.Context, agencyID string) (int, error) {
	return d.client.Resend(ctx, agencyID)
}

// ownStream is a relay that runs only for a command.
type ownStream struct {
	relay  *relay.Relay
	conn   *nats.Conn
	server *natsd.Server // nil with an external NATS
	url    string        // empty: of the embedded one
}

func (s *ownStream) compare(ctx context.Context) ([]relay.Comparison, error) {
	found, err := s.relay.Compare(ctx, nil)
	return found, daemon.NoConnection(err, s.conn, s.url)
}

func (s *ownStream) resend(ctx context.Context, agencyID string) (int, error) {
	sent, err := s.relay.Resend(ctx, agencyID)
	return sent, daemon.NoConnection(err, s.conn, s.url)
}

func (s *ownStream) close() {
	if s.conn != nil {
		s.conn.Close()
	}
	if s.server != nil {
		s.server.Shutdown()
	}
}

// openStream connects to the external NATS, or starts the embedded one without a port. The store's lock protects its folder.
func openStream(ctx context.Context, c *Config, kept *store.Store) (s *ownStream, err error) {
	s = &ownStream{url: string(c.NATS.URL)}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if c.NATS.URL == "" {
		s.server, err = natsd.Start(ctx, natsd.Options{
			StoreDir: filepath.Join(c.Base.DataDir, daemon.StreamFolder), Listen: "off", MaxStore: daemon.AccountLimit, Logger: quiet(),
		})
		if err != nil {
			return s, ioError(fmt.Errorf("embedded NATS: %w", err), "look at "+filepath.Join(c.Base.DataDir, daemon.StreamFolder))
		}
		s.conn, err = s.server.Connect("verify")
	} else {
		s.conn, err = natsd.Connect(c.NATS.dial(), quiet())
	}
	if err != nil {
		return s, configError(err, "check the NATS_* settings")
	}
	if !connected(ctx, s.conn) {
		return s, failed(noConnection(s.conn, string(c.NATS.URL)), "see `doorbell check` about NATS")
	}
	b := c.Base
	s.relay, err = relay.New(relay.Options{
		Log: kept, Conn: s.conn, Prefix: b.SubjectPrefix, Stream: b.Stream, MaxAge: b.Retention, MaxBytes: int64(b.StreamMax),
		Manage: false, Embedded: s.server != nil, StoreID: kept.ID(),
	})
	return s, err
}
