package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"text/tabwriter"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// cmdKeysVerify compares the two keys of each agency and says whether the current one may be given up.
func cmdKeysVerify(ctx context.Context, p *program, c *KeysVerifyCmd) error {
	config, err := readConfig(p.environ)
	if err != nil {
		return err
	}
	report, err := verifyKeys(ctx, p, config.Base)
	if errors.Is(err, poller.ErrNoNextKey) {
		return configError(err, "set DOORBELL_API_KEY_NEXT, or write A100=key|next into DOORBELL_API_KEYS; a daemon that runs reads a "+
			"changed file within 30 s, and its environment at the next start")
	}
	if err != nil {
		return err
	}
	if err := printKeys(p.stdout, report, c.JSON); err != nil {
		return err
	}
	if !report.MayGiveUp {
		return failed(errors.New("the current key is still needed"), "the report above says why")
	}
	return nil
}

// verifyKeys asks the daemon, so that there is one budget; if none runs, it asks the API itself.
func verifyKeys(ctx context.Context, p *program, b Base) (poller.KeyReport, error) {
	report, err := ops.NewClient(filepath.Join(b.DataDir, daemon.SocketFile)).VerifyKeys(ctx)
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) || ctx.Err() != nil {
		return report, err
	}
	if err := nobodyHolds(b); err != nil {
		return report, err
	}
	c, err := readConfig(p.environ, groupPoll)
	if err != nil {
		return report, err
	}
	return poller.VerifyKeys(ctx, c.pollerOptions())
}

// nobodyHolds refuses to ask beside a daemon that does not answer: it spends the same budget.
func nobodyHolds(b Base) error {
	if _, err := os.Stat(filepath.Join(b.DataDir, daemon.StoreFile)); err != nil {
		return nil
	}
	s, err := openStopped(b)
	if err == nil {
		return s.Close()
	}
	var known *exitError
	if errors.As(err, &known) && known.Code == exitUnavailable {
		return err
	}
	return nil // what is wrong with the store is no matter of the keys
}

func printKeys(w io.Writer, r poller.KeyReport, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "AGENCY\tKEY\tFINGERPRINT\tSTATUS\tINSERTIONS\t")
	for _, a := range r.Agencies {
		for _, k := range []*poller.KeyAnswer{&a.Current, a.Next} {
			if k != nil {
				fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", a.AgencyID, k.Slot, k.Fingerprint, keyStatus(a, *k), keyInsertions(*k), printable(k.Problem))
			}
		}
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, a := range r.Agencies {
		fmt.Fprintf(w, "%s: %s\n", a.AgencyID, a.Text)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.Text)
	return err
}

func keyStatus(a poller.AgencyKeyReport, k poller.KeyAnswer) string {
	switch {
	case a.Next == nil:
		return "not asked"
	case k.Status == 0:
		return "no answer"
	}
	return strconv.Itoa(k.Status)
}

func keyInsertions(k poller.KeyAnswer) string {
	switch {
	case k.Insertions == nil:
		return "-"
	case k.Total:
		return strconv.Itoa(*k.Insertions)
	}
	return fmt.Sprintf("%d on the first page", *k.Insertions)
}
