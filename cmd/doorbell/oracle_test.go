package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/schemas/schematest"
)

// oracle holds what the stream says against what was true at the API. It sees both sides: the model knows what existed
// when and what a good answer showed; the stream is read with a plain NATS client.
type oracle struct {
	model *sandbox.Model
	// began is the moment before the watch of all agencies began, as exactly as a test knows it: what was created before
	// from is old, from until on it is news, in between it may be either.
	from, until time.Time
	clocks      time.Duration // by how much those of doorbells may differ from the API's
}

// message is one message of the stream, decoded by hand: header names and payload members as the contract pins them.
type message struct {
	subject string
	header  nats.Header
	data    []byte
	stream  uint64
	body    struct {
		AgencyID            string
		PropertyReferenceID string
		ContactRequestID    string
		Origin              string
		Episode             int
		ObservedAt          time.Time
		LastSeenAt          time.Time
		CreatedAt           time.Time
	}
}

func (m message) kind() string { return m.header.Get("ce-type") }

// readStream reads everything the stream holds, as a guest.
func readStream(ctx context.Context, url string) ([]message, error) {
	nc, err := nats.Connect(url)
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	return readStreamOver(ctx, nc)
}

// readStreamOver is readStream over a connection that there is.
func readStreamOver(ctx context.Context, nc *nats.Conn) ([]message, error) {
	return readStreamNamed(ctx, nc, "LISTINGS")
}

// readStreamNamed reads another one.
func readStreamNamed(ctx context.Context, nc *nats.Conn, name string) ([]message, error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	stream, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverAllPolicy, FilterSubjects: []string{stream.CachedInfo().Config.Subjects[0]}, // others are no events
	})
	if err != nil {
		return nil, err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return nil, err
	}
	total := info.NumPending
	var all []message
	for uint64(len(all)) < total {
		batch, err := c.Fetch(min(500, int(total)-len(all)), jetstream.FetchMaxWait(2*time.Second)) // it waits for as many
		if err != nil {
			return nil, err
		}
		for msg := range batch.Messages() {
			meta, err := msg.Metadata()
			if err != nil {
				return nil, err
			}
			m := message{subject: msg.Subject(), header: msg.Headers(), data: msg.Data(), stream: meta.Sequence.Stream}
			if err := json.Unmarshal(m.data, &m.body); err != nil {
				return nil, fmt.Errorf("message %d is no JSON object", m.stream)
			}
			all = append(all, m)
		}
		if batch.Error() != nil {
			return nil, batch.Error()
		}
	}
	return all, nil
}

// judge returns every sentence of the promises that the stream breaks; none if it keeps them all.
func (o oracle) judge(all []message) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	o.judgeOrder(all, say)
	truth := o.model.Truth()
	o.judgeContactRequests(all, truth, say)
	o.judgeInsertions(all, truth, say)
	return wrong
}

type sayer func(format string, args ...any)

// judgeOrder: each id once, sequences from 1 without gaps and in the order of the stream, envelope and schema as pinned.
func (o oracle) judgeOrder(all []message, say sayer) {
	ids := map[string]bool{}
	next := map[string]uint64{}
	for _, m := range all {
		id := m.header.Get("ce-id")
		if ids[id] || id == "" || id != m.header.Get("Nats-Msg-Id") {
			say("id %q stands twice, or not in both headers", id)
		}
		ids[id] = true
		agency := m.body.AgencyID
		next[agency]++
		if got, want := m.header.Get("ce-sequence"), fmt.Sprintf("%020d", next[agency]); got != want {
			say("%s: sequence %s where %s is due", agency, got, want)
		}
		if err := schematest.Check(m.kind(), m.data); err != nil {
			say("%s %s: %v", agency, m.kind(), err)
		}
		for _, leak := range leaksOfMessage(m) {
			say("%s %s: %s", agency, m.kind(), leak)
		}
	}
}

