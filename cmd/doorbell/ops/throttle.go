package ops

import (
	"net/netip"
	"sync"
	"time"
)

const (
	mostWrong  = 10              // wrong tokens in a row from one address
	wrongAgain = 6 * time.Second // and one more after each such time
	// mostOrigins bounds the addresses that are told apart; more of them share one limit.
	mostOrigins = 1024
)

// throttle bounds how many wrong tokens may come from an address.
type throttle struct {
	mu   sync.Mutex
	from map[netip.Prefix]tries
}

// tries are what is left, as of a moment.
type tries struct {
	left float64
	at   time.Time
}

func newThrottle() *throttle { return &throttle{from: map[netip.Prefix]tries{}} }

// take takes one try, if one is left. It has to be taken before the token is looked at: many may come at once.
func (t *throttle) take(from netip.Prefix, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	from = t.place(from, now)
	is := t.now(from, now)
	if is.left < 1 {
		return false
	}
	t.from[from] = tries{is.left - 1, now}
	return true
}

// giveBack returns the try of a right token.
func (t *throttle) giveBack(from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.from[from]; !ok {
		from = netip.Prefix{}
	}
	is := t.from[from]
	is.left = min(is.left+1, mostWrong)
	t.from[from] = is
}

// place is where an address is counted.
func (t *throttle) place(from netip.Prefix, now time.Time) netip.Prefix {
	if _, ok := t.from[from]; ok || len(t.from) < mostOrigins {
		return from
	}
	for other := range t.from {
		if t.now(other, now).left >= mostWrong {
			delete(t.from, other)
		}
	}
	if len(t.from) < mostOrigins {
		return from
	}
	return netip.Prefix{}
}

func (t *throttle) now(from netip.Prefix, now time.Time) tries {
	is, ok := t.from[from]
	if !ok {
		return tries{mostWrong, now}
	}
	return tries{min(is.left+now.Sub(is.at).Seconds()/wrongAgain.Seconds(), mostWrong), now}
}
