package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/poller"
	"doorbell/poller/schedule"
	"doorbell/poller/schedule/trace"
)

// PlanCmd is `doorbell plan`.
type PlanCmd struct {
	Insertions *int          `placeholder:"N" help:"Plan for so many insertions, without looking at a daemon or store."`
	Agencies   int           `default:"1" placeholder:"K" help:"Agencies that these insertions belong to, alike."`
	Budget     *float64      `placeholder:"RATE" help:"Requests per second, instead of DOORBELL_REQUESTS_PER_SECOND."`
	Latency    time.Duration `default:"5m" placeholder:"DURATION" help:"Say how many requests per second this mean latency takes."`
	JSON       bool          `name:"json" help:"Print JSON."`
}

func (PlanCmd) Help() string {
	return "Says how fast contact requests are found with half of the requests per second, with all, with twice and four times as many. " +
		"Takes the insertions and what was learned of them from the daemon, or from the store if none runs; changes and asks nothing.\n\n" +
		"Example:\n  doorbell plan --insertions 10000 --latency 2m"
}

func (c *PlanCmd) Validate() error {
	switch {
	case c.Insertions != nil && (*c.Insertions < 1 || *c.Insertions > poller.MostPlanned):
		return fmt.Errorf("--insertions: write a number from 1 to %d", poller.MostPlanned)
	case c.Agencies != 1 && c.Insertions == nil:
		return errors.New("--agencies: needs --insertions")
	case c.Insertions != nil && (c.Agencies < 1 || c.Agencies > min(*c.Insertions, config.MostAgencies)):
		return fmt.Errorf("--agencies: write a number from 1 to that of the insertions, and not more than %d", config.MostAgencies)
	case c.Budget != nil && !(*c.Budget >= 0.001 && *c.Budget <= 1000):
		return errors.New("--budget: write a number from 0.001 to 1000")
	case c.Latency < time.Millisecond:
		return errors.New("--latency: write a duration of at least 1ms, like 5m")
	}
	return nil
}

// Run says what may be expected of a budget, and what a wish would take.
func (c *PlanCmd) Run(ctx context.Context, p *program) error {
	cfg, err := config.Read(p.environ, config.GroupPace)
	if err != nil {
		return err
	}
	p.warn(cfg.Warnings)
	outlook, source, err := outlookFor(ctx, cfg, c)
	if err != nil {
		return err
	}
	if c.Budget != nil {
		outlook.RequestsPerSecond = *c.Budget
	}
	r := newPlan(outlook, source, c.Latency)
	if c.JSON {
		return p.printJSON(r)
	}
	return p.print(r.text(p.terminalOf(p.stdout)))
}

// Sources of what a plan is about.
const (
	fromDaemon  = "daemon"
	fromStore   = "store"
	fromRequest = "request" // --insertions
)

func outlookFor(ctx context.Context, c *config.Config, cmd *PlanCmd) (poller.Outlook, string, error) {
	if cmd.Insertions != nil {
		return assumed(c.Poll, *cmd.Insertions, cmd.Agencies), fromRequest, nil
	}
	o, err := ops.Outlook.Ask(ctx, options.Client(c.Base), ops.Nothing{})
	if err == nil || !errors.Is(err, ops.ErrNoAnswer) {
		return o, fromDaemon, err
	}
	kept, err := readStopped(c.Base, false)
	var none *exit.Error
	if errors.As(err, &none) && none.Code == exit.CodeFailed {
		none.Hint += ", or plan for a number: --insertions 1000"
	}
	if err != nil {
		return o, fromStore, err
	}
	defer kept.Close()
	o, err = poller.RememberedOutlook(kept, options.Poller(c, release))
	return o, fromStore, exit.Store(err, c.Base.DataDir)
}

// assumed is an outlook of which nothing is known but numbers.
func assumed(p config.Poll, insertions, agencies int) poller.Outlook {
	o := poller.Outlook{
		RequestsPerSecond: p.RequestsPerSecond, PollInterval: p.PollInterval, MaxStaleness: time.Duration(p.MaxStaleness),
		WalkInterval: p.WalkInterval, PageSize: int(p.PageSize),
	}
	for n := range agencies {
		share := insertions*(n+1)/agencies - insertions*n/agencies
		o.Agencies = append(o.Agencies, poller.AgencyOutlook{Rates: trace.Rates(float64(share))})
	}
	return o
}

// planReport is what `doorbell plan` says; with --json it is printed as it is.
type planReport struct {
	Source                string    `json:"source"` // daemon, store or request
	Agencies              int       `json:"agencies"`
	Insertions            int       `json:"insertions"`
	ContactRequestsPerDay float64   `json:"contactRequestsPerDay"` // expected
	LearnedFrom           int       `json:"learnedFrom"`           // contact requests; 0: all rates are assumed
	PollIntervalSeconds   float64   `json:"pollIntervalSeconds"`
	MaxStalenessSeconds   float64   `json:"maxStalenessSeconds"` // 0: auto
	AnswerSeconds         float64   `json:"answerSeconds"`       // that polls take, as measured; 0: not known, and not counted
	Budgets               []planRow `json:"budgets"`             // half, configured, twice, four times
	Walks                 planWalks `json:"walks"`
	Wished                planWish  `json:"wished"`
	StalenessNeeds        float64   `json:"stalenessNeedsRequestsPerSecond,omitempty"` // for MaxStalenessSeconds
}

