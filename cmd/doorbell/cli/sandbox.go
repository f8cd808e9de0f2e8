package cli

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"text/template"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/shape"
	"doorbell/events"
	"doorbell/poller/sandbox"
)

// madeUpKey opens the agencies of the made-up API. It has the form of a real one and opens nothing
// else.
const madeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110000"

// nextMadeUpKey replaces madeUpKey where a scenario replaces it.
const nextMadeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110001"

// SandboxCmd is `doorbell sandbox`. It reads no environment variables.
type SandboxCmd struct {
	Listen          string   `default:"127.0.0.1:3668" placeholder:"HOST:PORT" help:"Address of the API; a free port is taken if this one is in use."`
	Control         string   `default:"127.0.0.1:3669" placeholder:"HOST:PORT" help:"Address of the control endpoint, which changes the API and shows what it served; a free port is taken if this one is in use."`
	Scenario        string   `enum:"${scenarios}," default:"" placeholder:"NAME" help:"Play a scenario from the list above. It brings its own agencies; the flags for insertions, contact requests and changes have no effect."`
	Shape           string   `type:"path" xor:"what" placeholder:"FILE" help:"Serve made-up responses in the form that check --shape wrote to this file, for the first agency. The flags for insertions, contact requests and changes have no effect."`
	Events          bool     `xor:"what" help:"Publish one example of every type of event to your NATS, in a new stream, and exit. No API is served."`
	Agencies        []string `default:"A100,B200" help:"Agencies to serve."`
	Insertions      uint16   `default:"12" help:"Insertions per agency at the start."`
	History         uint16   `default:"3" help:"Contact requests per insertion at the start."`
	ContactRequests uint16   `name:"contact-requests-per-minute" default:"10" help:"New contact requests per minute, across all agencies."`
	Changes         uint16   `name:"changes-per-minute" default:"5" help:"Edits, withdrawals and publications per minute, across all agencies."`
	NATS            string   `name:"nats" placeholder:"URL" help:"NATS server for --events."`
	Prefix          string   `default:"listings" placeholder:"SUBJECT" help:"First part of the subjects for --events and, in capitals, the name of the stream, which must not exist yet."`
	JSON            bool     `name:"json" help:"Print one JSON object with the addresses and the settings to watch them with; everything else goes to standard error."`
}

func scenarioNames() (names []string) {
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

func scenarioList() (text string) {
	for _, s := range sandbox.Scenarios() {
		text += fmt.Sprintf("  %-19s  %s\n", s.Name, s.Description)
	}
	return strings.TrimRight(text, "\n")
}

func (c *SandboxCmd) Validate() error {
	prefix := events.ValidPrefix(c.Prefix)
	switch {
	case c.Scenario != "" && (c.Shape != "" || c.Events):
		return errors.New("--scenario: cannot be combined with --shape or --events")
	case c.Events == (c.NATS == ""):
		return errors.New("--events: needs --nats URL, which works only with --events")
	case prefix != nil:
		return fmt.Errorf("--prefix: %w", prefix)
	case len(c.Agencies) == 0:
		return errors.New("--agencies: is empty; write one or more, like A100,B200")
	}
	err := new(config.List).Decode(strings.Join(c.Agencies, ","))
	for _, id := range c.Agencies {
		err = errors.Join(err, config.CheckAgencyID(id))
	}
	if err != nil {
		return fmt.Errorf("--agencies: %w", err)
	}
	return nil
}

// madeUp is a made-up API, as `sandbox --json` prints it.
type madeUp struct {
	API      string            `json:"api"`
	Control  string            `json:"control"`
	Agencies []string          `json:"agencies"`
	Settings map[string]string `json:"settings"` // variables with which doorbell watches it

	handler http.Handler
	model   *sandbox.Model // nil: nothing changes
	play    *sandbox.Play  // nil: no scenario
}

// Run serves a made-up API until it is stopped.
func (c *SandboxCmd) Run(ctx context.Context, p *program) error {
	if c.Events {
		return c.publishStory(ctx, p)
	}
	out := p.stdout
	if c.JSON {
		out = p.stderr
	}
	m, err := c.open(ctx)
	if err != nil {
		return err
	}
	if err := m.serve(ctx, out, c.Listen); err != nil {
		return err
	}
	if m.model != nil {
		if m.Control, err = serve(ctx, out, "the control", c.Control,
			sandbox.Control(m.model)); err != nil {
			return err
		}
	}
	if c.JSON {
		err = p.printJSON(m)
	} else {
		err = m.greet(out)
	}
	if err != nil {
		return err
	}
	if m.play != nil {
		tell(ctx, out, m.play)
	}
	<-ctx.Done()
	return nil
}

// open makes up what the flags say. Ids differ from one start to the next, because a client may
// remember those of the last one.
func (c *SandboxCmd) open(ctx context.Context) (m madeUp, err error) {
	model := sandbox.Options{Seed: uint64(time.Now().UnixNano())}
	scenario, play := sandbox.ScenarioNamed(c.Scenario)
	switch {
	case c.Shape != "":
		m = madeUp{Agencies: c.Agencies[:1]} // only one, as the path of contact requests names none
		m.handler, err = shapedAPI(c.Shape, m.Agencies)
		return m, err
	case play:
		p := scenario.Open(
			sandbox.ScenarioOptions{Seed: 1, Key: madeUpKey, NextKey: nextMadeUpKey, Model: model})
		m = madeUp{handler: p.Handler, model: p.Model, play: p, Agencies: scenario.Agencies}
		m.Settings = map[string]string{"DOORBELL_REQUESTS_PER_SECOND": "50"}
		maps.Copy(m.Settings, scenarioSettings[scenario.Name])
		return m, nil
	}
	return flow(ctx, sandbox.NewModel(model), sandbox.GeneratorOptions{
		Seed: 1, Agencies: c.Agencies, Insertions: int(c.Insertions), History: int(c.History),
		ContactRequestsPerMinute: float64(c.ContactRequests), ChangesPerMinute: float64(c.Changes),
	}), nil
}

// flow fills a model, and keeps it moving until ctx ends.
func flow(ctx context.Context, model *sandbox.Model, o sandbox.GeneratorOptions) madeUp {
	g := sandbox.NewGenerator(model, o)
	g.Seed()
	model.AddKey(madeUpKey, o.Agencies...)
	go g.Run(ctx)
	return madeUp{handler: sandbox.New(model, sandbox.Flat()), model: model, Agencies: o.Agencies}
}

// shapedAPI has the form that `check --shape` wrote.
func shapedAPI(path string, agencies []string) (http.Handler, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, exit.IO(err, "name a file that doorbell check --shape wrote")
	}
	defer file.Close()
	f, err := shape.Read(file)
	if err != nil {
		return nil, exit.Failed(fmt.Errorf("%s: %w", path, err),
			"write it with doorbell check --shape")
	}
	return f.Handler(shape.Options{Key: madeUpKey, Agencies: agencies}), nil
}

