package relay

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// Comparison is what Compare found of one agency. Sequences are those of the agency, ce-sequence.
type Comparison struct {
	AgencyID string `json:"agencyId"`
	Logged   int    `json:"logged"`   // events in the log
	Streamed int    `json:"streamed"` // messages in the stream
	Waiting  int    `json:"waiting"`  // events that are not published yet: nothing is wrong with them
	Expired  int    `json:"expired"`  // events that the stream has forgotten by age
	Trimmed  int    `json:"trimmed"`  // events that the log has forgotten by age, and the stream has not
	Erased   int    `json:"erased"`   // events that were erased, and are not in the stream any more

	Missing   []Range  `json:"missing,omitempty"`   // published once, in the log, and not in the stream
	Unlogged  []Range  `json:"unlogged,omitempty"`  // in the stream and not in the log; the relay takes them over
	Different []uint64 `json:"different,omitempty"` // of another id, or another payload, than in the log
	Unerased  []uint64 `json:"unerased,omitempty"`  // erased in the log, and for a day or longer with the person in the stream
	Doubled   []uint64 `json:"doubled,omitempty"`   // more than once in the stream
	Misplaced []uint64 `json:"misplaced,omitempty"` // behind a later one, though not sent again
	Foreign   int      `json:"foreign"`             // messages that are no events of this agency
	Cut       bool     `json:"cut,omitempty"`       // a list is longer than it is shown
}

// Range is a run of sequences, both ends included.
type Range struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
}

// Well says whether log and stream tell the same.
func (c Comparison) Well() bool {
	return len(c.Missing)+len(c.Unlogged)+len(c.Different)+len(c.Unerased)+len(c.Doubled)+len(c.Misplaced) == 0
}

// CountMissing is how many events are missing, as far as the list goes.
func (c Comparison) CountMissing() (n int) {
	for _, r := range c.Missing {
		n += int(r.To - r.From + 1)
	}
	return n
}

const (
	mostListed = 1000    // entries of each list
	mostAhead  = 1 << 20 // messages behind the end of the log
)

// Compare reads the whole stream and the whole log of agencies, all of the log's where none is named, and says how they
// differ. It changes nothing, and nothing in it is of people. What is published while it reads may be counted as waiting.
func (r *Relay) Compare(ctx context.Context, agencies []string) (found []Comparison, err error) {
	if len(agencies) == 0 {
		if agencies, err = r.o.Log.Agencies(); err != nil {
			return nil, fmt.Errorf("compare: %w: %w", ErrLog, err)
		}
	}
	for _, a := range agencies {
		c, err := r.compare(ctx, a)
		if err != nil {
			return found, err
		}
		found = append(found, c.found)
	}
	return found, nil
}

func (r *Relay) compare(ctx context.Context, agency string) (*comparer, error) {
	c := newComparer(r, agency)
	if err := c.run(ctx); err != nil {
		return nil, fmt.Errorf("compare %s: %w", events.Token(agency), r.explain(err))
	}
	return c, nil
}

// comparer compares one agency. It holds a page of the log, and a hash of the id of each message.
type comparer struct {
	o      Options
	js     jetstream.JetStream
	stream stream.Client
	agency string
	found  Comparison

	first, last uint64              // of the log; 0: it is empty
	fence       uint64              // place of the agency's last message in the stream
	inPlace     events.Cursor       // the newest event of the log that stands where it was sent first
	streamed    map[uint64]struct{} // hashes of ids
	unerased    []stands            // with a person whom the log has erased
	page        []events.Event
	highest     uint64
	ahead       []events.Event // in the stream, behind the end of the log as it was read
}

func newComparer(r *Relay, agency string) *comparer {
	return &comparer{
		o: r.o, js: r.js, stream: r.stream, agency: agency, streamed: map[uint64]struct{}{}, found: Comparison{AgencyID: agency},
	}
}

func (c *comparer) run(ctx context.Context) (err error) {
	if err := c.extent(); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	if err := c.readStream(ctx); err != nil {
		return fmt.Errorf("read stream %s: %w", c.o.Stream, err)
	}
	if err := c.unlogged(); err != nil {
		return err
	}
	if err := c.trimmed(); err != nil {
		return err
	}
	return c.missing(0, func(absent []events.Event) error {
		for _, e := range absent {
			c.span(&c.found.Missing, e.Sequence)
		}
		return nil
	})
}

