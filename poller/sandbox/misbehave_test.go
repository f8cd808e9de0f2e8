package sandbox

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller/listings/listingstest"
)

// TestOnlyWhatCanBeReadIsServed goes through all faults over real connections in virtual time.
func TestOnlyWhatCanBeReadIsServed(t *testing.T) {
	readable := strings.Fields("bad_utf8 half_surrogate late name_twice renamed reshaped stale stall stuck wrong_type")
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(Options{})
				publish(t, m, "B200", "other")
				for _, reference := range []string{"r", "r2"} {
					publish(t, m, "A100", reference)
					add(t, m, "A100", reference, ContactRequest{})
					add(t, m, "A100", reference, ContactRequest{})
				}
				time.Sleep(time.Hour)
				m.SetFault(func(Call) *Fault { return &f })
				p := listingstest.Serve(t, New(m, Flat()))
				for _, target := range []string{insertionsPath("A100"), contactRequestsPath("r")} {
					fetch(t, p, target, -1)
				}
				synctest.Wait()
				good := map[string]bool{ // contact requests are requested by the name that "unnamed" hides
					OperationInsertions:      slices.Contains(readable, name),
					OperationContactRequests: slices.Contains(readable, name) || name == "unnamed",
				}
				truth := m.Truth()
				for _, c := range truth.ContactRequests {
					if want := good[OperationContactRequests] && c.Reference == "r"; c.Served > 0 != want {
						t.Errorf("%s is served: %v", c.ID, !want)
					}
				}
				for _, i := range truth.Insertions {
					if want := good[OperationInsertions] && i.AgencyID == "A100"; i.Served > 0 != want {
						t.Errorf("%s is served: %v", i.Reference, !want)
					}
				}
			})
		})
	}
}

func TestWhatIsLeftOutIsNotServed(t *testing.T) {
	m := newModel(Options{})
	h := New(m, Flat())
	publish(t, m, "A100", "r1", "r2", "r3")
	id := add(t, m, "A100", "r1", ContactRequest{})
	m.SetFault(func(Call) *Fault { return &Fault{Without: []string{"r3", id}} })
	if got := listed(h, "A100", ""); !slices.Equal(got, []string{"r2", "r1"}) || len(ids(h, "r1", "")) > 0 {
		t.Errorf("%v", got)
	}
	if i, _ := m.Truth().Insertion("A100", "r3"); i.Served != 0 {
		t.Error("served")
	}
}
