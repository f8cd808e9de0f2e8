package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
)

// PersonFlags say whose data are meant.
type PersonFlags struct {
	Email     string `placeholder:"ADDRESS" help:"Everyone who wrote from this mail address, or mentioned it; case does not matter, dots do. - reads it from standard input."`
	Phone     string `placeholder:"NUMBER" help:"Everyone who gave this phone number, however it is written. - reads it from standard input."`
	Request   string `placeholder:"ID" help:"Everyone who wrote a contact request with this id; with --insertion, only the one about that insertion."`
	Insertion string `placeholder:"REFERENCE" help:"Everyone who wrote about this insertion."`
	Agency    string `placeholder:"AGENCY" help:"Only in contact requests to this agency."`
	NotNamed  bool   `help:"Leave out contact requests that only mention the address in a text: someone else may have written them."`
}

// fromInput stands for a value that is read from standard input, because others of this machine see
// the command line.
const fromInput = "-"

// Validate refuses flags that match no person. What is read from standard input is checked by
// wanted.
func (f *PersonFlags) Validate() error {
	if f.Email == fromInput || f.Phone == fromInput {
		return nil
	}
	_, err := f.wanted(nil)
	return err
}

// wanted says whose data are meant, after it has read what comes from standard input.
func (f *PersonFlags) wanted(stdin io.Reader) (people.Wanted, error) {
	for _, value := range []*string{&f.Email, &f.Phone} {
		if *value == fromInput {
			text, _ := bufio.NewReader(io.LimitReader(stdin, 1000)).ReadString('\n')
			*value = strings.TrimSpace(text)
		}
	}
	w := people.Wanted{
		Email: f.Email, Phone: f.Phone, ContactRequestID: f.Request,
		PropertyReferenceID: f.Insertion, AgencyID: f.Agency, NotNamed: f.NotNamed,
	}
	err := w.Check()
	switch {
	case errors.Is(err, people.ErrNobody):
		err = errors.New(
			"write one of --email, --phone, --request and --insertion, or the last two together")
	case errors.Is(err, people.ErrEmail):
		err = fmt.Errorf("--email: %w", err)
	case err != nil:
		err = fmt.Errorf("--phone: %w", err)
	}
	return w, cmp.Or(err, validAgency("--agency", f.Agency))
}

// ForgetCmd is `doorbell forget`.
type ForgetCmd struct {
	PersonFlags
	DryRun bool `help:"Only show what is held. Exits with 1 if nothing is."`
	Yes    bool `help:"Erase it."`
	JSON   bool `name:"json" help:"Print JSON."`
}

// Run erases a person.
func (c *ForgetCmd) Run(ctx context.Context, p *program, cfg *config.Config, held *heldData) error {
	wanted, err := c.wanted(p.stdin)
	if err != nil {
		return exit.Usage(err.Error(), "")
	}
	found, err := ops.Find.Ask(ctx, held.Client, wanted)
	if err != nil {
		return err
	}
	n := len(found.Requests)
	requests := ops.Counted(n, "contact request")
	if n > 0 && (c.DryRun || !c.JSON) {
		err = p.result(c.JSON, found, foundText(found))
	}
	switch {
	case err != nil:
		return err
	case n == 0:
		return nothingHeld()
	case c.DryRun:
		return nil
	case n > 1 && c.Request != "":
		return exit.Failed(fmt.Errorf("this id names %s, perhaps from different people", requests),
			"add --insertion and --agency, as the table above shows them")
	}
	if err := confirmed(c.Yes, "the person in "+requests+" would be erased for good"); err != nil {
		return err
	}
	r, err := held.forget(ctx, ops.ForgetRequest{Wanted: wanted, Requests: found.Requests})
	if err == nil {
		err = p.result(c.JSON, r, receiptText(r, cfg.Base.DataDir))
	}
	if err == nil && r.Finished.IsZero() {
		err = exit.Failed(fmt.Errorf("not everything is erased yet: %s", r.Problem),
			"the daemon tries again before it publishes anything, and so does the next start; --dry-run shows when nothing is left")
	}
	return err
}

func nothingHeld() error {
	return exit.Failed(people.ErrNothing,
		"people may have written with another address or number: search for each; doorbell events ls lists contact requests")
}

// foundText says what is held, without the person.
func foundText(found people.Found) string {
	var rows [][]string
	for _, r := range found.Requests {
		row := []string{r.AgencyID, r.PropertyReferenceID, r.ContactRequestID}
		if slices.Contains(found.Named, r) {
			row = append(row, "only mentions the address")
		}
		rows = append(rows, row)
	}
	text := table("", "AGENCY|INSERTION|CONTACT REQUEST", rows)
	if n := len(found.Named); n > 0 {
		text += fmt.Sprintf("\nThose that only mention the address and may be from someone else: %d; --not-named leaves them out\n", n)
	}
	return text + "\nEvents with the person's data: " + perPlace(found.Events) + "\n"
}

// perPlace are the counts of the places, in words.
func perPlace(of map[string]int) string {
	return fmt.Sprintf("%d in the event log, %d in the stream, %d replayed, %s",
		of["log"], of["stream"], of["replays"], ops.Counted(of["deadLetters"], "dead letter"))
}

func receiptText(r people.Receipt, dir string) string {
	text := "Erased: " + perPlace(r.Erased) + "\n\nOut of reach, and yours to erase:\n  " +
		strings.Join(r.OutOfReach, "\n  ") + "\n"
	if r.FreePages == people.AtNextStart {
		text += "\nFree pages of the store file may still contain the person's data until the next start compacts it.\n"
	}
	places := people.Places{Dir: dir}
	return text + "\nReceipt: " + places.Path(r) + "\n"
}

// ExportCmd is `doorbell export`.
type ExportCmd struct {
	PersonFlags
	JSON bool `name:"json" help:"Print JSON, which is the only format."`
}

// Run prints what is held of a person.
func (c *ExportCmd) Run(ctx context.Context, p *program, held *heldData) error {
	wanted, err := c.wanted(p.stdin)
	if err != nil {
		return exit.Usage(err.Error(), "")
	}
	list, err := ops.Export.Ask(ctx, held.Client, wanted)
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return nothingHeld()
	}
	return p.printJSON(map[string]any{
		"events": list, "remembered": "for each contact request: its id, time and hashes of its fields, to recognise it again; no content",
	})
}
