package torture

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/cli"
	"doorbell/poller/sandbox"
)

// outage is something that fails for long.
type outage struct {
	name        string
	lasts       time.Duration
	begin, end  func(d *day)
	first, over string // words of the log lines that must be there: when it begins, and when it is over
}

// misbehave makes the API respond with a fault, as a rule decides.
func misbehave(fault string, rule sandbox.Rule) func(d *day) {
	return func(d *day) {
		rule.Fault = faultNamed(d.t, fault)
		d.model.SetFault(sandbox.Misbehave(1, rule))
	}
}

func behave(d *day) { d.model.SetFault(nil) }

// failThenBehave ends an outage in which some responses are good: a walk of each agency fails first.
func failThenBehave(d *day) {
	misbehave("503", sandbox.Rule{Share: 1})(d)
	time.Sleep(5 * time.Minute)
	behave(d)
}

var outages = []outage{
	{"the API is down", 24 * time.Hour, (*day).disconnect, (*day).connect, "the API does not answer", "the API answers again"},
	{"429 to everything", 24 * time.Hour, misbehave("429", sandbox.Rule{Share: 1}), behave, "the API throttles a key", "the API accepts the key again"},
	{"503 to some", 6 * time.Hour, misbehave("503", sandbox.Rule{Share: 0.5}), failThenBehave, "503", "walks are complete again"},
	{
		"contact requests cannot be read", 6 * time.Hour,
		misbehave("html", sandbox.Rule{Share: 0.4, Operation: sandbox.OperationContactRequests}), behave,
		"a poll failed", "polls of an insertion work again",
	},
	{"NATS is away", 12 * time.Hour, (*day).natsGoes, (*day).natsMayCome, "accepts no events", "works again"},
	{"the store is full", 2 * time.Hour, (*day).fill, func(*day) {}, "the store is full", ""},
}

func (d *day) disconnect() {
	d.refusing.Store(true)
	d.transport.CloseIdleConnections()
}

func (d *day) connect() { d.refusing.Store(false) }

// fill starts the daemon with no room at all.
func (d *day) fill() {
	d.halt(false)
	d.options.StoreMax = 1
	d.begin()
}

func TestALongOutageFillsNoLogAndItsEndsAreInIt(t *testing.T) {
	t.Parallel()
	if os.Getenv(orders) == "" {
		out, err := again(t, "outages")
		if err != nil || strings.Count(string(out), "--- PASS: "+t.Name()+"/") != len(outages) {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	for n, o := range outages {
		t.Run(strings.ReplaceAll(o.name, " ", "_"), func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) { o.live(t, uint64(n+1), dir) })
		})
	}
}

// live goes through a quiet hour, the outage, and two hours after it; in one round through less.
func (o outage) live(t *testing.T, seed uint64, dir string) {
	d := newDay(t, seed, dir)
	defer d.end()
	d.options.Log = slog.New(cli.NewDedupe(slog.NewJSONHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelInfo})))
	d.options.Poller.PollInterval, d.options.Poller.WalkInterval = 30*time.Second, 2*time.Minute
	d.begin()
	quiet, after := time.Hour, 2*time.Hour
	if *rounds == 1 {
		quiet, after, o.lasts = 10*time.Minute, 40*time.Minute, min(o.lasts, time.Hour)
	}
	time.Sleep(quiet)
	d.log.Reset()
	began := time.Now()
	o.begin(d)
	for range int(o.lasts / time.Hour) {
		d.generator.Step()
		time.Sleep(time.Hour)
	}
	synctest.Wait()
	during := d.log.String()
	d.log.Reset()
	o.end(d)
	time.Sleep(after)
	synctest.Wait()
	o.judge(t, began, during)
	if log := d.log.String(); !strings.Contains(log, o.over) {
		t.Errorf("its end is not in the log:\n%s", log)
	}
	d.model.SetFault(nil)
}

// mostAnHour is how many lines with the same message about the same thing an hour may have, and mostOfAll how many lines in all.
const (
	mostAnHour = 10
	mostOfAll  = 100
)

func (o outage) judge(t *testing.T, began time.Time, log string) {
	t.Helper()
	lines, hours := map[string]int{}, map[int]int{}
	first, messages := time.Time{}, map[string]int{}
	for text := range strings.Lines(log) {
		var l struct {
			Time                                           time.Time
			Level, Msg, Agency, Operation, Part, Forwarder string
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatal(errors.Join(err, errors.New(text)))
		}
		hour := int(l.Time.Sub(began) / time.Hour)
		lines[fmt.Sprint(hour, " ", l.Level, " ", l.Msg, " ", l.Agency, l.Operation, l.Part, l.Forwarder)]++
		hours[hour]++
		messages[l.Msg]++
		if first.IsZero() && strings.Contains(text, o.first) {
			first = l.Time
		}
	}
	for what, n := range lines {
		if n > mostAnHour {
			t.Errorf("%d lines in hour %s", n, what)
		}
	}
	for hour, n := range hours {
		if n > mostOfAll {
			t.Errorf("%d lines in hour %d", n, hour)
		}
	}
	if first.IsZero() || first.Sub(began) > 10*time.Minute {
		t.Errorf("its beginning is not in the log:\n%s", log[:min(len(log), 4000)])
	}
	t.Logf("%s for %s: %v", o.name, o.lasts, messages)
}
