package forward

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"doorbell/events"
	"doorbell/events/forward/message"
	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// with more messages waiting than this, they become digests
	digestAbove = 5
	maxPending  = 1000                   // messages that a worker has fetched and not acknowledged
	maxBytes    = 8 << 20                // of memory for them, approximately
	fetched     = 20                     // messages fetched at a time
	settled     = 250 * time.Millisecond // within which a busy server offers what it has
	maxLost     = 10_000                 // messages that no route takes, besides maxPending
	failures    = 10                     // attempts after which a message lets the others try
	unanswered  = 3                      // attempts of a message that may have been accepted
	lonely      = 24 * time.Hour         // how long a refused message waits for another
	leaving     = 10 * time.Minute       // how long a removed receiver keeps an idle worker
)

// untaken is the destination of the worker that counts the leads which no route takes.
const untaken = "untaken"

// worker delivers events to one receiver, in the order of the stream.
type worker struct {
	f        *Forwarder
	log      *slog.Logger
	name     string    // the key of its receiver: forwarder.destination; names the file
	untaken  bool      // it has no receiver: it counts the leads that no route takes
	subjects []string  // of its consumer
	gone     bool      // the present routes do not name the receiver: its events go elsewhere
	fresh    bool      // it has no file yet
	since    time.Time // when the routes were read that first named the receiver

	mu      sync.Mutex // guards changes of the following, and reads of them by others
	status  WorkerStatus
	done    progress
	retired bool // its consumer and its file are deleted

	queue    []*item              // fetched and not acknowledged, in the order of the stream
	tried    map[string]*attempts // by event; they outlive a reconnect and a change of routes
	agencies []string             // that the consumer names, as tokens; none: all
	stream   time.Time            // when the stream was created
	busy     time.Time            // when the last message was fetched
	pending  uint64               // messages that the server has not offered yet
	floor    uint64               // the consumer's ack floor when the server was last asked
	accepted int                  // deliveries that the receiver accepted
	unsaved  bool                 // it was logged that the file cannot be written
}

// item is a message that was fetched.
type item struct {
	message jetstream.Msg
	event   events.Event
	place   uint64    // its sequence in the stream
	fetched time.Time // when the server offered it last
	to      []string  // receivers that it still goes to; none: a lead that no route takes any more
	*attempts
}

// attempts is what has become of a message so far.
type attempts struct {
	sent       []string // receivers that have it
	tries      int
	failed     int       // tries that count against the message
	unanswered int       // tries that may have been accepted
	suspect    time.Time // since when it is sent alone, and lets others try; zero: it does not
	seen       int       // worker.accepted at that time
}

func (i *item) isSuspect() bool { return !i.suspect.IsZero() }

func (i *item) resent() bool { return i.message.Headers().Get(events.ResentHeader) != "" }

// newWorker reads the worker's file, if there is one.
func newWorker(f *Forwarder, name string) (*worker, error) {
	done, there, err := read(f.path(name), func(p progress) bool {
		for _, c := range p.Done {
			if c == nil {
				return false
			}
		}
		return p.Version == stateVersion && p.Worker == name && p.Consumer != "" && p.Done != nil
	})
	if err != nil {
		return nil, err
	}
	forwarder, destination, _ := strings.Cut(name, ".")
	w := &worker{
		f: f, name: name, untaken: destination == untaken, done: done, fresh: !there,
		since:  f.o.Since,
		log:    f.o.Log.With("forwarder", forwarder, "destination", destination),
		status: WorkerStatus{Forwarder: forwarder, Destination: destination, Turned: time.Now()},
		tried:  map[string]*attempts{},
	}
	consumer := []string{"doorbell", f.o.Instance, forwarder, destination}
	if w.untaken { // another doorbell on the stream has one too
		w.status.Destination = ""
		consumer = append(consumer, strconv.FormatUint(rand.Uint64(), 36))
	}
	if !there {
		consumer = slices.DeleteFunc(consumer, func(part string) bool { return part == "" })
		w.done = progress{
			Version: stateVersion, Worker: name, Consumer: strings.Join(consumer, "-"),
			Done: map[string]*checkpoint{},
		}
	}
	return w, nil
}

