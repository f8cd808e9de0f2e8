package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// madeUpKey opens the agencies of the made-up API. It has the form of a real one and opens nothing
// else.
const madeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110000"

// nextMadeUpKey replaces madeUpKey where a scenario replaces it.
const nextMadeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110001"

// madeUp is a made-up API that is being served.
type madeUp struct {
	model    *sandbox.Model
	url      string
	agencies []string
	settings []string      // of a client that watches, beside the usual ones
	story    []string      // to be told before it begins
	play     *sandbox.Play // nil: no scenario
}

// SandboxCmd is `doorbell sandbox`. It reads no environment but NATS_* for --events.
type SandboxCmd struct {
	Listen          string           `default:"127.0.0.1:3668" placeholder:"HOST:PORT" help:"Address of the API; a free port is taken if this one is in use."`
	Control         string           `default:"127.0.0.1:3669" placeholder:"HOST:PORT" help:"Address of the control, which changes the API and shows what it served; a free port is taken if this one is in use."`
	Seed            int64            `default:"1" help:"Number from which people and properties are made up."`
	Scenario        string           `enum:"${scenarios}," default:"" placeholder:"NAME" help:"Play a scenario; listed above. It brings its own agencies, and the flags below have no effect."`
	Speed           float64          `placeholder:"FACTOR" help:"How much faster than in real life the scenario plays. Default: the scenario's."`
	Agencies        config.AgencyIDs `default:"A100,B200" help:"Agencies that exist."`
	Insertions      int              `default:"12" help:"Insertions of each agency at the start."`
	History         int              `default:"3" help:"Contact requests that each insertion has at the start."`
	ContactRequests float64          `name:"contact-requests-per-minute" default:"10" help:"New contact requests a minute, over all agencies."`
	Changes         float64          `name:"changes-per-minute" default:"5" help:"Edits, withdrawals and publications a minute, over all agencies."`
	Shape           string           `type:"path" placeholder:"FILE" help:"Serve made-up responses in the form that check --shape wrote into this file, for the first agency. Flags about the flow have no effect."`
	Events          bool             `help:"Publish one example of every type of event to your NATS, in a new stream, and exit. No API is served."`
	NATS            string           `name:"nats" placeholder:"URL" help:"The NATS of --events, instead of NATS_URL."`
	Prefix          string           `default:"listings" placeholder:"SUBJECT" help:"First part of the subjects of --events, and in capitals the name of the stream, which must not exist."`
	JSON            bool             `name:"json" help:"Print one JSON object, with the addresses and what to watch them with; everything else goes to standard error."`
}

func (SandboxCmd) Help() string { return sandboxHelp() }

func (c *SandboxCmd) Validate() error {
	for name, address := range map[string]string{"--listen": c.Listen, "--control": c.Control} {
		if _, _, err := net.SplitHostPort(address); address != "" && err != nil {
			return errors.New(name + ": write host:port like 127.0.0.1:3668")
		}
	}
	switch {
	case c.Speed < 0:
		return errors.New("--speed: must not be negative")
	case c.Speed > 0 && c.Scenario == "":
		return errors.New("--speed: needs --scenario")
	}
	return firstError(c.validPlay(), c.validFlow())
}

