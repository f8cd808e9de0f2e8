package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events"
	"doorbell/events/stream"
)

// RoutesCmd groups the commands about the table of routes.
type RoutesCmd struct {
	Ls   RoutesLsCmd   `cmd:"" group:"commands" help:"List the lines of the table; those from the settings come last."`
	Test RoutesTestCmd `cmd:"" group:"commands" help:"Show which receivers get an event, and by which line."`
}

// RoutesLsCmd is `doorbell routes ls`.
type RoutesLsCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (c *RoutesLsCmd) Run(_ context.Context, p *program) error {
	_, set, err := p.receivers("", "")
	if err != nil {
		return err
	}
	lines := append([]receivers.Line{}, set.Lines()...)
	var rows [][]string
	for _, l := range lines {
		score := ""
		if l.MinScore != nil {
			score = strconv.FormatFloat(*l.MinScore, 'g', -1, 64)
		}
		rows = append(rows, []string{
			strings.TrimPrefix(l.Place(), "line "), l.Whose(), l.Reference,
			strings.Join(l.PostalCodes, ","), strings.Join(l.OfferTypes, ","), score,
			strings.Join(l.Types, ","), addresses(l),
		})
	}
	return p.result(c.JSON, lines, table("no routes: events go only to NATS",
		"LINE|AGENCY|REFERENCE|POSTAL CODE|OFFER TYPE|MIN SCORE|TYPES|TO", rows))
}

func addresses(l receivers.Line) string { return strings.Trim(fmt.Sprint(l.To), "[]") }

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

func (c *RoutesTestCmd) Validate() error {
	if c.Type != "" && (!config.KnownType(c.Type) || strings.HasSuffix(c.Type, ">")) {
		return errors.New("--type: is not an event type; " + config.TypesAre)
	}
	return validAgency("AGENCY", c.Agency)
}

func (c *RoutesTestCmd) Run(ctx context.Context, p *program) error {
	cfg, set, err := p.receivers("", "")
	if err != nil {
		return err
	}
	e, err := c.event(ctx, p, cfg)
	if err != nil {
		return err
	}
	matching, text := append([]receivers.Line{}, set.Matching(e)...), ""
	for _, l := range matching {
		for _, to := range l.To {
			text += to.String() + " by " + l.Place() + "\n"
		}
	}
	err = p.result(c.JSON, matching, text)
	if err == nil && len(matching) == 0 {
		err = exit.Failed(errors.New("no line takes it"),
			"doorbell routes ls lists them; a last line without conditions takes the leads that no other line takes")
	}
	return err
}

// event returns the event that the flags describe, or without flags the newest one of the
// reference.
func (c *RoutesTestCmd) event(ctx context.Context, p *program, cfg *config.Config) (events.Event, error) {
	e := events.Event{AgencyID: c.Agency, Reference: c.Reference, Type: events.Type(c.Type)}
	if c.Reference != "" && c.PostalCode == "" && c.OfferType == "" && c.Score == nil {
		data, err := newest(ctx, p, cfg, c.Agency, c.Reference)
		if e.Data = data; err != nil {
			err = exit.Failed(err,
				"describe the insertion with --postal-code, --offer-type and --score")
		}
		return e, err
	}
	data := map[string]any{"insertion": map[string]string{
		"postalCode": c.PostalCode,
		"offerType":  c.OfferType,
	}}
	if c.Score != nil {
		data["score"] = *c.Score
	}
	var err error
	e.Data, err = json.Marshal(data)
	return e, err
}

// newest returns the data of the newest event in the stream that describes an insertion.
func newest(ctx context.Context, p *program, cfg *config.Config,
	agency, reference string,
) (data []byte, err error) {
	conn, err := p.connectStream(ctx, cfg)
	if err != nil {
		return nil, err
	}
	messages := stream.Client{
		Conn: conn, Stream: cfg.Base.Stream(), Wait: 5 * time.Second,
		Alone: cfg.NATS.URL == "",
	}
	for m, err := range messages.Read(ctx, cfg.Base.SubjectPrefix+".v1."+events.Token(agency)+".>",
		0) {
		if err != nil {
			return nil, stream.Explain(conn, err)
		}
		e, err := events.Decode(m.Header, m.Data)
		if err == nil && e.Reference == reference && !strings.HasPrefix(string(e.Type), "watch.") &&
			e.Type != events.TypeContactRequestRedacted {
			data = e.Data
		}
	}
	if data == nil {
		return nil, errors.New("the stream has no event for this reference")
	}
	return data, nil
}
