package email

import (
	"slices"
	"sync"
)

// memory knows which recipients have a mail that others of them do not have yet. It forgets the oldest mails first: one that
// was given up stays for a while, for a person may have it tried again.
type memory struct {
	mu    sync.Mutex
	order []string // ids, oldest first
	have  map[string][]string
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
