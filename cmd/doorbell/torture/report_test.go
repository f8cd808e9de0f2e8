package torture

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/report"
	"doorbell/events"
	"doorbell/events/forward"
)

// TestTheReportSaysWhatBecameOfEachLead lives through a Sunday of faults, of the API, NATS, the
// process and the receivers, until the Monday on which a report is mailed; with -rounds through more
// days. It compares the report of each day with what the API was given, and with what the receivers took.
func TestTheReportSaysWhatBecameOfEachLead(t *testing.T) {
	t.Parallel()
	if os.Getenv(orders) == "" {
		out, err := again(t, "a week")
		if err != nil || *only != "" {
			t.Logf("%s", out)
		}
		if err != nil {
			t.Error(err)
		}
		return
	}
	inBubble(t, func(t *testing.T, dir string) {
		time.Sleep(31 * time.Hour) // it is Saturday
		d := newDay(t, 3, dir)
		defer d.end()
		k := newDesk(3)
		d.options.Receivers, d.options.ForwarderNames = k, []string{"webhook"}
		d.options.ReportTo = []report.Recipient{{Name: "owner", Send: k.mail}}
		d.begin()
		time.Sleep(time.Minute)
		d.model.SetFault(d.fault(nil))
		d.oracle.Until = time.Now()
		for range *rounds {
			k.weather.Store(changing)
			d.suffer()
			k.weather.Store(storm)
			for range 30 {
				d.generator.Step()
			}
			time.Sleep(2 * time.Hour)
			synctest.Wait()
			d.judgeWaiting(k)
			k.weather.Store(calm)
			d.drain()
			d.judgeReport(k)
		}
	})
}

// judgeWaiting compares the report with what the receivers have taken so far.
func (d *day) judgeWaiting(k *desk) {
	d.t.Helper()
	r, err := d.daemon.Verbs().Report(d.t.Context(), ops.ReportRequest{Since: d.oracle.From})
	d.must(err)
	least, most := 0, 0 // what was refused waits until there is a dead letter of it
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, taken := range k.taken {
		if n := k.fitting(k.agency[id]); len(taken) == n {
			most++
			if !k.refused[id] {
				least++
			}
		}
	}
	done := r.Total.Delivered + r.Total.Rejected
	d.say("in a storm: %+v, taken %d to %d", r.Total, least, most)
	if forwarding := len(r.Problems) == 0; forwarding && (done < least || done > most) {
		d.t.Errorf("%d leads are delivered or rejected, the receivers took %d to %d: %+v", done, least, most, r.Total)
	}
}

// judgeReport compares the report and the mailed ones with the truth.
func (d *day) judgeReport(k *desk) {
	d.t.Helper()
	r, err := d.daemon.Verbs().Report(d.t.Context(), ops.ReportRequest{Since: d.oracle.From})
	d.must(err)
	if len(r.Problems) > 0 {
		d.t.Errorf("problems: %q", r.Problems)
	}
	truth := d.model.Truth()
	type listing struct{ agency, reference string }
	reported, must := map[listing]int{}, map[listing]int{}
	for _, a := range r.Agencies {
		for _, l := range a.Listings {
			reported[listing{l.AgencyID, l.Reference}] = l.Seen
		}
	}
	all, announced := d.read(), map[string]bool{}
	var want report.Counts
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, m := range all {
		if m.Kind() != string(events.TypeContactRequestCreated) {
			continue
		}
		announced[m.Body.ContactRequestID] = true
		must[listing{m.Body.AgencyID, m.Body.PropertyReferenceID}]++
		want.Seen++
		want.Published++
		switch id := m.Header.Get("ce-id"); {
		case k.refused[id]:
			want.Rejected++
		case len(k.taken[id]) == k.fitting(m.Body.AgencyID):
			want.Delivered++
		case len(k.taken[id]) == 0:
			want.NoReceiver++
		default:
			d.t.Errorf("an event was delivered to %d of %d receivers", len(k.taken[id]), k.fitting(m.Body.AgencyID))
		}
	}
	for _, c := range truth.ContactRequests {
		if c.Served > 0 && !c.CreatedAt.Before(d.oracle.Until) && !announced[c.ID] {
			d.t.Errorf("contact request %s is in no event", c.ID) // which drain reports, too
		}
	}
	for l, n := range must {
		if reported[l] != n {
			d.t.Errorf("%v has %d leads and is reported with %d", l, n, reported[l])
		}
	}
	// Dead letters are lost with the stream's folder. What is left of them are checkpoints that are done.
	got := r.Total
	if got.Rejected > want.Rejected {
		d.t.Errorf("%d rejected, the receivers rejected %d", got.Rejected, want.Rejected)
	}
	got.Delivered, want.Delivered = got.Delivered+got.Rejected, want.Delivered+want.Rejected
	got.Rejected, want.Rejected = 0, 0
	if got != want || want.Seen == 0 || want.Delivered == 0 {
		d.t.Errorf("reported %+v, actual %+v (rejected among the delivered)", got, want)
	}
	if r.Seen.Leads > want.Seen || r.Delivered.LongestSeconds < r.Seen.MedianSeconds {
		d.t.Errorf("seen after %+v, delivered after %+v", r.Seen, r.Delivered)
	}
	k.judgeMails(d.t, all)
	d.say("reported: %+v", r.Total)
}

