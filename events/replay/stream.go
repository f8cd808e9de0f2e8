package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// margin is what a replay adds to the headers of an event: job, stream, fence.
const margin = 1024

// leastMessage is the smallest message limit with which every event can be made to fit.
const leastMessage = 4096

// subjectsOverlap is the server's word for a second stream on the same subjects.
const subjectsOverlap jetstream.ErrorCode = 10065

// Config is the stream as it is made.
func (o Options) Config() jetstream.StreamConfig {
	c := jetstream.StreamConfig{
		Name:        o.Stream,
		Description: "doorbell: events that were replayed on request",
		Subjects:    []string{o.Prefix + ".replay.>"},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew, // a full stream says so instead of forgetting
		MaxAge:      MaxAge,
		MaxBytes:    -1,
		Replicas:    max(1, o.Replicas),
		Duplicates:  2 * time.Minute,
		AllowDirect: true,
		Metadata:    map[string]string{"app": "doorbell"},
	}
	if o.MaxBytes > 0 {
		c.MaxBytes = o.MaxBytes
	}
	return c
}

// openStream makes the stream if it is missing, and makes sure that it can be used.
func (j *Job) openStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, j.o.AckWait)
	defer cancel()
	s, err := j.js.Stream(ctx, j.o.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		s, err = j.makeStream(ctx)
	case err == nil && j.o.Embedded && !same(j.o.Config(), s.CachedInfo().Config):
		if changed, err := j.js.UpdateStream(ctx, j.o.Config()); err == nil { // if not, it may do as it is
			s = changed
		}
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", j.o.Stream, err)
	}
	have := s.CachedInfo().Config
	if why := unfit(j.o.Config(), have); len(why) > 0 {
		return fmt.Errorf("%w: %s: %s", ErrUnfit, j.o.Stream, strings.Join(why, "; "))
	}
	j.most = int(j.o.Conn.MaxPayload())
	if have.MaxMsgSize > 0 {
		j.most = min(j.most, int(have.MaxMsgSize))
	}
	j.most -= margin
	return nil
}

func (j *Job) makeStream(ctx context.Context) (jetstream.Stream, error) {
	if !j.o.Manage && !j.o.Embedded {
		return nil, ErrNoStream
	}
	s, err := j.js.CreateStream(ctx, j.o.Config())
	var answer *jetstream.APIError
	if errors.As(err, &answer) && answer.ErrorCode == subjectsOverlap {
		return nil, fmt.Errorf("%w: another stream holds %s already", ErrUnfit, j.o.Config().Subjects[0])
	}
	return s, err
}

// same says whether a stream is as we make it, as far as we may change it.
func same(want, have jetstream.StreamConfig) bool {
	return slices.Equal(want.Subjects, have.Subjects) && want.MaxAge == have.MaxAge && want.MaxBytes == have.MaxBytes && want.Discard == have.Discard
}

// unfit is why events would not arrive, would be changed, or would be lost without a word.
func unfit(want, have jetstream.StreamConfig) (why []string) {
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
