package page

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller"
	"doorbell/store"
)

// Scenes are what a daemon may look like. People in them have a name that must not be shown.
const nobody = "Muster-zq7"

// base is a daemon that runs well, without agencies.
func base(now time.Time) ops.Status {
	return ops.Status{
		Version: "1.0.0", Started: now.Add(-76 * time.Hour), StoreID: "k2x7", DataDir: "/var/lib/doorbell",
		NATS:  ops.NATSStatus{URL: "nats://127.0.0.1:4222", Embedded: true, Connected: true, Stream: "LISTINGS"},
		Store: ops.StoreStatus{InUse: 143 << 20, Max: 8 << 30},
		Watch: poller.Status{At: now, BaseURL: "https://api.example.com", RequestsPerSecond: 5, Effective: 5, LastMinute: 187, Requests: 1_204_551},
	}
}

// agency is one that is watched, and is well.
func agency(id string, insertions int, now time.Time) poller.AgencyStatus {
	return poller.AgencyStatus{
		AgencyID: id, State: "watching", WatchStart: now.Add(-76 * time.Hour), Insertions: insertions, LastGoodAnswer: now.Add(-2 * time.Second),
		LastCompleteWalk: now.Add(-73 * time.Second), LastWalk: poller.WalkStatus{At: now.Add(-73 * time.Second), Took: 2 * time.Second, Complete: true, Pages: 9, Insertions: insertions},
		OldestPoll: now.Add(-4 * time.Minute), LastSequence: 4_112,
		Freshness: &poller.Freshness{
			Insertions: insertions, OldestSeconds: 252, CapSeconds: 1980,
			Latency: poller.Latency{ContactRequests: 61, MeanSeconds: 50, MedianSeconds: 38.2, P95Seconds: 201},
		},
	}
}

// hours have most leads by day.
func hours(id string, now time.Time, scale int) ops.AgencyHours {
	h := ops.AgencyHours{AgencyID: id}
	first := now.UTC().Truncate(time.Hour).Add(-23 * time.Hour)
	day := []int{0, 0, 0, 0, 0, 1, 2, 4, 7, 9, 8, 6, 5, 6, 7, 6, 5, 7, 9, 8, 6, 3, 2, 1}
	for n := range 24 {
		t := first.Add(time.Duration(n) * time.Hour)
		leads := scale * day[t.Hour()] * (3 + (n*7+len(id)+int(id[len(id)-1]))%5) / 6
		h.Hours = append(h.Hours, ops.Hour{At: t, Leads: leads, Events: leads + scale*(4+(n*5)%9)})
	}
	return h
}

// emptyScene has just been started.
func emptyScene(now time.Time) (ops.Status, []events.Event) {
	s := base(now)
	s.Started, s.Watch.Requests, s.Watch.LastMinute = now.Add(-9*time.Second), 14, 14
	for n, id := range []string{"A100", "B200"} {
		a := poller.AgencyStatus{AgencyID: id, State: "starting", WatchStart: s.Started, Insertions: 250 - 100*n, FirstPolls: 250 - 100*n}
		if n == 1 {
			a.LastCompleteWalk, a.FirstPolls = now.Add(-3*time.Second), 148
		}
		s.Watch.Agencies = append(s.Watch.Agencies, a)
		s.Relay = append(s.Relay, ops.RelayStatus{AgencyID: id})
	}
	s.Store.InUse = 160 << 10
	return s, nil
}

// busyScene has two agencies with leads.
func busyScene(now time.Time) (ops.Status, []events.Event) {
	s := base(now)
	s.Watch.Agencies = []poller.AgencyStatus{agency("A100", 412, now), agency("B200", 1_187, now)}
	s.Watch.Agencies[1].Freshness.Latency = poller.Latency{ContactRequests: 88, MedianSeconds: 46, P95Seconds: 340}
	s.Watch.Latency = poller.Latency{ContactRequests: 149, MedianSeconds: 42.2, P95Seconds: 290}
	s.Hours = []ops.AgencyHours{hours("A100", now, 1), hours("B200", now, 2)}
	s.Relay = []ops.RelayStatus{{AgencyID: "A100", Acknowledged: 4112}, {AgencyID: "B200", Acknowledged: 977}}
	s.Forwarders = []ops.ForwarderStatus{
		{Name: "slack", Destination: "hooks.slack.com 3fa1c2", Events: 149, LastSent: now.Add(-3 * time.Minute)},
		{Name: "email", Destination: "smtp.example.com 81bb02", Events: 149, LastSent: now.Add(-3 * time.Minute)},
	}
	return s, someEvents(now, 40)
}

