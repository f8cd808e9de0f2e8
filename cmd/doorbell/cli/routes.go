package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/stream"
)

// RoutesCmd groups the commands about the table of routes.
type RoutesCmd struct {
	Ls   RoutesLsCmd   `cmd:"" group:"commands" help:"List the lines of the table; those that the settings make come last."`
	Test RoutesTestCmd `cmd:"" group:"commands" help:"Show which receivers get an event, and by which line."`
}

// RoutesLsCmd is `doorbell routes ls`.
type RoutesLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (RoutesLsCmd) Help() string {
	return "For each kind of receiver the first line that fits an event wins.\n\nExample:\n  doorbell routes ls"
}

// routeLine is a line of the table in the form in which it is printed.
type routeLine struct {
	Line    int      `json:"line,omitempty"`
	Setting string   `json:"setting,omitempty"` // of a line that a setting makes
	To      []string `json:"to"`
	forward.Filter
}

func shownLines(list []receivers.Line) []routeLine {
	all := []routeLine{}
	for _, l := range list {
		one := routeLine{Line: l.Number, Setting: l.Setting, Filter: l.Filter}
		for _, a := range l.To {
			one.To = append(one.To, a.String())
		}
		all = append(all, one)
	}
	return all
}

func (c *RoutesLsCmd) Run(_ context.Context, p *program) error {
	set, err := openRoutes(p)
	if err != nil {
		return err
	}
	defer set.Close()
	lines := shownLines(set.Lines())
	switch {
	case c.JSON:
		return p.printJSON(lines)
	case len(lines) == 0:
		return p.print("no routes: events go to NATS alone")
	}
	rows := []string{"LINE\tAGENCY\tREFERENCE\tPOSTAL CODE\tOFFER TYPE\tMIN SCORE\tTYPES\tTO"}
	for n, l := range lines {
		score := ""
		if l.MinScore != nil {
			score = strconv.FormatFloat(*l.MinScore, 'g', -1, 64)
		}
		cells := []string{
			strings.TrimPrefix(set.Lines()[n].Place(), "line "), l.Whose(), l.Reference, strings.Join(l.PostalCodes, ","),
			strings.Join(l.OfferTypes, ","), score, strings.Join(l.Types, ","), strings.Join(l.To, " "),
		}
		for n := range cells {
			cells[n] = cmp.Or(ops.Printable(cells[n]), "-")
		}
		rows = append(rows, strings.Join(cells, "\t"))
	}
	return p.printTable(rows)
}

// RoutesTestCmd is `doorbell routes test`.
type RoutesTestCmd struct {
	Agency     string   `arg:"" help:"Agency."`
	Reference  string   `arg:"" optional:"" help:"Reference of an insertion. Without flags, its newest event in the stream describes it."`
	PostalCode string   `placeholder:"CODE" help:"Postal code of the insertion."`
	OfferType  string   `placeholder:"TYPE" help:"Offer type of the insertion, such as RENT."`
	Score      *float64 `placeholder:"NUMBER" help:"Score of the contact request."`
	Type       string   `default:"contact_request.created" placeholder:"TYPE" help:"Type of the event. Default contact_request.created."`
	JSON       bool     `name:"json" help:"Print JSON."`
}

func (RoutesTestCmd) Help() string {
	return "Sends nothing. Exits with 1 if no line takes the event.\n\nExamples:\n  doorbell routes test A100 'seefeld#1203#H2#0305'\n" +
		"  doorbell routes test A100 --postal-code 8005 --offer-type RENT --score 60"
}

func (c *RoutesTestCmd) Validate() error {
	if c.Type != "" && (!config.KnownType(c.Type) || strings.HasSuffix(c.Type, ">")) {
		return errors.New("--type: is not an event type; " + config.TypeHint(c.Type))
	}
	return validAgency("AGENCY", c.Agency)
}

func (c *RoutesTestCmd) Run(ctx context.Context, p *program) error {
	set, err := openRoutes(p)
	if err != nil {
		return err
	}
	defer set.Close()
	e, err := c.event(ctx, p)
	if err != nil {
		return err
	}
	matching := set.Matching(e)
	if c.JSON {
		err = p.printJSON(shownLines(matching))
	}
	for _, l := range matching {
		for _, to := range l.To {
			if !c.JSON {
				err = errors.Join(err, p.print(to.String()+" by "+l.Place()))
			}
		}
	}
	if err == nil && len(matching) == 0 {
		err = exit.Failed(errors.New("no line takes it"),
			"doorbell routes ls lists them; a last line without conditions takes the leads that no other does")
	}
	return err
}

// event returns the event that the flags describe, or without flags the newest one of the
// reference.
func (c *RoutesTestCmd) event(ctx context.Context, p *program) (events.Event, error) {
	described := events.Event{AgencyID: c.Agency, Reference: c.Reference, Type: events.Type(c.Type)}
	if c.Reference != "" && c.PostalCode == "" && c.OfferType == "" && c.Score == nil {
		e, err := newest(ctx, p, c.Agency, c.Reference)
		described.Data = e.Data
		return described, err
	}
	data := map[string]any{"insertion": map[string]string{"postalCode": c.PostalCode, "offerType": c.OfferType}}
	if c.Score != nil {
		data["score"] = *c.Score
	}
	var err error
	described.Data, err = json.Marshal(data)
	return described, err
}

// newest returns the newest event of a reference in the stream that describes the insertion.
func newest(ctx context.Context, p *program, agency, reference string) (found events.Event, err error) {
	c, err := config.Read(p.environ)
	if err != nil {
		return found, err
	}
	conn, err := connectStream(ctx, c)
	if err != nil {
		return found, err
	}
	defer daemon.HangUp(conn)
	messages := stream.Client{Conn: conn, Stream: c.Base.Stream(), Wait: 5 * time.Second, Alone: c.NATS.URL == ""}
	for m, err := range messages.Read(ctx, c.Base.SubjectPrefix+".v1."+events.Token(agency)+".>", 0) {
		if err != nil {
			return found, exit.Failed(stream.Explain(conn, err), "describe the insertion by --postal-code, --offer-type and --score")
		}
		e, err := events.Decode(m.Header, m.Data)
		if err == nil && e.Reference == reference && !strings.HasPrefix(string(e.Type), "watch.") && e.Type != events.TypeContactRequestRedacted {
			found = e
		}
	}
	if found.ID == "" {
		return found, exit.Failed(errors.New("the stream has no event of this reference"), "describe the insertion by --postal-code, --offer-type and --score")
	}
	return found, nil
}

// openRoutes reads the table, and prints the warnings of the configuration.
func openRoutes(p *program) (*receivers.Set, error) {
	c, err := config.Read(p.environ, config.GroupForward)
	p.warn(c.Warnings)
	if err != nil {
		return nil, err
	}
	return receivers.Open(c, release)
}
