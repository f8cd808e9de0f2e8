package forward

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"doorbell/events"
)

func TestAPatternThatTakesNoTypeIsRefused(t *testing.T) {
	for _, pattern := range []string{"contact_request.created", "access.>", ">", "insertion.appeared"} {
		if err := (Filter{Types: []string{"watch.stale", pattern}}).validate(); err != nil {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	for _, pattern := range []string{"", "contact_request", "contact_request.*", "*", "acces.>", "access>", "access.>.x", ".>", "a>", "CONTACT_REQUEST.CREATED"} {
		if err := (Filter{Types: []string{"watch.stale", pattern}}).validate(); err == nil || !strings.Contains(err.Error(), pattern) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestScores(t *testing.T) {
	number := func(f float64) *float64 { return &f }
	for score, wants := range map[string]bool{
		"": true, "null": true, "50": true, "49.9": false, "72.5": true, "1e1": false, `"50"`: true, `"49"`: false, `" 12 "`: false, `"high"`: true, `""`: true,
		"true": true, "{}": true, `"NaN"`: true, `"-Inf"`: true, "-3": false,
	} {
		e, err := events.New(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A"}, Score: json.RawMessage(score)})
		if err != nil {
			t.Fatal(err)
		}
		if got := (Filter{MinScore: number(50)}).wants(e); got != wants {
			t.Errorf("score %s: %v", score, got)
		}
		if !(Filter{}).wants(e) {
			t.Errorf("score %s is not wanted without a limit", score)
		}
	}
	halt, err := events.New(&events.AccessHalted{Common: events.Common{AgencyID: "A"}})
	if err != nil || !(Filter{MinScore: number(50)}).wants(halt) {
		t.Error("a halt has no score to be too low", err)
	}
	if (Filter{MinScore: number(math.NaN())}).validate() == nil {
		t.Error("a limit that is no number")
	}
}

func TestFiltersOfAgenciesAndKinds(t *testing.T) {
	lead, err := events.New(&events.ContactRequestCreated{Common: events.Common{AgencyID: "A#1"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		f     Filter
		wants bool
	}{
		"all":        {Filter{}, true},
		"named":      {Filter{Agencies: []string{"B", "A#1"}}, true},
		"others":     {Filter{Agencies: []string{"B"}}, false},
		"nobody":     {Filter{Agencies: []string{}}, false},
		"but":        {Filter{Except: []string{"A#1"}}, false},
		"leads":      {Filter{Only: Leads}, true},
		"alerts":     {Filter{Only: Alerts, Types: []string{">"}}, false},
		"other type": {Filter{Types: []string{"insertion.>"}}, false},
		"pattern":    {Filter{Types: []string{"contact_request.>"}}, true},
	} {
		if got := c.f.wants(lead); got != c.wants {
			t.Errorf("%s: %v", name, got)
		}
	}
}
