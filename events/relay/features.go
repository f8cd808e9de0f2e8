package relay

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"
)

// features are what a server can do. It is asked, never tried: a server that does not know atomic batches would store each
// message singly and say nothing.
type features struct {
	level        int // of JetStream's API; 0: the server is older than the levels
	major, minor int // of its version
}

// atomicLevel is the JetStream API level from which servers know atomic batches, and a fence over several subjects.
const atomicLevel = 2

// oldestServer is the oldest version that is known to work.
const oldestServer = "2.9"

func ask(ctx context.Context, js jetstream.JetStream) (f features, err error) {
	account, err := js.AccountInfo(ctx)
	if err != nil {
		return f, fmt.Errorf("JetStream account: %w", err)
	}
	f.level = account.API.Level
	version := js.Conn().ConnectedServerVersion()
	if parts := strings.Split(version, "."); len(parts) >= 2 {
		f.major, _ = strconv.Atoi(parts[0])
		f.minor, _ = strconv.Atoi(parts[1])
	}
	if f.level == 0 && !f.since(2, 9) {
		return f, fmt.Errorf("%w (it is %.20q)", ErrOldServer, version)
	}
	return f, nil
}

func (f features) since(major, minor int) bool {
	return f.major > major || f.major == major && f.minor >= minor
}

// batches says whether the server knows atomic batches. The stream has to allow them too.
func (f features) batches() bool { return f.level >= atomicLevel }

// known leaves out of a stream what the server does not know. It would take it without a word, or refuse the stream.
func (f features) known(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.AllowAtomicPublish = c.AllowAtomicPublish && f.batches()
	if f.level == 0 && !f.since(2, 10) {
		c.Metadata = nil
	}
	return c
}
