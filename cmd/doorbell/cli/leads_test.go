package cli

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	leads "doorbell/cmd/doorbell/report"
	"doorbell/store"
)

// reported is what doorbell report --json prints.
func reported(t *testing.T, environ []string) (r leads.Report) {
	t.Helper()
	out := doorbelltest.Run(t, environ, "report", "--json")
	if out.Code != exit.Done {
		t.Fatalf("%+v", out)
	}
	if err := json.Unmarshal([]byte(out.Stdout), &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTheReportCountsWhatReceiversHaveTaken(t *testing.T) {
	t.Parallel()
	s, p := doorbelltest.NewScene(t, "A100", "B200"), doorbelltest.NewPlace(t)
	environ := s.With(p.Environ()...)
	doorbelltest.Launch(t, environ, "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100", "B200")
	sub.Request(t, s.Ring(t, "A100"))
	sub.Request(t, s.Ring(t, "A100"))
	sub.Request(t, s.Ring(t, "B200"))
	doorbelltest.Eventually(t, "all are delivered", func() bool { return reported(t, environ).Total.Delivered == 3 })
	p.Answer(503)
	sub.Request(t, s.Ring(t, "B200"))
	var r leads.Report
	doorbelltest.Eventually(t, "one waits", func() bool {
		r = reported(t, environ)
		return r.Total == leads.Counts{Seen: 4, Published: 4, Delivered: 3, Waiting: 1}
	})
	if r.Delivered.Leads != 3 || r.Seen.Leads != 4 || len(r.Agencies) != 2 || r.Agencies[0].Seen != 2 || r.Agencies[0].Without != 3 || len(r.Problems) > 0 {
		t.Errorf("%+v", r)
	}
	text := doorbelltest.Run(t, environ, "report", "--since", "1h")
	if !strings.Contains(text.Stdout, "4 seen, 4 published, 3 delivered; 1 waiting.") {
		t.Errorf("%+v", text)
	}
	mustBePrivate(t, text.Stdout)
	p.Answer(200)
	doorbelltest.Eventually(t, "the last one is delivered", func() bool { return reported(t, environ).Total.Delivered == 4 })
}

func TestAMailOnMondayIsSentOnceHoweverOftenItStarts(t *testing.T) {
	t.Parallel()
	s, p := doorbelltest.NewScene(t, "A100"), doorbelltest.NewPlace(t)
	environ := s.With(append(p.Environ(), "DOORBELL_EMAIL_REPORT_TO=owner@agency.example")...)
	start := func() *doorbelltest.Child {
		d := doorbelltest.Launch(t, environ, "run")
		doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
		return d
	}
	start().Stop(t) // it was not watched in any week that has ended
	if n := p.Mailed("Leads of the week"); n != 0 {
		t.Fatalf("%d reports after the first start", n)
	}
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	err = kept.SetReported(store.Reported{Week: time.Now().AddDate(0, 0, -21), All: true})
	if err := errors.Join(err, kept.Close()); err != nil {
		t.Fatal(err)
	}
	d := start()
	doorbelltest.Eventually(t, "the report is mailed", func() bool { return p.Mailed("Leads of the week") == 1 && p.Mailed("leads-") == 1 })
	d.Stop(t)
	d = start()
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Request(t, s.Ring(t, "A100"))
	doorbelltest.Eventually(t, "the lead is mailed", func() bool { return p.Mailed("Muster") == 1 })
	d.Stop(t)
	if n := p.Mailed("Leads of the week"); n != 1 {
		t.Errorf("the report was mailed %d times", n)
	}
}
