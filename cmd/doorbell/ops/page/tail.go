package page

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

const (
	mostReaders = 32 // streams at once
	shownEvents = 60 // of the past
	heartbeat   = 15 * time.Second
)

// tailLine is an event as the page has it.
type tailLine struct {
	ID, Agency, Type, Group string
	Text                    string
	At                      moment
	Old                     bool // was there before the watch
}

// recent are the newest events, the newest first.
func (h *handler) recent() (list []tailLine) {
	if h.o.Recent == nil {
		return nil
	}
	all := h.o.Recent(shownEvents)
	for n := len(all) - 1; n >= 0; n-- {
		e := all[n]
		t := e.RecordedTime.UTC()
		list = append(list, tailLine{
			ID: plain(e.ID, 64), Agency: plain(e.AgencyID, 64), Type: plain(string(e.Type), 64), Group: group(e.Type), Text: h.line(e), Old: e.Origin == events.OriginBaseline,
			At: moment{ISO: t.Format("2006-01-02T15:04:05.000Z"), Text: t.Format("15:04:05"), Full: t.Format("2006-01-02 15:04:05") + " UTC", Form: "clock"},
		})
	}
	return list
}

// group says how an event is coloured, here and in page.js. What is over wants no look.
func group(t events.Type) string {
	first, _, _ := strings.Cut(string(t), ".")
	switch first = plain(first, 32); t {
	case events.TypeAccessResumed, events.TypeWatchRecovered, events.TypeWatchBaselined:
		return first + " over"
	}
	return first
}

// line is what an event says behind time, agency and type.
func (h *handler) line(e events.Event) string {
	return plain(strings.Join(ops.Told(e, h.o.ShowPeople), "  "), 400)
}

// stream sends the newest events and what follows as server-sent events: CloudEvents JSON, with the extension attribute line,
// which says it for people. A reader who comes again says which one it had last.
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
	all := s.h.o.Recent(shownEvents)
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
	text := append([]byte("id: "+plain(e.ID, 64)+"\ndata: "), data...)
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

// cloudEvent is an event as CloudEvents JSON in one line, with its line for people; masked unless people are shown.
func (h *handler) cloudEvent(e events.Event) ([]byte, bool) {
	line, err := json.Marshal(h.line(e))
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
	data = append(data[:len(data)-1], `,"line":`...)
	return append(append(data, line...), '}'), true
}
