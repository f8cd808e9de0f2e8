package doorbelltest

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/schemas/schematest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Oracle compares what the stream holds with what was true at the API. It sees both sides: the model
// knows what existed when and what a good answer showed; the stream is read with a plain NATS
// client.
type Oracle struct {
	SetBack bool // the store was set back, and its positions may repeat
	Several bool // doorbells publish the same agencies, and events of insertions may come once from each
	Model   *sandbox.Model
	// began is the moment before the watch of all agencies began, as exactly as a test knows it:
	// what was created before from is old, from until on it is news, in between it may be either.
	From, Until time.Time
	Zoneless    bool // times of the API name no zone: the watch begins two hours earlier
}

// Message is one message of the stream, decoded by hand: header names and payload members as the
// contract pins them.
type Message struct {
	Subject string
	Header  nats.Header
	Data    []byte
	Stream  uint64
	Body    struct {
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

func (m Message) Kind() string { return m.Header.Get("ce-type") }

// ReadStream reads everything the stream holds, as a guest.
func ReadStream(ctx context.Context, url string) ([]Message, error) {
	nc, err := nats.Connect(url, nats.Timeout(Patience))
	if err != nil {
		return nil, err
	}
	defer nc.Close()
	return ReadStreamOver(ctx, nc)
}

// ReadStreamOver is readStream over an existing connection.
func ReadStreamOver(ctx context.Context, nc *nats.Conn) ([]Message, error) {
	return ReadStreamNamed(ctx, nc, "LISTINGS")
}

// ReadStreamNamed reads another one.
func ReadStreamNamed(ctx context.Context, nc *nats.Conn, name string) ([]Message, error) {
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
	var all []Message
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
			m := Message{Subject: msg.Subject(), Header: msg.Headers(), Data: msg.Data(), Stream: meta.Sequence.Stream}
			if err := json.Unmarshal(m.Data, &m.Body); err != nil {
				return nil, fmt.Errorf("message %d is no JSON object", m.Stream)
			}
			all = append(all, m)
		}
		if batch.Error() != nil {
			return nil, batch.Error()
		}
	}
	return all, nil
}

// Judge returns every promise that the stream breaks; none if it keeps them all.
func (o Oracle) Judge(all []Message) []string {
	var wrong []string
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	o.judgeOrder(all, say)
	truth := o.Model.Truth()
	o.judgeContactRequests(all, truth, say)
	if !o.Several {
		o.judgeInsertions(all, truth, say)
	}
	return wrong
}

type sayer func(format string, args ...any)

// judgeOrder: each id once, positions of a store rising in the order of the stream but for what was
// offered again, envelope and schema as pinned.
func (o Oracle) judgeOrder(all []Message, say sayer) {
	ids := map[string]bool{}
	last := map[string]string{} // by store
	for _, m := range all {
		id := m.Header.Get("ce-id")
		if ids[id] || id == "" || id != m.Header.Get("Nats-Msg-Id") {
			say("id %q stands twice, or not in both headers", id)
		}
		ids[id] = true
		agency := m.Body.AgencyID
		if got, of := m.Header.Get("ce-sequence"), m.Header.Get("ce-storeid"); m.Header.Get(events.ResentHeader) == "" && !o.SetBack {
			if got <= last[of] {
				say("%s: sequence %s comes after %s", agency, got, last[of])
			}
			last[of] = got
		}
		if err := schematest.Check(m.Kind(), m.Data); err != nil {
			say("%s %s: %v", agency, m.Kind(), err)
		}
		for _, leak := range LeaksOfMessage(m) {
			say("%s %s: %s", agency, m.Kind(), leak)
		}
	}
}

// MustBeWhole reads the stream, and judges its order.
func MustBeWhole(t *testing.T, url string) []Message {
	t.Helper()
	all, err := ReadStream(t.Context(), url)
	must(t, err)
	Oracle{}.judgeOrder(all, t.Errorf)
	for _, m := range all {
		if _, err := events.Decode(m.Header, m.Data); err != nil {
			t.Error(err)
		}
	}
	return all
}

// justBefore is how long before the watch a contact request may have been created and still be
// announced: no two clocks agree, and a time without a zone may be two hours off.
func (o Oracle) justBefore() time.Duration {
	if o.Zoneless {
		return 2*time.Hour + 15*time.Minute
	}
	return 15 * time.Minute
}

// judgeContactRequests: what a good answer showed and is younger than the watch is announced once;
// nothing else is.
func (o Oracle) judgeContactRequests(all []Message, truth sandbox.Truth, say sayer) {
	announced := map[string]int{}
	for _, m := range all {
		if m.Kind() != string(events.TypeContactRequestCreated) {
			continue
		}
		announced[m.Body.ContactRequestID]++
		r, ok := truth.ContactRequest(m.Body.ContactRequestID)
		switch {
		case !ok || r.AgencyID != m.Body.AgencyID || r.Reference != m.Body.PropertyReferenceID:
			say("contact request %s was never made at %s", m.Body.ContactRequestID, m.Body.AgencyID)
		case r.Served == 0:
			say("contact request %s was announced and never served", r.ID)
		case r.CreatedAt.Before(o.From.Add(-o.justBefore())):
			say("contact request %s is older than the watch and was announced", r.ID)
		}
	}
	for _, r := range truth.ContactRequests {
		switch n := announced[r.ID]; {
		case n > 1:
			say("contact request %s was announced %d times", r.ID, n)
		case n == 0 && r.Served > 0 && !r.CreatedAt.Before(o.Until):
			say("contact request %s of %s was shown and is lost (created %s)", r.ID, r.AgencyID, r.CreatedAt.Format(time.RFC3339Nano))
		}
	}
}

