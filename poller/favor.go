package poller

// favor lets the next request of the agency's walk go before all polls, once: the one that waits, or the one that comes.
func (b *budget) favor(agencyID string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.favored[agencyID] = true
}

// bringForward puts the request of a favored walk before all others that wait, if there is one. The caller holds b.mu.
func (b *budget) bringForward() bool {
	for n, waiter := range b.walks {
		for agencyID := range b.favored {
			if b.walkers[agencyID] != waiter {
				continue
			}
			delete(b.favored, agencyID)
			copy(b.walks[1:], b.walks[:n])
			b.walks[0] = waiter
			return true
		}
	}
	return false
}
