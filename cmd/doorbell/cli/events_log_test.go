package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// logged makes a data directory whose log holds so many contact requests of two agencies in turn, and a halt of the second.
// Either all of them are published, or the first half.
func logged(t *testing.T, requests int, published bool) []string {
	t.Helper()
	dir := doorbelltest.ShortDir(t)
	s, err := store.Open(store.Options{Dir: dir, BaseURL: "https://api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	err = s.Update(func(tx *store.Tx) error {
		for n := range requests + 1 {
			agency := []string{"A100", "B200"}[n%2]
			if err := tx.PutAgency(agency, store.Agency{}); err != nil {
				return err
			}
			e, err := events.New(rung(agency, n))
			if n == requests {
				e, err = events.New(&events.AccessHalted{Common: events.Common{AgencyID: "B200", ObservedAt: time.Now()}, Scope: events.ScopeAgency, Status: 403, ProbableReason: "key_rejected", Resume: "doorbell resume B200"})
			}
			if err != nil {
				return err
			}
			if _, err := tx.Append(e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	upTo := uint64(requests + 1)
	if !published {
		upTo /= 2
	}
	if err := s.Acknowledge(events.Cursor{Position: upTo}, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return doorbelltest.Fit("DOORBELL_DATA_DIR=" + dir)
}

// rung is a person's contact request.
func rung(agency string, n int) *events.ContactRequestCreated {
	person := "Muster" + sandbox.Marker
	return &events.ContactRequestCreated{
		Common: events.Common{AgencyID: agency, ObservedAt: time.Now()}, PropertyReferenceID: fmt.Sprintf("see#%d##", n%3),
		ContactRequestID: fmt.Sprint("id-", n), Identity: events.IdentityID, Score: []byte("7.25"), Insertion: events.InsertionSummary{Title: "Ruhig & <zentral>"},
		Contact: events.Contact{FirstName: "Nora", LastName: person, Email: person + "@example.org", Message: "Guten Tag " + person},
		Record:  []byte(`{"id":"id-` + fmt.Sprint(n) + `","` + person + `":"` + person + `","lastName":"` + person + `","n":9007199254740993}`),
	}
}

func TestTheLogIsListedWithoutADaemonAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	environ := logged(t, 100, false)
	dir := settingOf(environ, "DOORBELL_DATA_DIR")
	before := doorbelltest.Tree(t, dir)
	got := doorbelltest.Run(t, environ, "events", "ls")
	list := doorbelltest.Lines(got.Stdout)
	if got.Code != 0 || len(list) != 50 {
		t.Fatalf("%d lines: %+v", len(list), got)
	}
	doorbelltest.Has(t, got.Stderr, "the newest 50; --limit 0 prints all")
	doorbelltest.Has(t, list[49], "   101  ", "B200   Polling stopped", "the API refuses the key", "(waits)", time.Now().UTC().Format("2006-01-02"))
	doorbelltest.Has(t, doorbelltest.Run(t, environ, "events", "show", strings.Fields(list[49])[0]).Stdout, "access.halted")
	doorbelltest.Has(t, list[48], "   100  ", "B200   New lead", "see#", "“Ruhig & <zentral>”  score 7.25")
	for _, text := range list {
		if !strings.Contains(text, "waits") { // they are the second half
			t.Errorf("confirmed: %s", text)
		}
	}
	doorbelltest.HoldsNobody(t, got.Stdout+got.Stderr)
	mustBeUntouched(t, dir, before)
}

func settingOf(environ []string, name string) (value string) {
	for _, e := range environ {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}

func TestTheLogIsFiltered(t *testing.T) {
	t.Parallel()
	environ := logged(t, 100, false)
	for args, want := range map[string]int{
		"--limit 0":       101,
		"--type access.>": 1,
		"--from-sequence 11 --to-sequence 20 --limit 0": 10,
		"--since 1h --limit 0":                          101,
		"--until 1h":                                    0,
		"--insertion see#0## --agency A100 --limit 5":   5,
	} {
		got := doorbelltest.Run(t, environ, append([]string{"events", "ls"}, strings.Fields(args)...)...)
		if n := len(doorbelltest.Lines(got.Stdout)); got.Code != 0 || n != want {
			t.Errorf("%s: %d lines, want %d: %s", args, n, want, got.Stderr)
		}
		if want == 0 {
			doorbelltest.Has(t, got.Stderr, "the event log holds no such event")
		}
	}
}

func TestAsJSONTheLogIsAsItWasWritten(t *testing.T) {
	t.Parallel()
	environ := logged(t, 9, false)
	got := doorbelltest.Run(t, environ, "events", "ls", "--json", "--agency", "A100")
	list := doorbelltest.Lines(got.Stdout)
	if got.Code != 0 || len(list) != 5 {
		t.Fatalf("got %+v", got)
	}
	for n, text := range list {
		var e events.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Sequence != uint64(2*n+1) {
			t.Fatalf("line %d: %v", n, err)
		}
		doorbelltest.Has(t, text, `"record":{"id":"id-`+fmt.Sprint(2*n)+`","`, "9007199254740993", "Muster"+sandbox.Marker, "Ruhig & <zentral>")
		one := doorbelltest.Run(t, environ, "events", "show", e.ID, "--json")
		two := doorbelltest.Run(t, environ, "events", "show", fmt.Sprint(2*n+1), "--json")
		if one.Stdout != text+"\n" || two.Stdout != text+"\n" || one.Code != 0 || one.Stderr+two.Stderr != "" {
			t.Errorf("event %d is shown as another one: %s%s", n+1, one.Stderr, two.Stderr)
		}
	}
}

func TestReadingTheLogRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	environ := logged(t, 3, false)
	for args, sentence := range map[string]string{
		"ls --agency A/1":                         "--agency: ",
		"ls --type nothing":                       `--type: there is no event type "nothing"; schemas/README.md lists them`,
		"ls --type access":                        "did you mean access.>?",
		"ls --since tomorrow":                     "is neither a time like 2026-11-20T09:00:00Z nor a day like 2026-11-20",
		"ls --since 2999-01-01T00:00:00Z":         "--since: lies in the future",
		"ls --since 1h --until 2h":                "--until: is not after --since",
		"ls --from-sequence 5 --to-sequence 4":    "--from-sequence: is higher than --to-sequence",
		"ls --from-sequence 18446744073709551616": "--from-sequence: ",
		"ls --limit=-1":                           "--limit: must not be negative",
		"show A100":                               "EVENT: write a position, a number from 1 as events ls prints it, or the 26 characters of a ce-id",
		"show 0":                                  "EVENT: write a position",
	} {
		got := doorbelltest.Run(t, environ, append([]string{"events"}, strings.Fields(args)...)...)
		if got.Code != exit.CodeUsage || got.Stdout != "" || strings.Count(got.Stderr, "doorbell: ") != 1 {
			t.Errorf("%s: got %+v", args, got)
		}
		doorbelltest.Has(t, got.Stderr, sentence)
	}
	for args, sentence := range map[string]string{
		"ls --agency C300":                "the event log knows no such agency: C300\n  doorbell status lists the agencies",
		"show 99":                         "the event log holds no such event",
		"show aaaaaaaaaaaaaaaaaaaaaaaaaa": "the event log holds no such event",
	} {
		got := doorbelltest.Run(t, environ, append([]string{"events"}, strings.Fields(args)...)...)
		if got.Code != exit.CodeFailed || got.Stdout != "" {
			t.Errorf("%s: got %+v", args, got)
		}
		doorbelltest.Has(t, got.Stderr, sentence)
	}
}