// routed applies the present routes to the worker.
func (w *worker) routed() {
	var whose []string
	w.gone = !w.untaken
	for _, r := range w.f.o.Routes {
		if r.key() == w.name {
			w.gone = false
			whose = append(whose, without([]string{r.Filter.Whose()}, whose)...)
		}
	}
	w.subjects = w.f.tables.subjects(w.f.o.Prefix, w.name)
	if w.untaken {
		w.subjects = []string{w.f.o.Prefix + ".v1.*." + string(events.TypeContactRequestCreated)}
	}
	w.note(func(s *WorkerStatus) { s.Whose = strings.Join(whose, ", ") })
}

// note changes the status.
func (w *worker) note(change func(*WorkerStatus)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change(&w.status)
}

// run delivers until ctx ends. It retries whatever fails on the side of NATS.
func (w *worker) run(ctx context.Context) error {
	const longest = 10 * time.Second
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond),
		backoff.WithMultiplier(2), backoff.WithMaxInterval(longest), backoff.WithMaxElapsedTime(0))
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
			w.mu.Lock()
			defer w.mu.Unlock()
			w.retired = true
			return nil
		case errors.Is(err, errCut):
			return err
		case ctx.Err() != nil:
			return nil
		case w.f.o.Conn.IsClosed():
			return ErrClosed
		}
		w.report(err)
		if !sleep(ctx, retry.NextBackOff()) {
			return nil
		}
	}
}

// Reasons why no events come from NATS.
var (
	errNoStream = errors.New("the stream is missing")
	errOther    = errors.New("the consumer of this receiver belongs to another doorbell, " +
		"with other agencies; set DOORBELL_INSTANCE to tell the two apart")
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
	before := w.status.Problem
	w.note(func(s *WorkerStatus) { s.Problem, s.Turned = text, time.Now() })
	switch {
	case text == before:
	case text != "":
		w.log.Warn("no events from NATS; retrying", "err", text)
	default:
		w.log.Info("events arrive from NATS again")
	}
}

// next delivers one batch: fetch → wanted → deliver → checkpoint → acknowledge.
func (w *worker) next(ctx context.Context, c jetstream.Consumer) error {
	w.note(func(s *WorkerStatus) { s.Turned = time.Now() })
	if w.done.isLong() {
		w.count(ctx, c) // for a higher floor
	}
	if len(w.ready()) == 0 {
		m, err := c.Next(jetstream.FetchContext(ctx))
		if errors.Is(err, nats.ErrTimeout) { // no message came
			w.count(ctx, c)
			return w.retire(ctx)
		}
		if err == nil {
			err = w.take(m)
		}
		if err != nil || len(w.ready()) == 0 {
			return err
		}
	}
	if w.pending > 0 {
		if err := w.more(c, w.f.destinations[w.ready()[0].to[0]].traits.Digest); err != nil {
			return err
		}
	}
	return w.deliver(ctx, c, w.batch())
}

// ready is what the queue holds for receivers.
func (w *worker) ready() []*item {
	return slices.DeleteFunc(slices.Clone(w.queue), func(i *item) bool { return len(i.to) == 0 })
}