// scenarioSettings are what a client has to set, so that a scenario can be watched in minutes.
var scenarioSettings = map[string]map[string]string{
	"mass-vanish":   {"DOORBELL_HOLD_FOR": "2m"},
	"monday-upload": {"DOORBELL_IGNORE_FIELDS": "insertion:/updatedAt"},
}

// serve serves the API until ctx ends, and completes what a client has to set.
func (m *madeUp) serve(ctx context.Context, out io.Writer, address string) (err error) {
	if m.API, err = serve(ctx, out, "the API", address, m.handler); err != nil {
		return err
	}
	settings := map[string]string{
		"DOORBELL_BASE_URL": m.API, "DOORBELL_AGENCIES": strings.Join(m.Agencies, ","),
		"DOORBELL_API_KEY": madeUpKey, "DOORBELL_POLL_INTERVAL": "2s",
		"DOORBELL_WALK_INTERVAL": "5s",
	}
	maps.Copy(settings, m.Settings)
	m.Settings = settings
	return nil
}

// environ are the variables of a client that watches.
func (m *madeUp) environ() (list []string) {
	for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
		list = append(list, name+"="+m.Settings[name])
	}
	return list
}

// greeting says how to watch the API and how to change it.
//
//go:embed greeting.txt
var greeting string

func (m *madeUp) greet(w io.Writer) error {
	t := template.Must(
		template.New("").Funcs(template.FuncMap{"join": strings.Join}).Parse(greeting))
	var story *sandbox.Scenario
	if m.play != nil {
		story = &m.play.Scenario
	}
	return t.Execute(w, map[string]any{
		"API": m.API, "Control": m.Control, "Agencies": m.Agencies, "Environ": m.environ(),
		"Story": story, "Key": madeUpKey, "NextKey": nextMadeUpKey,
	})
}

// tell waits for the first request, lets the scenario happen, and returns when it is over.
func tell(ctx context.Context, w io.Writer, p *sandbox.Play) {
	for p.Model.Requests(sandbox.Filter{}) == 0 {
		if sleep(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
	fmt.Fprintf(w, "First request: scenario %s begins.\n", p.Scenario.Name)
	p.Run(ctx)
	if ctx.Err() == nil {
		fmt.Fprintln(w, "The scenario is over; the API stays as it is now.")
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// serve serves h until ctx ends, and returns the URL.
func serve(ctx context.Context, w io.Writer, what, address string, h http.Handler) (url string, err error) {
	l, err := listen(w, what, address)
	if err != nil {
		return "", err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	go s.Serve(l) //nolint:errcheck // it ends with ctx
	return "http://" + l.Addr().String(), nil
}

// listen takes the address, or a free port of the same host if it is in use, and says so.
func listen(w io.Writer, what, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		host, _, _ := net.SplitHostPort(address)
		if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err == nil {
			fmt.Fprintf(w, "%s is in use; %s listens on %s instead.\n", address, what, l.Addr())
		}
	}
	if err != nil {
		return nil, exit.Usage(err.Error(), "give an address like 127.0.0.1:0")
	}
	return l, nil
}
