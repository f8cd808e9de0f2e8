package poller

import (
	"sync/atomic"
	"time"
)

// signs of life say when the loops of Run turned last.
type signs struct {
	polls sign // takes what is next from the schedule; turns once a minute at least
	vigil sign // looks for silence, once a minute
}

// sign is the last one of a loop.
type sign struct{ at atomic.Pointer[time.Time] }

func (s *sign) give() {
	now := time.Now()
	s.at.Store(&now)
}

func (s *sign) last() time.Time {
	if at := s.at.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// Turned says when the loop that polls and the one that looks for silence turned last; zero before Run. Each does once a minute
// at least, whatever the API does and however little may be sent: one that has not for some minutes hangs.
func (p *Poller) Turned() (polls, vigil time.Time) { return p.signs.polls.last(), p.signs.vigil.last() }

// NoSpace says whether nothing is asked because nothing could be remembered: the disk or the store is full.
func (p *Poller) NoSpace() bool { return p.full.Load() }