// extent finds where the log begins and ends.
func (c *comparer) extent() (err error) {
	list, err := c.o.Log.Read(c.agency, 0, 1, 1)
	if err != nil || len(list) == 0 {
		return err
	}
	end, err := c.o.Log.Cursor(c.agency)
	c.first, c.last = list[0].Sequence, end.Sequence
	return err
}

// readStream reads all messages of the agency. Where the server is far a consumer is quicker. It may not be allowed, or be one too many,
// and it waits for ever for messages that a damaged stream counts and does not have: what it has not read is read one by one.
func (c *comparer) readStream(ctx context.Context) (err error) {
	filter, at := events.AgencyFilter(c.o.Prefix, c.agency), uint64(0)
	if !c.o.Embedded {
		if at, err = c.readByConsumer(ctx, filter); errors.Is(err, ErrLog) {
			return err
		}
	}
	if c.fence, err = c.stream.ReadToEnd(ctx, filter, at, c.meet); err == nil && c.fence < at {
		return errReplica
	}
	return err
}

// errReplica: the consumer is where a replica is, and has read what the leader of the stream does not hold. Were that believed, what is
// lost would not be sent again.
var errReplica = errors.New("the stream ends before what one of its replicas holds, or its end was removed meanwhile")

// readByConsumer returns the place of the last message that it read.
func (c *comparer) readByConsumer(ctx context.Context, filter string) (last uint64, err error) {
	consumer, err := c.js.OrderedConsumer(ctx, c.o.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverAllPolicy,
	})
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(ctx)
	if err != nil {
		return 0, err
	}
	defer c.forget(ctx, info.Name)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	list, err := deliveries(reading, consumer, jetstream.PullMaxMessages(importEvents))
	if err != nil {
		return 0, err
	}
	for left := info.NumPending; left > 0; left-- {
		m, err := c.next(ctx, info.Name, list)
		if err != nil || m == nil {
			return last, err
		}
		at, err := m.Metadata()
		if err != nil {
			return last, err
		}
		last = at.Sequence.Stream
		if err := c.meet(&stream.Message{Subject: m.Subject(), Sequence: last, Header: m.Headers(), Data: m.Data(), Time: at.Timestamp}); err != nil {
			return last, err
		}
	}
	return last, nil
}

// next returns the next message of a consumer, nil where those that were there have been removed or have expired meanwhile. The server is
// asked by name: what was given to deliveries answers nobody while it is made again.
func (c *comparer) next(ctx context.Context, name string, list <-chan delivery) (jetstream.Msg, error) {
	wait, cancel := context.WithTimeout(ctx, c.o.AckWait)
	defer cancel()
	m, err := receive(wait, list)
	if err == nil || wait.Err() == nil {
		return m, err
	}
	consumer, failed := c.js.Consumer(ctx, c.o.Stream, name)
	if failed != nil || consumer.CachedInfo().NumPending > 0 {
		return nil, cmp.Or(failed, err)
	}
	return nil, nil
}

// forget leaves nothing behind on the server, where it can; it forgets by itself after a while.
func (c *comparer) forget(ctx context.Context, name string) {
	_ = c.js.DeleteConsumer(context.WithoutCancel(ctx), c.o.Stream, name)
}

// meet compares one message.
func (c *comparer) meet(m *stream.Message) error {
	c.found.Streamed++
	sequence, id, ok := claim(m)
	there, err := events.Decode(m.Header, m.Data)
	if !ok || err != nil || there.AgencyID != c.agency {
		c.found.Foreign++
		return nil
	}
	if sequence < c.highest && m.Header.Get(events.ResentHeader) == "" {
		c.note(&c.found.Misplaced, sequence)
	}
	c.highest = max(c.highest, sequence)
	hash := maphash.String(seed, id)
	_, twice := c.streamed[hash]
	c.streamed[hash] = struct{}{}
	if sequence < c.first {
		c.found.Trimmed++
		return nil
	}
	if twice {
		c.note(&c.found.Doubled, sequence)
	}
	if sequence > c.last && len(c.ahead) < mostAhead {
		c.ahead = append(c.ahead, events.Event{ID: id, Sequence: sequence})
		return nil
	}
	e, err := c.logged(sequence)
	switch {
	case err != nil:
		return err
	case e == nil:
		c.span(&c.found.Unlogged, sequence)
		return nil
	case e.ID == id && e.Erased():
		if !there.HoldsPerson() {
			break
		}
		s := stands{m.Sequence, id, m.Time}
		if c.unerased = append(c.unerased, s); s.long() {
			c.note(&c.found.Unerased, sequence)
		}
	case e.ID != id, !samePayload(*e, m):
		c.note(&c.found.Different, sequence)
	}
	if e.ID == id && e.StoreID == m.Header.Get("ce-storeid") && m.Header.Get(events.ResentHeader) == "" && sequence > c.inPlace.Sequence {
		c.inPlace = events.Cursor{Sequence: sequence, StreamSequence: m.Sequence}
	}
	return nil
}

