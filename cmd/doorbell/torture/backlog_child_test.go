package torture

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"doorbell/cmd/doorbell/cli"
	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// The test binary is a daemon where this is set: the real one, configured by its environment, and beside it somebody who
// appends events to its log when told to, through the same door as the poller. Each line that it reads is a command, and
// answered by one line.
const backlogDaemon = "TEST_BACKLOG_DAEMON"

const (
	backlogAgencies = 20
	inACommit       = 500 // events of one agency
	inventedID      = "invented-"
)

func backlogAgency(n int) string { return fmt.Sprintf("A%d", 100+n%backlogAgencies) }

// runWithBacklog lives until SIGTERM.
func runWithBacklog() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := config.Read(os.Environ(), config.GroupPoll)
	if err != nil {
		return err
	}
	log := cli.NewLogger(os.Stderr, c.Base, cli.Terminal{})
	o := cli.DaemonOptions(c, log)
	a, err := daemon.New(ctx, o)
	if err != nil {
		return err
	}
	defer a.Close()
	go func() {
		if err := obey(a.Store()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}()
	return a.Run(ctx)
}

// obey does what it is told on standard input.
func obey(s *store.Store) error {
	f := filler{store: s}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		what, n := "", 0
		if _, err := fmt.Sscan(in.Text(), &what, &n); err != nil {
			return err
		}
		answer, err := "", error(nil)
		switch what {
		case "fill": // until so many are appended
			answer, err = f.fill(n)
		case "commit": // so many events, each in a commit of its own, as polls do
			answer, err = f.commitSingly(n)
		case "heap":
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			answer = fmt.Sprint(m.HeapInuse)
		default:
			err = errors.New("no such command")
		}
		if err != nil {
			return err
		}
		fmt.Println(answer)
	}
	return nil
}

// filler appends invented contact requests, to all agencies in turn.
type filler struct {
	store  *store.Store
	number int
}

func (f *filler) fill(upTo int) (string, error) {
	for f.number < upTo {
		if err := f.append(f.number/inACommit, min(inACommit-f.number%inACommit, upTo-f.number)); err != nil {
			return "", err
		}
	}
	return "filled", nil
}

// commitSingly answers with the median and the longest time, in nanoseconds.
func (f *filler) commitSingly(n int) (string, error) {
	var took []time.Duration
	for i := range n {
		begin := time.Now()
		if err := f.append(i, 1); err != nil {
			return "", err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return fmt.Sprint(took[n/2].Nanoseconds(), " ", took[n-1].Nanoseconds()), nil
}

func (f *filler) append(agency, n int) error {
	return f.store.Update(func(tx *store.Tx) error {
		for range n {
			e, err := inventedRequest(backlogAgency(agency), f.number)
			if err != nil {
				return err
			}
			if _, err := tx.Append(e); err != nil {
				return err
			}
			f.number++
		}
		return nil
	})
}

// inventedRequest is a contact request of the size that the contract shows.
func inventedRequest(agency string, number int) (events.Event, error) {
	now := time.Now()
	return events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: agency, ObservedAt: now, ObservedAfter: now.Add(-time.Minute)},
		PropertyReferenceID: fmt.Sprintf("seefeld#%d#H2#0305", number%2000),
		ContactRequestID:    fmt.Sprintf("%s%d", inventedID, number), Identity: events.IdentityID, CreatedAt: now.Add(-time.Minute),
		Contact: events.Contact{
			Salutation: "Frau", FirstName: "Nora", LastName: "Beispiel" + sandbox.Marker, Email: "nora.beispiel@example.org", Language: "de",
			Message: "Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.",
		},
		Insertion: events.InsertionSummary{Title: "Helle 3.5-Zimmerwohnung im Seefeld", Street: "Beispielstrasse 12", PostalCode: "8008"},
		Record: fmt.Appendf(nil, `{"id":"%s%d","createdAt":"2026-11-20T10:41:07+0100","score":72.5,"salutation":"Frau",`+
			`"firstName":"Nora","lastName":"Beispiel%s","email":"nora.beispiel@example.org","phone":"079 000 01 23","language":"de",`+
			`"message":"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.","status":"NEW"}`, inventedID, number, sandbox.Marker),
	})
}
