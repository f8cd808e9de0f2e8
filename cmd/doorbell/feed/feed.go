// Package feed serves the events of the stream over HTTP, for programs without a NATS client.
//
//	GET /v1/events?after=CURSOR&timeout=30s&agency=A100&type=contact_request.created&limit=100
//
// The response is a CloudEvents JSON batch. Each event carries its cursor, and the header
// doorbell-feed-cursor of the response is the one to continue with: it advances even if a filter
// matches nothing. The reader keeps the cursor, the server keeps nothing.
//
// The feed reads the stream, not the store. So it continues after a lost store, after a restored
// one, and at another doorbell of the same stream. If the stream cannot continue at a cursor, the
// feed begins again with the oldest event, and the header doorbell-feed reports that: a reader may
// get an event again, with the same id, and never misses one that the stream has.
package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
)

// Bounds of one response.
const (
	mostEvents  = 1000
	mostBytes   = 1 << 20 // one event may be larger
	mostRead    = 10_000  // messages, whether they match or not
	usualEvents = 100
	mostTimeout = time.Minute
)

const (
	readingAtOnce = 4 // each holds some megabytes

	// readEvery is how often the stream is read for a request that waits.
	readEvery = 500 * time.Millisecond

	// patience is how long a response may take beside the wait: for its turn, and for NATS.
	patience = 30 * time.Second
)

// Options of Handler.
type Options struct {
	Client func() stream.Client // of the stream of events
	Prefix string               // of its subjects
}

// Handler serves the feed, whatever the path. It does not check credentials.
func Handler(o Options) http.Handler {
	return newFeed(o)
}

func newFeed(o Options) *feed {
	return &feed{o, make(chan struct{}, readingAtOnce)}
}

type feed struct {
	o       Options
	reading chan struct{} // holds one for each request that reads
}

var (
	errAway = errors.New(
		"the stream cannot be read now: NATS is away, or the stream does not exist yet")
	errBody = errors.New("a request for events must not have a body")
)