// seed is of the hashes of ids. Two of a million ids have one with a probability of one in thirty million.
var seed = maphash.MakeSeed()

// unlogged lists what the log does not have of what stands behind its end in the stream: it may have been published meanwhile, or
// have been taken by the stream without the log knowing yet.
func (c *comparer) unlogged() error {
	if len(c.ahead) == 0 {
		return nil
	}
	unsent, err := c.o.Log.Unsent(c.agency, serverBatch, math.MaxInt)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	known := map[string]bool{}
	for _, e := range unsent {
		known[e.ID] = true
	}
	for _, a := range c.ahead {
		e, err := c.logged(a.Sequence)
		if err != nil {
			return err
		}
		if !known[a.ID] && (e == nil || e.ID != a.ID) {
			c.span(&c.found.Unlogged, a.Sequence)
		}
	}
	return nil
}

// trimmed takes back what counted as unlogged because the log has forgotten it meanwhile.
func (c *comparer) trimmed() error {
	list, err := c.o.Log.Read(c.agency, 0, 1, 1)
	if err != nil || len(list) == 0 {
		return err
	}
	first := list[0].Sequence
	c.found.Unlogged = slices.DeleteFunc(c.found.Unlogged, func(r Range) bool { return r.From >= c.first && r.To < first })
	return nil
}

// samePayload compares also with what is left of an event that was too large for its server.
func samePayload(e events.Event, m *stream.Message) bool {
	if bytes.Equal(e.Data, m.Data) {
		return true
	}
	return bytes.Contains(m.Data, []byte(`"truncated":true`)) && len(m.Data) < len(e.Data)
}

// logged returns an event of the log, nil if it has none of that sequence. Messages mostly come in its order.
func (c *comparer) logged(sequence uint64) (*events.Event, error) {
	if n := len(c.page); n == 0 || sequence < c.page[0].Sequence || sequence > c.page[n-1].Sequence {
		page, err := c.o.Log.Read(c.agency, sequence-1, importEvents, importBytes)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLog, err)
		}
		c.page = page
	}
	n, found := slices.BinarySearchFunc(c.page, sequence, func(e events.Event, s uint64) int { return cmp.Compare(e.Sequence, s) })
	if !found {
		return nil, nil
	}
	return &c.page[n], nil
}

// missing goes through what the log has published behind a sequence, and hands over the pages of what the stream should hold and does
// not.
func (c *comparer) missing(after uint64, visit func([]events.Event) error) (err error) {
	if c.found.Waiting, err = c.o.Log.CountUnsent(c.agency); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	c.found.Logged, c.found.Expired, c.found.Erased = c.found.Waiting, 0, 0
	visited := map[string]struct{}{}
	for after < c.last {
		page, err := c.o.Log.Read(c.agency, after, importEvents, importBytes)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		page = slices.DeleteFunc(page, func(e events.Event) bool { return e.Sequence > c.last })
		if len(page) == 0 {
			return nil
		}
		after = page[len(page)-1].Sequence
		c.found.Logged += len(page)
		var absent []events.Event
		for _, e := range page {
			if _, before := visited[e.ID]; before || !c.absent(e) {
				continue
			}
			visited[e.ID] = struct{}{}
			absent = append(absent, e)
		}
		if len(absent) > 0 {
			if err := visit(absent); err != nil {
				return err
			}
		}
	}
	return nil
}

// absent says whether an event was published and is not in the stream, though not for its age. One that was erased is absent on purpose, also
// in a stream that was made anew: what is left of it would be delivered as a contact request of nobody.
func (c *comparer) absent(e events.Event) bool {
	if _, there := c.streamed[maphash.String(seed, e.ID)]; there {
		return false
	}
	if e.Erased() {
		c.found.Erased++
		return false
	}
	if c.o.MaxAge > 0 && time.Since(e.RecordedTime) > c.o.MaxAge {
		c.found.Expired++
		return false
	}
	return true
}

