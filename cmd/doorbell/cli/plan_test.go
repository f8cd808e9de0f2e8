package cli

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller"
	"doorbell/poller/schedule"
	"doorbell/poller/schedule/trace"
	"doorbell/store"
)

// planned runs `doorbell plan` as text and as JSON, and wants both to end well, without a secret or a person.
func planned(t *testing.T, environ []string, args ...string) (planReport, string) {
	t.Helper()
	text := doorbelltest.Run(t, environ, append([]string{"plan"}, args...)...)
	object := doorbelltest.Run(t, environ, append([]string{"plan", "--json"}, args...)...)
	for _, got := range []doorbelltest.Result{text, object} {
		if got.Code != exit.Done || got.Stderr != "" {
			t.Fatalf("exit code %d:\n%s%s", got.Code, got.Stdout, got.Stderr)
		}
		doorbelltest.HoldsNobody(t, got.Stdout)
		got.HoldsNoSecret(t)
	}
	var r planReport
	if err := json.Unmarshal([]byte(object.Stdout), &r); err != nil {
		t.Fatalf("no JSON object: %v\n%s", err, object.Stdout)
	}
	return r, strings.Join(strings.Fields(text.Stdout), " ")
}

func TestPlanForANumberNeedsNoConfiguration(t *testing.T) {
	t.Parallel()
	r, text := planned(t, nil, "--insertions", "10000")
	if r.Source != fromRequest || r.Insertions != 10000 || r.Agencies != 1 || r.LearnedFrom != 0 || len(r.Budgets) != 4 {
		t.Errorf("%+v", r)
	}
	doorbelltest.Has(t, text, "10,000 insertions of 1 agency, made up", "REQUESTS/S MEAN MEDIAN 95 %", "→ 5 ",
		"Walks take 1.7 requests/s: 202 requests every 2m (DOORBELL_WALK_INTERVAL), pages of 50; fewer if the API allows larger pages, which is tried (DOORBELL_PAGE_SIZE).",
		"With one every 10m they take 0.34", "A mean of 5m takes", "The rates are assumed", "nor the time an answer takes")
	p := schedule.Plan{Rates: trace.Rates(10000), Budget: 5, Walks: 202.0 / 120, Interval: 30 * time.Second}
	for n, budget := range []float64{2.5, 5, 10, 20} {
		p.Budget = budget
		row, f := r.Budgets[n], p.Forecast()
		if row.RequestsPerSecond != budget || row.Configured != (n == 1) || row.MeanLatencySeconds != f.Mean.Seconds() || row.P95LatencySeconds != f.P95.Seconds() ||
			row.OldestSeconds != f.Oldest.Seconds() || math.Abs(row.Gain-p.Turns().Mean.Seconds()/f.Mean.Seconds()) > 1e-9 || row.Gain < 2 {
			t.Errorf("%+v, want %+v", row, f)
		}
	}
	p.Budget = r.Wished.RequestsPerSecond
	if mean := p.Forecast().Mean; !r.Wished.Possible || mean.Round(time.Second) != 5*time.Minute {
		t.Errorf("%+v leads to %v", r.Wished, mean)
	}
}

