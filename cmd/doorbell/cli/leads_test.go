package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	leads "doorbell/cmd/doorbell/report"
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