// troubledScene has nearly everything that can be wrong.
func troubledScene(now time.Time) (ops.Status, []events.Event) {
	s, list := busyScene(now)
	a := &s.Watch.Agencies[0]
	a.State, a.LastError = "halted", "insertions: 403 Forbidden"
	a.Halts = []poller.HaltStatus{{
		Scope: events.ScopeAgency, Since: now.Add(-26 * time.Minute), Status: 403, ProbableReason: "agency_not_linked", Resume: "doorbell resume A100",
		Advice: "The same key works for other agencies: this agency does not exist at the API or is not linked to the key. Check the agency's id, ask the provider's account manager to link it, then run: doorbell resume A100",
	}}
	b := &s.Watch.Agencies[1]
	b.State, b.Held = "held", &poller.HeldStatus{Reason: "mass_disappearance", Until: now.Add(18 * time.Minute), Missing: 611, Known: 1187, Approve: "doorbell approve B200"}
	b.Halts = []poller.HaltStatus{{
		Scope: events.ScopeInsertion, PropertyReferenceID: "altau##H1#0034", Since: now.Add(-30 * time.Hour), Status: 403, ProbableReason: "insertion_not_allowed", Resume: `doorbell resume B200 --insertion "altau##H1#0034"`,
		Advice: `The list still holds this insertion, but its contact requests are refused. Ask the provider's account manager why; it is tried again daily, or run: doorbell resume B200 --insertion "altau##H1#0034"`,
	}}
	b.Alarms = []poller.Alarm{{Kind: "schema_drifted", Operation: "contact_requests", Since: now.Add(-2 * time.Hour)}}
	b.Freshness.PastCap, b.Freshness.OldestSeconds = 37, 2710
	c := agency("C300", 96, now)
	c.State, c.LastError = "stale", "contact requests: 502 Bad Gateway after 11 tries"
	c.Alarms = []poller.Alarm{{Kind: "stale", Operation: "contact_requests", Since: now.Add(-44 * time.Minute)}}
	c.LastWalk = poller.WalkStatus{At: now.Add(-time.Minute), Reason: "page_failed", Pages: 2}
	c.Volatile = []store.Volatile{
		{Operation: "insertions", Path: "/picture"}, {Operation: "contact_requests", Path: "/relay"}, {Operation: "insertions", Path: "/views"},
	}
	s.Watch.Agencies = append(s.Watch.Agencies, c)
	s.Watch.Effective = 2.5
	s.Forwarders[0].FailingSince, s.Forwarders[0].LastErrorAt = now.Add(-17*time.Minute), now.Add(-time.Minute)
	s.Forwarders[0].LastError, s.Forwarders[0].Waiting, s.Forwarders[0].Attempts = "the receiver answered 503 Service Unavailable", 12, 9
	s.Forwarders[1].DeadLetters = 2
	s.Store = ops.StoreStatus{InUse: 7 << 30, Max: 8 << 30, Alarm: true, Advice: "raise DOORBELL_STORE_MAX if the disk has room, or lower DOORBELL_RETENTION"}
	s.NATS.Problem = "the stream takes no messages: maximum bytes exceeded"
	s.Relay[0].Pending, s.Relay[1].Pending = 41, 1203
	return s, list
}

// manyScene has n agencies, some of them in trouble.
func manyScene(now time.Time, n int) (ops.Status, []events.Event) {
	s := base(now)
	s.Watch.LastMinute, s.Watch.RequestsPerSecond, s.Watch.Effective = 2_310, 40, 40
	s.Watch.Latency = poller.Latency{ContactRequests: 9_811, MedianSeconds: 61, P95Seconds: 611}
	for i := range n {
		id := fmt.Sprintf("%c%03d", 'A'+i%9, 100+i)
		a := agency(id, 40+(i*37)%700, now)
		a.Freshness.Latency.MedianSeconds = float64(20 + (i*13)%90)
		switch {
		case i%29 == 3:
			a.State, a.Halts = "halted", []poller.HaltStatus{{
				Scope: events.ScopeAgency, Since: now.Add(-time.Duration(i) * time.Minute), Status: 403, ProbableReason: "key_rejected", Resume: "doorbell resume " + id,
				Advice: "The API refuses this key for every agency that uses it: it is wrong, expired or deactivated. Ask the provider's account manager for the valid key and write it into the key file (picked up within 30 s), or set DOORBELL_API_KEY and restart. If the key is right, run: doorbell resume " + id,
			}}
		case i%97 == 50:
			a.State, a.Held = "held", &poller.HeldStatus{Reason: "empty_list", Until: now.Add(18 * time.Minute), Missing: 80, Known: 80, Approve: "doorbell approve " + id}
		case i%41 == 7:
			a.State, a.LastError = "backing_off", "insertions: 500 Internal Server Error"
		case i%53 == 11:
			a.State, a.LastCompleteWalk, a.FirstPolls = "starting", time.Time{}, 12
			a.Freshness = nil
		}
		s.Watch.Agencies = append(s.Watch.Agencies, a)
		s.Hours = append(s.Hours, hours(id, now, 1+i%3))
		s.Relay = append(s.Relay, ops.RelayStatus{AgencyID: id, Acknowledged: 4112})
	}
	return s, someEvents(now, 60)
}

