package feed

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events"
	"doorbell/events/natsd/natsdtest"
	"doorbell/events/stream"
)

// world is a feed over real HTTP, of a stream on a real server.
type world struct {
	*testing.T
	conn  *nats.Conn
	js    jetstream.JetStream
	feed  *feed
	url   string
	count int // of events that were made
}

func newWorld(t *testing.T) *world {
	t.Helper()
	js := natsdtest.Embedded(t)
	conn := js.Conn()
	w := &world{T: t, conn: conn, js: js}
	w.feed = newFeed(Options{Prefix: "listings", Client: func() stream.Client {
		return stream.Client{Conn: stream.Conn{Conn: conn}, Stream: "LISTINGS", Wait: 5 * time.Second}
	}})
	s := httptest.NewServer(w.feed)
	t.Cleanup(s.Close)
	w.url = s.URL
	w.makeStream()
	return w
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) makeStream() {
	w.Helper()
	c := jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"listings.v1.>"}, AllowDirect: true, Storage: jetstream.MemoryStorage}
	_, err := w.js.CreateStream(w.Context(), c)
	w.must(err)
}

// happen publishes an event and returns its id.
func (w *world) happen(agency string, kind events.Type, more ...string) string {
	w.Helper()
	w.count++
	common := events.Common{AgencyID: agency, Origin: events.OriginLive, ObservedAt: time.Now()}
	reference := fmt.Sprintf("house#%d##", w.count)
	var p events.Payload
	switch kind {
	case events.TypeContactRequestCreated:
		p = &events.ContactRequestCreated{
			Common: common, PropertyReferenceID: reference, ContactRequestID: fmt.Sprint("id-", w.count), Identity: events.IdentityID,
			Contact: events.Contact{Email: "nora@example.org", Message: strings.Join(more, "")},
		}
	default:
		p = &events.InsertionDisappeared{Common: common, PropertyReferenceID: reference, Episode: 1}
	}
	e, err := events.New(p)
	w.must(err)
	e = e.Stamp(uint64(w.count), time.Now(), "store")
	m := &nats.Msg{Subject: events.Subject("listings", agency, e.Type), Header: e.Header(), Data: e.Data}
	_, err = w.js.PublishMsg(w.Context(), m)
	w.must(err)
	return e.ID
}

const lead, gone = events.TypeContactRequestCreated, events.TypeInsertionDisappeared

// answer is a response of the feed.
type answer struct {
	status int
	header http.Header
	body   string
	events []item
	ids    []string
	cursor string
	reset  bool
}

type item struct{ ID, Type, Cursor, SpecVersion string }

func (w *world) ask(query string) (a answer) {
	w.Helper()
	r, err := http.Get(w.url + "/v1/events?" + query)
	w.must(err)
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	w.must(err)
	a = answer{status: r.StatusCode, header: r.Header, body: string(text), cursor: r.Header.Get("doorbell-feed-cursor")}
	a.reset = r.Header.Get("doorbell-feed") == "reset"
	if a.status != http.StatusOK {
		return a
	}
	if err := json.Unmarshal(text, &a.events); err != nil {
		w.Fatalf("%v: %s", err, text)
	}
	for _, e := range a.events {
		if e.SpecVersion != "1.0" || e.Type == "" {
			w.Errorf("no CloudEvent: %+v", e)
		}
		a.ids = append(a.ids, e.ID)
	}
	if a.header.Get("Content-Type") != "application/cloudevents-batch+json" || a.cursor == "" || url.QueryEscape(a.cursor) != a.cursor {
		w.Errorf("%v", a.header)
	}
	return a
}

func (w *world) wants(a answer, reset bool, ids ...string) {
	w.Helper()
	if a.status != http.StatusOK || !slices.Equal(a.ids, ids) || a.reset != reset {
		w.Errorf("%d, reset %t, %q; want %q", a.status, a.reset, a.ids, ids)
	}
}

func TestEachEventComesOnceInOrder(t *testing.T) {
	w := newWorld(t)
	w.wants(w.ask(""), true)
	empty := w.ask("").cursor
	var ids []string
	for range 7 {
		ids = append(ids, w.happen("A100", lead))
	}
	a := w.ask("limit=3")
	w.wants(a, true, ids[:3]...)
	w.wants(w.ask("limit=3&after="+empty), false, ids[:3]...)
	if last := a.events[2].Cursor; last != a.cursor {
		t.Errorf("the response has %s, its last event %s", a.cursor, last)
	}
	w.wants(w.ask("after="+a.events[0].Cursor+"&limit=1"), false, ids[1])
	b := w.ask("limit=3&after=" + a.cursor)
	w.wants(b, false, ids[3:6]...)
	c := w.ask("limit=3&after=" + b.cursor)
	w.wants(c, false, ids[6])
	d := w.ask("after=" + c.cursor)
	if w.wants(d, false); d.cursor != c.cursor || strings.TrimSpace(d.body) != "[]" {
		t.Errorf("at the end: %s, %q", d.cursor, d.body)
	}
	w.wants(w.ask("after=&limit=1"), true, ids[0])
}

