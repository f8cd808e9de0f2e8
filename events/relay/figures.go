package relay

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"doorbell/events"
)

// figures count since the relay was made. The zero value has counted nothing.
type figures struct {
	mu        sync.Mutex
	published map[events.Type]uint64
	failures  map[string]uint64
}

// publishedAll counts a batch that the stream took for the first time.
func (f *figures) publishedAll(batch []events.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.published == nil {
		f.published = map[events.Type]uint64{}
	}
	for _, e := range batch {
		if slices.Contains(events.Types, e.Type) {
			f.published[e.Type]++
		} else {
			f.published[""]++
		}
	}
}

func (f *figures) failed(c class) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failures == nil {
		f.failures = map[string]uint64{}
	}
	f.failures[strings.ReplaceAll(string(c), " ", "_")]++
}

func (f *figures) read() (published map[events.Type]uint64, failures map[string]uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.published), maps.Clone(f.failures)
}