// someEvents are n of several types, the oldest first.
func someEvents(now time.Time, n int) (list []events.Event) {
	for i := range n {
		list = append(list, anEvent(i, now.Add(-time.Duration((n-i)*(n-i))*2*time.Second)))
	}
	return list
}

var titles = []string{"Helle 3.5-Zimmerwohnung im Seefeld", "Bel appartement de 4.5 pièces", "Ruhig & zentral: 2.5 Zimmer", "Luminoso appartamento di 4.5 locali", "Loft mit <Weitblick>"}

func anEvent(i int, t time.Time) events.Event {
	agencyID, reference := []string{"A100", "B200"}[i%2], fmt.Sprintf("seefeld#%d#H2#%04d", 1200+i%4, 300+i)
	common := events.Common{AgencyID: agencyID, ObservedAt: t}
	summary := events.InsertionSummary{Title: titles[i%len(titles)], Locality: "Zürich"}
	record := json.RawMessage(`{"n":1,"lastName":"` + nobody + `"}`)
	var p events.Payload = &events.ContactRequestCreated{
		Common: common, PropertyReferenceID: reference, ContactRequestID: fmt.Sprint("id-", i), Identity: events.IdentityID, Score: json.RawMessage("72.5"), Insertion: summary, Record: record,
		Contact: events.Contact{FirstName: "Nora", LastName: nobody, Email: nobody + "@example.org", Phone: "+41790000123", Message: "Guten Tag, " + nobody + " hier"},
	}
	switch i % 7 {
	case 2:
		p = &events.InsertionAppeared{Common: common, PropertyReferenceID: reference, Episode: 1, Insertion: summary, Record: record}
	case 4:
		p = &events.InsertionChanged{
			Common: common, PropertyReferenceID: reference, Episode: 1, Revision: 2, Insertion: summary, Record: record,
			Changes: []events.Change{{Path: "/prices/rent/gross", Before: json.RawMessage("2890"), After: json.RawMessage("2790")}, {Path: "/availableFrom", Before: json.RawMessage(`"2027-12-01"`), After: json.RawMessage(`"2027-02-01"`)}},
		}
	}
	e, err := events.New(p)
	if err != nil {
		panic(err)
	}
	return e.Stamp(uint64(i+1), t, "k2x7")
}

// hostile puts a text wherever a text may come from outside.
func hostile(now time.Time, text string) (ops.Status, []events.Event) {
	s, _ := troubledScene(now)
	s.Version, s.DataDir, s.Watch.BaseURL, s.Watch.Down = text, text, text, text
	s.NATS = ops.NATSStatus{URL: text, Stream: text, Problem: text, Connected: true}
	s.Store.Advice = text
	for n := range s.Watch.Agencies {
		a := &s.Watch.Agencies[n]
		a.AgencyID, a.State, a.LastError, a.LastWalk.Reason, a.LastWalk.Complete = text+fmt.Sprint(n), text, text, text, false
		for i := range a.Halts {
			a.Halts[i] = poller.HaltStatus{Scope: events.Scope(text), PropertyReferenceID: text, Status: -1, ProbableReason: text, Advice: text, Resume: text}
		}
		a.Halts = append(a.Halts, poller.HaltStatus{Scope: events.ScopeInsertion, PropertyReferenceID: text, ProbableReason: text, Advice: text, Resume: text})
		a.Alarms = append(slices.Clone(a.Alarms), poller.Alarm{Kind: text, Operation: text, PropertyReferenceID: text}, poller.Alarm{Kind: "gap_detected", Operation: text, PropertyReferenceID: text})
		a.Volatile = []store.Volatile{{Operation: text, Path: text}}
		a.Held = &poller.HeldStatus{Reason: text, Approve: text, Missing: -5, Known: 1 << 40}
		s.Relay = append(s.Relay, ops.RelayStatus{AgencyID: a.AgencyID, Problem: text, Pending: 1 << 63})
		s.Hours = append(s.Hours, ops.AgencyHours{AgencyID: a.AgencyID, Hours: []ops.Hour{{At: now, Leads: 1 << 40, Events: -1}}})
	}
	for n := range s.Forwarders {
		f := &s.Forwarders[n]
		f.Name, f.Destination, f.LastError, f.Problem, f.Waiting = text, text, text, text, 1<<63
	}
	data, _ := json.Marshal(map[string]any{
		"agencyId": text, "propertyReferenceId": text, "origin": text, "score": text, "insertion": map[string]string{"title": text},
		"contact": map[string]string{"firstName": nobody, "message": nobody},
	})
	return s, []events.Event{{ID: text, Type: events.Type(text), AgencyID: text, Reference: text, Origin: "live", RecordedTime: now, Data: data}}
}
