package report

import (
	"encoding/csv"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

var (
	until = time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)
	since = until.AddDate(0, 0, -7)
)

// logged makes events of a log.
func logged(t *testing.T, list ...events.Payload) iter.Seq2[events.Event, error] {
	t.Helper()
	return func(yield func(events.Event, error) bool) {
		for n, p := range list {
			e, err := events.New(p)
			must(t, err)
			if !yield(e.Stamp(uint64(n+1), since.Add(time.Duration(n+1)*time.Hour), "store"), nil) {
				return
			}
		}
	}
}

// lead is a contact request that was seen so long after its creation.
func lead(agency, reference, id string, n int, after time.Duration) *events.ContactRequestCreated {
	return &events.ContactRequestCreated{
		Common: events.Common{AgencyID: agency}, PropertyReferenceID: reference, ContactRequestID: id,
		CreatedAt: since.Add(time.Duration(n)*time.Hour - after),
		Contact:   events.Contact{LastName: "Muster-zq7", Email: "a-zq7@example.org", Message: "hello-zq7"},
		Insertion: events.InsertionSummary{Title: "Flat " + reference},
	}
}

func week(t *testing.T) Source {
	old := lead("A100", "a#1", "old", 0, 0)
	old.Origin = events.OriginBaseline
	byID := map[string]string{} // event → contact request
	all := logged(t,
		lead("A100", "a#1", "delivered", 1, time.Minute), lead("A100", "a#1", "waits", 2, 2*time.Minute),
		lead("A100", "a#2", "rejected", 3, 3*time.Minute), lead("B200", "b#1", "alone", 4, 40*time.Minute), old,
		&events.WatchGapDetected{Common: events.Common{AgencyID: "B200"}, Operation: "contact_requests", PropertyReferenceID: "b#1", Reason: "window_full"},
		&events.AccessHalted{Common: events.Common{AgencyID: "B200"}, Scope: events.ScopeAgency, ProbableReason: "key_rejected"},
		&events.AccessResumed{Common: events.Common{AgencyID: "B200"}, Scope: events.ScopeAgency, Cause: "operator"},
		lead("B200", "b#1", "unpublished", 9, 0),
	)
	rejected := ""
	for e := range all {
		p, _ := e.Payload()
		if p, ok := p.(*events.ContactRequestCreated); ok {
			if byID[e.ID] = p.ContactRequestID; p.ContactRequestID == "rejected" {
				rejected = e.ID
			}
		}
	}
	return Source{
		From: since, To: until, Zone: time.UTC, Events: all, Acknowledged: 8,
		Deliveries: func(e events.Event) []forward.Delivered {
			mail, hook := forward.Delivered{Receiver: "email.m", Done: true, At: e.RecordedTime.Add(time.Minute)}, forward.Delivered{Receiver: "webhook.w", Done: true, At: e.RecordedTime}
			switch byID[e.ID] {
			case "alone":
				return nil
			case "unpublished":
				mail.Done, hook.Done = false, false
			case "waits":
				mail.Done = false
			}
			return []forward.Delivered{mail, hook}
		},
		Letters: func(yield func(forward.Letter, error) bool) {
			l := forward.Letter{
				Forwarder: "email", Destination: "m", Type: events.TypeContactRequestCreated, AgencyID: "A100", Reference: "a#2",
				ID: rejected, Reason: "mailbox full", At: since.Add(time.Hour),
			}
			before := l
			before.ID, before.At = "another", since.Add(-time.Hour)
			_ = yield(before, nil) && yield(l, nil)
		},
		Listings: []Listing{{AgencyID: "A100", Reference: "a#1", Title: "New title"}, {AgencyID: "A100", Reference: "a#3", Title: "Quiet"}},
	}
}

func make1(t *testing.T, s Source) Report {
	t.Helper()
	r, err := New(s)
	must(t, err)
	return r
}

