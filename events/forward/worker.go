package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	fetched     = 20                     // messages fetched at a time
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
	log       *slog.Logger
	name      string // forwarder.destination.kind; names the file
	receiver  string // its key; empty: the worker counts the leads that no route takes
	forwarder string
	kind      Kind
	subjects  []string  // of its consumer
	gone      bool      // the present routes do not name the receiver: its events go elsewhere
	retired   bool      // its consumer and its file are deleted; guarded by f.mu
	fresh     bool      // it has no file yet
	since     time.Time // when the routes were read that first named the receiver
	status    board

	mu    sync.Mutex // guards changes of done and queue, and reads of them by others
	done  progress
	queue []*item // fetched and not acknowledged, in the order of the stream
	lost  []*item // leads that wait because no route takes them any more

	agencies []string  // that the consumer names, as tokens; none: all
	late     bool      // an attach has failed
	stream   time.Time // when the stream was created
	busy     time.Time // when the last message was fetched
	before   []*item   // queue and lost of the former connection or table
	pending  uint64    // messages that the server has not offered yet
	floor    uint64    // the consumer's ack floor when the server was last asked for its counts
	accepted int       // deliveries that the receiver accepted
	logged   string    // the problem that was logged last
	unsaved  bool      // it was logged that the file cannot be written
}

// item is a message that was fetched.
type item struct {
	message jetstream.Msg
	event   events.Event
	place   uint64 // its sequence in the stream
	fetched time.Time
	to      []string // receivers that it still goes to
	attempts
}

// attempts is what has become of a message so far. It outlives a reconnect and a change of routes.
type attempts struct {
	sent       []string // receivers that have it
	alone      bool     // it is sent in no digest
	tries      int
	failed     int       // tries that count against the message
	unanswered int       // tries that may have been accepted
	suspect    time.Time // since when it lets others try; zero: it does not
	seen       int       // worker.accepted at that time
	stuck      bool      // it is a dead letter that cannot be written
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
	parts := strings.Split(name, ".")
	if len(parts) != 3 || !slices.Contains([]Kind{Leads, Alerts}, Kind(parts[2])) {
		return nil, fmt.Errorf("%w: %s is no file of a forwarder", ErrState, f.path(name))
	}
	forwarder, destination, kind := parts[0], parts[1], Kind(parts[2])
	w := &worker{
		f: f, name: name, forwarder: forwarder, kind: kind, done: done, fresh: !there, since: f.o.Since,
		log: f.o.Log.With("forwarder", forwarder, "lane", destination+"."+parts[2]),
	}
	w.status.s = WorkerStatus{Forwarder: forwarder, Kind: kind, Turned: time.Now()}
	of := []string{"doorbell", f.o.Instance, forwarder, parts[2], destination}
	if name == f.o.Name+untaken { // another doorbell on the stream has one too
		of = append(of, strconv.FormatUint(rand.Uint64(), 36))
	} else {
		w.receiver, w.status.s.Destination = forwarder+"."+destination, destination
	}
	if !there {
		consumer := strings.Join(slices.DeleteFunc(of, func(s string) bool { return s == "" }), "-")
		w.done = progress{Version: stateVersion, Worker: name, Consumer: consumer, Done: map[string]*checkpoint{}}
	}
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
	w.subjects = w.f.tables.subjects(w.f.o.Prefix, w.receiver, w.kind)
	w.status.write(func(s *WorkerStatus) { s.Whose = strings.Join(whose, ", ") })
}

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
	text := ""
	if err != nil && !(errors.Is(err, errNoStream) && time.Since(w.f.o.Since) < time.Minute) {
		text = stream.Explain(w.f.o.Conn, err).Error()
	}
	w.status.write(func(s *WorkerStatus) { s.Problem, s.Turned = text, time.Now() })
	switch {
	case text == w.logged:
	case text != "":
		w.log.Warn("no events from NATS; retrying", "err", text)
	default:
		w.log.Info("events come from NATS again")
	}
	w.logged = text
}

// next delivers one batch: fetch → wanted → deliver → checkpoint → acknowledge.
func (w *worker) next(ctx context.Context, c jetstream.Consumer) error {
	if err := w.fetch(ctx, c); err != nil || len(w.queue) == 0 {
		return err
	}
	return w.deliver(ctx, c, w.batch())
}

// fetch waits for a message, unless the queue has one, and fetches what may go into a digest with
// it.
func (w *worker) fetch(ctx context.Context, c jetstream.Consumer) error {
	w.status.write(func(s *WorkerStatus) { s.Turned = time.Now() })
	if w.done.isLong() {
		w.count(ctx, c) // for a higher floor
	}
	if len(w.queue) == 0 {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if errors.Is(err, nats.ErrTimeout) { // no message came
			w.count(ctx, c)
			if _, err := w.withoutErased(ctx, w.lost[:min(len(w.lost), maxAsked)]); err != nil {
				return err
			}
			return w.retire(ctx)
		}
		if err == nil {
			err = w.take(m)
		}
		if err != nil || len(w.queue) == 0 || w.pending == 0 {
			return err
		}
	}
	return w.more(c, w.f.destinations[w.queue[0].to[0]].traits.Digest)
}

// more fetches what the server has, without waiting for new messages, until n are in the queue.
func (w *worker) more(c jetstream.Consumer, n int) error {
	size := 0
	for _, i := range w.queue {
		size += len(i.event.Data)
	}
	for n = min(n, maxPending); len(w.queue) < n && size < maxBytes; {
		batch, err := c.Fetch(min(n-len(w.queue), fetched), jetstream.FetchMaxWait(settled))
		if err != nil {
			return err
		}
		came := 0
		for m := range batch.Messages() {
			came++
			size += len(m.Data())
			if err := w.take(m); err != nil {
				return err
			}
		}
		if came == 0 {
			return nil
		}
	}
	return nil
}