func (c *comparer) note(list *[]uint64, sequence uint64) {
	if len(*list) >= mostListed {
		c.found.Cut = true
		return
	}
	*list = append(*list, sequence)
}

func (c *comparer) span(list *[]Range, sequence uint64) {
	if n := len(*list); n > 0 && (*list)[n-1].To+1 == sequence {
		(*list)[n-1].To = sequence
		return
	}
	if len(*list) >= mostListed {
		c.found.Cut = true
		return
	}
	*list = append(*list, Range{sequence, sequence})
}

// Resend compares one agency and sends again what is missing in the stream, in its order, with the header doorbell-resent.
// The agency's own events wait meanwhile; whatever is published by others in between is fenced. It returns how many were
// sent, also with an error, and tells it by watch.stream_repaired.
func (r *Relay) Resend(ctx context.Context, agency string) (sent int, err error) {
	s, err := r.check(ctx)
	if err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	l := r.worker(agency)
	defer l.lock()()
	l.synced = 0 // whatever happens, the next work reconciles
	if err := l.reconcile(ctx, s); err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	c := newComparer(r, agency)
	if err := c.run(ctx); err != nil {
		return 0, fmt.Errorf("relay: %w", err)
	}
	if sent, err = l.sendMissing(ctx, s, c, 0); sent > 0 {
		err = errors.Join(err, l.report(reasonMissing, l.repair.from, l.repair.to, sent))
	}
	l.repair = repair{}
	if classify(err) == classDuplicate {
		err = fmt.Errorf("the server still rejects the ids of what it has lost as duplicates; that ends within two minutes: %w", err)
	}
	if err != nil {
		return sent, fmt.Errorf("relay: %w", r.explain(err))
	}
	return sent, nil
}

// compareAll compares the stream with the log once a day, and an embedded one some time after each connect: a server that meets damage in
// its files drops messages without a word. What an embedded stream lacks is sent again; what another one lacks is logged.
func (r *Relay) compareAll(ctx context.Context) error {
	for reported := map[string]int{}; ; {
		s, ok := r.link.wait(ctx)
		if !ok || !sleep(ctx, r.o.CompareIn, nil) {
			return nil
		}
		if s.connected.Err() != nil {
			continue
		}
		agencies, err := r.o.Log.Agencies()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		for _, a := range agencies { // one that cannot be compared keeps no other from it
			err = errors.Join(err, r.compareOne(ctx, a, reported))
		}
		switch {
		case errors.Is(err, ErrLog):
			return err
		case err != nil && ctx.Err() == nil:
			r.o.Logger.Warn("comparing the stream with the event log failed; retrying", "err", err.Error())
			if r.o.Embedded {
				continue
			}
		}
		interrupted := s.connected.Done()
		if !r.o.Embedded {
			interrupted = nil // a connection that comes and goes is no reason to read everything
		}
		if !sleep(ctx, compareEvery, interrupted) {
			return nil
		}
	}
}

// compareEvery is how often a stream is compared whose server was not started anew.
const compareEvery = 24 * time.Hour

// compareOne sends again what is missing in an embedded stream, and erases in any what the log has erased. Reported is how much another one
// lacked when that was logged last.
func (r *Relay) compareOne(ctx context.Context, agency string, reported map[string]int) error {
	c, err := r.compare(ctx, agency)
	if err != nil {
		return err
	}
	if n := len(c.found.Different); n > 0 {
		r.o.Logger.Error("messages of the stream are not those of the event log", "agency", agency, "count", n, "advice", "run doorbell verify")
	}
	if long := slices.DeleteFunc(c.unerased, func(s stands) bool { return !s.long() }); len(long) > 0 {
		n, err := r.eraseStanding(ctx, long)
		r.worker(agency).doubt()
		r.tellErased(agency, len(long), n, err)
	}
	missing := c.found.CountMissing()
	if missing > 0 && r.o.Embedded {
		_, err = r.Resend(ctx, agency)
		return err
	}
	if missing > reported[agency] {
		r.o.Logger.Warn("the stream lacks events that it had", "agency", agency, "count", missing,
			"advice", "if nobody erased them on purpose, run doorbell verify --repair")
	}
	reported[agency] = missing
	return nil
}