// JudgeInsertions: nothing disappeared that was there all the time, nothing appeared twice in a
// row, no change without a new version.
func (o Oracle) judgeInsertions(all []Message, truth sandbox.Truth, say sayer) {
	type key struct{ agency, reference string }
	gone := map[key]bool{}
	changed := map[key]int{}
	for _, m := range all {
		if !strings.HasPrefix(m.Kind(), "insertion.") {
			continue
		}
		k := key{m.Body.AgencyID, m.Body.PropertyReferenceID}
		i, ok := truth.Insertion(k.agency, k.reference)
		if !ok {
			say("insertion %q was never published at %s", k.reference, k.agency)
			continue
		}
		switch events.Type(m.Kind()) {
		case events.TypeInsertionDisappeared:
			if gone[k] {
				say("insertion %q of %s disappeared twice in a row", k.reference, k.agency)
			}
			gone[k] = true
			if !i.AbsentBetween(m.Body.LastSeenAt, m.Body.ObservedAt) {
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

// Settled returns what the stream still lacks of the present state: empty if it has caught
// up.
func (o Oracle) Settled(all []Message) []string {
	var missing []string
	truth := o.Model.Truth()
	gone := map[string]bool{}
	told := map[string]bool{}
	baselined := map[string]time.Time{}
	for _, m := range all {
		k := m.Body.AgencyID + "|" + m.Body.PropertyReferenceID
		if strings.HasPrefix(m.Kind(), "insertion.") {
			gone[k] = events.Type(m.Kind()) == events.TypeInsertionDisappeared
			told[k] = true
		}
		switch events.Type(m.Kind()) {
		case events.TypeContactRequestCreated:
			told[m.Body.ContactRequestID] = true
		case events.TypeWatchBaselined:
			baselined[m.Body.AgencyID] = m.Body.ObservedAt
		}
	}
	now := time.Now()
	for _, i := range truth.Insertions {
		k := i.AgencyID + "|" + i.Reference
		// One that came and went while the daemon was dead, or was killed while it read it, was
		// never known.
		known := told[k] || o.inBaseline(i, baselined[i.AgencyID])
		if i.VisibleAt(now) && gone[k] || !i.VisibleAt(now) && known && !gone[k] {
			missing = append(missing, "insertion "+k)
		}
	}
	for _, r := range truth.ContactRequests {
		i, _ := truth.Insertion(r.AgencyID, r.Reference)
		reachable := r.Served > 0 || i.VisibleAt(now) // else its insertion may have gone before anybody asked
		if !r.CreatedAt.Before(o.Until) && reachable && !told[r.ID] {
			missing = append(missing, "contact request "+r.ID)
		}
	}
	return missing
}

// inBaseline reports whether an insertion was published all the time from before the watch until the
// baseline ended.
func (o Oracle) inBaseline(i sandbox.InsertionTruth, ended time.Time) bool {
	first := i.Visible[0]
	return !ended.IsZero() && first.From.Before(o.From) && (first.Until.IsZero() || first.Until.After(ended))
}

// LastWatch returns the last watch events of each agency; they contain no personal data.
func LastWatch(all []Message) string {
	last := map[string][]string{}
	for _, m := range all {
		if kind := m.Kind(); strings.HasPrefix(kind, "watch.") {
			last[m.Body.AgencyID] = append(last[m.Body.AgencyID], "\n"+kind+" "+string(m.Data))
		}
	}
	text := ""
	for _, list := range last {
		text += strings.Join(list[max(0, len(list)-3):], "")
	}
	return text
}

// MustKeepItsPromises waits until the stream has caught up with the API, which must have come to
// rest, and judges it. It gives up when for so long nothing was caught up.
func (o Oracle) MustKeepItsPromises(t *testing.T, url string, patience time.Duration) []Message {
	t.Helper()
	deadline, least := time.Now().Add(patience), math.MaxInt
	for {
		asked := time.Now()
		all, err := ReadStream(t.Context(), url)
		var missing []string
		if err == nil {
			missing = o.Settled(all)
		}
		if err == nil && len(missing) == 0 {
			wrong := o.Judge(all)
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
			t.Fatalf("after %s the stream still misses %d things (%v), first: %v; broken: %v; the last events of the watch: %s", patience, len(missing), err,
				missing[:min(3, len(missing))], o.Judge(all), LastWatch(all))
		}
		time.Sleep(max(100*time.Millisecond, 3*time.Since(asked))) // the daemon is another process: there is no signal to wait for
	}
}