// mustBeWhole reads the stream, judges its order, and wants these contact requests in it once each.
func mustBeWhole(t *testing.T, url string, requests ...string) []message {
	t.Helper()
	all, err := readStream(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	oracle{}.judgeOrder(all, t.Errorf)
	times := map[string]int{}
	for _, m := range all {
		if _, err := events.Decode(m.header, m.data); err != nil {
			t.Error(err)
		}
		if m.kind() == string(events.TypeContactRequestCreated) {
			times[m.body.ContactRequestID]++
		}
	}
	for _, id := range requests {
		if times[id] != 1 {
			t.Errorf("contact request %s stands %d times", id, times[id])
		}
	}
	return all
}

// judgeContactRequests: what a good answer showed and is younger than the watch is announced once; nothing else is.
func (o oracle) judgeContactRequests(all []message, truth sandbox.Truth, say sayer) {
	announced := map[string]int{}
	for _, m := range all {
		if m.kind() != string(events.TypeContactRequestCreated) {
			continue
		}
		announced[m.body.ContactRequestID]++
		r, ok := truth.ContactRequest(m.body.ContactRequestID)
		switch {
		case !ok || r.AgencyID != m.body.AgencyID || r.Reference != m.body.PropertyReferenceID:
			say("contact request %s was never made at %s", m.body.ContactRequestID, m.body.AgencyID)
		case r.Served == 0:
			say("contact request %s was announced and never served", r.ID)
		case r.CreatedAt.Before(o.from):
			say("contact request %s is older than the watch and was announced", r.ID)
		}
	}
	for _, r := range truth.ContactRequests {
		switch n := announced[r.ID]; {
		case n > 1:
			say("contact request %s was announced %d times", r.ID, n)
		case n == 0 && r.Served > 0 && !r.CreatedAt.Before(o.until):
			say("contact request %s of %s was shown and is lost (created %s)", r.ID, r.AgencyID, r.CreatedAt.Format(time.RFC3339Nano))
		}
	}
}

// judgeInsertions: nothing disappeared that was there all the time, nothing appeared twice in a row, no change without
// a new version.
func (o oracle) judgeInsertions(all []message, truth sandbox.Truth, say sayer) {
	type key struct{ agency, reference string }
	gone := map[key]bool{}
	changed := map[key]int{}
	for _, m := range all {
		if !strings.HasPrefix(m.kind(), "insertion.") {
			continue
		}
		k := key{m.body.AgencyID, m.body.PropertyReferenceID}
		i, ok := truth.Insertion(k.agency, k.reference)
		if !ok {
			say("insertion %q was never published at %s", k.reference, k.agency)
			continue
		}
		switch events.Type(m.kind()) {
		case events.TypeInsertionDisappeared:
			if gone[k] {
				say("insertion %q of %s disappeared twice in a row", k.reference, k.agency)
			}
			gone[k] = true
			if !absentBetween(i, m.body.LastSeenAt.Add(-o.clocks), m.body.ObservedAt.Add(o.clocks)) {
				say("insertion %q of %s was published all the time and is said to have disappeared", k.reference, k.agency)
			}
		case events.TypeInsertionReappeared:
			if !gone[k] {
				say("insertion %q of %s reappeared and had not disappeared", k.reference, k.agency)
			}
			gone[k] = false
		case events.TypeInsertionChanged:
			changed[k]++
		}
	}
	for _, i := range truth.Insertions {
		if n := changed[key{i.AgencyID, i.Reference}]; n >= len(i.Versions) {
			say("insertion %q of %s changed %d times, with %d versions", i.Reference, i.AgencyID, n, len(i.Versions))
		}
	}
}

// absentBetween says whether the insertion was not published at some moment between two.
func absentBetween(i sandbox.InsertionTruth, from, to time.Time) bool {
	for n, v := range i.Visible {
		if v.Until.IsZero() || v.Until.After(to) {
			continue
		}
		if n+1 == len(i.Visible) || i.Visible[n+1].From.After(from) {
			return true
		}
	}
	return false
}

// settled says what the stream does not tell yet of how things stand now: empty if it has caught up.
func (o oracle) settled(all []message) []string {
	var missing []string
	truth := o.model.Truth()
	gone := map[string]bool{}
	told := map[string]bool{}
	baselined := map[string]time.Time{}
	for _, m := range all {
		k := m.body.AgencyID + "|" + m.body.PropertyReferenceID
		if strings.HasPrefix(m.kind(), "insertion.") {
			gone[k] = events.Type(m.kind()) == events.TypeInsertionDisappeared
			told[k] = true
		}
		switch events.Type(m.kind()) {
		case events.TypeContactRequestCreated:
			told[m.body.ContactRequestID] = true
		case events.TypeWatchBaselined:
			baselined[m.body.AgencyID] = m.body.ObservedAt.Add(o.clocks)
		}
	}
	now := time.Now()
	for _, i := range truth.Insertions {
		k := i.AgencyID + "|" + i.Reference
		// One that came and went while the daemon was dead, or was killed while it read it, was never known.
		known := told[k] || o.inBaseline(i, baselined[i.AgencyID])
		if i.VisibleAt(now) && gone[k] || !i.VisibleAt(now) && known && !gone[k] {
			missing = append(missing, "insertion "+k)
		}
	}
	for _, r := range truth.ContactRequests {
		i, _ := truth.Insertion(r.AgencyID, r.Reference)
		reachable := r.Served > 0 || i.VisibleAt(now) // else its insertion may have gone before anybody asked
		if !r.CreatedAt.Before(o.until) && reachable && !told[r.ID] {
			missing = append(missing, "contact request "+r.ID)
		}
	}
	return missing
}

// inBaseline says whether an insertion was published all the time from before the watch until the baseline ended.
func (o oracle) inBaseline(i sandbox.InsertionTruth, ended time.Time) bool {
	first := i.Visible[0]
	return !ended.IsZero() && first.From.Before(o.from) && (first.Until.IsZero() || first.Until.After(ended))
}

// lastWatch is what the last watch events of each agency say, which hold nobody's data.
func lastWatch(all []message) string {
	last := map[string][]string{}
	for _, m := range all {
		if kind := m.kind(); strings.HasPrefix(kind, "watch.") && kind != string(events.TypeWatchStreamRepaired) {
			last[m.body.AgencyID] = append(last[m.body.AgencyID], "\n"+kind+" "+string(m.data))
		}
	}
	text := ""
	for _, list := range last {
		text += strings.Join(list[max(0, len(list)-3):], "")
	}
	return text
}

func first(list []string, most int) []string { return list[:min(len(list), most)] }

// mustKeepItsPromises waits until the stream has caught up with the API, which must have come to rest, and judges it. It
// gives up when for so long nothing was caught up.
func (o oracle) mustKeepItsPromises(t *testing.T, url string, patience time.Duration) []message {
	t.Helper()
	deadline, least := time.Now().Add(patience), math.MaxInt
	for {
		asked := time.Now()
		all, err := readStream(t.Context(), url)
		var missing []string
		if err == nil {
			missing = o.settled(all)
		}
		if err == nil && len(missing) == 0 {
			wrong := o.judge(all)
			slices.Sort(wrong)
			for _, w := range slices.Compact(wrong) {
				t.Error(w)
			}
			return all
		}
		if err == nil && len(missing) < least {
			deadline, least = time.Now().Add(patience), len(missing)
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the stream still misses %d things (%v), first: %v; broken: %v; the watch told last: %s", patience, len(missing), err,
				missing[:min(3, len(missing))], first(o.judge(all), 10), lastWatch(all))
		}
		time.Sleep(max(100*time.Millisecond, 3*time.Since(asked))) // the daemon is another process: there is no signal to wait for
	}
}
