package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	digestAbove = 5                      // with more messages waiting than this, they become digests
	maxPending  = 1000                   // messages that a worker has fetched and not acknowledged
	maxBytes    = 8 << 20                // of memory for them, approximately
	settled     = 250 * time.Millisecond // within which a busy server offers what it has
	maxAsked    = 100                    // lost leads that are checked for erasure in one go
	maxLost     = 10_000                 // messages that wait because no route takes them, besides maxPending
	failures    = 10                     // attempts after which a message lets the others try
	unanswered  = 3                      // attempts of a message that may have been accepted
	lonely      = 24 * time.Hour         // how long a refused message waits for another to compare it with
	leaving     = 10 * time.Minute       // how long a removed receiver keeps its worker without a message
)

// worker delivers events of one kind to one receiver, in the order of the stream.
type worker struct {
	f         *Forwarder
	name      string // forwarder.destination.kind; names the file
	lane      string // destination.kind, for the log
	receiver  string // its key; empty: the worker counts the leads that no route takes
	forwarder string
	kind      Kind
	subjects  []string  // of its consumer
	gone      bool      // the present routes do not name the receiver: its events go elsewhere
	retired   bool      // its consumer and its file are deleted; guarded by f.mu
	fresh     bool      // it has no file yet
	since     time.Time // when the routes were read that first named the receiver
	done      progress
	doing     sync.Mutex // guards changes of done, and reads of it by others
	status    board

	agencies []string  // that the consumer names; none: all
	late     bool      // an attach has failed
	stream   time.Time // when the stream was created
	busy     time.Time // when the last message was fetched
	queue    []*item   // fetched and not acknowledged, in the order of the stream
	before   []*item   // the queue of the former connection or table
	pending  uint64    // messages that the server has not offered yet
	counted  time.Time // when the server was last asked for its counts
	floor    uint64    // the consumer's ack floor at that time, as a sequence of the stream
	accepted int       // deliveries that the receiver accepted
	logged   string    // the problem that was logged last
	unsaved  bool      // it was logged that the file cannot be written
	strange  bool      // it was logged that there are foreign messages
}

// item is a message in the queue.
type item struct {
	message jetstream.Msg
	event   events.Event
	place   uint64 // its sequence in the stream
	fetched time.Time
	stored  time.Time // by the server's clock
	to      []string  // receivers that it still goes to; none: no route takes it any more
	sent    []string  // receivers that have it
	alone   bool      // it is sent in no digest

	tries      int
	failed     int       // tries that count against the message
	unanswered int       // tries that may have been accepted
	suspect    time.Time // since when it lets others try; zero: it does not
	seen       int       // worker.accepted at that time
}

// newWorker reads the worker's file, if there is one.
func newWorker(f *Forwarder, name string) (*worker, error) {
	done, there, err := read(f.path(name), func(p progress) bool {
		whole := p.Version == stateVersion && p.Worker == name && p.Consumer != "" && p.Done != nil
		for _, c := range p.Done {
			whole = whole && c != nil
		}
		return whole
	})
	if err != nil {
		return nil, err
	}
	w := &worker{f: f, name: name, done: done, fresh: !there, since: f.o.Since}
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !slices.Contains([]Kind{Leads, Alerts}, Kind(parts[2])) {
		return nil, fmt.Errorf("%w: %s is no file of a forwarder", ErrState, f.path(name))
	}
	w.forwarder, w.lane, w.kind = parts[0], parts[1]+"."+parts[2], Kind(parts[2])
	of := []string{"doorbell", f.o.Instance, w.forwarder, parts[2], parts[1]}
	if name == f.o.Name+untaken { // another doorbell on the stream has one too
		of = append(of, strconv.FormatUint(rand.Uint64(), 36))
	} else {
		w.receiver = parts[0] + "." + parts[1]
		w.status.s.Destination = parts[1]
	}
	if !there {
		consumer := strings.Join(slices.DeleteFunc(of, func(s string) bool { return s == "" }), "-")
		w.done = progress{Version: stateVersion, Worker: name, Consumer: consumer, Done: map[string]*checkpoint{}}
	}
	w.status.s.Forwarder, w.status.s.Kind, w.status.s.Turned = w.forwarder, w.kind, time.Now()
	return w, nil
}

// untaken ends the name of the worker of leads that no route takes.
const untaken = ".untaken." + string(Leads)

// routed applies the present routes to the worker.
func (w *worker) routed() {
	var whose []string
	w.gone = w.receiver != ""
	for _, r := range w.f.o.Routes {
		if r.key() != w.receiver || !r.Filter.Takes(w.kind) {
			continue
		}
		w.gone = false
		if of := r.Filter.Whose(); !slices.Contains(whose, of) {
			whose = append(whose, of)
		}
	}
	w.subjects = w.wanted()
	w.status.write(func(s *WorkerStatus) { s.Whose = strings.Join(whose, ", ") })
}

