package ops

import (
	"fmt"

	"doorbell/store"
)

// StoreStatus is how much of what it may the store holds.
type StoreStatus struct {
	InUse  int64  `json:"inUseBytes"`
	Max    int64  `json:"maxBytes,omitempty"`
	Alarm  bool   `json:"alarm,omitempty"` // 80 % of it
	Full   bool   `json:"full,omitempty"`  // nothing is asked until there is room
	Advice string `json:"advice,omitempty"`

	File    int64 `json:"fileBytes,omitempty"` // what is not in use of it, the next commits take
	Commits int64 `json:"commits,omitempty"`   // since the start of the process
}

const spaceAdvice = "raise DOORBELL_STORE_MAX if the disk has room, or lower DOORBELL_RETENTION; " +
	"where many events wait, they wait for NATS and stay until it has taken them"

// NewStoreStatus says in words what to do.
func NewStoreStatus(is store.Space) StoreStatus {
	s := StoreStatus{InUse: is.InUse, Max: is.Max, Alarm: is.Alarm, Full: is.Full}
	if s.Alarm || s.Full {
		s.Advice = spaceAdvice
	}
	return s
}

// sentences are none where there is nothing to say.
func (s StoreStatus) sentences() []string {
	switch share := fmt.Sprintf("%d of %d MiB (DOORBELL_STORE_MAX)", s.InUse>>20, s.Max>>20); {
	case s.Full:
		return []string{fmt.Sprintf("The store is full: it holds %s, and nothing is asked until there is room", share), s.Advice}
	case s.Alarm:
		return []string{fmt.Sprintf("The store is nearly full: it holds %s", share), s.Advice}
	}
	return nil
}