// Run serves a made-up API until it is stopped.
func (c *SandboxCmd) Run(ctx context.Context, p *program) error {
	switch {
	case c.Shape != "":
		return c.serveShape(ctx, p)
	case c.Events:
		return c.publishStory(ctx, p)
	}
	out := p.stdout
	if c.JSON {
		out = p.stderr
	}
	api, err := listen(out, "the API", c.Listen)
	if err != nil {
		return err
	}
	defer api.Close()
	control, err := listen(out, "the control", c.Control)
	if err != nil {
		return err
	}
	defer control.Close()
	var m madeUp
	if scenario, asked := sandbox.ScenarioNamed(c.Scenario); asked {
		m = c.play(ctx, scenario, api)
	} else {
		m = c.serve(ctx, api)
	}
	go serveUntil(ctx, control, sandbox.Control(m.model))
	if c.JSON {
		err = p.printJSON(m.object("http://" + control.Addr().String()))
	} else {
		m.greet(out, p.terminalOf(out), "http://"+control.Addr().String())
	}
	if m.play != nil && err == nil {
		tell(ctx, out, m.play)
	}
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// madeUpObject is what `sandbox --json` prints.
type madeUpObject struct {
	API      string            `json:"api"`
	Control  string            `json:"control"`
	Agencies []string          `json:"agencies"`
	Settings map[string]string `json:"settings"` // variables with which doorbell watches it
}

// environ are the variables of a client that watches.
func (m madeUp) environ() []string {
	return append([]string{
		"DOORBELL_BASE_URL=" + m.url, "DOORBELL_AGENCIES=" + strings.Join(m.agencies, ","), "DOORBELL_API_KEY=" + madeUpKey,
		"DOORBELL_POLL_INTERVAL=2s", "DOORBELL_WALK_INTERVAL=5s",
	}, m.settings...)
}

func (m madeUp) object(control string) madeUpObject {
	o := madeUpObject{API: m.url, Control: control, Agencies: m.agencies, Settings: map[string]string{}}
	for _, s := range m.environ() {
		name, value, _ := strings.Cut(s, "=")
		o.Settings[name] = value
	}
	return o
}

// Bounds of what is made up: all of it lies in memory.
const (
	mostMadeUp     = 100_000   // insertions, of all agencies
	mostMadeUpSaid = 1_000_000 // contact requests at the start
	mostAMinute    = 100_000
)

// validFlow refuses what would be made up for too long, and agencies that cannot be.
func (c *SandboxCmd) validFlow() error {
	if len(c.Agencies) == 0 {
		return errors.New("--agencies: is empty; write one or more, like A100,B200")
	}
	if err := c.Agencies.Decode(strings.Join(c.Agencies, ",")); err != nil {
		return fmt.Errorf("--agencies: %w", err)
	}
	agencies := len(c.Agencies)
	switch {
	case c.Insertions < 0 || c.Insertions > mostMadeUp/agencies:
		return fmt.Errorf("--insertions: write a number from 0 to %d, which is that of each agency", mostMadeUp/agencies)
	case c.History < 0 || c.History > mostMadeUpSaid/(agencies*max(c.Insertions, 1)):
		return fmt.Errorf("--history: write a number from 0 to %d, which is that of each insertion", mostMadeUpSaid/(agencies*max(c.Insertions, 1)))
	case !(c.ContactRequests >= 0 && c.ContactRequests <= mostAMinute):
		return fmt.Errorf("--contact-requests-per-minute: write a number from 0 to %d", mostAMinute)
	case !(c.Changes >= 0 && c.Changes <= mostAMinute):
		return fmt.Errorf("--changes-per-minute: write a number from 0 to %d", mostAMinute)
	}
	return nil
}

// modelOptions give ids that differ from one start to the next, because a client may remember those
// of the last one.
func modelOptions() sandbox.Options { return sandbox.Options{Seed: uint64(time.Now().UnixNano())} }

// serve serves an even flow of changes.
func (c *SandboxCmd) serve(ctx context.Context, l net.Listener) madeUp {
	return serveMadeUp(ctx, sandbox.NewModel(modelOptions()), l, sandbox.GeneratorOptions{
		Seed: uint64(c.Seed), Agencies: c.Agencies, Insertions: c.Insertions, History: c.History,
		ContactRequestsPerMinute: c.ContactRequests, ChangesPerMinute: c.Changes,
	})
}

// greet says how to watch the API, and how to change it.
func (m madeUp) greet(w io.Writer, t Terminal, control string) {
	agency, story := m.agencies[0], ""
	for _, line := range m.story {
		story += t.Prose(line, 2) + "\n"
	}
	fmt.Fprintf(w, `The made-up listings API is at %s, for agencies %s.
Watch it from another terminal. The intervals are short, so that you soon see what you change:

  %s ./doorbell run

See the events in a third one: ./doorbell events tail --all
A sandbox keeps nothing, so use a new data directory (DOORBELL_DATA_DIR) for the next one.

%sChange it by hand: publish an insertion, write about it, edit it, withdraw it.

`, m.url, strings.Join(m.agencies, ", "), strings.Join(m.environ(), " "), story)
	change := func(path, body string, values ...any) {
		fmt.Fprintf(w, "  curl %s/%s -d '%s'\n", control, path, fmt.Sprintf(body, values...))
	}
	change("insertions", `{"agencyId":%q,"insertion":{"propertyReferenceId":"test#1##","offerType":"RENT"}}`, agency)
	change("contact-requests", `{"agencyId":%q,"propertyReferenceId":"test#1##","contactRequest":{"lastName":"Muster","message":"Guten Tag"}}`, agency)
	change("insertions/edit", `{"agencyId":%q,"propertyReferenceId":"test#1##","patch":{"rankType":"TOP"}}`, agency)
	change("insertions/withdraw", `{"agencyId":%q,"propertyReferenceId":"test#1##"}`, agency)
	fmt.Fprint(w, "\nTake the key away from an agency, and give it back:\n\n")
	change("keys/unlink", `{"key":%q,"agencies":[%q]}`, madeUpKey, agency)
	change("keys", `{"key":%q,"agencies":[%q]}`, madeUpKey, agency)
	fmt.Fprintf(w, "\nAfter a 403 an agency stays halted, also when its key works again, until you type: ./doorbell resume %s\n", agency)
	fmt.Fprintf(w, "\nSee everything that there was, and how often each was served:\n\n  curl %s/truth\n\nPress Ctrl-C to end it.\n", control)
}

func scenarioNames() (names []string) {
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

// scenarioSettings are what a client has to set, so that a scenario can be watched in minutes.
var scenarioSettings = map[string]string{
	"mass-vanish":   "DOORBELL_HOLD_FOR=2m",
	"monday-upload": "DOORBELL_IGNORE_FIELDS=insertion:/updatedAt",
}

// play serves a scenario as it is before it begins, until ctx ends.
func (c *SandboxCmd) play(ctx context.Context, s sandbox.Scenario, l net.Listener) madeUp {
	p := s.Open(sandbox.ScenarioOptions{
		Seed: uint64(c.Seed), Key: madeUpKey, NextKey: nextMadeUpKey, Speed: c.Speed, Model: modelOptions(),
	})
	speed := s.Speed
	if c.Speed > 0 {
		speed = c.Speed
	}
	m := madeUp{model: p.Model, url: "http://" + l.Addr().String(), agencies: s.Agencies, play: p, settings: []string{"DOORBELL_REQUESTS_PER_SECOND=50"}}
	if more := scenarioSettings[s.Name]; more != "" {
		m.settings = append(m.settings, more)
	}
	lasts := time.Duration(float64(s.Lasts) / speed).Round(time.Second)
	m.story = []string{
		fmt.Sprintf("Scenario %s: %s", s.Name, s.Description), "Expected outcome: " + s.Outcome,
		fmt.Sprintf("It begins with the first request and takes %s, %g times as fast as in real life.", lasts, speed), "",
	}
	if s.Name == "key-rotation" {
		m.story = append(m.story, "The new key is "+nextMadeUpKey+".", "")
	}
	go serveUntil(ctx, l, p.Handler)
	return m
}

// tell waits for the first request, lets the scenario happen, and returns when it is over.
func tell(ctx context.Context, w io.Writer, p *sandbox.Play) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for p.Model.Requests(sandbox.Filter{}) == 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
	fmt.Fprintf(w, "First request: scenario %s begins.\n", p.Scenario.Name)
	p.Run(ctx)
	if ctx.Err() == nil {
		fmt.Fprintln(w, "The scenario is over; the API stays as it is now.")
	}
}

// sandboxHelp lists what can be chosen.
func sandboxHelp() string {
	var b strings.Builder
	b.WriteString("Examples:\n  doorbell sandbox --scenario zurich-hot\n  doorbell sandbox --shape shape.json\n  doorbell sandbox --events --nats nats://localhost:4222\n\n" +
		"The only environment that it reads is that of --events: the NATS_* variables that the nats command knows.\n\nScenarios:\n")
	for _, s := range sandbox.Scenarios() {
		fmt.Fprintf(&b, "  %-19s  %s\n", s.Name, s.Description)
	}
	return strings.TrimSpace(b.String())
}

// serveMadeUp fills a model, keeps it moving and serves it, until ctx ends.
func serveMadeUp(ctx context.Context, model *sandbox.Model, l net.Listener, o sandbox.GeneratorOptions) madeUp {
	g := sandbox.NewGenerator(model, o)
	g.Seed()
	model.AddKey(madeUpKey, o.Agencies...)
	go g.Run(ctx)
	go serveUntil(ctx, l, sandbox.New(model, sandbox.Flat()))
	return madeUp{model: model, url: "http://" + l.Addr().String(), agencies: o.Agencies}
}

func serveUntil(ctx context.Context, l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	_ = s.Serve(l) // ends with ctx
}

// listen takes the address, or a free port of the same host if it is in use, and says so.
func listen(w io.Writer, what, address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if !errors.Is(err, syscall.EADDRINUSE) {
		if err != nil {
			return nil, exit.Usage(err.Error(), "give an address like 127.0.0.1:0")
		}
		return l, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, exit.Usage(err.Error(), "give an address like 127.0.0.1:0")
	}
	if l, err = net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
		return nil, exit.Failed(err, "")
	}
	fmt.Fprintf(w, "%s is in use; %s listens on %s instead.\n", address, what, l.Addr())
	return l, nil
}