// wanted returns the subjects of all types that any remembered table takes for the receiver. No
// others: the server counts every message on them as waiting.
func (w *worker) wanted() (subjects []string) {
	if w.receiver == "" {
		return []string{w.f.o.Prefix + ".v1.*." + string(events.TypeContactRequestCreated)}
	}
	for _, t := range events.Types {
		if kindOf(t) == w.kind && slices.ContainsFunc(w.f.tables.Tables, func(in table) bool {
			return slices.ContainsFunc(in.Rules, func(r rule) bool { return r.To == w.receiver && r.Filter.wantsType(t) })
		}) {
			subjects = append(subjects, w.f.o.Prefix+".v1.*."+string(t))
		}
	}
	if subjects == nil { // its tables are forgotten, and no event of their time is left
		subjects = []string{events.StreamSubjects(w.f.o.Prefix)}
	}
	return subjects
}

// errRetired means that the receiver was removed and no event waits for it.
var errRetired = errors.New("the receiver is gone")

// run delivers until ctx ends. It retries whatever fails on the side of NATS.
func (w *worker) run(ctx context.Context) error {
	const longest = 10 * time.Second
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(longest), backoff.WithMaxElapsedTime(0))
	for {
		c, err := w.attach(ctx)
		if err == nil {
			w.report(nil)
			for began := time.Now(); err == nil; err = w.next(ctx, c) {
				if time.Since(began) > longest {
					retry.Reset()
				}
			}
		}
		switch {
		case errors.Is(err, errRetired):
			w.f.mu.Lock()
			defer w.f.mu.Unlock()
			w.retired = true
			return nil
		case errors.Is(err, errCut):
			return err
		case ctx.Err() != nil:
			return nil
		case w.f.o.Conn.IsClosed():
			return ErrClosed
		}
		w.late = true
		w.report(err)
		if !sleep(ctx, retry.NextBackOff()) {
			return nil
		}
	}
}

// Reasons why no events come from NATS.
var (
	errNoStream = errors.New("the stream is missing")
	errOther    = errors.New("the consumer of this receiver is that of another doorbell, with other agencies; set DOORBELL_INSTANCE to tell the two apart")
	// ErrClosed: the connection was closed for good.
	ErrClosed = errors.New("the connection to NATS was closed")
)

// report logs why no events come from NATS, once for each reason. A stream that is missing in the
// first minute is no problem yet: it is probably being created.
func (w *worker) report(err error) {
	text, early := "", errors.Is(err, errNoStream) && time.Since(w.f.o.Since) < time.Minute
	if err != nil && !early {
		text = stream.Explain(w.f.o.Conn, err).Error()
	}
	w.status.write(func(s *WorkerStatus) { s.Problem, s.Turned = text, time.Now() })
	switch {
	case early:
		w.f.early.Do(func() {
			w.f.o.Log.Info("waiting for the stream, which is not there yet", "forwarder", w.forwarder, "stream", w.f.o.Stream)
		})
		return
	case text == w.logged:
	case err != nil:
		w.f.o.Log.Warn("no events from NATS; retrying", "forwarder", w.forwarder, "lane", w.lane, "err", text)
	default:
		w.f.o.Log.Info("events come from NATS again", "forwarder", w.forwarder, "lane", w.lane)
	}
	w.logged = text
}

