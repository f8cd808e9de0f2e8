package page

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

const (
	mostReaders = 32 // streams at once
	lookEvery   = time.Second
	beatEvery   = 15 // looks without an event
)

// tailLine is an event as the page has it.
type tailLine struct {
	ID, Type, Group, What, Title, Agency, Detail, Reference string

	At   moment
	Lead bool
	Old  bool // was there before the watch
}

// recent are the newest events, the newest first.
func (h *handler) recent(now time.Time) (list []tailLine) {
	for _, e := range slices.Backward(h.newest()) {
		t := ops.Tell(e, h.o.ShowPeople)
		list = append(list, tailLine{
			ID: ops.Short(e.ID, 64), Type: ops.Short(string(e.Type), 64), Group: group(e.Type), What: ops.Short(t.What, 64),
			Title: ops.Short(t.Title, 80), Agency: h.name(e.AgencyID), Detail: ops.Short(strings.Join(slices.Concat(t.Detail, t.Rest), " · "), 400),
			Reference: ops.Short(e.Reference, 120), At: at(e.RecordedTime, now),
			Lead: e.Type == events.TypeContactRequestCreated, Old: e.Origin == events.OriginBaseline,
		})
	}
	return list
}

// group says how an event is coloured. What is over wants no look.
func group(t events.Type) string {
	first, _, _ := strings.Cut(string(t), ".")
	switch first = ops.Short(first, 32); t {
	case events.TypeAccessResumed, events.TypeWatchRecovered, events.TypeWatchBaselined:
		return first + " over"
	}
	return first
}

// stream sends the newest events and what follows as server-sent events: CloudEvents JSON, with the
// extension attribute line, which says it for people. A reader who comes again says which position
// it had last.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	if h.o.After == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // it would not end
	}
	select {
	case h.readers <- struct{}{}:
		defer func() { <-h.readers }()
	default:
		w.Header().Set("Retry-After", "30")
		http.Error(w, "too many readers", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("X-Accel-Buffering", "no")
	io.WriteString(w, "retry: 3000\n\n") //nolint:errcheck // the next one fails too
	position, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if all := h.newest(); err != nil && len(all) > 0 {
		if len(all) > 1 && all[1].Sequence > all[0].Sequence+1 {
			all = all[1:] // the first one is an old lead
		}
		position = all[0].Sequence - 1
	}
	control, look, quiet := http.NewResponseController(w), time.NewTicker(lookEvery), 0
	defer look.Stop()
	for {
		list, next, err := h.o.After(position)
		if err != nil {
			return
		}
		for _, e := range list {
			if data, ok := h.cloudEvent(e); ok {
				_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Sequence, data)
			}
		}
		if quiet++; next == position && quiet >= beatEvery {
			_, err = io.WriteString(w, ": \n\n")
			quiet = 0
		}
		if err != nil || control.Flush() != nil {
			return
		}
		if next != position {
			position, quiet = next, 0
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-look.C:
		}
	}
}

func (h *handler) newest() []events.Event {
	if h.o.Recent == nil {
		return nil
	}
	return h.o.Recent()
}

// cloudEvent is an event as CloudEvents JSON in one line, with what it says for people; masked
// unless people are shown.
func (h *handler) cloudEvent(e events.Event) ([]byte, bool) {
	line, _ := json.Marshal(ops.Short(strings.Join(ops.Told(e, h.o.ShowPeople), "  "), 400))
	if !h.o.ShowPeople {
		var ok bool
		if e, ok = ops.Masked(e); !ok {
			return nil, false
		}
	}
	data, err := e.AppendJSON(nil)
	if err != nil || len(data) < 2 {
		return nil, false
	}
	return fmt.Appendf(data[:len(data)-1], `,"line":%s}`, line), true
}
