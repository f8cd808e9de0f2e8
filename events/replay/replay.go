// Package replay publishes events once more, for those who want to hear of the past: on subjects of their own, which no
// consumer of news hears. The job of a replay is part of them: <prefix>.replay.<job>.<agency>.<type>, in one stream for all
// jobs, whose messages are gone after a day.
//
// An event keeps its id, sequence, time and payload, but for the origin, which is "replay". Its Nats-Msg-Id is <job>/<id>, and
// the header doorbell-replay names the job; doorbell-replay-choice tells its choice of events.
//
// A job has no memory but the stream. Run begins behind the last event of each agency that the stream holds of the job, so
// running a job again goes on where it was stopped; with another [Choice] of events, whose beginning was passed over, it is
// refused. Each message is fenced by the last one of its agency: however many run
// one job at once, each event is there once, in the order of its agency, and all but one of them end with [ErrBusy].
package replay

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"
)

// MaxAge is how long the stream keeps what was replayed.
const MaxAge = 24 * time.Hour

// Errors of Open and Run on which a caller decides.
var (
	// ErrJob: the name of a job is none.
	ErrJob = errors.New("job: want 1 to 64 letters, digits, _ and -")
	// ErrNotConnected: no NATS server answers.
	ErrNotConnected = stream.ErrNotConnected
	// ErrNoStream: the stream is missing, and is not to be made; or it was deleted meanwhile.
	ErrNoStream = stream.ErrMissing
	// ErrUnfit: the stream is there but cannot hold what is replayed.
	ErrUnfit = stream.ErrUnfit
	// ErrFull: the stream, or its server, takes no more.
	ErrFull = errors.New("the stream is full")
	// ErrBusy: somebody else publishes events of this job.
	ErrBusy = errors.New("another replay of this job is under way")
	// ErrForeign: the stream holds messages under the job's name that no replay of this log has published.
	ErrForeign = errors.New("the job's subjects hold messages of somebody else")
)

// Options configure Open. Conn, Prefix, Stream and Job are required.
type Options struct {
	Conn     *nats.Conn // stays the caller's to close
	Prefix   string
	Stream   string
	Job      string
	Choice   Choice
	MaxBytes int64   // of a stream that is made; 0: unlimited
	Replicas int     // of a stream that is made; default 1
	Manage   bool    // make the stream if it is missing
	Embedded bool    // the server is ours: the stream is made, and changed to what it should be
	Rate     float64 // events a second; 0: as fast as they are acknowledged

	// Erased says whether the person was taken out of an event since it was read; nil: out of none. It is asked right before and right after an
	// event is published: what the log erases later is erased in the stream later, too.
	Erased func(events.Event) (bool, error)

	AckWait time.Duration // how long to wait for an answer; default 5 s
	Tries   int           // how often one event is tried, with growing pauses; default 10, about half a minute
}

// Progress is how far a job is. What was not asked for is not counted.
type Progress struct {
	Published    int // in this run
	AlreadyThere int // by an earlier one
}

// Job is a replay under way.
type Job struct {
	o       Options
	js      jetstream.JetStream
	stream  stream.Client
	most    int // bytes that headers and payload of one event may take
	rate    *rate.Limiter
	workers map[string]*worker
}

// ValidJob checks the name of a job, which becomes part of subjects. The error does not quote it.
func ValidJob(name string) error {
	if name == "" || len(name) > 64 || events.Token(name) != name {
		return ErrJob
	}
	return nil
}

// Subjects covers all that a job publishes.
func Subjects(prefix, job string) string { return prefix + ".replay." + job + ".>" }

// Open finds the stream or makes it, and publishes nothing yet.
func Open(ctx context.Context, o Options) (*Job, error) {
	if o.AckWait <= 0 {
		o.AckWait = 5 * time.Second
	}
	if o.Tries <= 0 {
		o.Tries = 10
	}
	if err := ValidJob(o.Job); err != nil {
		return nil, err
	}
	js, err := jetstream.New(o.Conn, jetstream.WithDefaultTimeout(o.AckWait))
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	j := &Job{o: o, js: js, stream: stream.Client{Conn: o.Conn, Stream: o.Stream, Wait: o.AckWait}, rate: limiter(o.Rate), workers: map[string]*worker{}}
	if err := j.connected(ctx); err != nil {
		return nil, err
	}
	if err := j.openStream(ctx); err != nil {
		return nil, err
	}
	if err := j.mayGoOn(ctx); err != nil {
		return nil, err
	}
	return j, nil
}

// connected waits a little for a connection that was made just now.
func (j *Job) connected(ctx context.Context) error {
	for deadline := time.Now().Add(j.o.AckWait); !j.o.Conn.IsConnected(); {
		if !sleep(ctx, 20*time.Millisecond) {
			return ctx.Err()
		}
		if time.Now().After(deadline) || j.o.Conn.IsClosed() {
			return stream.Explain(j.o.Conn, ErrNotConnected)
		}
	}
	return nil
}

// Run publishes the events of a list, which has those of each agency in the order of their sequences. Those up to the last one
// that the stream holds are passed over, and those that were erased. It calls progress after every event, and returns what was done;
// the error is that of the list, of ctx, or why an event could not be published: the same list, run again, goes on there.
func (j *Job) Run(ctx context.Context, list iter.Seq2[events.Event, error], progress func(Progress)) (p Progress, err error) {
	for e, err := range list {
		if err != nil {
			return p, err
		}
		if e.Erased() {
			continue
		}
		there, err := j.put(ctx, e)
		if errors.Is(err, errErased) {
			continue
		}
		if err != nil {
			return p, err
		}
		if there {
			p.AlreadyThere++
		} else {
			p.Published++
		}
		progress(p)
	}
	return p, ctx.Err()
}