// attach finds the worker's consumer or creates it. If messages await an acknowledgement, it waits
// until the server offers them again: otherwise the messages behind them would be delivered first.
func (w *worker) attach(ctx context.Context) (jetstream.Consumer, error) {
	if len(w.queue) > 0 {
		w.before, w.queue = w.queue, nil // the server offers these again
	}
	if !w.f.o.Conn.IsConnected() {
		return nil, stream.ErrNotConnected
	}
	asking, cancel := context.WithTimeout(ctx, 2*answerLimit)
	defer cancel()
	s, err := w.f.js.Stream(asking, w.f.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, fmt.Errorf("%w: %s", errNoStream, w.f.o.Stream)
	}
	if err != nil {
		return nil, fmt.Errorf("stream %s: %w", w.f.o.Stream, err)
	}
	now := s.CachedInfo().TimeStamp // by the server's clock
	first := w.f.begin(now.Add(-time.Since(w.f.o.Since)))
	w.stream, w.busy = s.CachedInfo().Created, time.Now()
	c, err := s.Consumer(asking, w.done.Consumer)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		c, err = s.CreateConsumer(asking, w.begin(first, now.Add(-time.Since(w.since))))
	case err == nil:
		have := c.CachedInfo().Config
		named := strings.Fields(have.Metadata[agenciesKey])
		if w.fresh && !w.shares(named) {
			return nil, errOther
		}
		if config := w.config(have); !slices.Equal(subjectsOf(config), subjectsOf(have)) || config.Metadata[agenciesKey] != have.Metadata[agenciesKey] {
			c, err = s.UpdateConsumer(asking, config)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("consumer %s: %w", w.done.Consumer, err)
	}
	// A consumer that begins with the stream is a replacement, perhaps one that a process created
	// just before it died.
	w.doing.Lock()
	w.done.Early = w.done.Early || c.CachedInfo().Config.DeliverPolicy == jetstream.DeliverAllPolicy
	w.done.streamIs(w.stream)
	w.doing.Unlock()
	w.fresh, w.floor = false, c.CachedInfo().AckFloor.Stream
	w.save()
	if info := c.CachedInfo(); info.NumAckPending > 0 {
		w.status.write(func(s *WorkerStatus) { s.Waiting = info.NumPending + uint64(info.NumAckPending) })
		if !sleep(ctx, info.Config.AckWait+settled) {
			return nil, ctx.Err()
		}
		if err := w.more(c, info.NumAckPending); err != nil { // they come in the order in which their AckWait ended
			return nil, err
		}
		slices.SortFunc(w.queue, func(a, b *item) int { return cmp.Compare(a.place, b.place) })
		w.waits() // some may have been skipped
	}
	return c, nil
}

// begin returns the consumer to create. A replacement begins with the stream: the worker knows
// which events are done, and which were not its own when they were recorded.
func (w *worker) begin(first bool, since time.Time) jetstream.ConsumerConfig {
	c := w.config(jetstream.ConsumerConfig{Durable: w.done.Consumer, Name: w.done.Consumer, DeliverPolicy: jetstream.DeliverAllPolicy})
	switch {
	case !w.fresh:
	case first && !w.late && time.Since(w.since) < time.Second:
		c.DeliverPolicy = jetstream.DeliverNewPolicy
	default: // events since the routes were read are new
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverByStartTimePolicy, &since
	}
	w.f.o.Log.Info("consumer created", "forwarder", w.forwarder, "consumer", w.done.Consumer, "again", !w.fresh)
	return c
}

// config returns the desired configuration of a consumer, with the name and the start of the given
// one.
func (w *worker) config(c jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	c.Description = "doorbell: " + string(w.kind) + " for " + w.receiver
	c.AckPolicy, c.AckWait = jetstream.AckExplicitPolicy, w.f.o.AckWait
	c.MaxDeliver = -1 // with a limit, the server would drop the message
	c.MaxAckPending, c.InactiveThreshold = maxPending+maxLost, w.f.o.Retention
	w.agencies = strings.Fields(c.Metadata[agenciesKey])
	for _, agency := range w.own() {
		if token := events.Token(agency); !slices.Contains(w.agencies, token) {
			w.agencies = append(w.agencies, token)
		}
	}
	if c.Metadata = maps.Clone(c.Metadata); len(w.agencies) > 0 {
		if c.Metadata == nil {
			c.Metadata = map[string]string{}
		}
		c.Metadata[agenciesKey] = strings.Join(w.agencies, " ")
	}
	c.FilterSubject, c.FilterSubjects = "", w.subjects
	if len(w.subjects) == 1 {
		c.FilterSubject, c.FilterSubjects = w.subjects[0], nil
	}
	return c
}

// agenciesKey is the metadata of a consumer that lists the agencies of its doorbell, as tokens.
const agenciesKey = "doorbell-agencies"

// own returns the agencies of this doorbell; none: all.
func (w *worker) own() []string {
	if w.f.o.Agencies == nil {
		return nil
	}
	return w.f.o.Agencies()
}

// shares reports whether a consumer that names these agencies can be ours.
func (w *worker) shares(named []string) bool {
	own := w.own()
	return len(named) == 0 || len(own) == 0 ||
		slices.ContainsFunc(own, func(a string) bool { return slices.Contains(named, events.Token(a)) })
}

// ours reports whether an agency is this doorbell's, or was one when the consumer was attached: its
// waiting events are still delivered.
func (w *worker) ours(agency string) bool {
	own := w.own()
	return len(own) == 0 || slices.Contains(own, agency) || slices.Contains(w.agencies, events.Token(agency))
}

