package page

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller"
	"doorbell/store"
)

const (
	chartHours = 24
	// hourPages bounds what one rendering reads of the log: what is left, the next one reads.
	hourPages = 64
)

// hours counts the new contact requests of each hour by reading the log as it grows. It may be
// called by several at once.
type hours struct {
	store *store.Store
	began time.Time            // of the watch of this process
	left  map[string]time.Time // the last good response of an agency before that

	mu       sync.Mutex
	position uint64 // up to which everything is counted; 0: nothing was read
	leads    map[int64]int
}

// newHours notes when the agencies were watched last, before this process watches them.
func newHours(s *store.Store) *hours {
	h := &hours{store: s, began: time.Now(), left: map[string]time.Time{}, leads: map[int64]int{}}
	if s == nil {
		return h
	}
	agencies, _ := s.Agencies() // a store that fails ends the process
	_ = s.View(func(tx *store.Tx) error {
		for _, id := range agencies {
			state, _ := tx.Agency(id)
			h.left[id] = state.LastCompleteWalk
			for _, op := range state.Operations {
				if op.LastGood.After(h.left[id]) {
					h.left[id] = op.LastGood
				}
			}
		}
		return nil
	})
	return h
}

// isNews reports whether an event is a new contact request that was not there before the watch.
func isNews(e events.Event) bool {
	return e.Type == events.TypeContactRequestCreated && e.Origin == events.OriginLive
}

// lastDay returns the leads of the last 24 hours of the clock; the last one is the hour that runs.
func (h *hours) lastDay(now time.Time) (counts [chartHours]int, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store == nil {
		return counts, nil
	}
	first := now.Unix()/3600 - chartHours + 1
	if h.position == 0 {
		last, err := h.store.LastPosition()
		young := sort.Search(int(last), func(position int) bool {
			next, _, failed := h.store.EventsAfter("", uint64(position), 1, 1)
			err = cmp.Or(err, failed)
			return len(next) == 0 || next[0].RecordedTime.Unix()/3600 >= first
		})
		if err != nil {
			return counts, err
		}
		h.position = uint64(young)
	}
	for range hourPages {
		list, next, err := h.store.EventsAfter("", h.position, 256, pageBytes)
		if err != nil {
			return counts, err
		}
		for _, e := range list {
			if isNews(e) {
				h.leads[e.RecordedTime.Unix()/3600]++
			}
		}
		if next == h.position {
			break
		}
		h.position = next
	}
	for hour, n := range h.leads {
		if hour < first {
			delete(h.leads, hour)
		} else if hour < first+chartHours {
			counts[hour-first] = n
		}
	}
	return counts, nil
}

// watched reports whether an agency was watched in some part of the hour from a moment.
func (h *hours) watched(a poller.AgencyStatus, from time.Time) bool {
	to := from.Add(time.Hour)
	left := h.left[a.AgencyID]
	switch {
	case !a.WatchStart.Before(to), // not yet
		!left.IsZero() && !from.Before(left) && !to.After(h.began): // by no process
		return false
	}
	return !slices.ContainsFunc(a.Halts, func(p poller.HaltStatus) bool {
		return p.Scope != events.ScopeInsertion && !p.Since.After(from)
	}) && !slices.ContainsFunc(a.Alarms, func(l poller.Alarm) bool { return l.Kind == "stale" && !l.Since.After(from) })
}

// chart is the last 24 hours as bars on a ground of 240 by 100.
type chart struct {
	Total, Last int // Last is the hour that runs
	Bars        []bar
	Description string
}

type bar struct {
	X             int
	Y, Height     float64
	Title         string
	Running, Away bool // Away: nothing was watched
}

func (h *hours) chart(s ops.Status) (c chart, err error) {
	leads, err := h.lastDay(s.Watch.At)
	if err != nil {
		return c, err
	}
	c.Last = leads[chartHours-1]
	most := slices.Max(leads[:])
	for n, count := range leads {
		c.Total += count
		from := s.Watch.At.UTC().Truncate(time.Hour).Add(time.Duration(n-chartHours+1) * time.Hour)
		b := bar{X: 10*n + 1, Height: 100, Running: n == chartHours-1}
		if count > 0 {
			b.Height = max(2.5, 100*float64(count)/float64(most))
			b.Title = ops.Counted(count, "lead")
		} else if !slices.ContainsFunc(s.Watch.Agencies, func(a poller.AgencyStatus) bool { return h.watched(a, from) }) {
			b.Away, b.Title = true, "nothing was watched"
		} else {
			continue
		}
		b.Y, b.Title = 100-b.Height, from.Format("15:04")+" UTC: "+b.Title
		c.Bars = append(c.Bars, b)
	}
	c.Description = fmt.Sprintf("%s in the last 24 hours, at most %s in an hour",
		ops.Counted(c.Total, "lead"), ops.Number(most))
	return c, nil
}
