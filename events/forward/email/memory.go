package email

import (
	"slices"
	"sync"
	"time"
)

// memory knows which recipients have a mail that others of them do not have yet. It forgets the oldest mails first: one that
// was given up stays for a while, for a person may have it tried again.
type memory struct {
	mu    sync.Mutex
	order []string // ids, oldest first
	have  map[string][]string
	since map[string]time.Time // since when a recipient takes nothing, while others do
}

// refusingLong is how long mails wait for a recipient who takes nothing. After that each is permanently rejected, until the recipient
// takes one.
const refusingLong = time.Hour

// refusing is for how long a recipient has taken nothing.
func (m *memory) refusing(to string, now time.Time) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since == nil {
		m.since = map[string]time.Time{}
	}
	if m.since[to].IsZero() {
		m.since[to] = now
	}
	return now.Sub(m.since[to])
}

const maxRemembered = 256

// missing are those of the recipients that do not have the mail.
func (m *memory) missing(id string, to []string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(to), func(a string) bool { return slices.Contains(m.have[id], a) })
}

func (m *memory) add(id string, took []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(took) == 0 {
		return
	}
	for _, to := range took {
		delete(m.since, to)
	}
	if m.have == nil {
		m.have = map[string][]string{}
	}
	if m.have[id] == nil {
		m.order = append(m.order, id)
	}
	m.have[id] = append(m.have[id], took...)
	if len(m.order) > maxRemembered {
		delete(m.have, m.order[0])
		m.order = m.order[1:]
	}
}

// forget is for a mail that everybody has: whoever asks for it again shall get it again.
func (m *memory) forget(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.have, id)
	m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == id })
}
