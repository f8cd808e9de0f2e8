package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events/stream"
	"doorbell/store"
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
	if f.Email == "-" && f.Phone == "" || f.Phone == "-" && f.Email == "" {
		return validAgency("--agency", f.Agency)
	}
	switch err := f.wanted().Check(); {
	case errors.Is(err, people.ErrNobody):
		return errors.New("write one of --email, --phone, --request and --insertion, or the latter two")
	case errors.Is(err, people.ErrEmail):
		return fmt.Errorf("--email: %w", err)
	case err != nil:
		return fmt.Errorf("--phone: %w", err)
	}
	return validAgency("--agency", f.Agency)
}

// ForgetCmd is `doorbell forget`.
type ForgetCmd struct {
	PersonFlags
	DryRun bool `help:"Only say what is held."`
	Yes    bool `help:"Do not ask. More than 100 contact requests are erased only so."`
	JSON   bool `name:"json" help:"Print JSON."`
}

func (ForgetCmd) Help() string {
	return "Finds the contact requests of a person and, after a question, erases the person from their events in the event log, the stream, " +
		"replays and dead letters. The events stay without the person, contact_request.redacted tells " +
		"consumers, and no later answer of the API brings the person back. The receipt in the data directory, erasures, says what was erased and what " +
		"is out of reach: it names no person. What is cut short is finished by the next start, which also takes the person out of free pages of the store. Works with the daemon and without.\n\n" +
		"Exit codes: 0 erased, 1 nothing is held, or not finished.\n\n" +
		"Examples:\n  doorbell forget --email nora.beispiel@example.org --dry-run"
}

// Validate refuses what cannot be.
func (c *ForgetCmd) Validate() error {
	return c.valid()
}

// mostForgotten is how many contact requests are erased after a question.
const mostForgotten = 100

// Run erases a person.
func (c *ForgetCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if err := c.read(p); err != nil {
		return err
	}
	service, err := openService(ctx, cfg)
	if err != nil {
		return err
	}
	defer service.close()
	found, err := service.find(ctx, c.wanted())
	if err != nil {
		return personError(err)
	}
	if c.JSON && c.DryRun {
		err = p.printJSON(found)
	} else if !c.JSON {
		err = printFound(p, found)
	}
	switch n := len(found.Requests); {
	case err != nil:
		return err
	case n == 0:
		return personError(people.ErrNothing)
	case c.DryRun:
		return nil
	case n > 1 && c.Request != "":
		return exit.Failed(fmt.Errorf("this id names %s, of different people perhaps", ops.Counted(n, "contact request")), "add --insertion and --agency, as the table above has them")
	case n > mostForgotten && !c.Yes:
		return exit.Failed(fmt.Errorf("these are %s: more than one person's", ops.Counted(n, "contact request")), "if all of them are meant, add --yes")
	}
	if err := p.confirm(ctx, c.Yes, "the person in "+ops.Counted(len(found.Requests), "contact request")+" would be erased",
		"Erase the person in "+ops.Counted(len(found.Requests), "contact request")+"? Nobody can undo it."); err != nil || ctx.Err() != nil {
		return err
	}
	r, err := service.forget(ctx, c.wanted(), found)
	if err != nil && ctx.Err() != nil {
		p.note("if it had begun, the daemon goes on with it, and the next start does; its receipt is the newest in %s", filepath.Join(cfg.Base.DataDir, people.Folder))
		return nil
	}
	if err != nil {
		return personError(err)
	}
	if c.JSON {
		err = p.printJSON(r)
	} else {
		err = printReceipt(p, cfg, r)
	}
	if err == nil && r.Finished.IsZero() {
		return exit.Failed(fmt.Errorf("not everything is erased yet: %s", r.Problem), "the daemon tries again before it publishes anything, and the next start does; --dry-run says when nothing is left")
	}
	return err
}

// personError says what to do where a person's data cannot be found or erased.
func personError(err error) error {
	var known *exit.Error
	switch {
	case errors.As(err, &known):
		return err
	case errors.Is(err, people.ErrNothing):
		return exit.Failed(err, "people write with another address or number, too: search for each; doorbell events ls lists contact requests")
	case errors.Is(err, stream.ErrMayNotErase):
		return exit.Failed(fmt.Errorf("nothing was changed: %w", err), "")
	case errors.Is(err, ops.ErrNoAnswer):
		return exit.Failed(fmt.Errorf("the daemon broke off: %w", err), "what had begun it finishes; look with --dry-run")
	}
	return exit.Failed(err, ops.Hint(err))
}

