package ops

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"

	"doorbell/events"
)

// mostStreams bounds the answers under way that are written as they are read: each holds some megabytes.
const mostStreams = 8

// frame is one line of such an answer: an event, or a report, or why it ends. An answer that ends in another way was cut.
type frame struct {
	Event        *events.Event   `json:"event,omitempty"`
	Acknowledged bool            `json:"acknowledged,omitempty"`
	Report       json.RawMessage `json:"report,omitempty"`
	Error        string          `json:"error,omitempty"`
	Hint         string          `json:"hint,omitempty"`
	Done         bool            `json:"done,omitempty"`
}

// hinted is an error that says what can be done about it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// WithHint gives an error what a person can do about it; it travels with the error to whoever asked.
func WithHint(err error, hint string) error { return &hinted{err, hint} }

// Hint is what to do about an error, empty if it does not say.
func Hint(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

// serveEvents adds POST /events and /events/count, whose body is an EventQuery.
func serveEvents(mux *http.ServeMux, v Verbs, places chan struct{}) {
	mux.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
		var q EventQuery
		if !read(w, r, &q) {
			return
		}
		stream(w, places, func(send func(frame) error) error {
			for e, err := range v.Events(r.Context(), q) {
				if err != nil {
					return err
				}
				if err := send(frame{Event: &e.Event, Acknowledged: e.Acknowledged}); err != nil {
					return err
				}
			}
			return nil
		})
	})
	mux.HandleFunc("POST /events/count", func(w http.ResponseWriter, r *http.Request) {
		var q EventQuery
		if !read(w, r, &q) {
			return
		}
		stream(w, places, func(send func(frame) error) error {
			c, err := v.CountEvents(r.Context(), q)
			if err != nil {
				return err
			}
			report, err := json.Marshal(c)
			if err != nil {
				return err
			}
			return send(frame{Report: report})
		})
	})
}

// read decodes the body of a request, or answers that it cannot.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(into); err != nil {
		answer(w, nil, errBody)
		return false
	}
	return true
}

// stream answers with frames. The header goes out at once, so that the other side knows that somebody is at work.
func stream(w http.ResponseWriter, places chan struct{}, work func(send func(frame) error) error) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w).Flush
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false) // payloads arrive as they are in the log
	last := frame{Done: true}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
		_ = flush() // a client that hung up is noticed when it is written to
		if err := work(func(f frame) error { return errors.Join(lines.Encode(f), flushed(f, flush)) }); err != nil {
			last = frame{Error: err.Error(), Hint: Hint(err)}
		}
	default:
		last = frame{Error: "the daemon is busy with other such questions", Hint: "try again when they are answered"}
	}
	lines.Encode(last) //nolint:errcheck // a client that hung up
}

// flushed lets reports go out at once; events go out when there are enough of them.
func flushed(f frame, flush func() error) error {
	if f.Report == nil {
		return nil
	}
	return flush()
}

// Events yields the events of the daemon's log that a query means; see Log.Events. The error is ErrNoAnswer if no daemon
// answers, or breaks off.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error] {
	return func(yield func(LoggedEvent, error) bool) {
		for f, err := range c.frames(ctx, "/events", q) {
			switch {
			case err != nil:
				yield(LoggedEvent{}, err)
				return
			case f.Event != nil && !yield(LoggedEvent{*f.Event, f.Acknowledged}, nil):
				return
			}
		}
	}
}

// CountEvents counts the events of the daemon's log that a query means.
func (c *Client) CountEvents(ctx context.Context, q EventQuery) (counts EventCounts, err error) {
	return counts, c.reports(ctx, "/events/count", q, func(report json.RawMessage) error { return json.Unmarshal(report, &counts) })
}

// reports asks and hands over each report of the answer.
func (c *Client) reports(ctx context.Context, path string, q any, each func(json.RawMessage) error) error {
	for f, err := range c.frames(ctx, path, q) {
		if err == nil && f.Report != nil {
			err = each(f.Report)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// frames asks and yields the frames of the answer but the last. It takes as long as the answer does.
func (c *Client) frames(ctx context.Context, path string, q any) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		body, err := c.open(ctx, path, q)
		if err != nil {
			yield(frame{}, err)
			return
		}
		defer body.Close()
		lines := json.NewDecoder(body)
		for {
			var f frame
			err := lines.Decode(&f)
			switch {
			case err != nil:
				err = fmt.Errorf("%w: it broke off", ErrNoAnswer)
			case f.Done:
				return
			case f.Error != "":
				err = WithHint(errors.New(f.Error), f.Hint)
			}
			if !yield(f, err) || err != nil {
				return
			}
		}
	}
}

// open asks and waits for the beginning of the answer only.
func (c *Client) open(ctx context.Context, path string, q any) (io.ReadCloser, error) {
	r, err := request(ctx, http.MethodPost, path, q)
	if err != nil {
		return nil, err
	}
	patient := http.Client{Transport: c.http.Transport} // ctx alone ends what has begun
	response, err := patient.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response.Body, nil
}
