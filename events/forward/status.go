package forward

import (
	"sync"
	"time"
)

// Status is how a forwarder is.
type Status struct {
	Name    string         `json:"name"`
	Workers []WorkerStatus `json:"lanes"`
}

// WorkerStatus is how one worker is. Counters begin with the process.
type WorkerStatus struct {
	Destination string    `json:"destination"`
	Whose       string    `json:"whose"` // the agencies, as they were configured
	Kind        Kind      `json:"kind"`
	Waiting     uint64    `json:"waiting"` // with the one in hand; at most half a minute old
	Sent        uint64    `json:"sent"`    // deliveries; a digest is one
	Events      uint64    `json:"events"`  // in these deliveries
	LastSent    time.Time `json:"lastSent,omitzero"`
	Attempts    int       `json:"attempts,omitempty"`  // of the message in hand
	LastError   string    `json:"lastError,omitempty"` // why the receiver did not take a message, if it did not
	LastErrorAt time.Time `json:"lastErrorAt,omitzero"`
	// FailingSince is when the receiver began to take nothing; zero if it took or refused the last message.
	FailingSince time.Time `json:"failingSince,omitzero"`
	DeadLetters  uint64    `json:"deadLetters"`
	Foreign      uint64    `json:"foreign"`           // foreign messages on our subjects
	Off          bool      `json:"off"`               // nothing is sent until the program is started anew
	Problem      string    `json:"problem,omitempty"` // why nothing comes from NATS

	// Turned is when the loop of the worker turned last: at least every half minute, or after a Retry.After of the receiver.
	Turned time.Time `json:"-"`
}

// Status may be called at any time.
func (f *Forwarder) Status() Status {
	s := Status{Name: f.o.Name}
	for _, l := range f.workers {
		w := l.status.read()
		if since := l.dest.failing.Load(); since != nil {
			w.FailingSince = *since
		}
		s.Workers = append(s.Workers, w)
	}
	return s
}

// board is a WorkerStatus that is read while it is written.
type board struct {
	mu sync.Mutex
	s  WorkerStatus
}

func (b *board) read() WorkerStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.s
}

func (b *board) write(change func(*WorkerStatus)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(&b.s)
}
