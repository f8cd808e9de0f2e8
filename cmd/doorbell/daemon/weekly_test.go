package daemon

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/report"
	"doorbell/store"
)

// mailbox is a recipient of reports.
type mailbox struct {
	fails func() bool // nil: never
	weeks []report.Report
	at    []time.Time
	tries int
}

func (m *mailbox) recipient(name string) report.Recipient {
	return report.Recipient{Name: name, Send: func(_ context.Context, r report.Report) error {
		if m.tries++; m.fails != nil && m.fails() {
			return errors.New("not now")
		}
		m.weeks, m.at = append(m.weeks, r), append(m.at, time.Now())
		return nil
	}}
}

// office is a store and what mails its reports.
type office struct {
	t      *testing.T
	weekly weekly
}

func newOffice(t *testing.T, zone string, boxes ...*mailbox) *office {
	t.Helper()
	in, err := time.LoadLocation(zone)
	must(t, err)
	s, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example.com"})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	o := &office{t: t, weekly: weekly{zone: in, store: s, log: slog.New(slog.DiscardHandler)}}
	o.weekly.make = func(_ context.Context, from, to time.Time, _ func(string) bool) (report.Report, error) {
		return report.Report{From: from, To: to}, nil
	}
	for n, m := range boxes {
		o.weekly.to = append(o.weekly.to, m.recipient(string(rune('a'+n))))
	}
	return o
}

// work mails for some time, as a process of its own.
func (o *office) work(d time.Duration) {
	o.t.Helper()
	ctx, stop := context.WithTimeout(o.t.Context(), d)
	defer stop()
	process := o.weekly
	must(o.t, process.run(ctx))
}

const oneWeek = 7 * 24 * time.Hour

func TestTheReportIsMailedEachMondayAtSevenAllYearRound(t *testing.T) {
	for _, zone := range []string{"Europe/Zurich", "America/New_York", "UTC", "Pacific/Apia"} {
		synctest.Test(t, func(t *testing.T) {
			m := &mailbox{}
			o := newOffice(t, zone, m)
			o.work(53 * oneWeek)
			if len(m.weeks) != 53 {
				t.Fatalf("%s: %d reports in 53 weeks", zone, len(m.weeks))
			}
			for n, r := range m.weeks {
				at := m.at[n].In(o.weekly.zone)
				if at.Weekday() != time.Monday || at.Hour() != 7 || at.Minute() > 0 || !at.Equal(r.To) {
					t.Errorf("%s: the report until %s is mailed at %s", zone, r.To, at)
				}
				if n > 0 && !r.From.Equal(m.weeks[n-1].To) {
					t.Errorf("%s: a report begins at %s, the one before ends at %s", zone, r.From, m.weeks[n-1].To)
				}
			}
		})
	}
}

func TestRestartsNeitherDoubleNorSkipAReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		m, other := &mailbox{}, &mailbox{}
		flaky := func() bool { return random.IntN(3) == 0 }
		m.fails, other.fails = flaky, flaky
		o := newOffice(t, "Europe/Zurich", m, other)
		for begin := time.Now(); time.Since(begin) < 20*oneWeek; {
			o.work(time.Duration(random.Int64N(int64(36 * time.Hour))))
			time.Sleep(time.Duration(random.Int64N(int64(12 * time.Hour))))
		}
		for _, m := range []*mailbox{m, other} {
			if len(m.weeks) < 19 {
				t.Errorf("%d reports in 20 weeks", len(m.weeks))
			}
			for n := 1; n < len(m.weeks); n++ {
				if !m.weeks[n].From.Equal(m.weeks[n-1].To) {
					t.Errorf("after the report until %s comes the one from %s", m.weeks[n-1].To, m.weeks[n].From)
				}
			}
		}
	})
}

func TestAfterAnOutageOfWeeksOnlyTheLatestReportIsMailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mailbox{}
		o := newOffice(t, "Europe/Zurich", m)
		o.work(oneWeek)
		time.Sleep(3*oneWeek + time.Hour)
		o.work(time.Hour)
		if len(m.weeks) != 2 || !m.weeks[1].To.Equal(lastMonday(time.Now(), o.weekly.zone)) {
			t.Errorf("mailed: %v", m.at)
		}
	})
}

func TestAReportThatFailsIsTriedUntilTheNextIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		good, bad := &mailbox{}, &mailbox{fails: func() bool { return true }}
		o := newOffice(t, "Europe/Zurich", bad, good)
		o.work(oneWeek) // to a Saturday
		first := bad.tries
		if first < 24 || first > 24*7+10 {
			t.Errorf("%d tries in the days after a Monday", first)
		}
		bad.fails = nil
		o.work(oneWeek)
		if n := len(good.weeks); n != 2 {
			t.Errorf("the other recipient has %d reports", n)
		}
		if n := len(bad.weeks); n != 2 || !bad.weeks[0].To.Equal(good.weeks[0].To) || bad.at[0].Equal(good.at[0]) {
			t.Errorf("the recipient whose server was down has %d reports", n)
		}
	})
}
