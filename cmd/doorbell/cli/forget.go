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
	Email     string `placeholder:"ADDRESS" help:"Whoever wrote under this mail address, or named it; upper and lower case are the same, dots count. - reads it from standard input."`
	Phone     string `placeholder:"NUMBER" help:"Whoever gave this phone number, however it is written. - reads it from standard input."`
	Request   string `placeholder:"ID" help:"Whoever wrote this contact request; with --insertion, that of this insertion."`
	Insertion string `placeholder:"REFERENCE" help:"Everybody who wrote about this insertion."`
	Agency    string `placeholder:"AGENCY" help:"Only in contact requests to this agency."`
	NotNamed  bool   `help:"Leave out contact requests that only name the address in a text: somebody else may have written them."`
}

func (f *PersonFlags) wanted() people.Wanted {
	return people.Wanted{Email: f.Email, Phone: f.Phone, ContactRequestID: f.Request, PropertyReferenceID: f.Insertion, AgencyID: f.Agency, NotNamed: f.NotNamed}
}

// read takes from standard input what is not to stand on the command line, where others of this
// machine see it.
func (f *PersonFlags) read(p *program) error {
	for _, value := range []*string{&f.Email, &f.Phone} {
		if *value == "-" {
			text, _ := bufio.NewReader(io.LimitReader(p.stdin, 1000)).ReadString('\n')
			*value = strings.TrimSpace(text)
		}
	}
	if err := f.valid(); err != nil {
		return exit.Usage(err.Error(), "")
	}
	return nil
}

// valid refuses flags that match no person. What is read from standard input is checked when it is.
func (f *PersonFlags) valid() error {
	err := f.wanted().Check()
	switch {
	case f.Email == "-" && f.Phone == "", f.Phone == "-" && f.Email == "":
		err = nil
	case errors.Is(err, people.ErrNobody):
		err = errors.New("write one of --email, --phone, --request and --insertion, or the latter two")
	case errors.Is(err, people.ErrEmail):
		err = fmt.Errorf("--email: %w", err)
	case err != nil:
		err = fmt.Errorf("--phone: %w", err)
	}
	return cmp.Or(err, validAgency("--agency", f.Agency))
}

// ForgetCmd is `doorbell forget`.
type ForgetCmd struct {
	PersonFlags
	DryRun bool `help:"Only say what is held, with exit code 0."`
	Yes    bool `help:"Erase it."`
	JSON   bool `name:"json" help:"Print JSON."`
}

func (ForgetCmd) Help() string {
	return "Erases the person from event log, stream, replays and dead letters. The events stay without the\n" +
		"person. The receipt in the data directory says what is out of reach.\n\n" +
		"Example:\n  doorbell forget --email nora.beispiel@example.org --dry-run"
}

func (c *ForgetCmd) Validate() error { return c.valid() }

// Run erases a person.
func (c *ForgetCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if err := c.read(p); err != nil {
		return err
	}
	service, err := openPeople(ctx, cfg)
	if err != nil {
		return err
	}
	defer service.close()
	found, err := service.Find(ctx, c.wanted())
	if err != nil {
		return err
	}
	if c.JSON && c.DryRun {
		err = p.printJSON(found)
	} else if !c.JSON && len(found.Requests) > 0 {
		err = printFound(p, found)
	}
	n := len(found.Requests)
	requests := ops.Counted(n, "contact request")
	switch {
	case err != nil:
		return err
	case n == 0:
		return nothingHeld()
	case c.DryRun:
		return nil
	case n > 1 && c.Request != "":
		return exit.Failed(fmt.Errorf("this id names %s, of different people perhaps", requests), "add --insertion and --agency, as the table above has them")
	}
	if err := confirmed(c.Yes, "the person in "+requests+" would be erased for good"); err != nil {
		return err
	}
	r, err := service.Forget(ctx, ops.ForgetRequest{Wanted: c.wanted(), Requests: found.Requests})
	switch {
	case err != nil:
		return err
	case c.JSON:
		err = p.printJSON(r)
	default:
		err = printReceipt(p, cfg, r)
	}
	if err == nil && r.Finished.IsZero() {
		return exit.Failed(fmt.Errorf("not everything is erased yet: %s", r.Problem), "the daemon tries again before it publishes anything, and the next start does; --dry-run says when nothing is left")
	}
	return err
}

func nothingHeld() error {
	return exit.Failed(people.ErrNothing, "people write with another address or number, too: search for each; doorbell events ls lists contact requests")
}

// printFound says what is held, without the person.
func printFound(p *program, found people.Found) error {
	rows := []string{"AGENCY\tINSERTION\tCONTACT REQUEST"}
	for _, r := range found.Requests {
		row := strings.Join([]string{ops.Printable(r.AgencyID), ops.Printable(r.PropertyReferenceID), ops.Printable(r.ContactRequestID)}, "\t")
		if slices.Contains(found.Named, r) {
			row += "\tonly names the address"
		}
		rows = append(rows, row)
	}
	below := ""
	if n := len(found.Named); n > 0 {
		below += fmt.Sprintf("\nThat only name the address, and may be of somebody else: %d; --not-named leaves them out\n", n)
	}
	return cmp.Or(p.printTable(rows), p.print(below+"\nEvents that hold the person: "+perPlace(found.Events)+"\n"))
}

// perPlace are the counts of the places, in words.
func perPlace(of map[string]int) string {
	return fmt.Sprintf("%d in the event log, %d in the stream, %d replayed, %s", of["log"], of["stream"], of["replays"], ops.Counted(of["deadLetters"], "dead letter"))
}

func printReceipt(p *program, cfg *config.Config, r people.Receipt) error {
	text := "Erased: " + perPlace(r.Erased) + "\n\nOut of reach, and yours to erase:\n  " + strings.Join(r.OutOfReach, "\n  ") + "\n"
	if r.FreePages == people.AtNextStart {
		text += "\nFree pages of the store's file may hold the person until the next start compacts it.\n"
	}
	places := people.Places{Dir: cfg.Base.DataDir}
	return p.print(text + "\nReceipt: " + places.Path(r) + "\n")
}

// ExportCmd is `doorbell export`.
type ExportCmd struct {
	PersonFlags
	JSON bool `name:"json" help:"Print JSON, which it does in any case."`
}

func (ExportCmd) Help() string {
	return "Prints every event of the person's contact requests, with the places where it is held.\n\n" +
		"Example:\n  doorbell export --email nora.beispiel@example.org > nora.json"
}

func (c *ExportCmd) Validate() error { return c.valid() }

// Run prints what is held of a person.
func (c *ExportCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if err := c.read(p); err != nil {
		return err
	}
	service, err := openPeople(ctx, cfg)
	if err != nil {
		return err
	}
	defer service.close()
	list, err := service.Export(ctx, c.wanted())
	switch {
	case err != nil:
		return err
	case len(list) == 0:
		return nothingHeld()
	}
	return p.printJSON(map[string]any{
		"events": list, "remembered": "of each contact request: its id, time and hashes of its fields, to know it again; no content",
	})
}
