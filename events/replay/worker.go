package replay

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// headerReplay names the job, beside the envelope of the event.
const headerReplay = "doorbell-replay"

// worker is what is known of an agency in the stream.
type worker struct {
	agency string
	known  bool
	doubt  bool // a message was sent and not answered: it may have arrived
	last   uint64
	id     string
	begun  bool   // this run knows where the job stood when it began
	fence  uint64 // place of the agency's last message of this job in the stream; 0: none
}

func (j *Job) worker(agency string) *worker {
	l, ok := j.workers[agency]
	if !ok {
		l = &worker{agency: agency}
		j.workers[agency] = l
	}
	return l
}

// holds says whether an event is up to the last one in the stream.
func (l *worker) holds(e events.Event) bool { return e.Sequence <= l.last }

// mustBe makes sure that the last event in the stream is one of this log. A log that began anew has others.
func (l *worker) mustBe(e events.Event) error {
	if e.Sequence == l.last && e.ID != l.id {
		return fmt.Errorf("%w: event %d of %s is another one there", ErrForeign, e.Sequence, l.agency)
	}
	return nil
}

// try looks, if need be, and publishes once. After an error nobody knows whether the event has arrived, so the next try looks.
func (j *Job) try(ctx context.Context, l *worker, e events.Event) (there bool, err error) {
	if err := j.findEnd(ctx, l); err != nil {
		return false, err
	}
	if l.holds(e) {
		arrived := l.doubt // it is this run that has sent it
		l.doubt = false
		return !arrived, l.mustBe(e)
	}
	if err := j.mayStand(e); err != nil {
		return false, err
	}
	m := j.message(e)
	m.Header[jetstream.ExpectedLastSubjSeqSubjHeader] = []string{j.filter(l.agency)}
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(l.fence, 10)}
	place, err := j.publish(ctx, m)
	if err != nil {
		l.known = false
		l.doubt = l.doubt || !refused(err)
		return false, err
	}
	l.doubt, l.last, l.id, l.fence = false, e.Sequence, e.ID, place
	err = j.mayStand(e)
	if err == nil {
		return false, nil
	}
	l.known = false
	if _, failed := j.stream.EraseAt(ctx, place); failed != nil { // the next try would take it for done
		return false, fmt.Errorf("%w: message %d of stream %s: %w", errStands, place, j.o.Stream, failed)
	}
	return false, err
}

// findEnd asks for the last event of the agency, if that is not known. If it is beyond what this run has published, without a
// doubt, somebody else has published it.
func (j *Job) findEnd(ctx context.Context, l *worker) error {
	if l.known {
		return nil
	}
	m, err := j.lastOn(ctx, j.filter(l.agency))
	if err != nil {
		return err
	}
	first := !l.begun
	l.begun = true
	if m == nil {
		l.known, l.fence = true, 0
		return nil
	}
	e, err := j.recognise(m)
	if err != nil {
		return err
	}
	if !first && !l.doubt && e.Sequence > l.last {
		return ErrBusy
	}
	l.known, l.fence = true, m.Sequence
	if e.Sequence >= l.last { // less where the newest expired
		l.last, l.id = e.Sequence, e.ID
	}
	return nil
}

// filter covers what the job publishes of an agency.
func (j *Job) filter(agency string) string {
	return j.o.Prefix + ".replay." + j.o.Job + "." + events.Token(agency) + ".>"
}

// message is an event as it is replayed, without fence.
func (j *Job) message(e events.Event) *nats.Msg {
	e = e.WithOrigin(events.OriginReplay).Fit(j.most)
	m := &nats.Msg{Subject: j.subject(e), Header: nats.Header(e.Header()), Data: e.Data}
	m.Header[nats.MsgIdHdr] = []string{j.o.Job + "/" + e.ID}
	m.Header[headerReplay] = []string{j.o.Job}
	m.Header[headerChoice] = []string{j.o.Choice.text()}
	m.Header[jetstream.ExpectedStreamHeader] = []string{j.o.Stream}
	return m
}

func (j *Job) subject(e events.Event) string {
	return j.o.Prefix + ".replay." + j.o.Job + "." + events.Token(e.AgencyID) + "." + string(e.Type)
}

// recognise returns the event that a message is, if a replay of this job has published it.
func (j *Job) recognise(m *stream.Message) (events.Event, error) {
	e, err := events.Decode(m.Header, m.Data)
	if err != nil || m.Header.Get(headerReplay) != j.o.Job || m.Header.Get(nats.MsgIdHdr) != j.o.Job+"/"+e.ID || m.Subject != j.subject(e) {
		return e, fmt.Errorf("%w: message %d of stream %s", ErrForeign, m.Sequence, j.o.Stream)
	}
	return e, nil
}

// lastOn returns the last message of a filter, nil if there is none.
func (j *Job) lastOn(ctx context.Context, filter string) (*stream.Message, error) {
	m, err := j.stream.Get(ctx, stream.Query{Last: filter})
	return m, sentence(err)
}

// publish returns the place that a message got.
func (j *Job) publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	a, err := j.js.PublishMsg(ctx, m)
	switch {
	case err != nil:
		return 0, sentence(err)
	case a.Duplicate: // the next try finds it
		return 0, stream.ErrAnswer
	}
	return a.Sequence, nil
}

// refused says that the server has answered why it did not store a message.
func refused(err error) bool {
	var answer *jetstream.APIError
	return errors.As(err, &answer)
}

// sentence gives an answer of the server its meaning.
func sentence(err error) error {
	var answer *jetstream.APIError
	if !errors.As(err, &answer) {
		return err
	}
	switch answer.ErrorCode {
	case 10077, 10023, 10028, 10047, 10002: // maximum reached; no resources, memory, storage, or none for this account
		return fmt.Errorf("%w: %w", ErrFull, err)
	case 10059: // no such stream
		return fmt.Errorf("%w: %w", ErrNoStream, err)
	case 10060, 10109, 10054: // another stream holds the subject; sealed; message larger than it takes
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return err
}