// put publishes an event, and tries for a while. It is true if the event was there already.
func (j *Job) put(ctx context.Context, e events.Event) (there bool, err error) {
	l := j.worker(e.AgencyID)
	if l.known && l.holds(e) {
		return true, l.mustBe(e)
	}
	if err := j.rate.Wait(ctx); err != nil {
		return false, err
	}
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(5*time.Second), backoff.WithMaxElapsedTime(0))
	for n := 1; ; n++ {
		there, err = j.try(ctx, l, e)
		switch {
		case err == nil:
			return there, nil
		case ctx.Err() != nil:
			return false, ctx.Err()
		case n == j.o.Tries || final(err) || errors.Is(stream.Explain(j.o.Conn, err), nats.ErrPermissionViolation):
			return false, err
		}
		if !sleep(ctx, retry.NextBackOff()) {
			return false, ctx.Err()
		}
	}
}

var (
	errErased = errors.New("the event was erased meanwhile")
	errLog    = errors.New("read the event again")
	errStands = errors.New("a person may have been erased while the event was published, and the message cannot be erased")
)

// mayStand returns errErased for an event that was erased since it was read.
func (j *Job) mayStand(e events.Event) error {
	if j.o.Erased == nil || !e.HoldsPerson() {
		return nil
	}
	erased, err := j.o.Erased(e)
	if err != nil {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	if erased {
		return errErased
	}
	return nil
}

// final says that trying again would not help.
func final(err error) bool {
	for _, e := range []error{ErrNoStream, ErrUnfit, ErrFull, ErrBusy, ErrForeign, errErased, errLog, errStands, nats.ErrConnectionClosed, nats.ErrMaxPayload} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// limiter lets so many pass a second. Lost time is made up for a little: timers are late.
func limiter(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(perSecond), 1+int(perSecond/50))
}

// sleep is false if ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// ErrChoice: the job has published another choice of events before. What it passed over then would be taken for done.
var ErrChoice = errors.New("the job has replayed another choice of events")

// headerChoice tells the choice of a job with each of its messages.
const headerChoice = "doorbell-replay-choice"

// Choice is which events a job publishes, apart from agencies, each of which goes on for itself, and from where the choice
// ends, for it may end later another time. The zero value is all events.
type Choice struct {
	Kind  string    // whatever tells one kind of events from another
	From  uint64    // lowest sequence
	Since time.Time // of record
}

func (c Choice) text() string {
	hash := sha256.Sum256([]byte(c.Kind))
	since := int64(0)
	if !c.Since.IsZero() {
		since = max(c.Since.UnixMilli(), 1)
	}
	return fmt.Sprintf("%s/%d/%d", strings.ToLower(base32.StdEncoding.EncodeToString(hash[:10])), c.From, since)
}

// follows says whether a choice holds no event that the one before it, as a message carries it, has passed over. What cannot be
// read is of a version that sent none.
func (c Choice) follows(before string) bool {
	kind, from, since, ok := cutChoice(before)
	if !ok {
		return true
	}
	ownKind, ownFrom, ownSince, _ := cutChoice(c.text())
	return kind == ownKind && from <= ownFrom && since <= ownSince
}

func cutChoice(text string) (kind string, from uint64, since int64, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	from, err := strconv.ParseUint(parts[1], 10, 64)
	since, err2 := strconv.ParseInt(parts[2], 10, 64)
	return parts[0], from, since, err == nil && err2 == nil
}

// mayGoOn refuses a job that was used for other events.
func (j *Job) mayGoOn(ctx context.Context) error {
	m, err := j.lastOn(ctx, Subjects(j.o.Prefix, j.o.Job))
	if err != nil || m == nil {
		return err
	}
	if !j.o.Choice.follows(m.Header.Get(headerChoice)) {
		return ErrChoice
	}
	return nil
}

// margin is what a replay adds to the headers of an event: job, stream, fence.
const margin = 1024

// Config is the stream as it is made.
func (o Options) Config() jetstream.StreamConfig {
	return stream.Complete(jetstream.StreamConfig{
		Name:        o.Stream,
		Description: "doorbell: events that were replayed on request",
		Subjects:    []string{o.Prefix + ".replay.>"},
		MaxAge:      MaxAge,
		MaxBytes:    o.MaxBytes,
		Replicas:    o.Replicas,
		Duplicates:  2 * time.Minute,
		Metadata:    map[string]string{"app": "doorbell"},
	})
}

// openStream makes the stream if it is missing, and makes sure that it can be used.
func (j *Job) openStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.o.AckWait)
	defer cancel()
	found, err := stream.Ensure(ctx, j.js, j.o.Config(), stream.Rights{Manage: j.o.Manage, Embedded: j.o.Embedded})
	if err != nil {
		return err
	}
	j.most = int(j.o.Conn.MaxPayload())
	if most := int(found.Info.Config.MaxMsgSize); most > 0 {
		j.most = min(j.most, most)
	}
	j.most -= margin
	return nil
}
