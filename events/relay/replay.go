package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"
)

// replayAge is how long the stream of replays keeps what was replayed.
const replayAge = 24 * time.Hour

// ErrJob: the name of a job is not valid.
var ErrJob = errors.New("job: want 1 to 64 letters, digits, _ and -")

// ReplayOptions configure Replay. Conn, Prefix, Stream and Job are required.
type ReplayOptions struct {
	Conn     stream.Conn // stays the caller's to close
	Prefix   string
	Stream   string // of replays
	Job      string // part of the subjects
	MaxBytes int64
	Manage   bool    // make the stream if it is missing
	Embedded bool    // the server is ours: the stream is changed to what it should be
	Rate     float64 // events a second; 0: as fast as they are acknowledged
	// Erased reports whether the person in an event was erased after it was read. Such an event is
	// skipped.
	Erased func(events.Event) (bool, error)
}

// Replayed counts what a replay did.
type Replayed struct {
	Published    int
	AlreadyThere int // published by an earlier run of the job
}

// ReplaySubjects is the filter for the subjects of a job.
func ReplaySubjects(prefix, job string) string { return prefix + ".replay." + job + ".>" }

var jobForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// ValidJob returns ErrJob if a text cannot name a job.
func ValidJob(job string) error {
	if !jobForm.MatchString(job) {
		return ErrJob
	}
	return nil
}

// Replay publishes events again, on subjects of their own, which no consumer of the events stream
// receives. An event keeps its id, sequence, time and payload; only its origin changes. Its
// Nats-Msg-Id is <job>/<ce-id>. The stream of replays keeps events for a day and takes each id
// once, so repeating a job publishes nothing twice.
func Replay(ctx context.Context, o ReplayOptions, list iter.Seq2[events.Event, error],
) (done Replayed, err error) {
	if err := ValidJob(o.Job); err != nil {
		return done, err
	}
	js, err := o.Conn.JetStream()
	if err != nil {
		return done, fmt.Errorf("replay: %w", err)
	}
	limit, err := o.prepare(ctx, js)
	if err != nil {
		return done, fmt.Errorf("replay: %w", err)
	}
	pace := rate.NewLimiter(rate.Limit(cmp.Or(o.Rate, float64(rate.Inf))), 1)
	for e, err := range list {
		if err != nil {
			return done, err
		}
		if err := pace.Wait(ctx); err != nil {
			return done, ctx.Err()
		}
		if err := o.publish(ctx, js, e, limit, &done); err != nil {
			return done, fmt.Errorf("replay: %w", err)
		}
	}
	return done, nil
}

// Config is the stream of replays as it should be.
func (o ReplayOptions) Config() jetstream.StreamConfig {
	return stream.Complete(jetstream.StreamConfig{
		Name: o.Stream, Description: "doorbell: events that were replayed on request",
		Subjects: []string{o.Prefix + ".replay.>"}, MaxAge: replayAge, MaxBytes: o.MaxBytes,
		Duplicates: replayAge, Metadata: map[string]string{"app": "doorbell"},
	})
}

// prepare makes sure that the stream of replays exists, and returns the limit on a message.
func (o ReplayOptions) prepare(ctx context.Context, js jetstream.JetStream) (limit int, err error) {
	if !o.Conn.IsConnected() {
		return 0, stream.ErrNotConnected
	}
	found, err := stream.Ensure(ctx, js, o.Config(),
		stream.Rights{Manage: o.Manage, Embedded: o.Embedded})
	if err != nil {
		return 0, err
	}
	return maxMessage(o.Conn, found.Info.Config), nil
}

// publish offers an event once: what fails is offered by the next run of the job.
func (o ReplayOptions) publish(ctx context.Context, js jetstream.JetStream, e events.Event,
	limit int, done *Replayed,
) error {
	gone, err := o.Erased(e)
	if err != nil || gone {
		return err
	}
	ack, err := js.PublishMsg(ctx, o.message(e, limit))
	if err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	if gone, err = o.Erased(e); gone { // meanwhile: the stream may have been searched before
		replays := stream.Client{Conn: o.Conn, Stream: o.Stream, Wait: 5 * time.Second}
		_, err = replays.EraseAt(context.WithoutCancel(ctx), ack.Sequence)
	}
	if gone || err != nil {
		return err
	}
	switch {
	case ack.Duplicate:
		done.AlreadyThere++
	default:
		done.Published++
	}
	return nil
}

func (o ReplayOptions) message(e events.Event, limit int) *nats.Msg {
	e = e.WithOrigin(events.OriginReplay).Fit(limit)
	m := &nats.Msg{
		Subject: o.Prefix + ".replay." + o.Job + "." + events.Token(e.AgencyID) + "." +
			string(e.Type),
		Header: nats.Header(e.Header()), Data: e.Data,
	}
	m.Header[nats.MsgIdHdr] = []string{o.Job + "/" + e.ID}
	m.Header["doorbell-replay"] = []string{o.Job}
	m.Header[jetstream.ExpectedStreamHeader] = []string{o.Stream}
	return m
}