func subjectsOf(c jetstream.ConsumerConfig) []string {
	if c.FilterSubject != "" {
		return []string{c.FilterSubject}
	}
	return c.FilterSubjects
}

// save writes the worker's file. A failure does not stop the worker, because the server knows the
// position of the consumer too.
func (w *worker) save() {
	err := write(w.f.path(w.name), &w.done)
	if err != nil && !w.unsaved {
		w.f.o.Log.Error("progress cannot be written: after a crash messages may be sent twice",
			"forwarder", w.forwarder, "lane", w.lane, "err", err.Error())
	}
	w.unsaved = err != nil
}

// next delivers one batch: fetch → take → deliver → checkpoint → acknowledge.
func (w *worker) next(ctx context.Context, c jetstream.Consumer) error {
	if err := w.fetch(ctx, c); err != nil {
		return err
	}
	batch, err := w.batch()
	if err != nil || len(batch) == 0 {
		return err
	}
	return w.deliver(ctx, c, batch)
}

// fetch waits for a message, unless there is one to send, and fetches what may go into a digest
// with it.
func (w *worker) fetch(ctx context.Context, c jetstream.Consumer) error {
	w.status.write(func(s *WorkerStatus) { s.Turned = time.Now() })
	if w.done.isLong() {
		w.count(ctx, c) // for a higher floor
	}
	if w.first() == nil {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if errors.Is(err, nats.ErrTimeout) { // no message came
			w.count(ctx, c)
			if _, err := w.withoutErased(ctx, slices.Clone(w.queue[:min(len(w.queue), maxAsked)])); err != nil {
				return err
			}
			return w.retire(ctx)
		}
		if err == nil {
			err = w.take(m)
		}
		if err != nil {
			return err
		}
	}
	digest := 2
	if first := w.first(); first != nil {
		digest = max(digest, w.f.destinations[first.to[0]].traits.Digest)
	}
	return w.more(c, digest)
}

// open counts the messages of the queue that go somewhere.
func (w *worker) open() (n int) {
	for _, i := range w.queue {
		if len(i.to) > 0 {
			n++
		}
	}
	return n
}

// more fetches what the server has, without waiting for new messages, until n of the queue go
// somewhere.
func (w *worker) more(c jetstream.Consumer, n int) error {
	size := 0
	for _, i := range w.queue {
		if len(i.to) > 0 {
			size += len(i.event.Data)
		}
	}
	waited, fetch := false, c.FetchNoWait
	for n = min(n, maxPending); w.open() < n && size < maxBytes; {
		fetched, err := fetch(n - w.open())
		if err != nil {
			return err
		}
		came := 0
		for m := range fetched.Messages() {
			came++
			size += len(m.Data())
			if err := w.take(m); err != nil {
				return err
			}
		}
		if came == 0 && w.pending == 0 || came == 0 && waited {
			return nil
		}
		if waited = came == 0; waited { // a busy server may report too early that it has nothing
			fetch = func(n int) (jetstream.MessageBatch, error) { return c.Fetch(n, jetstream.FetchMaxWait(settled)) }
		}
	}
	return nil
}

// take puts a message into the queue. If it is done, or not the worker's, it is acknowledged
// instead. A message that the queue already has was offered again, because its AckWait ended.
func (w *worker) take(m jetstream.Msg) error {
	w.busy = time.Now()
	meta, err := m.Metadata()
	if err != nil {
		return w.pass(m)
	}
	i := &item{message: m, place: meta.Sequence.Stream, fetched: w.busy, stored: meta.Timestamp}
	w.pending = meta.NumPending
	i.event, err = events.Decode(m.Headers(), m.Data())
	if err != nil || m.Subject() != events.Subject(w.f.o.Prefix, i.event.AgencyID, i.event.Type) {
		return w.pass(m)
	}
	again := func(other *item) bool { // a stream that lost its tail has another event at that sequence
		return other.place == i.place && other.event.ID == i.event.ID
	}
	if at := slices.IndexFunc(w.queue, again); at >= 0 {
		w.queue[at].message = m
		return nil
	}
	i.recall(w.before)
	lost := false
	if i.event.Origin == events.OriginLive && kindOf(i.event.Type) == w.kind && w.ours(i.event.AgencyID) && !w.isDone(i) {
		i.to, lost = w.f.home(i.event, w.receiver, w.done.Early || i.resent())
		i.to = slices.DeleteFunc(i.to, func(to string) bool { return slices.Contains(i.sent, to) })
	}
	if len(i.to) == 0 && len(i.sent) > 0 && !w.isDone(i) {
		lost = false
		w.add(i)
		w.save()
	}
	if len(i.to) == 0 && !(lost && i.event.Type == events.TypeContactRequestCreated) {
		return m.Ack()
	}
	w.queue = append(w.queue, i)
	w.waits()
	return nil
}

