package ops

// Counts that end in what can be added up over time by whoever looks now and then. All begin with the process, or with the
// connection to NATS.

// EventCount counts events of one type.
type EventCount struct {
	Type      string `json:"type"`      // other: one that this version does not know
	Appended  uint64 `json:"appended"`  // to the event log; up to ten seconds late
	Published uint64 `json:"published"` // taken by the stream, for the first time
}

// NATSServer is how the embedded server stood when it was looked at last, at most half a minute ago. What is counted begins with
// its last start.
type NATSServer struct {
	Connections   int          `json:"connections"`
	Subscriptions int          `json:"subscriptions"`
	InMessages    int64        `json:"inMessages"`
	InBytes       int64        `json:"inBytes"`
	OutMessages   int64        `json:"outMessages"`
	OutBytes      int64        `json:"outBytes"`
	SlowConsumers int64        `json:"slowConsumers"`
	Restarts      int          `json:"restarts"` // because it took nothing; since the start of the process
	Streams       []NATSStream `json:"streams,omitempty"`
}

// NATSStream is a stream of it.
type NATSStream struct {
	Name      string `json:"name"`
	Messages  uint64 `json:"messages"`
	Bytes     uint64 `json:"bytes"`
	Consumers int    `json:"consumers"`
}
