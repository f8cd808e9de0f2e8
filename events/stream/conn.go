package stream

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Conn is a connection to NATS, and says where the API of its JetStream is. Without Domain and
// APIPrefix it is that of the server itself. At most one of them is set.
type Conn struct {
	*nats.Conn
	Domain    string // of a JetStream behind a leaf node
	APIPrefix string // of the API's subjects, where an account imports them under another name
}

// JetStream makes a JetStream context. It is the only place that does.
func (c Conn) JetStream(o ...jetstream.JetStreamOpt) (jetstream.JetStream, error) {
	js, err := jetstream.NewWithAPIPrefix(c.Conn, strings.TrimSuffix(c.api(), "."), o...)
	if err != nil {
		return nil, fmt.Errorf("JetStream: %w", err)
	}
	return js, nil
}

// api is what subjects of the API begin with.
func (c Conn) api() string {
	switch {
	case c.Domain != "":
		return "$JS." + c.Domain + ".API."
	case c.APIPrefix != "":
		return strings.TrimSuffix(c.APIPrefix, ".") + "."
	}
	return "$JS.API."
}
