package sandbox

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestRulesSelectCalls(t *testing.T) {
	at := newClock().t
	list := Call{At: at, Operation: OperationInsertions, AgencyID: "A100", Key: "key-1"}
	poll := Call{At: at, Operation: OperationContactRequests, AgencyID: "A100", Reference: "r", Key: "key-1"}
	for name, c := range map[string]struct {
		rule Rule
		call Call
		want string // one mark a call: does it get the fault?
	}{
		"all":             {Rule{}, list, "xxxx"},
		"the operation":   {Rule{Operation: OperationInsertions}, list, "xxxx"},
		"the other":       {Rule{Operation: OperationInsertions}, poll, "...."},
		"the agency":      {Rule{AgencyID: "B200"}, poll, "...."},
		"the reference":   {Rule{Reference: "r"}, poll, "xxxx"},
		"no reference":    {Rule{Reference: "r"}, list, "...."},
		"the first page":  {Rule{Further: true}, list, "...."},
		"further pages":   {Rule{Further: true}, Call{At: at, Query: map[string][]string{"page": {"2"}}}, "xxxx"},
		"nothing decided": {Rule{Decide: func(Call) *Fault { return nil }}, list, "...."},
	} {
		f := Misbehave(1, c.rule)
		got := ""
		for range 4 {
			if f(c.call) != nil {
				got += "x"
			} else {
				got += "."
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// TestOnlyWhatCanBeReadIsServed goes through all faults over real connections in virtual time.
func TestOnlyWhatCanBeReadIsServed(t *testing.T) {
	readable := strings.Fields("bad_utf8 half_surrogate late name_twice renamed reshaped stale stall stuck wrong_type")
	for name, f := range faults() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(Options{KeepLog: true})
				publish(t, m, "B200", "other")
				for _, reference := range []string{"r", "r2"} {
					publish(t, m, "A100", reference)
					add(t, m, "A100", reference, ContactRequest{})
					add(t, m, "A100", reference, ContactRequest{})
				}
				time.Sleep(time.Hour)
				m.SetFault(func(Call) *Fault { return &f })
				p := listen(t, New(m, Flat()))
				for _, target := range []string{insertionsPath("A100"), contactRequestsPath("r")} {
					p.exchange(t, target, -1)
				}
				synctest.Wait()
				good := map[string]bool{ // contact requests are asked for by the name that "unnamed" hides
					OperationInsertions:      slices.Contains(readable, name),
					OperationContactRequests: slices.Contains(readable, name) || name == "unnamed",
				}
				for _, entry := range m.Log(Filter{}) {
					if served := len(entry.Served) > 0; served != good[entry.Operation] {
						t.Errorf("%s: served %v", entry.Operation, entry.Served)
					}
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

// faulty gets an answer through one fault.
func faulty(t *testing.T, m *Model, f Fault, target string) *httptest.ResponseRecorder {
	t.Helper()
	m.SetFault(func(Call) *Fault { return &f })
	defer m.SetFault(nil)
	return ask(New(m, Flat()), testKey, target)
}

func TestWhatIsLeftOutIsNotServed(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r1", "r2", "r3")
	id := add(t, m, "A100", "r1", ContactRequest{})
	f := Fault{Without: []string{"r3", id}}
	w := faulty(t, m, f, insertionsPath("A100"))
	if p := decoded[flatPage](t, w); *p.Total != 2 || !slices.Equal(p.references(), []string{"r2", "r1"}) {
		t.Errorf("%s", w.Body)
	}
	if got := faulty(t, m, f, contactRequestsPath("r1")).Body.String(); strings.Contains(got, id) {
		t.Error(got)
	}
	if i, _ := m.Truth().Insertion("A100", "r3"); i.Served != 0 {
		t.Error("served")
	}
}
