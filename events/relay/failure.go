package relay

import (
	"context"
	"errors"

	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// class is what a failure means for the next step. After every failure the worker reconciles before it sends again; the class
// decides how soon, and whether the connection is checked first.
type class string

const (
	classFence         class = "fence"         // somebody wrote, or our own message has arrived: reconcile at once
	classDuplicate     class = "duplicate"     // an id is there already: reconcile at once
	classUnknown       class = "unknown"       // the outcome is unknown: reconcile at once
	classBusy          class = "busy"          // not now: wait
	classFull          class = "full"          // no space: wait, the log keeps the events
	classTooMany       class = "too many"      // the server is configured for smaller batches: send less at once
	classBatch         class = "batch"         // the batch was dropped: a new one
	classConfiguration class = "configuration" // stream or server are not what the check saw: check again, wait
	classGone          class = "gone"          // no stream, no leader, no connection: check again, wait
	classLog           class = "log"           // the event log itself: the end
)

// classes is the one table of what servers answer.
var classes = map[jetstream.ErrorCode]class{
	10071: classFence,         // wrong last sequence
	10164: classBusy,          // another write with this fence is under way
	10158: classBusy,          // the id is in process
	10163: classBusy,          // not ready
	10167: classBusy,          // too many requests
	10210: classBusy,          // too many open batches
	10201: classDuplicate,     // the batch holds an id that is there already
	10174: classConfiguration, // atomic publish is disabled
	10176: classBatch,         // incomplete
	10179: classBatch,         // bad batch id
	10200: classBatch,         // bad commit
	10199: classTooMany,       // more messages than the server allows in a batch
	10077: classFull,          // maximum messages or bytes
	10023: classFull,          // insufficient resources
	10028: classFull,          // insufficient memory
	10047: classFull,          // insufficient storage
	10002: classFull,          // resource limits of the account
	10060: classConfiguration, // another stream holds the subject
	10185: classConfiguration, // API level
	10193: classConfiguration, // fence subject without fence
	10054: classConfiguration, // message larger than the stream takes
	10109: classConfiguration, // the stream is sealed
	10059: classGone,          // no such stream
	10008: classGone,          // no leader at the moment
	10039: classGone,          // JetStream is not enabled for the account
	10076: classGone,          // JetStream is not enabled
}

// classify sorts any error of a worker.
func classify(err error) class {
	var answer *jetstream.APIError
	switch {
	case errors.Is(err, ErrLog):
		return classLog
	case errors.As(err, &answer):
		if c, ok := classes[answer.ErrorCode]; ok {
			return c
		}
		return classUnknown
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionReconnecting), errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrNoServers):
		return classGone
	case errors.Is(err, nats.ErrMaxPayload):
		return classConfiguration // the server came back with a lower limit
	case errors.Is(err, nats.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return classUnknown
	}
	return classUnknown
}

// explain says why NATS could not be used. An error of the log stays one, whatever the connection is by now.
func (r *Relay) explain(err error) error {
	if errors.Is(err, ErrLog) {
		return err
	}
	return stream.Explain(r.o.Conn, err)
}

// reconcileAtOnce says that waiting would bring nothing, at the first failure in a row.
func (c class) reconcileAtOnce() bool {
	return c == classFence || c == classDuplicate || c == classUnknown || c == classTooMany
}

// suspicious says that server and stream have to be checked.
func (c class) suspicious() bool { return c == classGone || c == classConfiguration }
