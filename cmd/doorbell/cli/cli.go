package cli

import (
	"context"
	_ "embed"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/receivers"
)

// grammar is the command line. Each command is a struct of its flags in the file of its noun.
// Validate refuses what cannot be, Run does what is asked for, and help.txt has what --help prints
// below the usage.
type grammar struct {
	Run     RunCmd     `cmd:"" group:"run" help:"Watch the agencies and publish what happens."`
	Demo    DemoCmd    `cmd:"" group:"run" help:"Run everything against a made-up API, without any configuration."`
	Sandbox SandboxCmd `cmd:"" group:"run" help:"Serve a made-up listings API."`

	Check   CheckCmd   `cmd:"" group:"before" help:"Check whether run would work with this configuration."`
	Config  ConfigCmd  `cmd:"" group:"before" help:"Print the configuration that is in effect."`
	Version VersionCmd `cmd:"" group:"before" help:"Print the version."`

	Status  StatusCmd  `cmd:"" group:"steer" help:"Show the state of the daemon."`
	Poll    PollCmd    `cmd:"" group:"steer" help:"Poll an agency now."`
	Resume  ResumeCmd  `cmd:"" group:"steer" help:"End the halt of an agency or insertion."`
	Approve ApproveCmd `cmd:"" group:"steer" help:"Approve a held change."`

	Events EventsCmd `cmd:"" group:"events" help:"Read events."`
	Replay ReplayCmd `cmd:"" group:"events" help:"Publish events from the event log again, on separate subjects."`
	Report ReportCmd `cmd:"" group:"events" help:"Show what became of recent leads."`

	Forward ForwardCmd `cmd:"" group:"outlets" help:"Send events to Slack, Teams, mail or a webhook, alongside doorbell run or on another machine."`
	Routes  RoutesCmd  `cmd:"" group:"outlets" help:"Show which receivers get which events."`
	DLQ     DLQCmd     `cmd:"" group:"outlets" name:"dlq" help:"Handle events that a receiver permanently rejected."`

	Forget ForgetCmd `cmd:"" group:"people" help:"Erase a person's data, and write a receipt."`
	Export ExportCmd `cmd:"" group:"people" help:"Print a person's data."`

	PrintVersion kong.VersionFlag `name:"version" hidden:""`

	Backup BackupCmd `cmd:"" group:"store" help:"Copy the store to a file, even while the daemon runs."`
	Verify VerifyCmd `cmd:"" group:"store" help:"Verify the store or a backup."`
}

// groups are the titles under which --help lists the commands.
var groups = kong.Groups{
	"run":     "Run:",
	"before":  "Before a run:",
	"steer":   "Operate:",
	"events":  "Events:",
	"outlets": "Notify:",
	"people":  "Personal data:",
	"store":   "Store:",

	"commands": "Commands:", // below another one
}

// Moment is a point in time, given as such or as a duration before now. The zero Moment is none.
type Moment time.Time

// UnmarshalText reads RFC 3339, a day, or a positive duration.
func (m *Moment) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			*m = Moment(at)
			return nil
		}
	}
	ago, err := config.ParseDuration(string(text))
	if err != nil || ago <= 0 {
		return errors.New("is neither a time like 2026-11-20T09:00:00Z nor a day like 2026-11-20, both in UTC, nor a duration like 2h or 5d")
	}
	*m = Moment(time.Now().Add(-ago))
	return nil
}

func validSince(m Moment) error {
	if time.Time(m).After(time.Now()) {
		return errors.New("--since: is in the future")
	}
	return nil
}

// validAgency refuses an id that cannot be. One that is not given is the parser's to miss.
func validAgency(name, id string) error {
	if id == "" {
		return nil
	}
	if err := config.CheckAgencyID(id); err != nil {
		return errors.New(name + ": " + err.Error())
	}
	return nil
}

// execute parses the command line and runs the command. Errors of the parser, whose own exit code
// is 80, are usage errors.
func (p *program) execute(ctx context.Context, args []string) error {
	answered := false // --help has printed and wants to exit
	defer p.close()
	parser, err := newParser(
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { answered = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
		// What a command's Run asks for:
		kong.BindToProvider(func() (*config.Config, error) { return config.Read(p.environ) }),
		kong.BindToProvider(p.openLog), kong.BindToProvider(p.openPeople),
		kong.BindToProvider(p.openDeadLetters),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(args)
	if answered {
		return nil
	}
	if err == nil {
		err = emptyValue(command)
	}
	if err != nil {
		return usageError(err)
	}
	return command.Run()
}

func newParser(more ...kong.Option) (*kong.Kong, error) {
	parser, err := kong.New(new(grammar), append(more,
		kong.Name("doorbell"),
		kong.Description("Polls a listings API, publishes what changes to NATS, and sends leads to Slack, Teams, mail or a webhook."),
		kong.ConfigureHelp(
			kong.HelpOptions{Compact: true, NoExpandSubcommands: true, WrapUpperBound: usualWidth}),
		groups,
		kong.Vars{
			"version":      "doorbell " + release,
			"scenarios":    strings.Join(scenarioNames(), ","),
			"receivers":    strings.Join(receivers.Kinds, ","),
			"receivers_or": strings.Join(receivers.Kinds, "|"),
		},
	)...)
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(helpText, "${scenario_list}", scenarioList())
	for _, command := range parser.Model.Leaves(false) {
		_, command.Detail, _ = strings.Cut(text, "== "+command.Path()+"\n")
		command.Detail, _, _ = strings.Cut(command.Detail, "\n== ")
	}
	return parser, nil
}

// helpText is what --help says of each command below its usage.
//
//go:embed help.txt
var helpText string

// usageError is an error of the parser in the parser's words, with the command that explains the
// usage.
func usageError(err error) error {
	text, command := err.Error(), "doorbell"
	if parse, is := errors.AsType[*kong.ParseError](err); is && parse.Context.Selected() != nil {
		command = parse.Context.Selected().FullPath()
		if strings.HasPrefix(text, "unexpected argument") &&
			slices.Contains([]string{"doorbell forget", "doorbell export"}, command) {
			// it may be an address
			text = "an argument without a flag: write --email, --phone, --request or --insertion before it"
		}
	}
	return exit.Usage(text, command+" --help shows how")
}

// emptyValue refuses a value that was given and says nothing, as of a variable that is not set: it
// would count as not given.
func emptyValue(command *kong.Context) error {
	for _, given := range command.Path {
		switch {
		case given.Flag != nil && isEmpty(given.Flag.Value):
			return errors.New("--" + given.Flag.Name + ": is empty; leave it out, or write a value")
		case given.Positional != nil && isEmpty(given.Positional):
			return errors.New(strings.ToUpper(given.Positional.Name) + ": is empty")
		}
	}
	return nil
}

func isEmpty(v *kong.Value) bool {
	return v.Target.IsValid() && v.Target.Kind() == reflect.String && v.Target.Len() == 0
}
