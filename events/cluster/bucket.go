package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"doorbell/events/stream"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// atomicLevel is the API level of servers from 2.12, which know atomic batches; markers of what expired came with 2.11.
const atomicLevel = 2

// Codes of JetStream's answers.
const (
	noPeers       jetstream.ErrorCode = 10005
	noResources   jetstream.ErrorCode = 10023
	notClustered  jetstream.ErrorCode = 10074
	wrongSequence jetstream.ErrorCode = 10071
	inFlight      jetstream.ErrorCode = 10164 // another write of this key is
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`).MatchString

func (c *Cluster) bucket() string  { return "doorbell-" + c.o.Name }
func (c *Cluster) subject() string { return "$KV." + c.bucket() + "." }
func (c *Cluster) stream() string  { return "KV_" + c.bucket() }

// checkWait is how long the first answers may take: a bucket is made in seconds where servers have just started.
const checkWait = 15 * time.Second

// check tries all that a member does: a right that is missing is found at the start.
func (c *Cluster) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkWait)
	defer cancel()
	account, err := c.js.AccountInfo(ctx)
	if err != nil {
		return c.explain(fmt.Errorf("JetStream account: %w", err))
	}
	if account.API.Level < atomicLevel {
		return fmt.Errorf("%w: the NATS server is too old (%.20q): version 2.12 or later is needed", ErrSetup, c.o.Conn.ConnectedServerVersion())
	}
	kv, err := c.open(ctx)
	if err != nil {
		return c.explain(err)
	}
	probe := "check." + strings.TrimPrefix(memberKey(c.o.Member), "member.")
	if _, err := kv.PutString(ctx, probe, ""); err != nil {
		return c.explain(fmt.Errorf("write to bucket %s: %w", c.bucket(), err))
	}
	if _, err := c.read(ctx, probe); err != nil {
		return c.explain(fmt.Errorf("read from bucket %s: %w", c.bucket(), err))
	}
	w, err := kv.Watch(ctx, probe)
	if err != nil {
		return c.explain(fmt.Errorf("watch bucket %s: %w", c.bucket(), err))
	}
	return w.Stop()
}

// explain says what to do about an error, where that is known.
func (c *Cluster) explain(err error) error {
	var answer *jetstream.APIError
	switch said := stream.Explain(c.o.Conn, err); {
	case errors.Is(err, ErrSetup):
		return err
	case errors.As(err, &answer) && answer.ErrorCode == notClustered:
		return fmt.Errorf("%w: it needs at least %d servers with JetStream: %w", ErrSetup, c.o.Replicas, err)
	case errors.As(err, &answer) && (answer.ErrorCode == noPeers || answer.ErrorCode == noResources): // or they do not know each other yet
		return fmt.Errorf("it needs at least %d servers with JetStream and room: %w", c.o.Replicas, err)
	case errors.Is(said, nats.ErrPermissionViolation):
		return fmt.Errorf("%w: %w; a member has to read and write bucket %s: publish on %s> and $JS.API.>, subscribe to _INBOX.>",
			ErrSetup, said, c.bucket(), c.subject())
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("%w: %w: enable it on at least %d servers", ErrSetup, said, c.o.Replicas)
	default:
		return said
	}
}

// open returns the bucket, made if it is missing.
func (c *Cluster) open(ctx context.Context) (jetstream.KeyValue, error) {
	want := jetstream.KeyValueConfig{
		Bucket: c.bucket(), Description: "doorbell: members of cluster " + c.o.Name, Replicas: c.o.Replicas, MaxBytes: 4 << 20,
		TTL:            c.o.TTL,                   // of the bucket: a renewal drops that of a key
		LimitMarkerTTL: max(c.o.TTL, time.Second), // by which an expiry is seen
	}
	kv, err := c.js.KeyValue(ctx, want.Bucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		if kv, err = c.js.CreateKeyValue(ctx, want); errors.Is(err, jetstream.ErrBucketExists) {
			kv, err = c.js.KeyValue(ctx, want.Bucket) // another member was first
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", want.Bucket, err)
	}
	status, err := kv.Status(ctx)
	if err != nil {
		return nil, fmt.Errorf("bucket %s: %w", want.Bucket, err)
	}
	have := status.Config()
	var different []string
	note := func(name string, want, have any) {
		if want != have {
			different = append(different, fmt.Sprintf("%s is %v, should be %v", name, have, want))
		}
	}
	note("TTL", want.TTL, have.TTL)
	note("limit marker TTL", want.LimitMarkerTTL, have.LimitMarkerTTL)
	note("history", int64(1), status.History())
	note("replicas", want.Replicas, have.Replicas)
	note("storage", want.Storage, have.Storage)
	if len(different) > 0 {
		return nil, fmt.Errorf("%w: bucket %s differs (%s): stop all members and delete it, and the next start makes it anew",
			ErrSetup, want.Bucket, strings.Join(different, "; "))
	}
	return kv, nil
}

// watch shows the loop what happens in the bucket. As our own renewals are seen too, a watch that shows nothing for long is broken.
func (c *Cluster) watch(ctx context.Context) {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(c.o.Renew), backoff.WithMaxElapsedTime(0))
	for ctx.Err() == nil {
		err := c.watchOnce(ctx, retry.Reset)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("cluster: watch ended; retrying", "err", c.explain(err).Error())
		select {
		case <-ctx.Done():
		case <-time.After(retry.NextBackOff()):
		}
	}
}

var errSilent = errors.New("nothing seen for long")

func (c *Cluster) watchOnce(ctx context.Context, good func()) error {
	kv, err := c.open(ctx)
	if err != nil {
		return err
	}
	w, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer w.Stop()
	show := func(u update) {
		select {
		case c.updates <- u:
		case <-ctx.Done():
		}
	}
	limit := c.o.TTL + c.o.Renew // by then also the lease of a run before us has expired
	silent := time.NewTimer(limit)
	defer silent.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-silent.C:
			return errSilent
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return nats.ErrConnectionClosed
			case e == nil:
				show(update{end: true})
				good()
			default:
				show(update{key: e.Key(), entry: newEntry(e.Revision(), e.Operation() != jetstream.KeyValuePut, e.Value(), e.Created())})
			}
			silent.Reset(limit)
		}
	}
}

func newEntry(revision uint64, gone bool, text []byte, created time.Time) entry {
	e := entry{revision: revision, gone: gone, created: created}
	_ = json.Unmarshal(text, &e.value) // what is not ours is nobody's
	return e
}

// read returns a key as the bucket's leader has it.
func (c *Cluster) read(ctx context.Context, key string) (entry, error) {
	m, err := stream.Client{Conn: c.o.Conn, Stream: c.stream(), Wait: checkWait}.Get(ctx, stream.Query{Last: c.subject() + key})
	if err != nil {
		return entry{}, err
	}
	if m == nil {
		return entry{gone: true}, nil
	}
	marker := m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != ""
	return newEntry(m.Sequence, marker, m.Data, m.Time), nil
}

func (c *Cluster) write(ctx context.Context, w write) (revision uint64, err error) {
	m := nats.NewMsg(c.subject() + w.key)
	switch {
	case w.delete:
		m.Header.Set("KV-Operation", "DEL")
	default:
		if m.Data, err = json.Marshal(w.value); err != nil {
			return 0, err
		}
	}
	if w.forever {
		m.Header.Set(jetstream.MsgTTLHeader, "never")
	}
	ack, err := c.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(w.revision), jetstream.WithExpectStream(c.stream()))
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// conflict says that the key does not stand as it was seen.
func conflict(err error) bool {
	var answer *jetstream.APIError
	return errors.As(err, &answer) && (answer.ErrorCode == wrongSequence || answer.ErrorCode == inFlight)
}
