package natsd

import (
	"cmp"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// Stats are the counts of the account that holds the streams, since the last start of the server, as
// of the last check of Run or the start.
type Stats struct {
	Connections   int
	Subscriptions int
	InMessages    int64 // that came to the server
	InBytes       int64
	OutMessages   int64 // that it sent
	OutBytes      int64
	SlowConsumers int64
	Streams       []StreamStats // by name
}

// StreamStats are those of one stream.
type StreamStats struct {
	Name      string
	Messages  uint64
	Bytes     uint64
	Consumers int
}

// Stats never waits.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// measure reads the stats of a server. It may wait for locks of the server.
func (s *Server) measure(inner *server.Server) {
	var f Stats
	if all, err := inner.AccountStatz(&server.AccountStatzOptions{Accounts: []string{account}, IncludeUnused: true}); err == nil {
		for _, a := range all.Accounts {
			f.Connections, f.Subscriptions, f.SlowConsumers = a.Conns, int(a.NumSubs), a.SlowConsumers
			f.InMessages, f.InBytes, f.OutMessages, f.OutBytes = a.Received.Msgs, a.Received.Bytes, a.Sent.Msgs, a.Sent.Bytes
		}
	}
	if d, err := inner.JszAccount(&server.JSzOptions{Account: account, Streams: true}); err == nil {
		for _, one := range d.Streams {
			f.Streams = append(f.Streams, StreamStats{one.Name, one.State.Msgs, one.State.Bytes, one.State.Consumers})
		}
	}
	slices.SortFunc(f.Streams, func(a, b StreamStats) int { return cmp.Compare(a.Name, b.Name) })
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats = f
}