// more fetches what the server has, without waiting for new messages, until n are ready.
func (w *worker) more(c jetstream.Consumer, n int) error {
	for came := 1; came > 0; {
		size, ready := 0, w.ready()
		for _, i := range ready {
			size += len(i.event.Data)
		}
		if len(ready) >= min(n, maxPending) || size > maxBytes {
			return nil
		}
		batch, err := c.Fetch(min(n-len(ready), fetched), jetstream.FetchMaxWait(settled))
		if err != nil {
			return err
		}
		came = 0
		for m := range batch.Messages() {
			came++
			if err := w.take(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// take puts a message into the queue. If it is done, not the worker's or no event of doorbell, it
// is acknowledged instead. A message that is in the queue already was offered again, as its AckWait
// ended while the receiver was slow or down, or was published again, because the stream had lost
// it.
func (w *worker) take(m jetstream.Msg) error {
	w.busy = time.Now()
	meta, err := m.Metadata()
	if err != nil {
		return m.Ack()
	}
	defer w.waits()
	w.pending = meta.NumPending
	e, err := events.Decode(m.Headers(), m.Data())
	if err != nil || m.Subject() != events.Subject(w.f.o.Prefix, e.AgencyID, e.Type) {
		return m.Ack()
	}
	i := &item{
		message: m, event: e, place: meta.Sequence.Stream, fetched: w.busy,
		attempts: cmp.Or(w.tried[e.ID], &attempts{}),
	}
	if at := slices.IndexFunc(w.queue, func(i *item) bool { return i.event.ID == e.ID }); at >= 0 {
		old := w.queue[at]
		old.message, old.place, old.fetched = m, i.place, i.fetched
		return nil
	}
	if w.done.has(e, i.resent()) {
		return m.Ack()
	}
	to, lost := w.wanted(i)
	if len(to) == 0 && !lost {
		return m.Ack()
	}
	i.to, w.tried[e.ID] = to, i.attempts
	w.queue = append(w.queue, i)
	return nil
}

// wanted returns the receivers that a message still goes to. Lost means that it is a lead which no
// route takes any more, and which no receiver has.
func (w *worker) wanted(i *item) (to []string, lost bool) {
	if i.event.Origin != events.OriginLive || !w.ours(i.event.AgencyID) {
		return nil, false
	}
	w.f.mu.Lock()
	defer w.f.mu.Unlock()
	if w.untaken {
		return nil, w.f.tables.isUntaken(i.event)
	}
	to, lost = w.f.tables.home(i.event, w.name, w.done.Early || i.resent())
	lost = lost && len(i.sent) == 0 && i.event.Type == events.TypeContactRequestCreated
	return without(to, i.sent), lost
}

// save writes the worker's file. A failure does not stop the worker, because the server knows the
// position of the consumer too.
func (w *worker) save() {
	err := write(w.f.path(w.name), &w.done)
	if err != nil && !w.unsaved {
		w.log.Error("progress cannot be written: after a crash messages may be sent twice",
			"err", err.Error())
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
func (w *worker) waits() { w.waiting(w.pending + uint64(len(w.queue))) }

// waiting sets the count. A lost lead that the server offers no longer was erased, or has expired.
func (w *worker) waiting(n uint64) {
	w.queue = slices.DeleteFunc(w.queue, func(i *item) bool {
		return len(i.to) == 0 && time.Since(i.fetched) > w.f.o.AckWait*3/2
	})
	w.note(func(s *WorkerStatus) {
		s.Waiting, s.Lost = n, uint64(len(w.queue)-len(w.ready()))
		if n == 0 {
			s.WaitingSince = time.Time{}
		} else if s.WaitingSince.IsZero() {
			s.WaitingSince = time.Now()
		}
	})
}

// batch returns the messages to send as one: the first, or a digest if more than five wait. Leads
// and alerts are in no digest together.
func (w *worker) batch() []*item {
	batch := w.ready()
	first := batch[0]
	alert, traits := message.IsAlert(first.event.Type), w.f.destinations[first.to[0]].traits
	if traits.Digest < 2 || first.isSuspect() || traits.LeadsAlone && !alert {
		return batch[:1]
	}
	batch = slices.DeleteFunc(batch, func(i *item) bool {
		return i.isSuspect() || i.to[0] != first.to[0] || message.IsAlert(i.event.Type) != alert
	})
	if len(batch) <= digestAbove {
		return batch[:1]
	}
	return batch[:min(len(batch), traits.Digest)]
}

// errCut ends a worker where a test wants it to end, as a crash would.
var errCut = errors.New("cut")

// finish marks messages as done with their first receiver, and acknowledges those that go to no
// other one. The file is written before the acknowledgement, so that after a crash in between they
// are known to be done.
func (w *worker) finish(batch []*item) error {
	var done []*item
	w.mu.Lock()
	for _, i := range batch {
		*i.attempts = attempts{sent: append(i.sent, i.to[0])}
		if i.to = i.to[1:]; len(i.to) == 0 {
			done = append(done, i)
			w.done.add(i.event, i.place, w.floor)
		}
	}
	w.mu.Unlock()
	w.save()
	if err := w.f.cut("marked"); err != nil {
		return err
	}
	if err := w.drop(done...); err != nil {
		return err
	}
	return w.f.cut("done")
}

// drop acknowledges messages and forgets them.
func (w *worker) drop(done ...*item) error {
	for _, i := range done {
		if err := i.message.Ack(); err != nil {
			return err
		}
		delete(w.tried, i.event.ID)
	}
	w.queue = slices.DeleteFunc(w.queue, func(i *item) bool { return slices.Contains(done, i) })
	w.note(func(s *WorkerStatus) { s.Attempts = 0 })
	w.waits()
	return nil
}
