package page

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

const (
	mostReaders = 32 // streams at once
	heartbeat   = 15 * time.Second
)

// tailLine is an event as the page has it.
type tailLine struct {
	ID, Type, Group string
	telling
	At  moment
	Old bool // was there before the watch
}

// telling is what the page says of an event, and the stream with it.
type telling struct {
	What      string `json:"what"`
	Title     string `json:"title,omitempty"`
	Agency    string `json:"agency"`
	Reference string `json:"reference,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

func (h *handler) tell(e events.Event) telling {
	t := ops.Tell(e, h.o.ShowPeople)
	return telling{ops.Short(t.What, 64), ops.Short(t.Title, 80), h.name(e.AgencyID), ops.Short(e.Reference, 120), ops.Short(strings.Join(t.Detail(), "  "), 400)}
}

// recent are the newest events, the newest first.
func (h *handler) recent(now time.Time) (list []tailLine) {
	if h.o.Recent == nil {
		return nil
	}
	for _, e := range slices.Backward(h.o.Recent()) {
		l := tailLine{
			ID: ops.Short(e.ID, 64), Type: ops.Short(string(e.Type), 64), Group: group(e.Type), telling: h.tell(e), Old: e.Origin == events.OriginBaseline,
			At: at(e.RecordedTime, now),
		}
		l.At.Form, l.At.Text = "ago", l.At.Ago
		list = append(list, l)
	}
	return list
}

// group says how an event is coloured, here and in page.js. What is over wants no look.
func group(t events.Type) string {
	first, _, _ := strings.Cut(string(t), ".")
	switch first = ops.Short(first, 32); t {
	case events.TypeAccessResumed, events.TypeWatchRecovered, events.TypeWatchBaselined:
		return first + " over"
	}
	return first
}

// line is what an event says behind time, agency and type.
func (h *handler) line(e events.Event) string {
	return ops.Short(strings.Join(ops.Told(e, h.o.ShowPeople), "  "), 400)
}

// stream sends the newest events and what follows as server-sent events: CloudEvents JSON, with the
// extension attribute line, which says it for people. A reader who comes again says which one it
// had last.
func (h *handler) stream(w http.ResponseWriter, r *http.Request) {
	if h.o.Subscribe == nil {
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
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no")
	news, leave := h.o.Subscribe() // before the past is read, so that nothing falls between
	defer leave()
	s := sender{w: w, control: http.NewResponseController(w), h: h}
	if s.send([]byte("retry: 3000\n\n")) != nil || s.past(r.Header.Get("Last-Event-ID")) != nil {
		return
	}
	s.follow(r.Context(), news)
}

// sender writes one stream.
type sender struct {
	w       http.ResponseWriter
	control *http.ResponseController
	h       *handler
	sent    map[string]bool // of the past
}

// past sends the newest events, those behind the one that the reader had last.
func (s *sender) past(last string) error {
	s.sent = map[string]bool{}
	if s.h.o.Recent == nil {
		return nil
	}
	all := s.h.o.Recent()
	from := 0
	for n, e := range all {
		s.sent[e.ID] = true
		if e.ID == last {
			from = n + 1
		}
	}
	for _, e := range all[from:] {
		if err := s.event(e); err != nil {
			return err
		}
	}
	return s.control.Flush()
}

func (s *sender) follow(ctx context.Context, news <-chan events.Event) {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			if s.send([]byte(": \n\n")) != nil {
				return
			}
		case e, ok := <-news:
			if !ok || !s.sent[e.ID] && s.event(e) != nil {
				return
			}
			delete(s.sent, e.ID)
			if len(news) == 0 && s.control.Flush() != nil {
				return
			}
		}
	}
}

// event writes one event without flushing it. One that cannot be written is left out.
func (s *sender) event(e events.Event) error {
	data, ok := s.h.cloudEvent(e)
	if !ok {
		return nil
	}
	text := append([]byte("id: "+ops.Short(e.ID, 64)+"\ndata: "), data...)
	return s.write(append(text, "\n\n"...))
}

func (s *sender) send(text []byte) error {
	if err := s.write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

func (s *sender) write(text []byte) error {
	_, err := s.w.Write(text)
	return err
}

// cloudEvent is an event as CloudEvents JSON in one line, with what the page says of it; masked
// unless people are shown.
func (h *handler) cloudEvent(e events.Event) ([]byte, bool) {
	told, err := json.Marshal(struct {
		telling
		Line string `json:"line"`
	}{h.tell(e), h.line(e)})
	if err != nil {
		return nil, false
	}
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
	return append(append(data[:len(data)-1], ','), told[1:]...), true
}
