package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"doorbell/events"
)

// grammar is the command line. Each command is a struct of its flags; what it does stands in the file of its noun.
type grammar struct {
	Run     RunCmd     `cmd:"" group:"run" help:"Watch the agencies and publish what happens."`
	Demo    DemoCmd    `cmd:"" group:"run" help:"Show everything at work against a made-up API, without any configuration."`
	Sandbox SandboxCmd `cmd:"" group:"run" help:"Serve a made-up listings API."`

	Check   CheckCmd   `cmd:"" group:"before" help:"Say whether run would work, and what the API's answers are like."`
	Plan    PlanCmd    `cmd:"" group:"before" help:"Say how fast contact requests are found with so many requests."`
	Config  ConfigCmd  `cmd:"" group:"before" help:"Print the configuration that is in effect."`
	Version VersionCmd `cmd:"" group:"before" help:"Print the version."`

	Status  StatusCmd  `cmd:"" group:"steer" help:"Say how the daemon is."`
	Poll    PollCmd    `cmd:"" group:"steer" help:"Ask for an agency now instead of when its turn comes."`
	Resume  ResumeCmd  `cmd:"" group:"steer" help:"End the halt of an agency or insertion."`
	Approve ApproveCmd `cmd:"" group:"steer" help:"Believe a change that is held because it is too large."`
	Keys    KeysCmd    `cmd:"" group:"steer" help:"Compare the two keys of a rotation."`

	Events EventsCmd `cmd:"" group:"events" help:"Read events."`
	Replay ReplayCmd `cmd:"" group:"events" help:"Publish events of the event log once more, on subjects of their own."`

	Forward ForwardCmd `cmd:"" group:"outlets" help:"Bring news to Slack, mail or a webhook, beside doorbell run or on another machine."`
	DLQ     DLQCmd     `cmd:"" group:"outlets" name:"dlq" help:"Events that an outlet refused for good."`

	Backup  BackupCmd  `cmd:"" group:"store" help:"Copy the store into a file, also while the daemon runs."`
	Compact CompactCmd `cmd:"" group:"store" help:"Give the space that the store does not use back to the disk."`
	Verify  VerifyCmd  `cmd:"" group:"store" help:"Say whether a store is sound, and the stream what the event log says."`

	Schema SchemaCmd `cmd:"" group:"contract" help:"Print what events look like, for machines."`
}

// groups are the titles under which --help lists the commands.
var groups = kong.Groups{
	"run":     "Run it:",
	"before":  "Before it runs:",
	"steer":   "See and steer it:",
	"events":  "Read events:",
	"outlets": "Bring them to people:",
	"store":   "Keep the store:",

	"contract": "Build on it:",
	"commands": "Commands:", // below another one
}

// RunCmd is `doorbell run`.
type RunCmd struct {
	Restored bool `xor:"begin" help:"For one start: accept the store that was put into the data directory, a backup for instance."`
	Moved    bool `help:"For one start: DOORBELL_BASE_URL is the new address of the API that the store remembers."`
	Fresh    bool `xor:"begin" help:"For one start: set the store aside under a name with the time, and begin anew."`
	Alone    bool `help:"For one start: watch agencies that are new to the store at once, without waiting until NATS says what a store before it has told of them."`
}

// Validate refuses flags that contradict each other.
func (c *RunCmd) Validate() error {
	if c.Fresh && c.Moved {
		return errors.New("--fresh and --moved can't be used together")
	}
	return nil
}

// Help is printed by --help below the flags.
func (RunCmd) Help() string {
	return "Needs DOORBELL_BASE_URL, and agencies with keys.\n\nExample:\n  DOORBELL_BASE_URL=https://api.example.com DOORBELL_API_KEYS_FILE=/etc/doorbell/api_keys doorbell run"
}

// Run is called by the parser, as in all commands.
func (c *RunCmd) Run(ctx context.Context, p *program) error { return cmdRun(ctx, p, c) }

// DemoCmd is `doorbell demo`. It reads no environment.
type DemoCmd struct {
	For        time.Duration `placeholder:"DURATION" help:"End by itself after this time; 0 for never."`
	Seed       int64         `default:"1" help:"Number from which people and properties are made up."`
	JSON       bool          `name:"json" help:"Print CloudEvents JSON, one object a line, with people's data; everything else goes to standard error."`
	NATSListen string        `name:"nats-listen" default:"127.0.0.1:4222" placeholder:"HOST:PORT" help:"Address of the NATS server; a free port is taken if this one is in use."`
	HTTPListen string        `name:"http-listen" default:"127.0.0.1:3667" placeholder:"HOST:PORT" help:"Address of the status page; a free port is taken if this one is in use."`
}

// Help is printed by --help below the flags.
func (DemoCmd) Help() string { return "Example:\n  doorbell demo --for 20s" }

// Validate refuses times that cannot be.
func (c *DemoCmd) Validate() error {
	if c.For < 0 {
		return errors.New("--for: must not be negative")
	}
	return nil
}

// Run runs the demo.
func (c *DemoCmd) Run(ctx context.Context, p *program) error { return cmdDemo(ctx, p, c) }

