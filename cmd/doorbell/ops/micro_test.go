package ops

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/poller"
)

// crowd is the status of so many agencies, with all their figures.
func crowd(agencies int) Status {
	s := Status{Running: true}
	for n := range agencies {
		id := fmt.Sprintf("A%d", n)
		f := &poller.Freshness{Turns: map[string]uint64{}}
		for _, why := range strings.Fields("first interval cap hint retry walk") {
			f.Turns[why] = 1 << 40
		}
		s.Watch.Agencies = append(s.Watch.Agencies, poller.AgencyStatus{AgencyID: id, State: "watching", Freshness: f})
		hours := AgencyHours{AgencyID: id}
		for h := range 24 {
			hours.Hours = append(hours.Hours, Hour{At: time.Date(2026, 11, 22, h, 0, 0, 0, time.UTC), Leads: 12, Events: 345})
		}
		s.Hours = append(s.Hours, hours)
		s.Relay = append(s.Relay, RelayStatus{AgencyID: id})
	}
	return s
}

func TestAnAnswerThatIsTooLargeForAMessageIsShortenedAndSaysSo(t *testing.T) {
	for _, tt := range []struct {
		agencies int
		without  string
		wrong    bool
	}{
		{200, "", false}, {700, "hours", false}, {2000, "hours, freshness", false}, {10_000, "", true},
	} {
		m := newService(MicroOptions{Prefix: "listings", Status: func() (Status, error) { return crowd(tt.agencies), nil }})
		m.room = 1<<20 - 1<<10
		reply, err := m.answer(nil)
		switch {
		case tt.wrong:
			if err == nil || !strings.Contains(err.Error(), "ask for one") {
				t.Errorf("%d agencies: %v", tt.agencies, err)
			}
			if one, err := m.answer([]byte(`{"agencyId":"A7"}`)); err != nil || !strings.Contains(string(one.Data), `"hours"`) {
				t.Errorf("one of %d: %v", tt.agencies, err)
			}
		case err != nil || len(reply.Data) > m.room || reply.Header.Get(shortenedHeader) != tt.without:
			t.Errorf("%d agencies: %v %d bytes, without %q", tt.agencies, err, len(reply.Data), reply.Header.Get(shortenedHeader))
		}
	}
}