func TestFiltersSelectAndAdvance(t *testing.T) {
	w := newWorld(t)
	a := w.happen("A100", lead)
	b := w.happen("B200", gone)
	c := w.happen("C.300", lead)
	for query, want := range map[string][]string{
		"agency=A100": {a}, "agency=C.300": {c}, "agency=A100&agency=B200": {a, b}, "agency=A100,C.300": {a, c}, "agency=none": nil,
		"type=contact_request.created": {a, c}, "type=insertion.disappeared": {b}, "type=insertion.disappeared,contact_request.created": {a, b, c},
		"type=insertion.disappeared&type=access.halted": {b}, "agency=A100&type=insertion.disappeared": nil, "agency=B200&type=insertion.disappeared": {b},
		"agency=A100,B200&type=contact_request.created": {a}, "agency=*": nil, "agency=A100.>": nil,
	} {
		got := w.ask(query)
		w.wants(got, true, want...)
		next := w.ask(query + "&after=" + got.cursor)
		w.wants(next, false)
		w.wants(w.ask("after="+got.cursor), false) // everything was looked at
	}
}

func TestAResponseIsBounded(t *testing.T) {
	w := newWorld(t)
	large := strings.Repeat("x", 300<<10)
	var ids []string
	for range 4 {
		ids = append(ids, w.happen("A100", lead, large))
	}
	a := w.ask("")
	if w.wants(a, true, ids[:3]...); len(a.body) > 1<<20 {
		t.Errorf("%d bytes", len(a.body))
	}
	w.wants(w.ask("after="+a.cursor), false, ids[3])
	for range 1100 {
		w.happen("B200", gone)
	}
	if n := len(w.ask("agency=B200").events); n != 100 {
		t.Errorf("%d by default", n)
	}
	if n := len(w.ask("agency=B200&limit=100000").events); n != 1000 {
		t.Errorf("%d at most", n)
	}
}

// TestARequestReadsAtMostTenThousandMessages: it responds after them, however long it may wait.
func TestARequestReadsAtMostTenThousandMessages(t *testing.T) {
	w := newWorld(t)
	for range 10_050 {
		if err := w.conn.Publish("listings.v1.A100.insertion.appeared", nil); err != nil { // no event of ours
			t.Fatal(err)
		}
	}
	id := w.happen("A100", lead)
	a := w.ask("timeout=30s")
	w.wants(a, true)
	w.wants(w.ask("timeout=30s&after="+a.cursor), false, id)
}

func TestACursorThatCannotBeContinuedRestartsAtTheOldestEvent(t *testing.T) {
	w := newWorld(t)
	one, two := w.happen("A100", lead), w.happen("A100", lead)
	list := w.ask("")
	third := w.happen("A100", lead)

	at, err := parseCursor(list.events[0].Cursor)
	w.must(err)
	other, beyond := at, at
	other.id++
	beyond.sequence = 1 << 62
	w.wants(w.ask("after="+other.String()), true, one, two, third)  // another event there
	w.wants(w.ask("after="+beyond.String()), true, one, two, third) // the end was lost

	s, err := w.js.Stream(t.Context(), "LISTINGS")
	w.must(err)
	w.must(s.SecureDeleteMsg(t.Context(), 2))
	w.wants(w.ask("after="+list.events[0].Cursor), false, third)
	w.wants(w.ask("after="+list.cursor), true, one, third) // nothing shows what was there
	w.must(s.Purge(t.Context(), jetstream.WithPurgeSequence(3)))
	w.wants(w.ask("after="+list.cursor), false, third)          // expired, and nothing between
	w.wants(w.ask("after="+list.events[0].Cursor), true, third) // an event between has expired
	w.must(s.Purge(t.Context()))
	empty := w.ask("after=" + list.cursor)
	w.wants(empty, true)

	w.must(w.js.DeleteStream(t.Context(), "LISTINGS"))
	if got := w.ask("after=" + list.cursor); got.status != http.StatusServiceUnavailable || got.cursor != list.cursor {
		t.Errorf("without a stream: %d %v", got.status, got.header)
	}
	w.makeStream()
	again := []string{w.happen("A100", lead), w.happen("A100", lead)}
	w.wants(w.ask("after="+list.cursor), true, again...)
	w.wants(w.ask("after="+empty.cursor), true, again...)
}