// SandboxCmd is `doorbell sandbox`. It reads no environment.
type SandboxCmd struct {
	Listen          string   `default:"127.0.0.1:3668" placeholder:"HOST:PORT" help:"Address of the API; a free port is taken if this one is in use."`
	Control         string   `default:"127.0.0.1:3669" placeholder:"HOST:PORT" help:"Address of the control, which changes the API and tells what was true; a free port is taken if this one is in use."`
	Seed            int64    `default:"1" help:"Number from which people and properties are made up."`
	Rendering       string   `placeholder:"NAME" help:"Form of the answers, which the API's description leaves open; listed above. Default flat, or that of the scenario."`
	Scenario        string   `placeholder:"NAME" help:"Tell a story; listed above. It brings its own agencies, and the flags below have no effect."`
	Speed           float64  `placeholder:"FACTOR" help:"How much faster than in life the scenario happens. Default that of the scenario."`
	Agencies        []string `default:"A100,B200" help:"Agencies that exist."`
	Insertions      int      `default:"12" help:"Insertions of each agency at the start."`
	History         int      `default:"3" help:"Contact requests that each insertion has at the start."`
	ContactRequests float64  `name:"contact-requests-per-minute" default:"10" help:"New contact requests a minute, over all agencies."`
	Changes         float64  `name:"changes-per-minute" default:"5" help:"Edits, withdrawals and publications a minute, over all agencies."`
	JSON            bool     `name:"json" help:"Print one JSON object, with the addresses and what to watch them with; everything else goes to standard error."`
}

// Help is printed by --help below the flags.
func (SandboxCmd) Help() string { return sandboxHelp() }

// Validate refuses what cannot be.
func (c *SandboxCmd) Validate() error {
	switch {
	case c.Speed < 0:
		return errors.New("--speed: must not be negative")
	case c.Speed > 0 && c.Scenario == "":
		return errors.New("--speed: needs --scenario")
	}
	return c.validFlow()
}

// Run serves until it is stopped.
func (c *SandboxCmd) Run(ctx context.Context, p *program) error { return cmdSandbox(ctx, p, c) }

// CheckCmd is `doorbell check`.
type CheckCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (CheckCmd) Help() string {
	return "Reads the configuration of run, asks the API once for every agency and at most seven times more, looks at NATS, disk and clock, " +
		"and changes nothing.\n\nExit codes: 0 run would work (warnings allowed), 78 it would end with 78, 1 something else would not work, " +
		"69 the daemon holds the store and does not answer.\n\nExample:\n  doorbell check"
}

// Run checks.
func (c *CheckCmd) Run(ctx context.Context, p *program) error { return cmdCheck(ctx, p, c) }

// EventsCmd holds the commands about events.
type EventsCmd struct {
	Ls   EventsLsCmd   `cmd:"" group:"commands" help:"Print events of the event log, the newest by default."`
	Show EventsShowCmd `cmd:"" group:"commands" help:"Print one event of the event log whole."`
	Tail EventsTailCmd `cmd:"" group:"commands" help:"Print events of the stream as they come."`
}

// EventsTailCmd is `doorbell events tail`.
type EventsTailCmd struct {
	JSON   bool   `name:"json" help:"Print CloudEvents JSON, one object a line, with people's data."`
	Agency string `placeholder:"AGENCY" help:"Only events of this agency."`
	Type   string `placeholder:"TYPE" help:"Only events of this type: contact_request.created, or access.> for several."`
	All    bool   `xor:"from" help:"Begin with the oldest event that is kept."`
	Since  Moment `xor:"from" placeholder:"MOMENT" help:"Begin at this moment: 2026-11-20T09:00:00Z, or 2h for that long ago."`
}

// Help is printed by --help below the flags.
func (EventsTailCmd) Help() string {
	return "Without --all and --since it begins with what comes next.\n\nExample:\n  doorbell events tail --type contact_request.created --since 2h"
}

// Validate refuses agencies and types that cannot be.
func (c *EventsTailCmd) Validate() error {
	if c.Type != "" && !knownType(c.Type) {
		return errNoType
	}
	return validAgency("--agency", c.Agency, c.Agency == "")
}

var errNoType = errors.New("--type: there is none of this name; write one like contact_request.created, or access.> for several")

// knownType says whether a type, or a group of them as access.>, exists.
func knownType(name string) bool {
	group, several := strings.CutSuffix(name, ">")
	return slices.ContainsFunc(events.Types, func(t events.Type) bool {
		return string(t) == name || several && strings.HasSuffix(group, ".") && strings.HasPrefix(string(t), group)
	})
}

// Run prints until it is stopped.
func (c *EventsTailCmd) Run(ctx context.Context, p *program) error { return cmdEventsTail(ctx, p, c) }