// recall carries over the attempts from before a reconnect or a change of routes, so that limits
// apply across it, and the receivers that already have the message.
func (i *item) recall(before []*item) {
	for _, b := range before {
		if b.event.ID == i.event.ID {
			i.tries, i.failed, i.unanswered = b.tries, b.failed, b.unanswered
			i.suspect, i.seen, i.alone, i.sent = b.suspect, b.seen, b.alone, b.sent
		}
	}
}

func (i *item) resent() bool { return i.message.Headers().Get(events.ResentHeader) != "" }

func (w *worker) isDone(i *item) bool { return w.done.has(i.event, i.resent()) }

// add notes that a message is done.
func (w *worker) add(i *item) {
	w.doing.Lock()
	defer w.doing.Unlock()
	w.done.add(i.event, i.place, w.floor)
}

// pass skips a message that is no event of ours.
func (w *worker) pass(m jetstream.Msg) error {
	w.status.write(func(s *WorkerStatus) { s.Foreign++ })
	if !w.strange {
		w.strange = true
		w.f.o.Log.Error("foreign message in the stream: it is not an event of doorbell; skipped, like all others of its kind",
			"forwarder", w.forwarder, "lane", w.lane, "stream", w.f.o.Stream)
	}
	return m.Ack()
}

// count asks the server how many messages wait.
func (w *worker) count(ctx context.Context, c jetstream.Consumer) {
	w.counted = time.Now()
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	info, err := c.Info(ctx)
	if err != nil {
		return
	}
	w.pending, w.floor = info.NumPending, info.AckFloor.Stream
	w.waiting(info.NumPending + uint64(info.NumAckPending))
}

// waits updates the count of waiting messages from the metadata of the last message.
func (w *worker) waits() { w.waiting(w.pending + uint64(len(w.queue))) }

func (w *worker) waiting(n uint64) {
	lost := uint64(0)
	for _, i := range w.queue {
		if len(i.to) == 0 {
			lost++
		}
	}
	w.status.write(func(s *WorkerStatus) {
		s.Waiting, s.Lost = n, lost
		if n == 0 {
			s.WaitingSince = time.Time{}
		} else if s.WaitingSince.IsZero() {
			s.WaitingSince = time.Now()
		}
	})
}

// retire deletes the consumer and the file of a removed receiver, once no message has come for a
// while: the relay may still publish events from the time before the removal.
func (w *worker) retire(ctx context.Context) error {
	if w.f.o.Behind != nil && w.f.o.Behind() {
		w.busy = time.Now()
	}
	if !w.gone || w.status.read().Waiting > 0 || time.Since(w.busy) < leaving {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	err := w.f.js.DeleteConsumer(ctx, w.f.o.Stream, w.done.Consumer)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return fmt.Errorf("consumer %s: %w", w.done.Consumer, err)
	}
	_ = os.Remove(w.f.path(w.name))
	return errRetired
}

// first returns the first message of the queue that goes somewhere.
func (w *worker) first() *item {
	for _, i := range w.queue {
		if len(i.to) > 0 {
			return i
		}
	}
	return nil
}

// batch returns the messages to send as one: the first, or a digest if more than five wait.
func (w *worker) batch() ([]*item, error) {
	first := w.first()
	if first == nil {
		return nil, nil
	}
	if w.isDone(first) { // the stream has it twice
		return nil, w.drop([]*item{first})
	}
	traits := w.f.destinations[first.to[0]].traits
	if traits.Digest < 2 || first.alone || traits.LeadsAlone && w.kind == Leads {
		return []*item{first}, nil
	}
	batch, known := []*item{}, map[string]bool{}
	for _, i := range w.queue {
		if len(i.to) == 0 || i.to[0] != first.to[0] || i.alone || known[i.event.ID] || w.isDone(i) {
			continue
		}
		known[i.event.ID] = true
		if batch = append(batch, i); len(batch) == traits.Digest {
			break
		}
	}
	if len(batch) <= digestAbove {
		batch = batch[:1]
	}
	return batch, nil
}