func TestWhatIsMalformedIsRefused(t *testing.T) {
	w := newWorld(t)
	good := w.ask("").cursor
	for _, query := range []string{
		"after=x", "after=" + good[1:], "after=" + good + "A", "after=A" + good[1:] + "=", "after=" + strings.Repeat("A", len(good)), "after=" + good[:10] + "%00" + good[11:],
		"after=" + good + "&after=" + good, "after=" + good[:len(good)-1] + "/", "after=" + strings.Repeat("A", 10_000), "timeout=30", "timeout=-1s", "timeout=x", "timeout=",
		"timeout=99999999h", "limit=0", "limit=-1", "limit=x", "limit=", "limit=1e3", "limit=99999999999999999999", "type=lead", "type=", "type=insertion.*", "type=,", "agency=",
		"afer=" + good, "%zz", "a;b", "timeout=1s&timeout=2s",
	} {
		got := w.ask(query)
		if got.status != http.StatusBadRequest || !strings.HasPrefix(got.body, `{"error":"`) || len(got.body) > 300 {
			t.Errorf("%.60s: %d %s", query, got.status, got.body)
		}
	}
	r, err := http.NewRequest(http.MethodGet, w.url, strings.NewReader("x"))
	w.must(err)
	answer, err := http.DefaultClient.Do(r)
	w.must(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusBadRequest {
		t.Errorf("with a body: %s", answer.Status)
	}
}

// untilOneWaits returns when a request has read the stream.
func (w *world) untilOneWaits() {
	w.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	before := w.conn.Stats().OutMsgs
	for n := 0; w.conn.Stats().OutMsgs == before; n++ {
		if <-tick.C; n > 1000 {
			w.Fatal("no request waits")
		}
	}
}

func TestARequestWaitsForAnEvent(t *testing.T) {
	w := newWorld(t)
	w.happen("A100", lead)
	cursor := w.ask("").cursor
	answers := make(chan answer)
	go func() { answers <- w.ask("agency=A100&type=contact_request.created&timeout=50s&after=" + cursor) }()
	w.untilOneWaits()
	begin := time.Now()
	other := w.happen("B200", lead)
	id := w.happen("A100", lead)
	w.wants(<-answers, false, id)
	if took := time.Since(begin); took > 2*time.Second {
		t.Errorf("it came after %s", took)
	}
	begin = time.Now()
	a := w.ask("agency=none&timeout=300ms&after=" + cursor)
	if w.wants(a, false); time.Since(begin) < 300*time.Millisecond {
		t.Error("it did not wait")
	}
	w.wants(w.ask("after="+a.cursor), false)
	w.wants(w.ask("after="+cursor), false, other, id)
}

func TestAnUnavailableStreamIsReportedImmediately(t *testing.T) {
	w := newWorld(t)
	w.happen("A100", lead)
	cursor := w.ask("").cursor
	w.conn.Close()
	begin := time.Now()
	got := w.ask("timeout=30s&after=" + cursor)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" || got.cursor != cursor || time.Since(begin) > 3*time.Second {
		t.Errorf("%d %v after %s", got.status, got.header, time.Since(begin))
	}
}

func TestAWaitEndsWithTheServer(t *testing.T) {
	w := newWorld(t)
	w.happen("A100", lead)
	cursor := w.ask("").cursor
	ctx, stop := context.WithCancel(t.Context())
	recorder := httptest.NewRecorder()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.feed.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/v1/events?timeout=50s&after="+cursor, nil).WithContext(ctx))
	}()
	w.untilOneWaits()
	stop()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("it keeps waiting")
	}
	if got := recorder.Header().Get("doorbell-feed-cursor"); got != cursor {
		t.Errorf("the cursor became %q", got)
	}
}

func FuzzCursor(f *testing.F) {
	f.Add(cursor{1763629267000000000, 42, 7}.String())
	f.Add("")
	f.Add(strings.Repeat("A", 38))
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCursor(text)
		if err == nil && c.String() != text {
			t.Errorf("%q is read as %q", text, c)
		}
		if err != nil && text != "" && len(text) > 8 && strings.Contains(err.Error(), text) {
			t.Errorf("the error quotes it: %v", err)
		}
	})
}

// FuzzQuery: whatever the query, the subjects are those of one agency or of all, of one type or of all.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{"", "agency=A100&type=access.halted&limit=3&timeout=5s", "agency=*&agency=%3E", "agency=a.b,c%00", "timeout=1e9h", "after=A&type=x"} {
		f.Add(query)
	}
	subjects := regexp.MustCompile(`^listings\.v1\.(\*|[A-Za-z0-9_=-]{1,64})\.(>|[a-z_]+\.[a-z_]+)$`)
	h := newFeed(Options{Prefix: "listings"})
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest(http.MethodGet, "/v1/events", nil)
		r.URL.RawQuery = query
		q, err := h.parse(r)
		if err == nil && (!subjects.MatchString(q.filter) || q.limit < 1 || q.limit > mostEvents || q.timeout < 0 || q.timeout > mostTimeout) {
			t.Errorf("%q is read as %+v", query, q)
		}
	})
}