func TestEveryLeadIsCountedForWhatBecameOfIt(t *testing.T) {
	r := make1(t, week(t))
	if want := (Counts{Seen: 5, Published: 4, Delivered: 1, Waiting: 2, Rejected: 1, NoReceiver: 1}); r.Total != want {
		t.Errorf("in all %+v, want %+v", r.Total, want)
	}
	if len(r.Agencies) != 2 || r.Agencies[0].Counts != (Counts{Seen: 3, Published: 3, Delivered: 1, Waiting: 1, Rejected: 1}) || r.Agencies[0].Without != 1 {
		t.Fatalf("by agency %+v", r.Agencies)
	}
	var got []string
	for _, l := range r.Agencies[0].Listings {
		got = append(got, fmt.Sprint(l.Reference, " ", l.Title, " ", l.Seen))
	}
	if want := "a#1 New title 2, a#2 Flat a#2 1, a#3 Quiet 0"; strings.Join(got, ", ") != want {
		t.Errorf("listings %q, want %q", got, want)
	}
	if d := r.Seen; d.Leads != 5 || d.LongestSeconds != 2400 || d.MedianSeconds != 120 || d.Reference != "b#1" {
		t.Errorf("seen after %+v", d)
	}
	if d := r.Delivered; d.Leads != 1 || d.LongestSeconds != 120 {
		t.Errorf("delivered after %+v", d)
	}
	got = nil
	for _, n := range r.Notices {
		got = append(got, n.What)
	}
	if want := "resumed halted gap rejected"; strings.Join(got, " ") != want {
		t.Errorf("noticed %q, want %q", got, want)
	}
}

func TestAReportIsOfItsAgenciesAlone(t *testing.T) {
	s := week(t)
	s.Includes = func(agency string) bool { return agency == "B200" }
	r := make1(t, s)
	if len(r.Agencies) != 1 || r.Agencies[0].AgencyID != "B200" || r.Total.Seen != 2 || len(r.Notices) != 3 {
		t.Errorf("%+v", r)
	}
	if text := r.Text(); strings.Contains(text, "A100") {
		t.Errorf("another agency is named:\n%s", text)
	}
}

func TestTextAndCSVSayEverythingAndNameNobody(t *testing.T) {
	s := week(t)
	s.Problems = []string{"the forwarders do not run"}
	s.Listings = []Listing{{AgencyID: "A100", Reference: "=evil\x1b[2J\n", Title: strings.Repeat("Ä very long title ", 20)}}
	r := make1(t, s)
	text := r.Text()
	for _, want := range []string{
		"5 seen, 4 published, 1 delivered; 1 not published yet; 2 waiting; 1", "Incomplete: the forwarders do not run",
		"median 2m0s, longest 40m0s (B200 b#1); leads: 5.", "1 of 3 listings had no lead", "    2  a#1  Flat a#1",
		"gap: contact_requests, window_full", "halted: agency, key_rejected", "a#2 rejected: email m, contact_request.created: mailbox full", "Messages that a receiver rejected: 1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
	if strings.ContainsRune(text, '\x1b') {
		t.Errorf("it controls a terminal: %q", text)
	}
	var b strings.Builder
	must(t, r.WriteCSV(&b))
	c := csv.NewReader(strings.NewReader(strings.TrimPrefix(b.String(), "\ufeff")))
	c.Comma = ';'
	rows, err := c.ReadAll()
	must(t, err)
	kinds := map[string]int{}
	for _, row := range rows {
		if kinds[row[0]]++; strings.HasPrefix(row[2], "=") {
			t.Errorf("a formula: %q", row)
		}
	}
	if want := "map[agency:2 gap:1 halted:1 incomplete:1 listing:4 longest to event:1 longest to last receiver:1 rejected:1 resumed:1 row:1 total:1]"; fmt.Sprint(kinds) != want {
		t.Errorf("rows %v, want %s", kinds, want)
	}
	if strings.Contains(text+b.String(), "-zq7") {
		t.Error("a person is in it")
	}
}

func TestTheHeadlineSaysWhenNothingWasOverlooked(t *testing.T) {
	for want, n := range map[string]Counts{
		"No lead arrived.": {},
		"Nothing was overlooked: 2 seen = 2 published = 2 delivered.": {Seen: 2, Published: 2, Delivered: 2},
		"2 seen = 2 published. No receiver is configured for them.":   {Seen: 2, Published: 2, NoReceiver: 2},
		"2 seen, 2 published, 1 delivered; 1 erased before delivery.": {Seen: 2, Published: 2, Delivered: 1, Erased: 1},
	} {
		if got := (Report{Total: n}).Headline(); got != want {
			t.Errorf("%+v: %q, want %q", n, got, want)
		}
	}
}

func TestUnreadableSourcesAreReported(t *testing.T) {
	broken := errors.New("broken")
	s := week(t)
	s.Letters = func(yield func(forward.Letter, error) bool) { yield(forward.Letter{}, broken) }
	if r := make1(t, s); len(r.Problems) != 1 || !strings.Contains(r.Problems[0], "broken") || r.Total.Delivered != 2 {
		t.Errorf("%+v", r)
	}
	s.Events = func(yield func(events.Event, error) bool) { yield(events.Event{}, broken) }
	if _, err := New(s); !errors.Is(err, broken) {
		t.Errorf("an error of the log gives %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
