package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/shape"
	"doorbell/events"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/events/stream"
	"doorbell/poller/sandbox"
	"doorbell/schemas"
)

// madeUpKey opens the agencies of the made-up API. It has the form of a real one and opens nothing
// else.
const madeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110000"

// nextMadeUpKey replaces madeUpKey where a scenario replaces it.
const nextMadeUpKey = "00000000-5a4d-4b0b-8a11-d00fbe110001"

// SandboxCmd is `doorbell sandbox`. It reads no environment.
type SandboxCmd struct {
	Listen          string   `default:"127.0.0.1:3668" placeholder:"HOST:PORT" help:"Address of the API; a free port is taken if this one is in use."`
	Control         string   `default:"127.0.0.1:3669" placeholder:"HOST:PORT" help:"Address of the control, which changes the API and shows what it served; a free port is taken if this one is in use."`
	Scenario        string   `enum:"${scenarios}," default:"" placeholder:"NAME" help:"Play a scenario; listed above. It brings its own agencies, and the flags below have no effect."`
	Speed           float64  `placeholder:"FACTOR" help:"How much faster than in real life the scenario plays. Default: the scenario's."`
	Agencies        []string `default:"A100,B200" help:"Agencies that exist."`
	Insertions      uint16   `default:"12" help:"Insertions of each agency at the start."`
	History         uint16   `default:"3" help:"Contact requests that each insertion has at the start."`
	ContactRequests uint16   `name:"contact-requests-per-minute" default:"10" help:"New contact requests a minute, over all agencies."`
	Changes         uint16   `name:"changes-per-minute" default:"5" help:"Edits, withdrawals and publications a minute, over all agencies."`
	Shape           string   `type:"path" xor:"what" placeholder:"FILE" help:"Serve made-up responses in the form that check --shape wrote into this file, for the first agency. Flags about the flow have no effect."`
	Events          bool     `xor:"what" help:"Publish one example of every type of event to your NATS, in a new stream, and exit. No API is served."`
	NATS            string   `name:"nats" placeholder:"URL" help:"The NATS of --events."`
	Prefix          string   `default:"listings" placeholder:"SUBJECT" help:"First part of the subjects of --events, and in capitals the name of the stream, which must not exist."`
	JSON            bool     `name:"json" help:"Print one JSON object, with the addresses and what to watch them with; everything else goes to standard error."`
}

// Help lists what can be chosen.
func (SandboxCmd) Help() string {
	text := "Examples:\n  doorbell sandbox --scenario zurich-hot\n  doorbell sandbox --shape shape.json\n  doorbell sandbox --events --nats nats://localhost:4222\n\n" +
		"It reads no environment.\n\nScenarios:\n"
	for _, s := range sandbox.Scenarios() {
		text += fmt.Sprintf("  %-19s  %s\n", s.Name, s.Description)
	}
	return strings.TrimSpace(text)
}

func scenarioNames() (names []string) {
	for _, s := range sandbox.Scenarios() {
		names = append(names, s.Name)
	}
	return names
}

var subjectPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func (c *SandboxCmd) Validate() error {
	switch {
	case c.Scenario != "" && (c.Shape != "" || c.Events):
		return errors.New("--scenario: cannot be combined with --shape or --events")
	case c.Speed != 0 && (c.Speed < 0 || c.Scenario == ""):
		return errors.New("--speed: needs --scenario, and must not be negative")
	case c.Events == (c.NATS == ""):
		return errors.New("--events: needs --nats URL, and no other way of use does")
	case !subjectPrefix.MatchString(c.Prefix):
		return errors.New("--prefix: is not a NATS subject; write letters, digits, - and _, parts separated by dots")
	case len(c.Agencies) == 0:
		return errors.New("--agencies: is empty; write one or more, like A100,B200")
	}
	if err := new(config.List).Decode(strings.Join(c.Agencies, ",")); err != nil {
		return fmt.Errorf("--agencies: %w", err)
	}
	for _, id := range c.Agencies {
		if err := config.CheckAgencyID(id); err != nil {
			return fmt.Errorf("--agencies: %w", err)
		}
	}
	return nil
}