// deliver sends a batch until it is accepted or becomes a dead letter. A message that is refused,
// or has failed ten times, lets the others try, one at each retry: if one of them is accepted and
// it is then refused once more, the message itself is the cause.
func (w *worker) deliver(ctx context.Context, c jetstream.Consumer, batch []*item) error {
	for tries := 1; ; tries++ {
		w.status.write(func(s *WorkerStatus) { s.Attempts = tries })
		var err error
		if batch, err = w.try(ctx, batch); len(batch) == 0 {
			return err
		}
		switch {
		case err == nil:
			if tries > 1 {
				e := batch[0].event
				w.f.o.Log.Info("delivered after retries", "forwarder", w.forwarder, "lane", w.lane,
					"event_id", e.ID, "agency", e.AgencyID, "attempt", tries)
			}
			return w.finish(batch, stepSent)
		case errors.Is(err, errStopped):
			return ctx.Err()
		case len(batch) > 1 && mayBeAccepted(err): // then each of its messages may have been accepted
			for _, i := range batch {
				i.unanswered++
			}
			for len(batch) > 0 && batch[0].unanswered >= unanswered {
				buried, failed := w.bury(ctx, batch[0], err)
				if failed != nil {
					return failed
				}
				if !buried {
					break
				}
				batch = batch[1:]
			}
			if len(batch) == 0 {
				return nil
			}
		case len(batch) > 1 && (errors.As(err, new(*Refused)) || tries >= failures && !ofReceiver(err)):
			w.split(batch, errors.As(err, new(*Refused)))
			return nil
		case len(batch) == 1 && w.isDead(batch[0], err):
			buried, failed := w.bury(ctx, batch[0], err)
			if buried || failed != nil {
				return failed
			}
			if _, failed := w.witness(ctx, c, batch[0]); failed != nil { // it must not hold up the others
				return failed
			}
		case len(batch) == 1 && !batch[0].suspect.IsZero() && !ofReceiver(err):
			accepted, failed := w.witness(ctx, c, batch[0])
			if failed != nil {
				return failed
			}
			if accepted {
				continue
			}
		}
		if tries == 1 || tries%(3*failures) == 0 {
			e := batch[0].event
			w.f.o.Log.Warn("delivery failed; retrying", "forwarder", w.forwarder, "lane", w.lane,
				"event_id", e.ID, "agency", e.AgencyID, "attempt", tries, "err", reason(err))
		}
		if err := w.pause(ctx, c, batch, max(pause(tries), after(err))); err != nil {
			return err
		}
	}
}

// try makes one attempt, without the messages that were erased meanwhile, and returns those that
// are left. If none are, the error is one of NATS. During the attempt the server is kept from
// offering the messages again.
func (w *worker) try(ctx context.Context, batch []*item) ([]*item, error) {
	to := w.f.destinations[batch[0].to[0]]
	defer w.hold()()
	done, err := to.turn(ctx)
	if err != nil {
		return batch, err
	}
	defer done()
	if batch, err = w.withoutErased(ctx, batch); err != nil || len(batch) == 0 {
		return nil, err
	}
	d := Delivery{}
	for _, i := range batch {
		i.tries++
		d.Events = append(d.Events, i.event)
	}
	err = to.send(ctx, d, w.f.o.SendLimit, w.f.o.Drain)
	switch now := time.Now(); {
	case err == nil:
		w.accepted++
		w.status.write(func(s *WorkerStatus) {
			s.Sent, s.Events, s.LastSent, s.WaitingSince = s.Sent+1, s.Events+uint64(len(batch)), now, time.Time{}
			s.LastError, s.LastErrorAt = "", time.Time{}
		})
		w.f.o.Log.Debug("forwarded", "forwarder", w.forwarder, "lane", w.lane, "events", len(batch), "event_id", batch[0].event.ID)
	case !errors.Is(err, errStopped):
		w.status.write(func(s *WorkerStatus) {
			s.LastError, s.LastErrorAt = reason(err), now
			s.Failed = maps.Clone(s.Failed) // a reader may hold the one before
			if s.Failed == nil {
				s.Failed = map[string]uint64{}
			}
			s.Failed[failureOf(err)]++
		})
	}
	return batch, err
}

// failureOf is the reason of a failed attempt in one word, for metrics.
func failureOf(err error) string {
	var retry *Retry
	var refused *Refused
	switch {
	case errors.As(err, &refused):
		return "refused"
	case !errors.As(err, &retry) || retry.Receiver:
		return "receiver"
	case retry.Unanswered:
		return "unanswered"
	}
	return "busy"
}

// split has the messages of a digest sent one by one, because any of them may be the cause. A
// refusal counts against each of them.
func (w *worker) split(batch []*item, refused bool) {
	for _, i := range batch {
		i.alone, i.tries = true, 0
		if i.failed = failures - 1; refused {
			i.failed, i.suspect, i.seen = failures, time.Now(), w.accepted
		}
	}
}

// hold keeps the server from offering the messages of the queue again, until stop is called.
func (w *worker) hold() (stop func()) {
	queue, ended, over := slices.Clone(w.queue), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(w.f.o.AckWait / 3)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				inProgress(queue)
			}
		}
	}()
	return func() { close(ended); <-over }
}

