package ops

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller"
)

func TestTheStatusIsReadableInFewLines(t *testing.T) {
	now := time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC)
	s := Status{Version: "1", NATS: NATSStatus{Connected: true}, Started: now.Add(-time.Hour), Watch: poller.Status{
		At: now, BaseURL: "https://api.example.org", RequestsPerSecond: 5, Effective: 2.5, LastMinute: 17, Requests: 812,
		Agencies: []poller.AgencyStatus{
			{AgencyID: "A100", State: "watching", Insertions: 8, Freshness: &poller.Freshness{
				Insertions: 8, OldestSeconds: 28.2, CapSeconds: 90, PastCap: 1, Turns: map[string]uint64{"index": 700, "urgent": 40},
				Latency: poller.Latency{ContactRequests: 20, MeanSeconds: 17, MedianSeconds: 15, P95Seconds: 28, WithinFiveMinutes: 0.95},
			}},
			{AgencyID: "B200", State: "starting", Freshness: &poller.Freshness{Insertions: 7, NeverPolled: 7, OldestSeconds: 6, CapSeconds: 40}}, // its walk goes on
		},
	}}
	text := func() string { return strings.Join(s.Lines(TextOptions{}), "\n") + "\n" }
	got := strings.Join(strings.Fields(text()), " ")
	for _, want := range []string{
		"812 requests (17 in the last minute), at most 5 (2.5 now, throttled by the API) a second",
		"A100 watching 8 none yet 28s 15s 0 0",
		"B200 first walk – none yet – – 0 0",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, text())
		}
	}
	if strings.Contains(got, "B200 6s") {
		t.Errorf("of what is not known yet:\n%s", text())
	}
	if n := strings.Count(text(), "\n"); n > 13 {
		t.Errorf("%d lines for two agencies:\n%s", n, text())
	}
	s.Watch.Agencies[1].LastWalk = poller.WalkStatus{At: now.Add(-2 * time.Minute), Reason: "fewer_than_total", Pages: 203, Insertions: 9999}
	if !strings.Contains(text(), "\nB200: the last walk, 2m0s ago, was not complete (fewer than total): 9,999 insertions in 203 requests\n") {
		t.Errorf("why the walk was partial is not in\n%s", text())
	}
}

func TestASharedStatusIsReadOnceASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read := 0
		status := Shared(func() (Status, error) { read++; return Status{}, nil })
		for range 3 {
			for range 100 {
				if _, err := status(); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		if read != 3 {
			t.Errorf("it was read %d times in 3 seconds", read)
		}
	})
}