// madeUp is a made-up API.
type madeUp struct {
	handler  http.Handler
	model    *sandbox.Model // nil: nothing changes
	play     *sandbox.Play  // nil: no scenario
	url      string
	agencies []string
	settings []string // of a client that watches, beside the usual ones
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
	api, err := listen(out, "the API", c.Listen)
	if err != nil {
		return err
	}
	m.url = "http://" + api.Addr().String()
	go serveUntil(ctx, api, m.handler)
	control := ""
	if m.model != nil {
		l, err := listen(out, "the control", c.Control)
		if err != nil {
			return err
		}
		control = "http://" + l.Addr().String()
		go serveUntil(ctx, l, sandbox.Control(m.model))
	}
	if c.JSON {
		err = p.printJSON(m.object(control))
	} else {
		m.greet(out, control)
	}
	if m.play != nil && err == nil {
		tell(ctx, out, m.play)
	}
	if err == nil {
		<-ctx.Done()
	}
	return err
}

// open makes up what the flags say. Ids differ from one start to the next, because a client may
// remember those of the last one.
func (c *SandboxCmd) open(ctx context.Context) (m madeUp, err error) {
	model := sandbox.Options{Seed: uint64(time.Now().UnixNano())}
	scenario, play := sandbox.ScenarioNamed(c.Scenario)
	switch {
	case c.Shape != "":
		agency := c.Agencies[:1] // only one, as the path of contact requests names none
		m.handler, err = shapedAPI(c.Shape, agency)
		m.agencies = agency
		return m, err
	case play:
		p := scenario.Open(sandbox.ScenarioOptions{Seed: 1, Key: madeUpKey, NextKey: nextMadeUpKey, Speed: c.Speed, Model: model})
		settings := strings.Fields("DOORBELL_REQUESTS_PER_SECOND=50 " + scenarioSettings[scenario.Name])
		return madeUp{handler: p.Handler, model: p.Model, play: p, agencies: scenario.Agencies, settings: settings}, nil
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
	return madeUp{handler: sandbox.New(model, sandbox.Flat()), model: model, agencies: o.Agencies}
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
		return nil, exit.Failed(fmt.Errorf("%s: %w", path, err), "write it with doorbell check --shape")
	}
	return f.Handler(shape.Options{Key: madeUpKey, Agencies: agencies})
}

// scenarioSettings are what a client has to set, so that a scenario can be watched in minutes.
var scenarioSettings = map[string]string{
	"mass-vanish":   "DOORBELL_HOLD_FOR=2m",
	"monday-upload": "DOORBELL_IGNORE_FIELDS=insertion:/updatedAt",
}

// environ are the variables of a client that watches.
func (m madeUp) environ() []string {
	return append([]string{
		"DOORBELL_BASE_URL=" + m.url, "DOORBELL_AGENCIES=" + strings.Join(m.agencies, ","), "DOORBELL_API_KEY=" + madeUpKey,
		"DOORBELL_POLL_INTERVAL=2s", "DOORBELL_WALK_INTERVAL=5s",
	}, m.settings...)
}

// madeUpObject is what `sandbox --json` prints.
type madeUpObject struct {
	API      string            `json:"api"`
	Control  string            `json:"control"`
	Agencies []string          `json:"agencies"`
	Settings map[string]string `json:"settings"` // variables with which doorbell watches it
}

func (m madeUp) object(control string) madeUpObject {
	o := madeUpObject{API: m.url, Control: control, Agencies: m.agencies, Settings: map[string]string{}}
	for _, s := range m.environ() {
		name, value, _ := strings.Cut(s, "=")
		o.Settings[name] = value
	}
	return o
}

// greeting says how to watch the API, and changing how to change it.
const (
	greeting = `The made-up listings API is at {api}, for agencies {agencies}.
Watch it from another terminal. The intervals are short, so that you soon see what you change:

  {environ} ./doorbell run

See the events in a third one: ./doorbell events tail --all
A sandbox keeps nothing, so use a new data directory (DOORBELL_DATA_DIR) for the next one.
`
	changing = `
Change it by hand: publish an insertion, write about it, edit it, withdraw it.

  curl {control}/insertions -d '{"agencyId":"{agency}","insertion":{"propertyReferenceId":"test#1##","offerType":"RENT"}}'
  curl {control}/contact-requests -d '{"agencyId":"{agency}","propertyReferenceId":"test#1##","contactRequest":{"lastName":"Muster","message":"Guten Tag"}}'
  curl {control}/insertions/edit -d '{"agencyId":"{agency}","propertyReferenceId":"test#1##","patch":{"rankType":"TOP"}}'
  curl {control}/insertions/withdraw -d '{"agencyId":"{agency}","propertyReferenceId":"test#1##"}'

Take the key away from an agency, and give it back:

  curl {control}/keys/unlink -d '{"key":"{key}","agencies":["{agency}"]}'
  curl {control}/keys -d '{"key":"{key}","agencies":["{agency}"]}'

After a 403 an agency stays halted, also when its key works again, until you type: ./doorbell resume {agency}

See everything that there was, and how often each was served:

  curl {control}/truth
`
)

