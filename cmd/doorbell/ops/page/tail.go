package page

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

const (
	maxShown  = 40 // events of the page, and of a stream that begins
	pageBytes = 1 << 20
	// maxEvent bounds an event that is streamed, in bytes.
	maxEvent = 16 << 10

	lookEvery = time.Second
	beatEvery = 15 // looks without an event
)

// newest are the newest events, the newest first.
func (h *handler) newest() []events.Event {
	if h.o.Store == nil {
		return nil
	}
	// a store that fails ends the process
	list, _, _ := h.o.Store.EventsBefore("", 0, maxShown, pageBytes)
	return list
}

// stream sends the newest events and what follows as server-sent events: CloudEvents JSON, with the
// extension attribute line, which says it for people. A reader who comes again says which position
// it had last.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	if h.o.Store == nil {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return // it would not end
	}
	w.Header().Set("X-Accel-Buffering", "no")
	position, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
	if list := h.newest(); err != nil && len(list) > 0 {
		position = list[len(list)-1].Sequence - 1
	}
	io.WriteString(w, "retry: 3000\n\n") //nolint:errcheck // the next one fails too
	control, look := http.NewResponseController(w), time.NewTicker(lookEvery)
	defer look.Stop()
	for quiet := 0; ; quiet++ {
		list, next, err := h.o.Store.EventsAfter("", position, maxShown, pageBytes)
		for _, e := range list {
			_, err = fmt.Fprintf(w, "id: %d\ndata: %s\n\n", e.Sequence, h.cloudEvent(e))
			quiet = 0
		}
		if quiet == beatEvery { // proxies end what is silent
			_, err = io.WriteString(w, ": \n\n")
			quiet = 0
		}
		if err != nil || control.Flush() != nil {
			return
		}
		if next != position {
			position = next
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-look.C:
		}
	}
}

// cloudEvent is an event as CloudEvents JSON in one line, with what it says for people; masked
// unless people are shown.
func (h *handler) cloudEvent(e events.Event) []byte {
	line, _ := json.Marshal(ops.Line(e, h.o.ShowPeople, 0))
	e = e.Fit(maxEvent)
	if !h.o.ShowPeople {
		e, _ = ops.Masked(e)
	}
	data, err := e.AppendJSON(nil)
	if err != nil || len(data) < 2 {
		return []byte("{}")
	}
	return fmt.Appendf(data[:len(data)-1], `,"line":%s}`, line)
}