func (f *feed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, err := f.parse(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	if q.after != (cursor{}) {
		w.Header().Set(cursorHeader, q.after.String()) // for what is refused below
	}
	b, err := f.await(r.Context(), q)
	if err != nil {
		refuse(w, http.StatusServiceUnavailable, errAway)
		return
	}
	w.Header().Set(cursorHeader, b.cursor.String())
	if b.reset {
		w.Header().Set("Doorbell-Feed", "reset")
	}
	w.Header().Set("Content-Type", "application/cloudevents-batch+json")
	b.write(w)
}

const cursorHeader = "Doorbell-Feed-Cursor"

// refuse writes an error. What is not the reader's fault may be asked again soon.
func refuse(w http.ResponseWriter, code int, err error) {
	if code == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(map[string]string{"error": err.Error()}) //nolint:errcheck // a reader who left
}

// query is what a request asks for.
type query struct {
	after    cursor // the zero value: from the oldest event on
	timeout  time.Duration
	limit    int
	agencies []string // tokens; empty: all
	types    []string
	prefix   string // of all subjects, up to the agency
	filter   string // the subjects that JetStream selects; wants selects among them
}

func (f *feed) parse(r *http.Request) (q query, err error) {
	if r.ContentLength != 0 {
		return q, errBody
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return q, errors.New("the query cannot be read: percent-encode the values")
	}
	q.limit = usualEvents
	for name, list := range values {
		text := list[0]
		words := strings.FieldsFunc(strings.Join(list, ","), func(r rune) bool { return r == ',' })
		switch {
		case (name == "agency" || name == "type") && len(words) == 0:
			err = fmt.Errorf("%s: name one, or leave it out for all", name)
		case name == "agency":
			for _, id := range words {
				q.agencies = append(q.agencies, events.Token(id))
			}
		case name == "type":
			q.types = words
		case len(list) > 1:
			err = errors.New("only agency and type may be given more than once")
		case name == "after" && text != "":
			q.after, err = parseCursor(text)
		case name == "timeout":
			if q.timeout, err = time.ParseDuration(text); err != nil || q.timeout < 0 {
				err = errors.New("timeout: write a duration like 30s; a minute at most")
			}
			q.timeout = min(q.timeout, mostTimeout)
		case name == "limit":
			if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 {
				err = fmt.Errorf("limit: write a number from 1 to %d", mostEvents)
			}
			q.limit = min(q.limit, mostEvents)
		case name != "after":
			err = errors.New("the parameters are after, timeout, agency, type and limit")
		}
		if err != nil {
			return q, err
		}
	}
	for _, t := range q.types {
		if !slices.Contains(events.Types, events.Type(t)) {
			return q, errors.New("type: there is no such event type; see /schemas/")
		}
	}
	q.prefix = strings.TrimSuffix(events.StreamSubjects(f.o.Prefix), ">")
	q.filter = q.prefix + one(q.agencies) + "." + one(q.types)
	if len(q.types) != 1 {
		q.filter = q.prefix + one(q.agencies) + ".>"
	}
	return q, nil
}

// one is the only one of a list, or a wildcard.
func one(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return "*"
}

// wants reports whether a message of the filter is asked for.
func (q query) wants(subject string) bool {
	agency, kind, _ := strings.Cut(strings.TrimPrefix(subject, q.prefix), ".")
	return (len(q.agencies) == 0 || slices.Contains(q.agencies, agency)) &&
		(len(q.types) == 0 || slices.Contains(q.types, kind))
}

// batch is what one response holds.
type batch struct {
	events [][]byte // JSON
	bytes  int
	cursor cursor
	reset  bool // it begins with the oldest event of the stream
	end    bool // of the stream, as of the moment it was read
}

// write writes the batch in parts: on a slow line each has the server's limit for itself.
func (b *batch) write(w io.Writer) {
	all := fmt.Appendf(nil, "[%s]\n", bytes.Join(b.events, []byte(",\n")))
	for part := range slices.Chunk(all, 32<<10) {
		if _, err := w.Write(part); err != nil {
			return // a reader who left
		}
	}
}

// await reads until there is an event, or the time is over, or the reader leaves.
func (f *feed) await(ctx context.Context, q query) (b batch, err error) {
	reading, cancel := context.WithTimeout(ctx, q.timeout+patience)
	defer cancel()
	end := time.Now().Add(q.timeout)
	for reset := false; ; {
		over := !time.Now().Before(end)
		b, err = f.read(reading, q)
		reset = reset || b.reset
		b.reset = reset
		if ctx.Err() != nil { // the server stops: the reader continues from where it was
			return batch{cursor: q.after, reset: reset}, nil
		}
		if err != nil || len(b.events) > 0 || !b.end || over {
			return b, err
		}
		q.after = b.cursor
		select {
		case <-time.After(min(readEvery, time.Until(end))):
		case <-ctx.Done():
		}
	}
}

// read reads once.
func (f *feed) read(ctx context.Context, q query) (b batch, err error) {
	select {
	case f.reading <- struct{}{}:
		defer func() { <-f.reading }()
	case <-ctx.Done():
		return b, ctx.Err()
	}
	c := f.o.Client()
	if c.Conn.Conn == nil || !c.Conn.IsConnected() {
		return b, errAway
	}
	state, err := c.State(ctx)
	if err != nil {
		return b, err
	}
	c.Alone = state.Alone
	if b.cursor, b.reset, err = locate(ctx, c, state, q.after); err != nil {
		return b, err
	}
	if b.end, err = f.collect(ctx, c, q, &b); err != nil || !b.end ||
		b.cursor.sequence >= state.Last {
		return b, err
	}
	last, err := c.Get(ctx, stream.Query{Sequence: state.Last}) // nothing up to here matches
	if err == nil && last != nil {
		b.cursor = b.cursor.behind(last)
	}
	return b, err
}

// collect reads what follows the cursor, up to the end of the stream or a bound of the response.
func (f *feed) collect(ctx context.Context, c stream.Client, q query, b *batch) (end bool, err error) {
	read := 0
	for m, err := range c.Read(ctx, q.filter, b.cursor.sequence) {
		if err != nil {
			return false, err
		}
		next := b.cursor.behind(m)
		if q.wants(m.Subject) {
			event := encode(m, next)
			if b.bytes += len(event) + len(",\n"); b.bytes > mostBytes-len("[]\n") &&
				len(b.events) > 0 {
				return false, nil
			}
			if event != nil {
				b.events = append(b.events, event)
			}
		}
		b.cursor = next
		if read++; read == mostRead || len(b.events) == q.limit {
			return false, nil
		}
	}
	return true, nil
}

// encode is a message as CloudEvents JSON with its cursor; nil if it is no event of ours.
func encode(m *stream.Message, at cursor) []byte {
	e, err := events.Decode(m.Header, m.Data)
	if err != nil {
		return nil
	}
	text, err := e.AppendJSON(nil)
	if err != nil {
		return nil
	}
	return fmt.Appendf(bytes.TrimSuffix(text, []byte("}")), `,"cursor":%q}`, at)
}

// locate is where a reader with a cursor continues. It starts again with the oldest event if the
// stream is another one, or has another message at that place, or none: nothing says then that the
// reader has what comes before. A cursor whose successors have expired is one of these.
func locate(ctx context.Context, c stream.Client, state stream.State,
	after cursor,
) (at cursor, reset bool, err error) {
	at = begin(state.Created)
	switch {
	case after.created != at.created || after.sequence > state.Last:
		return at, true, nil
	case after.sequence == 0 || after.sequence+1 == state.First:
		return after, false, nil
	case after.sequence < state.First:
		return at, true, nil
	}
	m, err := c.Get(ctx, stream.Query{Sequence: after.sequence})
	if err != nil || m == nil || at.behind(m) != after {
		return at, true, err
	}
	return after, false, nil
}
