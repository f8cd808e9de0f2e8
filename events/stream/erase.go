package stream

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrMayNotErase: stream, server or user do not permit erasing messages. The text says what has to
// be changed.
var ErrMayNotErase = errors.New("erasing messages is not allowed")

// Error codes in reply to a request to erase a message.
const (
	// there is no such message, or the stream denies deletion
	eraseFailed jetstream.ErrorCode = 10057
	noSequence  jetstream.ErrorCode = 10043
)

// Erase removes every message of a filter for which wants returns true, and returns how many. The
// server overwrites their bytes in its files before it replies. If it fails to write, it reports
// that error until it is restarted. A message that is removed by others in the meantime is not an
// error, nor is a missing stream. Erase may be repeated after an error. It reads message by
// message, so a narrow filter saves time.
func (c Client) Erase(ctx context.Context, filter string, wants func(*Message) bool) (n int, err error) {
	_, err = c.ReadToEnd(ctx, filter, 0, func(m *Message) error {
		if !wants(m) {
			return nil
		}
		erased, err := c.EraseAt(ctx, m.Sequence)
		if erased {
			n++
		}
		return err
	})
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return n, nil
	}
	if err == nil {
		_, err = c.EraseAt(ctx, beyondAll)
	}
	return n, err
}

// beyondAll is a sequence that no message has. A server that has failed to write a file of the
// stream reports that for this sequence too, until it is restarted. It no longer shows the message
// whose bytes it failed to overwrite, so nothing else reveals the failure.
const beyondAll = math.MaxInt64

// EraseAt erases one message. It returns false if the message no longer exists.
func (c Client) EraseAt(ctx context.Context, sequence uint64) (bool, error) {
	err := c.erase(ctx, sequence)
	if answer, is := errors.AsType[*jetstream.APIError](err); is {
		if m, failed := c.Get(ctx, Query{Sequence: sequence}); isNone(answer) && failed == nil &&
			m == nil {
			return false, nil
		}
	}
	return err == nil, err
}

// isNone reports whether an error means that there is no such message, and not that it could not be
// erased.
func isNone(a *jetstream.APIError) bool {
	return a.ErrorCode == noSequence ||
		a.ErrorCode == eraseFailed &&
			(a.Description == "no message found" || a.Description == "stream store EOF")
}

// MayErase tests whether [Client.Erase] is permitted, and changes nothing. It returns nil if it is
// or if the stream is missing, an error that wraps ErrMayNotErase if it is not, and any other error
// if the test failed.
func (c Client) MayErase(ctx context.Context) error {
	js, err := c.Conn.JetStream()
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	s, err := js.Stream(asking, c.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stream %s: %w", c.Stream, Explain(c.Conn, err))
	}
	if s.CachedInfo().Config.DenyDelete {
		return c.mayNot("it was created with deny_delete, which cannot be changed; delete the stream, and it is recreated from the event log")
	}
	err = c.erase(ctx, 0) // no message has this number
	if answer, is := errors.AsType[*jetstream.APIError](err); is &&
		(answer.ErrorCode == eraseFailed || answer.ErrorCode == noSequence ||
			errors.Is(err, jetstream.ErrStreamNotFound)) {
		return nil
	}
	return err
}

func (c Client) mayNot(why string) error {
	return fmt.Errorf("stream %s: %w: %s", c.Stream, ErrMayNotErase, why)
}

func (c Client) erase(ctx context.Context, sequence uint64) error {
	method := "STREAM.MSG.DELETE." + c.Stream
	a, err := c.ask(ctx, method, map[string]uint64{"seq": sequence})
	last := c.Conn.LastError()
	switch {
	case a.Error == nil && err != nil && errors.Is(last, nats.ErrPermissionViolation) &&
		strings.Contains(last.Error(), method):
		return c.mayNot(
			"this NATS user is not allowed to publish to " + c.Conn.api() + method +
				"; allow it, or use a user that is")
	case err != nil:
		return fmt.Errorf("erase message: %w", Explain(c.Conn, err))
	case !a.Success:
		return fmt.Errorf("erase message: %w", ErrAnswer)
	}
	return nil
}