// mostShown is how many contact requests people see.
const mostShown = 20

// printFound says what is held, without the person.
func printFound(p *program, found people.Found) error {
	if len(found.Requests) == 0 {
		return nil
	}
	rows, below := []string{"AGENCY\tINSERTION\tCONTACT REQUEST"}, ""
	for n, r := range found.Requests {
		if n == mostShown {
			below = fmt.Sprintf("and %d more\n", len(found.Requests)-n)
			break
		}
		row := strings.Join([]string{printable(r.AgencyID), printable(r.PropertyReferenceID), printable(r.ContactRequestID)}, "\t")
		if slices.Contains(found.Named, r) {
			row += "\tonly names the address"
		}
		rows = append(rows, row)
	}
	if n := len(found.Named); n > 0 {
		below += fmt.Sprintf("\nThat only name the address, and may be of somebody else: %d; --not-named leaves them out\n", n)
	}
	return p.printTable("", rows, below+"\nEvents that hold the person: "+perPlace(found.Events)+"\n")
}

// perPlace are the counts of the places, in words.
func perPlace(of map[string]int) string {
	return fmt.Sprintf("%d in the event log, %d in the stream, %d replayed, %s", of["log"], of["stream"], of["replays"], ops.Counted(of["deadLetters"], "dead letter"))
}

func printReceipt(p *program, cfg *config.Config, r people.Receipt) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Erased: %s\n\nOut of reach, and yours to erase:\n", perPlace(r.Erased))
	for _, what := range r.OutOfReach {
		fmt.Fprintln(&b, "  "+printable(what))
	}
	places := people.Places{Dir: cfg.Base.DataDir}
	if r.FreePages == people.AtNextStart {
		fmt.Fprintln(&b, "\nFree pages of the store's file may hold the person until the next start compacts it.")
	}
	fmt.Fprintf(&b, "\nReceipt: %s\n", places.Path(r))
	return p.print(b.String())
}

// ExportCmd is `doorbell export`.
type ExportCmd struct {
	PersonFlags
	JSON bool `name:"json" help:"Print JSON, which it does in any case."`
}

func (ExportCmd) Help() string {
	return "Answers a request for access: every event of the person's contact requests, as JSON, with the places where it is held. What doorbell " +
		"has sent to others is not in it. Works with the daemon and without.\n\nExample:\n  doorbell export --email nora.beispiel@example.org > nora.json"
}

func (c *ExportCmd) Validate() error { return c.valid() }

// exported is what `doorbell export` prints.
type exported struct {
	Events []people.Exported `json:"events"`
	// Remembered says what is kept beside the events.
	Remembered string `json:"remembered"`
}

// Run prints what is held of a person.
func (c *ExportCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	if err := c.read(p); err != nil {
		return err
	}
	service, err := openService(ctx, cfg)
	if err != nil {
		return err
	}
	defer service.close()
	list, err := service.export(ctx, c.wanted())
	if err == nil && len(list) == 0 {
		err = people.ErrNothing
	}
	if err != nil {
		return personError(err)
	}
	return p.printJSON(exported{list, "of each contact request: its id, time and hashes of its fields, to know it again; no content"})
}

// forgetStopped erases without a daemon, first what a daemon or a command before had begun.
func forgetStopped(ctx context.Context, p *people.Places, w people.Wanted, found people.Found) (r people.Receipt, err error) {
	if owner, other := exit.Owner(p.Dir); other {
		return r, exit.Failed(fmt.Errorf("%s is owned by user %s, who could not open what is made here", p.Dir, owner), "run it as that user, or beside the daemon")
	}
	if err := p.MayErase(ctx); err != nil {
		return r, err
	}
	_, err = p.EraseAgain()
	if err == nil {
		_, err = p.FinishAll(ctx)
	}
	if err != nil {
		return r, err
	}
	if r, err = p.Begin(w, found.Requests); r.ID == "" {
		return r, err
	}
	err = errors.Join(err, p.Finish(ctx, &r))
	if errors.Is(err, store.ErrUnknownOutcome) || errors.Is(err, store.ErrDamaged) {
		return r, err
	}
	return r, nil // a problem is in the receipt
}