// ResumeCmd is `doorbell resume`.
type ResumeCmd struct {
	Agency    string `arg:"" help:"Agency that is asked for again."`
	Insertion string `placeholder:"REFERENCE" help:"End only the halt of this insertion."`
	JSON      bool   `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (ResumeCmd) Help() string {
	return "First make sure that the key is right: each refusal halts it again.\n\nExample:\n  doorbell resume A100"
}

// Validate refuses agencies that cannot be.
func (c *ResumeCmd) Validate() error { return validAgency("AGENCY", c.Agency, false) }

// Run resumes.
func (c *ResumeCmd) Run(ctx context.Context, p *program) error { return cmdResume(ctx, p, c) }

// KeysCmd holds the commands about keys.
type KeysCmd struct {
	Verify KeysVerifyCmd `cmd:"" group:"commands" help:"Say whether the current key may be given up."`
}

// KeysVerifyCmd is `doorbell keys verify`.
type KeysVerifyCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (KeysVerifyCmd) Help() string {
	return "Asks for the list of each agency once with each of its two keys, through the daemon if one runs. Exits with 0 only if the " +
		"current key is not needed any more.\n\nExample:\n  doorbell keys verify"
}

// Run compares.
func (c *KeysVerifyCmd) Run(ctx context.Context, p *program) error { return cmdKeysVerify(ctx, p, c) }

// PollCmd is `doorbell poll`.
type PollCmd struct {
	Agency string `arg:"" help:"Agency that is asked for."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (PollCmd) Help() string {
	return "The daemon walks the agency's list now and polls its insertions in the agency's next turns, within the budget; other agencies keep " +
		"theirs. The command does not wait for that. Of many insertions, as many as the budget allows in a minute are polled so.\n\nExample:\n  doorbell poll A100"
}

// Validate refuses agencies that cannot be.
func (c *PollCmd) Validate() error { return validAgency("AGENCY", c.Agency, false) }

// Run asks the daemon.
func (c *PollCmd) Run(ctx context.Context, p *program) error { return cmdPoll(ctx, p, c) }

// ApproveCmd is `doorbell approve`.
type ApproveCmd struct {
	Agency string `arg:"" help:"Agency whose held change is true."`
	JSON   bool   `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (ApproveCmd) Help() string {
	return "First look at the agency's list: what is missing from it is told as disappeared.\n\nExample:\n  doorbell approve A100"
}

// Validate refuses what is no agency.
func (c *ApproveCmd) Validate() error { return validAgency("AGENCY", c.Agency, false) }

// Run approves.
func (c *ApproveCmd) Run(ctx context.Context, p *program) error { return cmdApprove(ctx, p, c) }

// ConfigCmd is `doorbell config`.
type ConfigCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (ConfigCmd) Help() string {
	return "Secrets are shown as fingerprints. Exits with 78 if `doorbell run` would refuse the configuration.\n\nExample:\n  doorbell config"
}

// Run prints the configuration.
func (c *ConfigCmd) Run(ctx context.Context, p *program) error { return cmdConfig(ctx, p, c) }

// VersionCmd is `doorbell version`.
type VersionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

// Help is printed by --help below the flags.
func (VersionCmd) Help() string { return "Example:\n  doorbell version --json" }

// Run prints the version.
func (c *VersionCmd) Run(ctx context.Context, p *program) error { return cmdVersion(ctx, p, c) }

// Moment is a point in time, given as such or as a duration before now. The zero Moment is none.
type Moment struct {
	at  time.Time
	ago time.Duration
}

// UnmarshalText reads RFC 3339 or a positive duration.
func (m *Moment) UnmarshalText(text []byte) error {
	if at, err := time.Parse(time.RFC3339, string(text)); err == nil {
		*m = Moment{at: at}
		return nil
	}
	ago, err := time.ParseDuration(string(text))
	if err != nil || ago <= 0 {
		return errors.New("is neither a time like 2026-11-20T09:00:00Z nor a duration like 2h")
	}
	*m = Moment{ago: ago}
	return nil
}

// Time returns the moment as seen from now, zero for none.
func (m Moment) Time(now time.Time) time.Time {
	if m.ago > 0 {
		return now.Add(-m.ago)
	}
	return m.at
}

func validAgency(name, id string, optional bool) error {
	if optional {
		return nil
	}
	if err := checkAgencyID(id); err != nil {
		return errors.New(name + ": " + err.Error())
	}
	return nil
}

// execute parses the command line and runs the command. Errors of the parser, whose own exit code is 80, are usage errors.
func (p *program) execute(ctx context.Context, args []string) error {
	answered := false // --help has printed and wants to exit
	parser, err := newParser(
		kong.Writers(p.stdout, p.stderr),
		kong.Exit(func(int) { answered = true }),
		kong.BindTo(ctx, (*context.Context)(nil)),
		kong.Bind(p),
	)
	if err != nil {
		return err
	}
	command, err := parser.Parse(habitual(args))
	if answered {
		return nil
	}
	if err == nil {
		err = emptyValue(command)
	}
	if err != nil {
		return misuse(err)
	}
	return command.Run()
}

func newParser(more ...kong.Option) (*kong.Kong, error) {
	return kong.New(new(grammar), append(more,
		kong.Name("doorbell"),
		kong.Description("Rings NATS when something happens at a listings API that has no events of its own."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		groups,
	)...)
}