// take puts a message into the queue. If it is done, not the worker's or no event of doorbell, it is
// acknowledged instead. A message that is in hand already was offered again, because its AckWait
// ended, or was published again, because the stream had lost it.
func (w *worker) take(m jetstream.Msg) error {
	w.busy = time.Now()
	meta, err := m.Metadata()
	if err != nil {
		return m.Ack()
	}
	w.pending = meta.NumPending
	e, err := events.Decode(m.Headers(), m.Data())
	if err != nil || m.Subject() != events.Subject(w.f.o.Prefix, e.AgencyID, e.Type) {
		return m.Ack()
	}
	w.mu.Lock()
	for _, i := range slices.Concat(w.queue, w.lost) {
		if i.event.ID == e.ID {
			i.message, i.place = m, meta.Sequence.Stream
			w.mu.Unlock()
			return nil
		}
	}
	w.mu.Unlock()
	i := &item{message: m, event: e, place: meta.Sequence.Stream, fetched: w.busy}
	for _, b := range w.before {
		if b.event.ID == e.ID {
			i.attempts = b.attempts
		}
	}
	isDone := w.isDone(i)
	to, lost := []string(nil), false
	if !isDone {
		to, lost = w.wanted(i)
	}
	w.mu.Lock()
	switch i.to = to; {
	case len(i.to) > 0:
		w.queue = append(w.queue, i)
	case lost:
		w.lost = append(w.lost, i)
	}
	w.mu.Unlock()
	if len(i.to) == 0 && !lost {
		if len(i.sent) > 0 && !isDone { // all whom it goes to now have it
			w.add(i)
			w.save()
		}
		return m.Ack()
	}
	w.waits()
	return nil
}

// wanted returns the receivers that a message still goes to. Lost means that it is a lead which was
// to go to the worker's receiver, and that no route takes any more.
func (w *worker) wanted(i *item) (to []string, lost bool) {
	if i.event.Origin != events.OriginLive || kindOf(i.event.Type) != w.kind || !w.ours(i.event.AgencyID) {
		return nil, false
	}
	to, lost = w.f.home(i.event, w.receiver, w.done.Early || i.resent())
	to = slices.DeleteFunc(to, func(to string) bool { return slices.Contains(i.sent, to) })
	return to, lost && len(i.sent) == 0 && i.event.Type == events.TypeContactRequestCreated
}

func (i *item) resent() bool { return i.message.Headers().Get(events.ResentHeader) != "" }

func (w *worker) isDone(i *item) bool { return w.done.has(i.event, i.resent()) }

// add notes that a message is done.
func (w *worker) add(i *item) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done.add(i.event, i.place, w.floor)
}

// save writes the worker's file. A failure does not stop the worker, because the server knows the
// position of the consumer too.
func (w *worker) save() {
	err := write(w.f.path(w.name), &w.done)
	if err != nil && !w.unsaved {
		w.log.Error("progress cannot be written: after a crash messages may be sent twice", "err", err.Error())
	}
	w.unsaved = err != nil
}

// count asks the server how many messages wait.
func (w *worker) count(ctx context.Context, c jetstream.Consumer) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	if info, err := c.Info(ctx); err == nil {
		w.pending, w.floor = info.NumPending, info.AckFloor.Stream
		w.waiting(info.NumPending + uint64(info.NumAckPending))
	}
}

// waits updates the count of waiting messages from the metadata of the last message.
func (w *worker) waits() { w.waiting(w.pending + uint64(len(w.queue)+len(w.lost))) }

func (w *worker) waiting(n uint64) {
	w.status.write(func(s *WorkerStatus) {
		s.Waiting, s.Lost = n, uint64(len(w.lost))
		if n == 0 {
			s.WaitingSince = time.Time{}
		} else if s.WaitingSince.IsZero() {
			s.WaitingSince = time.Now()
		}
	})
}

// batch returns the messages to send as one: the first, or a digest if more than five wait.
func (w *worker) batch() []*item {
	first := w.queue[0]
	traits := w.f.destinations[first.to[0]].traits
	if traits.Digest < 2 || first.alone || traits.LeadsAlone && w.kind == Leads {
		return []*item{first}
	}
	batch := slices.DeleteFunc(slices.Clone(w.queue), func(i *item) bool { return i.alone || i.to[0] != first.to[0] })
	if len(batch) <= digestAbove {
		return batch[:1]
	}
	return batch[:min(len(batch), traits.Digest)]
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
		i.attempts = attempts{sent: append(i.sent, i.to[0])}
		if i.to = i.to[1:]; len(i.to) == 0 {
			done = append(done, i)
			w.add(i)
		}
	}
	w.save()
	if err := w.step(stepMarked); err != nil {
		return err
	}
	if err := w.drop(done...); err != nil {
		return err
	}
	return w.step(stepDone)
}

// drop acknowledges messages and forgets them.
func (w *worker) drop(done ...*item) error {
	for _, i := range done {
		if err := i.message.Ack(); err != nil {
			return err
		}
	}
	w.mu.Lock()
	isDone := func(i *item) bool { return slices.Contains(done, i) }
	w.queue, w.lost = slices.DeleteFunc(w.queue, isDone), slices.DeleteFunc(w.lost, isDone)
	w.mu.Unlock()
	w.status.write(func(s *WorkerStatus) { s.Attempts = 0 })
	w.waits()
	return nil
}