// inProgress restarts the AckWait of messages. If that fails and one is offered again, take finds
// it in the queue.
func inProgress(queue []*item) {
	for _, i := range queue {
		_ = i.message.InProgress()
	}
}

// pause waits between two attempts. If a message was refused and there was no other to compare it
// with, the pause ends as soon as one comes.
func (w *worker) pause(ctx context.Context, c jetstream.Consumer, batch []*item, wait time.Duration) error {
	refused := len(batch) == 1 && batch[0].failed >= failures && batch[0].tries < failures
	for end := time.Now().Add(wait); ; {
		inProgress(w.queue)
		if time.Since(w.counted) >= w.f.o.AckWait {
			w.count(ctx, c)
		}
		w.status.write(func(s *WorkerStatus) { s.Turned = time.Now() })
		left := time.Until(end)
		if !sleep(ctx, min(left, w.f.o.AckWait/3)) {
			return ctx.Err()
		}
		if left <= w.f.o.AckWait/3 {
			return nil
		}
		if refused && w.other(batch[0]) == nil {
			if err := w.more(c, failures); err != nil {
				return err
			}
			if w.other(batch[0]) != nil {
				return nil
			}
		}
	}
}

// ofReceiver reports whether an error is about the receiver and not about the message.
func ofReceiver(err error) bool {
	retry := (*Retry)(nil)
	return errors.As(err, &retry) && retry.Receiver
}

// mayBeAccepted reports whether the message was sent completely and got no response.
func mayBeAccepted(err error) bool {
	retry := (*Retry)(nil)
	return errors.As(err, &retry) && retry.Unanswered
}

// isDead decides after an attempt whether a message becomes a dead letter.
func (w *worker) isDead(i *item, err error) bool {
	refused := (*Refused)(nil)
	switch {
	case ofReceiver(err):
		return false
	case mayBeAccepted(err):
		i.unanswered++
		return i.unanswered >= unanswered
	case errors.As(err, &refused):
		i.failed = max(i.failed, failures)
		if refused.Certain {
			return true
		}
	default:
		i.failed++
	}
	switch {
	case i.failed < failures:
		return false
	case i.suspect.IsZero():
		i.suspect, i.seen = time.Now(), w.accepted
		return false
	case w.accepted > i.seen:
		return true
	}
	return w.other(i) == nil && w.pending == 0 && time.Since(i.suspect) >= lonely
}

// witness sends another message of the queue, to find out whether the receiver accepts any.
func (w *worker) witness(ctx context.Context, c jetstream.Consumer, suspect *item) (accepted bool, err error) {
	if other := w.other(suspect); other == nil || other.tries > 0 {
		if err := w.more(c, w.open()+failures); err != nil {
			return false, err
		}
	}
	other := w.other(suspect)
	if other == nil {
		return false, nil
	}
	left, err := w.try(ctx, []*item{other})
	switch {
	case len(left) == 0:
		return false, err
	case err == nil:
		return true, w.finish([]*item{other}, stepSent)
	case errors.Is(err, errStopped):
		return false, ctx.Err()
	}
	if w.isDead(other, err) && mayBeAccepted(err) {
		_, failed := w.bury(ctx, other, err)
		return false, failed
	}
	// One that is refused here needs a witness of its own; its turn comes.
	other.alone = !other.suspect.IsZero()
	return false, nil
}

// other returns the message to try next beside a suspect: preferably one that cannot have been
// accepted yet, then the one tried least often, then one of another type.
func (w *worker) other(suspect *item) (other *item) {
	less := func(a, b *item) bool {
		if a.unanswered != b.unanswered {
			return a.unanswered < b.unanswered
		}
		if a.tries != b.tries {
			return a.tries < b.tries
		}
		return a.event.Type != suspect.event.Type && b.event.Type == suspect.event.Type
	}
	for _, i := range w.queue {
		if i == suspect || len(i.to) == 0 || i.to[0] != suspect.to[0] {
			continue
		}
		if other == nil || less(i, other) {
			other = i
		}
	}
	return other
}

// errCut ends a worker where a test wants it to end.
var errCut = errors.New("cut")

// The steps at which a test can cut.
const (
	stepSent   = "sent"
	stepDead   = "dead"
	stepMarked = "marked"
	stepDone   = "done"
)

func (w *worker) step(name string) error {
	if w.f.cut != nil && w.f.cut(name) {
		return errCut
	}
	return nil
}