func TestAPlanFitsANarrowTerminal(t *testing.T) {
	t.Parallel()
	r, wide := planned(t, nil, "--insertions", "100000")
	narrow := Terminal{is: true}
	narrow.Width = 60
	text := r.text(narrow)
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > 60 && strings.Contains(line, "  ") {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	sameWords := func(text string) []string { return slices.Sorted(slices.Values(strings.Fields(text))) }
	if !slices.Equal(sameWords(text), sameWords(wide)) {
		t.Errorf("it says something else:\n%s", text)
	}
}

func TestPlanHeedsItsFlagsAndTheConfiguration(t *testing.T) {
	t.Parallel()
	environ := []string{
		"DOORBELL_REQUESTS_PER_SECOND=2", "DOORBELL_POLL_INTERVAL=1m", "DOORBELL_MAX_STALENESS=20m", "DOORBELL_WALK_INTERVAL=4m", "DOORBELL_PAGE_SIZE=100",
		"DOORBELL_API_KEY_FILE=/none", // plan has no use for it, and does not look
	}
	r, text := planned(t, environ, "--insertions", "3000", "--agencies", "7", "--latency", "20s")
	w := r.Walks
	if r.Agencies != 7 || r.Insertions != 3000 || w.Requests != 7*(5+2) || w.PageSize != 100 || w.IntervalSeconds != 240 || r.Wished.Possible {
		t.Errorf("%+v", r)
	}
	doorbelltest.Has(t, text, "3,000 insertions of 7 agencies", "→ 2 ", "pages of 100", "A mean of 20s is not possible: no insertion is polled more often than every 1m (DOORBELL_POLL_INTERVAL).",
		"Polling every insertion within 20m (DOORBELL_MAX_STALENESS) takes 2.8 requests/s: more than the 2 there are, so they are polled in turn")
	r, text = planned(t, environ, "--insertions", "3000", "--agencies", "7", "--budget", "8", "--latency", "1m")
	if r.Budgets[1].RequestsPerSecond != 8 || !r.Wished.Possible || r.Budgets[1].OldestSeconds > 1200.001 {
		t.Errorf("%+v", r)
	}
	doorbelltest.Has(t, text, "→ 8 ", "A mean of 1m takes", "takes 2.8 requests/s. ")
	r, _ = planned(t, []string{"DOORBELL_MAX_STALENESS=10s"}, "--insertions", "8")
	if r.PollIntervalSeconds != 9 || r.Budgets[1].OldestSeconds != 9 {
		t.Errorf("%+v", r)
	}
}

func TestPlanSaysHowOftenWalksComeThatAreTooLong(t *testing.T) {
	t.Parallel()
	r, text := planned(t, []string{"DOORBELL_PAGE_SIZE=20"}, "--insertions", "100000")
	if w := r.Walks; math.Abs(w.RequestsPerSecond-5.0/3) > 1e-9 || w.Requests != 5002 {
		t.Errorf("%+v", w)
	}
	doorbelltest.Has(t, text, "They would need 42, but get at most a third while polls wait, so one comes every 50m")
}

func TestFiguresOfAPlanAreWrittenOutAndHoursAreWhole(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		value  float64
		digits int
		want   string
	}{
		{0, 2, "0"}, {0.0334, 2, "0.033"}, {2.5, 3, "2.5"}, {9.96, 2, "10"}, {99.7, 2, "100"}, {335.2, 2, "335"}, {999.9, 3, "1000"}, {4000, 3, "4000"}, {12000, 4, "12000"},
	} {
		if got := figure(tt.value, tt.digits); got != tt.want {
			t.Errorf("%v with %d digits is %s, want %s", tt.value, tt.digits, got, tt.want)
		}
	}
	for seconds, want := range map[float64]string{3600: "1h", 7200: "2h", 36000: "10h", 3660: "1h1m", 1200: "20m", 120: "2m", 30: "30s", 0: "0s", 4500: "1h15m", 72000: "20h"} {
		if got := fromSeconds(seconds); got != want {
			t.Errorf("%v s are %s, want %s", seconds, got, want)
		}
	}
	_, text := planned(t, []string{"DOORBELL_MAX_STALENESS=1h"}, "--insertions", "10000", "--budget", "1000")
	doorbelltest.Has(t, text, "→ 1000 ", " 4000 ", "Polling every insertion within 1h (DOORBELL_MAX_STALENESS)")
	if strings.Contains(text, "e+") {
		t.Errorf("an exponent:\n%s", text)
	}
}

func TestPlanRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args  string
		words string
	}{
		{"--insertions 0", "--insertions: write a number from 1 to"},
		{"--insertions 10000001", "--insertions: write a number from 1 to"},
		{"--insertions many", "--insertions"},
		{"--agencies 3", "--agencies: needs --insertions"},
		{"--insertions 3 --agencies 4", "--agencies: write a number"},
		{"--insertions 3 --agencies=-1", "--agencies: write a number"},
		{"--insertions 10000000 --agencies 10000000", "--agencies: write a number"}, // would take all memory
		{"--insertions 3 --budget 0", "--budget: write a number from 0.001"},
		{"--insertions 3 --budget NaN", "--budget: write a number from 0.001"},
		{"--insertions 3 --budget Inf", "--budget: write a number from 0.001"},
		{"--insertions 3 --latency 0s", "--latency: write a duration"},
		{"--insertions 3 --latency=-5m", "--latency: write a duration"},
		{"--insertions 3 --latency soon", "--latency"},
	} {
		got := doorbelltest.Run(t, nil, append([]string{"plan"}, strings.Fields(tt.args)...)...)
		if got.Code != exit.CodeUsage || got.Stdout != "" {
			t.Errorf("%s: %+v", tt.args, got)
		}
		doorbelltest.Has(t, got.Stderr, tt.words)
	}
	for _, bad := range []string{"DOORBELL_REQUESTS_PER_SECOND=many", "DOORBELL_WALK_INTERVAL=0s", "DOORBELL_MAX_STALENESS=1ms"} {
		name, _, _ := strings.Cut(bad, "=")
		if got := doorbelltest.Run(t, []string{bad}, "plan", "--insertions", "5"); got.Code != exit.CodeConfig || !strings.Contains(got.Stderr, name+" ") {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

func TestPlanIsAboutTheDaemonAndThenAboutItsStore(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	d := doorbelltest.Launch(t, s.Environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100", "B200")
	sub.Request(t, s.Ring(t, "A100"))

	elsewhere := s.With("DOORBELL_REQUESTS_PER_SECOND=7", "DOORBELL_BASE_URL=", "DOORBELL_AGENCIES=", "DOORBELL_API_KEY=")
	r, text := planned(t, elsewhere)
	if r.Source != fromDaemon || r.Agencies != 2 || r.Insertions != 8 || r.Budgets[1].RequestsPerSecond != 1000 || r.PollIntervalSeconds != 0.1 || r.Walks.Requests < 2 {
		t.Errorf("%+v", r)
	}
	doorbelltest.Has(t, text, "8 insertions of 2 agencies, as the daemon knows them", "→ 1000")
	asked := s.Asked("B200")
	r, _ = planned(t, elsewhere, "--insertions", "5")
	if r.Source != fromRequest || r.Insertions != 5 || r.Budgets[1].RequestsPerSecond != 7 || asked == 0 {
		t.Errorf("%+v", r)
	}
	d.Stop(t)

	before := doorbelltest.Tree(t, s.Dir)
	r, text = planned(t, elsewhere, "--budget", "0.5")
	if r.Source != fromStore || r.Agencies != 2 || r.Insertions != 8 || r.Budgets[1].RequestsPerSecond != 0.5 || r.Walks.Requests != 6 {
		t.Errorf("%+v", r)
	}
	doorbelltest.Has(t, text, "as the store remembers them", "Learned from only 9 contact requests: the figures will change.")
	if after := doorbelltest.Tree(t, s.Dir); !maps.Equal(before, after) {
		t.Errorf("the data directory was changed: %v", slices.Sorted(maps.Keys(after)))
	}
}

func TestAPlanOfNothingSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	kept, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	r, text := planned(t, []string{"DOORBELL_DATA_DIR=" + dir})
	if r.Insertions != 0 || r.Budgets[0].Gain != 1 {
		t.Errorf("%+v", r)
	}
	doorbelltest.Has(t, text, "No insertions are known yet. To plan for a number, use --insertions 1000")
}

func TestAWalkTakesAsManyRequestsAsTheLastOneOrAPageForEachSize(t *testing.T) {
	for _, tt := range []struct{ insertions, pages, size, found, want int }{
		{120, 9, 50, 0, 9},
		{120, 0, 50, 0, 5},
		{100, 0, 50, 0, 4},
		{120, 0, 0, 0, 5},
		{120, -3, 20, 0, 8},
		{0, 0, 20, 0, 2},
		{1200, 0, 0, 200, 8},
		{1200, 0, 100, 200, 14},
		{120, 0, 0, 20, 5},
		{1200, 9, 0, 200, 9},
	} {
		a := poller.AgencyOutlook{Rates: trace.Rates(float64(tt.insertions)), Pages: tt.pages, PageSize: tt.found}
		if got := a.WalkRequests(tt.size); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

func TestAPlanStandsWhateverTheDaemonSays(t *testing.T) {
	t.Parallel()
	for _, o := range []poller.Outlook{
		{},
		{RequestsPerSecond: -1, PollInterval: -1, MaxStaleness: -1, WalkInterval: -1, PageSize: -1, Agencies: []poller.AgencyOutlook{{Pages: -3, ContactRequests: -1}}},
		{RequestsPerSecond: 1e300, WalkInterval: 1, Agencies: []poller.AgencyOutlook{{
			Rates: []schedule.RateCount{{PerDay: 1e300, Count: 1e300}, {PerDay: -1, Count: -1}}, ContactRequests: 1e300, Pages: math.MaxInt32,
		}}},
	} {
		r := newPlan(o, fromDaemon, time.Minute)
		if text := r.text(Terminal{}); strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Error(text)
		}
		if _, err := json.Marshal(r); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
