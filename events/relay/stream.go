package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go/jetstream"
)

// Errors that say what somebody has to change. The relay goes on trying.
var (
	// ErrOldServer: nobody knows whether the server can be used.
	ErrOldServer = errors.New("NATS server too old: version " + oldestServer + " or later is needed")
	// ErrNoStream: the stream is missing, and we are not to make it.
	ErrNoStream = errors.New("stream is missing and STREAM_MANAGE forbids to make it")
	// ErrStreamUnfit: the stream is there, but must not or cannot hold our events as it is.
	ErrStreamUnfit = errors.New("stream is not fit")
	// ErrNotConnected: there is no connection at the moment.
	ErrNotConnected = errors.New("no connection to NATS")
)

// margin is what the relay adds to the headers of an event: fence, stream, batch. The fence repeats the agency's token.
const margin = 1024

// leastMessage is the smallest message limit with which every event can be made to fit.
const leastMessage = 4096

// usable is a server and a stream that can be used.
type usable struct {
	maxMessage int // the most bytes that one message may take
	manner     manner
	different  []string // how an external stream differs from what it should be
}

// inspect makes sure that server and stream can be used.
func (r *Relay) inspect(ctx context.Context) (u usable, err error) {
	if r.o.Conn.IsClosed() {
		return u, ErrClosed
	}
	if !r.o.Conn.IsConnected() {
		return u, ErrNotConnected
	}
	ctx, cancel := context.WithTimeout(ctx, r.o.AckWait)
	defer cancel()
	f, err := ask(ctx, r.js)
	if err != nil {
		return u, err
	}
	want := f.known(r.o.StreamConfig())
	info, err := r.stream(ctx, want)
	if err != nil {
		return u, err
	}
	u.different = Differences(want, info.Config)
	if unfit := unfit(want, info.Config); len(unfit) > 0 {
		return u, fmt.Errorf("%w: %s: %s", ErrStreamUnfit, r.o.Stream, strings.Join(unfit, "; "))
	}
	most := int(r.o.Conn.MaxPayload())
	if m := int(info.Config.MaxMsgSize); m > 0 {
		most = min(most, m)
	}
	u.maxMessage, u.manner = most-margin, f.manner(info.Config.AllowAtomicPublish)
	return u, nil
}

// stream returns the stream as it is, made or changed first if that is our business.
func (r *Relay) stream(ctx context.Context, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	s, err := r.js.Stream(ctx, r.o.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return r.makeStream(ctx, want)
	case err != nil:
		return nil, fmt.Errorf("stream %s: %w", r.o.Stream, err)
	}
	info := s.CachedInfo()
	if !r.o.Embedded || len(Differences(want, info.Config)) == 0 {
		return info, nil
	}
	s, err = r.js.UpdateStream(ctx, want)
	if err != nil {
		r.o.Logger.Error("stream stays as it is", "stream", r.o.Stream, "err", err.Error())
		return info, nil
	}
	return s.CachedInfo(), nil
}

func (r *Relay) makeStream(ctx context.Context, want jetstream.StreamConfig) (*jetstream.StreamInfo, error) {
	if !r.o.Manage && !r.o.Embedded {
		return nil, fmt.Errorf("%w: %s", ErrNoStream, r.o.Stream)
	}
	s, err := r.js.CreateStream(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("make stream %s: %w", r.o.Stream, err)
	}
	r.o.Logger.Info("stream made", "stream", r.o.Stream)
	return s.CachedInfo(), nil
}

// StreamConfig is the stream as it should be.
func (o Options) StreamConfig() jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:               o.Stream,
		Description:        "doorbell: what happened at the listings API",
		Subjects:           []string{events.StreamSubjects(o.Prefix)},
		Retention:          jetstream.LimitsPolicy,
		MaxConsumers:       -1,
		MaxMsgs:            -1,
		MaxMsgsPerSubject:  -1,
		MaxMsgSize:         -1,
		MaxBytes:           -1,
		MaxAge:             o.MaxAge,
		Discard:            jetstream.DiscardNew, // a full stream says so instead of forgetting
		Storage:            jetstream.FileStorage,
		Replicas:           max(1, o.Replicas),
		Duplicates:         2 * time.Minute, // beyond it the fence does the work
		AllowDirect:        true,
		AllowAtomicPublish: true,
		Metadata:           map[string]string{"app": "doorbell"},
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	if o.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, o.MaxAge)
	}
	if o.StoreID != "" {
		c.Metadata["store_id"] = o.StoreID
	}
	return c
}

// Differences says in words where a stream is not as it should be. What operators may choose freely, such as placement,
// compression and a description, is not compared.
func Differences(want, have jetstream.StreamConfig) []string {
	var d []string
	note := func(name string, want, have any) {
		if w, h := fmt.Sprint(want), fmt.Sprint(have); w != h {
			d = append(d, fmt.Sprintf("%s is %s, should be %s", name, h, w))
		}
	}
	note("subjects", want.Subjects, have.Subjects)
	note("retention", want.Retention, have.Retention)
	note("storage", want.Storage, have.Storage)
	note("discard", want.Discard, have.Discard)
	note("discard per subject", want.DiscardNewPerSubject, have.DiscardNewPerSubject)
	note("max age", want.MaxAge, have.MaxAge)
	note("max bytes", unlimited(want.MaxBytes), unlimited(have.MaxBytes))
	note("max messages", unlimited(want.MaxMsgs), unlimited(have.MaxMsgs))
	note("max messages per subject", unlimited(want.MaxMsgsPerSubject), unlimited(have.MaxMsgsPerSubject))
	note("replicas", want.Replicas, have.Replicas)
	note("duplicate window", want.Duplicates, have.Duplicates)
	note("atomic publish", want.AllowAtomicPublish, have.AllowAtomicPublish)
	note("direct get", want.AllowDirect, have.AllowDirect)
	note("store id", want.Metadata["store_id"], have.Metadata["store_id"])
	return d
}

func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// unfit is why events would not arrive, would be changed, or would be lost without a word.
func unfit(want, have jetstream.StreamConfig) []string {
	var why []string
	refuse := func(bad bool, text string) {
		if bad {
			why = append(why, text)
		}
	}
	refuse(!slices.ContainsFunc(have.Subjects, func(s string) bool { return covers(s, want.Subjects[0]) }),
		"its subjects do not cover "+want.Subjects[0])
	refuse(have.MaxMsgSize > 0 && have.MaxMsgSize < leastMessage, "it takes only small messages")
	refuse(have.NoAck, "it does not acknowledge")
	refuse(have.Sealed, "it is sealed")
	refuse(have.Mirror != nil, "it is a mirror")
	refuse(have.SubjectTransform != nil, "it transforms subjects")
	refuse(have.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes")
	return why
}

// covers says whether every subject below want, which ends in >, is matched by have.
func covers(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i, token := range h {
		if token == ">" {
			return true
		}
		if i >= len(w)-1 || token != "*" && token != w[i] {
			return false
		}
	}
	return false
}