// finish marks messages as done with their first receiver, and acknowledges those that go to no
// other one. The file is written before the acknowledgement, so that after a crash in between they
// are known to be done.
func (w *worker) finish(batch []*item, at string) error {
	if err := w.step(at); err != nil {
		return err
	}
	var done []*item
	for _, i := range batch {
		i.sent = append(i.sent, i.to[0])
		if i.to = i.to[1:]; len(i.to) == 0 {
			done = append(done, i)
		} else {
			i.alone, i.tries, i.failed, i.unanswered, i.suspect = false, 0, 0, 0, time.Time{}
		}
	}
	for _, i := range done {
		w.add(i)
	}
	w.save()
	if err := w.step(stepMarked); err != nil {
		return err
	}
	if err := w.drop(done); err != nil {
		return err
	}
	return w.step(stepDone)
}

// drop acknowledges messages and takes them out of the queue.
func (w *worker) drop(done []*item) error {
	for _, i := range done {
		if err := i.message.Ack(); err != nil {
			return err
		}
	}
	w.queue = slices.DeleteFunc(w.queue, func(i *item) bool { return slices.Contains(done, i) })
	w.status.write(func(s *WorkerStatus) { s.Attempts = 0 })
	w.waits()
	return nil
}

// bury moves a message to the dead letters, or drops it if it was erased. It returns false if that
// fails: then the message stays in the queue, so as not to be lost.
func (w *worker) bury(ctx context.Context, i *item, err error) (bool, error) {
	why := reason(err)
	switch {
	case i.unanswered >= unanswered:
		why = "perhaps delivered: " + why
	case errors.As(err, new(*Refused)) && w.accepted == i.seen && !i.suspect.IsZero():
		why += " (no other message to compare it with)"
	}
	log := w.f.o.Log.With("forwarder", w.forwarder, "lane", w.lane,
		"event_id", i.event.ID, "agency", i.event.AgencyID, "attempt", i.tries)
	written, err := w.toDeadLetters(context.WithoutCancel(ctx), i, why)
	if err != nil {
		w.status.write(func(s *WorkerStatus) { s.LastError = "no dead letter can be written: " + err.Error() })
		log.Error("message permanently rejected, but no dead letter can be written; retrying", "refused", why, "err", err.Error())
		return false, nil
	}
	if !written {
		log.Info("contact request was erased before it was delivered")
		return true, w.drop([]*item{i})
	}
	w.status.write(func(s *WorkerStatus) { s.DeadLetters, s.WaitingSince = s.DeadLetters+1, time.Time{} })
	log.Error("message moved to the dead letters", "err", why)
	return true, w.finish([]*item{i}, stepDead)
}

// withoutErased drops the messages that were erased from the stream since they were fetched, and
// returns the rest. It does not check a message that was fetched within the last second and not
// tried yet.
func (w *worker) withoutErased(ctx context.Context, batch []*item) (left []*item, err error) {
	asked := true // false: NATS is away, and each further question would wait for its timeout
	for _, i := range batch {
		gone := false
		if asked && (i.tries > 0 || time.Since(i.fetched) > time.Second) {
			gone, err = w.erased(ctx, i)
			asked = err == nil
		}
		if !gone {
			left = append(left, i)
			continue
		}
		w.f.o.Log.Info("contact request was erased before it was delivered", "forwarder", w.forwarder, "lane", w.lane, "event_id", i.event.ID)
		if err := w.drop([]*item{i}); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// erased reports whether a contact request has been erased from the stream since it was fetched:
// then it must not be delivered. One that has expired, or was lost with the stream or its tail, was
// not erased.
func (w *worker) erased(ctx context.Context, i *item) (bool, error) {
	if !i.event.HoldsPerson() {
		return false, nil
	}
	messages := stream.Client{Conn: w.f.o.Conn, Stream: w.f.o.Stream, Wait: answerLimit}
	m, err := messages.Get(ctx, stream.Query{Sequence: i.place})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil || m != nil { // another message at that sequence: the stream lost its tail
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	s, err := w.f.js.Stream(ctx, w.f.o.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("stream %s: %w", w.f.o.Stream, err)
	}
	info := s.CachedInfo()
	if !w.stream.Equal(info.Created) || i.place > info.State.LastSeq {
		return false, nil
	}
	return i.place >= info.State.FirstSeq || !forgets(info, i.stored), nil
}

// forgets reports whether the limits of a stream may have dropped a message that was stored at a
// time and lies before its first one.
func forgets(info *jetstream.StreamInfo, stored time.Time) bool {
	c := info.Config
	return c.MaxAge > 0 && info.TimeStamp.Sub(stored) >= c.MaxAge ||
		c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0 || c.MaxMsgsPerSubject > 0)
}