// desk is two receivers, of which one gets the leads of one agency alone, and the owner's mailbox. All
// of them fail at some hours, and the receivers refuse some events.
type desk struct {
	seed    uint64
	weather atomic.Int32

	mu      sync.Mutex
	taken   map[string]map[string]bool // or refused, by event and receiver
	agency  map[string]string          // by event
	refused map[string]bool
	mails   []report.Report
}

// Weathers of a desk.
const (
	changing int32 = iota
	storm          // nothing is taken
	calm           // everything is
)

func newDesk(seed uint64) *desk {
	return &desk{seed: seed, taken: map[string]map[string]bool{}, agency: map[string]string{}, refused: map[string]bool{}}
}

// takes notes an event.
func (k *desk) takes(e events.Event, receiver string) {
	if k.taken[e.ID] == nil {
		k.taken[e.ID] = map[string]bool{}
	}
	k.taken[e.ID][receiver], k.agency[e.ID] = true, e.AgencyID
}

// fitting is how many receivers get the leads of an agency.
func (k *desk) fitting(agency string) int {
	if agency == dayAgencies[0] {
		return 2
	}
	return 1
}

// down reports whether something fails at this hour.
func (k *desk) down(which uint64) bool {
	if w := k.weather.Load(); w != changing {
		return w == storm
	}
	hour := uint64(time.Now().Unix() / 3600)
	return rand.New(rand.NewPCG(k.seed+which, hour)).IntN(4) == 0
}

func (k *desk) Routes() []forward.Route {
	leads := []string{string(events.TypeContactRequestCreated)}
	return []forward.Route{
		{Receiver: &counterPart{k, "all", 1}, Forwarder: "webhook", Line: 1, Filter: forward.Filter{Types: leads, Agencies: dayAgencies[:1]}},
		{Receiver: &counterPart{k, "one", 2}, Forwarder: "webhook", Line: 1, Filter: forward.Filter{Types: leads, Agencies: dayAgencies[:1]}},
		{Receiver: &counterPart{k, "all", 1}, Forwarder: "webhook", Line: 2, Filter: forward.Filter{Types: leads}},
	}
}

func (k *desk) Watch(ctx context.Context, _ *slog.Logger, _ func([]forward.Route, string)) {
	<-ctx.Done()
}

func (k *desk) Close() {}

// mail takes the report of a week.
func (k *desk) mail(_ context.Context, r report.Report) error {
	if k.down(9) {
		return errors.New("the mail server is down")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.mails = append(k.mails, r)
	return nil
}

// judgeMails wants one report for each Monday at 7, with the leads of its week.
func (k *desk) judgeMails(t *testing.T, all []doorbelltest.Message) {
	t.Helper()
	monday := time.Date(2000, 1, 3, 7, 0, 0, 0, time.UTC)
	mondays := 0
	for at := monday; at.Before(time.Now()); at = at.AddDate(0, 0, 7) {
		mondays++
	}
	if len(k.mails) != mondays {
		t.Errorf("%d reports were mailed on %d Mondays", len(k.mails), mondays)
	}
	for n, r := range k.mails {
		seen := 0
		for _, m := range all {
			recorded, err := time.Parse(time.RFC3339, m.Header.Get("ce-recordedtime"))
			must(t, err)
			if m.Kind() == string(events.TypeContactRequestCreated) && !recorded.Before(r.From) && recorded.Before(r.To) {
				seen++
			}
		}
		if !r.To.Equal(monday.AddDate(0, 0, 7*n)) || r.Total.Seen != seen {
			t.Errorf("report %d is until %s with %d leads, there were %d", n, r.To, r.Total.Seen, seen)
		}
	}
}

// counterPart is one of the receivers.
type counterPart struct {
	desk  *desk
	name  string
	which uint64
}

func (c *counterPart) Traits() forward.Traits {
	return forward.Traits{Destination: c.name, Pace: time.Second, Digest: 10}
}

func (c *counterPart) Send(_ context.Context, d forward.Delivery) error {
	k := c.desk
	if k.down(c.which) {
		return &forward.Retry{Receiver: true, Reason: "down"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range d.Events {
		if e.ID[0] == 'a' { // one of 32
			k.refused[e.ID] = true
			if len(d.Events) == 1 { // otherwise they arrive one by one
				k.takes(e, c.name)
			}
			return &forward.Refused{Reason: "too large", Certain: true}
		}
	}
	for _, e := range d.Events {
		k.takes(e, c.name)
	}
	return nil
}
