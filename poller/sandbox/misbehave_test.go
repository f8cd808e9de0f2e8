package sandbox

import (
	"bytes"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
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

func TestTheFirstRuleThatAppliesDecidesAndSharesAreKept(t *testing.T) {
	f := Misbehave(7, Rule{Share: 0.25, Fault: Refuse(500)}, Rule{Share: 0.5, Fault: Refuse(429)})
	counts := map[int]int{}
	for range 10_000 {
		status := 0
		if fault := f(Call{}); fault != nil {
			status = fault.Status
		}
		counts[status]++
	}
	for status, want := range map[int]int{500: 2500, 429: 3750, 0: 3750} {
		if got := counts[status]; got < want-200 || got > want+200 {
			t.Errorf("%d: %d of 10000, want about %d", status, got, want)
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

func TestAStaleAnswerShowsWhatWasTrueThen(t *testing.T) {
	c := newClock()
	m := newModel(Options{Now: c.now})
	publish(t, m, "A100", "kept")
	old := add(t, m, "A100", "kept", ContactRequest{Status: "NEW"})
	c.advance(time.Hour)
	must(t, m.EditContactRequest(old, func(c *ContactRequest) { c.Status = "READ" }))
	add(t, m, "A100", "kept", ContactRequest{})
	c.advance(time.Minute)
	if got := under(t, faulty(t, m, Fault{Age: 10 * time.Minute}, contactRequestsPath("kept")).Body.Bytes(), "status"); !slices.Equal(got, []string{"NEW"}) {
		t.Errorf("%v", got)
	}
	if request, _ := m.Truth().ContactRequest(old); request.Served != 1 {
		t.Errorf("%+v", request)
	}
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

func TestOnlyTheFirstRecordIsDamaged(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r1", "r2")
	for name, wrong := range map[string]func([]byte) bool{
		"bad_utf8":       func(b []byte) bool { return !utf8.Valid(b) },
		"half_surrogate": func(b []byte) bool { return bytes.Contains(b, []byte(`\ud83d"`)) },
		"name_twice":     func(b []byte) bool { return bytes.Count(b, []byte(`"note"`)) == 2 },
	} {
		f, _ := FaultNamed(name)
		body := faulty(t, m, f, insertionsPath("A100")).Body.Bytes()
		if !wrong(body) || len(under(t, body, "propertyReferenceId")) != 2 {
			t.Errorf("%s: %s", name, body)
		}
		if n := len(under(t, body, "note")); n != 1 {
			t.Errorf("%s: %d records are damaged", name, n)
		}
	}
}

func TestMembersAndEnvelopesCanBeCalledOtherwise(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r1")
	if got := faulty(t, m, Fault{Edit: rename("results", "rows")}, insertionsPath("A100")).Body.String(); !strings.Contains(got, `"rows"`) {
		t.Error(got)
	}
	if i, _ := m.Truth().Insertion("A100", "r1"); i.Served != 1 {
		t.Error("the records are not served")
	}
	other := Nested()
	if got := faulty(t, m, Fault{Rendering: &other}, insertionsPath("A100")).Body.String(); !strings.Contains(got, `"content"`) {
		t.Error(got)
	}
}

func TestAStallTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newModel(Options{})
		publish(t, m, "A100", "r")
		p := listen(t, New(m, Flat()))
		m.SetFault(func(Call) *Fault { return &Fault{Stall: 20 * time.Second} })
		began := time.Now()
		if b := p.exchange(t, insertionsPath("A100"), -1); !bytes.Contains(b, []byte(`"r"`)) || time.Since(began) != 20*time.Second {
			t.Errorf("%s after %v", b, time.Since(began))
		}
	})
}