func (m madeUp) greet(w io.Writer, control string) {
	text := greeting
	if m.play != nil {
		s := m.play.Scenario
		text += fmt.Sprintf("\nScenario %s: %s\nExpected outcome: %s\nIt begins with the first request.\n", s.Name, s.Description, s.Outcome)
		if s.Name == "key-rotation" {
			text += "The new key is " + nextMadeUpKey + ".\n"
		}
	}
	if control != "" {
		text += changing
	}
	values := strings.NewReplacer("{api}", m.url, "{control}", control, "{agencies}", strings.Join(m.agencies, ", "),
		"{agency}", m.agencies[0], "{environ}", strings.Join(m.environ(), " "), "{key}", madeUpKey)
	_, _ = values.WriteString(w, text+"\nPress Ctrl-C to end it.\n")
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

func serveUntil(ctx context.Context, l net.Listener, h http.Handler) {
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	defer stop()
	_ = s.Serve(l) // ends with ctx
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

// storyAge, the age at which messages expire, is that of run.
const storyAge = 30 * 24 * time.Hour

// publishedStory is what `sandbox --events --json` prints.
type publishedStory struct {
	NATS     string           `json:"nats"`
	Stream   string           `json:"stream"`
	Subjects string           `json:"subjects"`
	Events   []publishedEvent `json:"events"`
}

type publishedEvent struct {
	Sequence uint64 `json:"sequence"` // in the stream
	ID       string `json:"id"`
	Type     string `json:"type"`
	Subject  string `json:"subject"`
}

// publishStory creates the stream in the user's NATS, publishes one event of every type as run
// would, and returns.
func (c *SandboxCmd) publishStory(ctx context.Context, p *program) error {
	story, err := story()
	if err != nil {
		return err
	}
	conn, err := connectTo(ctx, natsd.Dial{URL: c.NATS})
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := conn.JetStream()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	o := relay.Options{Prefix: c.Prefix, Stream: strings.ToUpper(strings.ReplaceAll(c.Prefix, ".", "_")), MaxAge: storyAge}
	if _, err = js.Stream(ctx, o.Stream); err == nil {
		return exit.Failed(fmt.Errorf("this NATS has a stream %s already, which may hold real events", o.Stream),
			"give another prefix, like --prefix sandbox, or another server; nothing was published")
	}
	if _, err = stream.Ensure(ctx, js, o.StreamConfig(), stream.Rights{Manage: true}); err != nil {
		return exit.Failed(stream.Explain(conn, err), "is JetStream enabled on this server? Nothing was published")
	}
	done := publishedStory{NATS: natsd.Redact(conn.ConnectedUrl()), Stream: o.Stream, Subjects: events.StreamSubjects(c.Prefix)}
	text := fmt.Sprintf("Stream %s, subjects %s, at %s:\n", done.Stream, done.Subjects, done.NATS)
	for _, e := range story {
		m := &nats.Msg{Subject: events.Subject(c.Prefix, e.AgencyID, e.Type), Header: e.Header(), Data: e.Data}
		ack, err := js.PublishMsg(ctx, m)
		if err != nil {
			return exit.Failed(stream.Explain(conn, err), "the story is incomplete; remove the stream before you try again")
		}
		done.Events = append(done.Events, publishedEvent{ack.Sequence, e.ID, string(e.Type), m.Subject})
		text += fmt.Sprintf("  %3d  %s  %s\n", ack.Sequence, e.ID, m.Subject)
	}
	return p.printResult(c.JSON, done, "%sPublished %s, one of every type. Remove them with: nats stream rm %s",
		text, ops.Counted(len(story), "event"), o.Stream)
}

// story is the example that the contract gives for every type, in the order of the log that the
// examples come from.
func story() (list []events.Event, err error) {
	for _, t := range schemas.Types() {
		payload, _ := schemas.Example(t)
		head, _ := schemas.ExampleHeader(t)
		var texts map[string]string
		var data bytes.Buffer
		err := errors.Join(json.Unmarshal(head, &texts), json.Compact(&data, payload))
		header := map[string][]string{}
		for name, text := range texts {
			header[name] = []string{text}
		}
		e, wrong := events.Decode(header, data.Bytes())
		if err = errors.Join(err, wrong); err != nil {
			return nil, fmt.Errorf("example of %s: %w", t, err)
		}
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b events.Event) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return list, nil
}