// planRow is what may be expected of a budget.
type planRow struct {
	RequestsPerSecond     float64 `json:"requestsPerSecond"`
	Configured            bool    `json:"configured"`
	MeanLatencySeconds    float64 `json:"meanLatencySeconds"`
	MedianLatencySeconds  float64 `json:"medianLatencySeconds"`
	P95LatencySeconds     float64 `json:"p95LatencySeconds"`
	WithinOneMinute       float64 `json:"withinOneMinute"`
	WithinFiveMinutes     float64 `json:"withinFiveMinutes"`
	MeanAgeSeconds        float64 `json:"meanAgeSeconds"`
	OldestSeconds         float64 `json:"oldestSeconds"`
	PollsPerSecond        float64 `json:"pollsPerSecond"`
	WalkRequestsPerSecond float64 `json:"walkRequestsPerSecond"`
	TurnsMeanSeconds      float64 `json:"turnsMeanSeconds"` // of taking turns, with the same budget
	Gain                  float64 `json:"gain"`             // over taking turns
}

// planWalks is what walks take of the configured budget, and what a longer interval would give back.
type planWalks struct {
	IntervalSeconds   float64 `json:"intervalSeconds"`
	PageSize          int     `json:"pageSize"` // as configured; 0: auto
	Requests          int     `json:"requests"` // for one walk of every agency
	RequestsPerSecond float64 `json:"requestsPerSecond"`
	Wished            float64 `json:"wishedRequestsPerSecond"` // for the interval; they get less where polls wait

	LongerIntervalSeconds    float64 `json:"longerIntervalSeconds"`
	LongerRequestsPerSecond  float64 `json:"longerRequestsPerSecond"`
	LongerMeanLatencySeconds float64 `json:"longerMeanLatencySeconds"`
}

// planWish is what a mean latency takes.
type planWish struct {
	MeanLatencySeconds float64 `json:"meanLatencySeconds"`
	Possible           bool    `json:"possible"` // false: DOORBELL_POLL_INTERVAL is too long for it
	RequestsPerSecond  float64 `json:"requestsPerSecond"`
}

// longerWalks is by how much the interval is longer of which the plan says what it gives back.
const longerWalks = 5

func newPlan(o poller.Outlook, source string, latency time.Duration) *planReport {
	p, requests := o.Plan()
	r := &planReport{
		Source: source, Agencies: len(o.Agencies), PollIntervalSeconds: schedule.CapLowers(o.PollInterval, o.MaxStaleness).Seconds(),
		MaxStalenessSeconds: o.MaxStaleness.Seconds(), AnswerSeconds: max(o.Answer, 0).Seconds(), Wished: planWish{MeanLatencySeconds: latency.Seconds()},
	}
	for _, a := range o.Agencies {
		r.LearnedFrom += int(math.Round(min(max(a.ContactRequests, 0), math.MaxInt32))) // they fade a little
	}
	insertions := 0.0
	for _, group := range p.Rates {
		insertions += group.Count
		r.ContactRequestsPerDay = min(r.ContactRequestsPerDay+group.Count*group.PerDay, 1e15)
	}
	r.Insertions = int(math.Round(min(max(insertions, 0), poller.MostPlanned)))
	for _, factor := range []float64{0.5, 1, 2, 4} {
		r.Budgets = append(r.Budgets, newPlanRow(p, factor))
	}
	r.Walks = newPlanWalks(p, o, requests)
	r.Wished.RequestsPerSecond, r.Wished.Possible = p.Needed(latency)
	if o.MaxStaleness > 0 {
		r.StalenessNeeds = p.NeededForStaleness(o.MaxStaleness)
	}
	return r
}

func newPlanRow(p schedule.Plan, factor float64) planRow {
	p.Budget *= factor
	f, turns := p.Forecast(), p.Turns()
	r := planRow{
		RequestsPerSecond: p.Budget, Configured: factor == 1, MeanLatencySeconds: f.Mean.Seconds(), MedianLatencySeconds: f.Median.Seconds(),
		P95LatencySeconds: f.P95.Seconds(), WithinOneMinute: f.WithinOne, WithinFiveMinutes: f.WithinFive, MeanAgeSeconds: f.MeanAge.Seconds(),
		OldestSeconds: f.Oldest.Seconds(), PollsPerSecond: f.Polls, WalkRequestsPerSecond: f.Walks, TurnsMeanSeconds: turns.Mean.Seconds(), Gain: 1,
	}
	if f.Mean > 0 {
		r.Gain = float64(turns.Mean) / float64(f.Mean)
	}
	return r
}

func newPlanWalks(p schedule.Plan, o poller.Outlook, requests int) planWalks {
	w := planWalks{
		IntervalSeconds: o.WalkInterval.Seconds(), PageSize: o.PageSize, Requests: requests,
		RequestsPerSecond: p.Forecast().Walks, Wished: p.Walks, LongerIntervalSeconds: longerWalks * o.WalkInterval.Seconds(),
	}
	p.Walks /= longerWalks
	f := p.Forecast()
	w.LongerRequestsPerSecond, w.LongerMeanLatencySeconds = f.Walks, f.Mean.Seconds()
	return w
}
