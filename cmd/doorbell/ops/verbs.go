package ops

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/people"
	leads "doorbell/cmd/doorbell/report"
	"doorbell/events"
	"doorbell/events/stream"
	"doorbell/poller"
)

// Verbs are what can be asked of a daemon.
type Verbs struct {
	Status  func() (Status, error)
	Resume  func(agencyID, reference string) (ended int, err error)
	Approve func(agencyID string) (held bool, err error)
	// Poll polls what waits the longest of an agency; with a reference that insertion next, see
	// poller.Nudge.
	Poll func(agencyID, reference string) (poller.PolledNow, error)
	// Backup writes a copy of the store; see store.Backup.
	Backup func(w io.Writer, sized func(bytes int64)) error
	// Events and CountEvents read the event log, which may take long.
	Events      func(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error]
	CountEvents func(ctx context.Context, q EventQuery) (EventCounts, error)
	// Replay takes as long as its rate demands. It ends with the error of progress, if that has one.
	Replay func(ctx context.Context, q ReplayRequest, progress func(ReplayProgress) error) error
	// Find, Export and Forget are about a person's data; see people.Places. They may take long.
	Find   func(ctx context.Context, w people.Wanted) (people.Found, error)
	Export func(ctx context.Context, w people.Wanted) ([]people.Exported, error)
	Forget func(ctx context.Context, q ForgetRequest) (people.Receipt, error)
	// Report counts what became of the leads of some days. It may take long.
	Report func(ctx context.Context, q ReportRequest) (leads.Report, error)
	// DropLetter erases a dead letter.
	DropLetter func(ctx context.Context, number uint64) error
	// Refuse returns why nothing but the status can be asked; the other fields are then not used.
	// Nil: everything can.
	Refuse func() error
}

// AgencyRequest is the body of POST /v1/resume, /v1/approve and /v1/poll.
type AgencyRequest struct {
	AgencyID            string `json:"agencyId"`
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"` // not of /v1/approve; empty: the agency and all of its insertions
}

func (q AgencyRequest) complete() bool {
	return q.AgencyID != "" && len(q.AgencyID) <= mostReference && len(q.PropertyReferenceID) <= mostReference
}

// mostReference is longer than any id or reference that a request may name, in bytes.
const mostReference = 1 << 10

// ResumeAnswer and ApproveAnswer are the answers to it.
type (
	ResumeAnswer struct {
		Ended int `json:"ended"` // halts that were ended
	}
	ApproveAnswer struct {
		Held bool `json:"held"` // whether a change was held that is approved now
	}
)

// ForgetRequest is the body of POST /forget: who is to be forgotten and in which requests, as they
// were found; in all that are found now if there are none.
type ForgetRequest struct {
	people.Wanted
	Requests []people.Request `json:"requests,omitempty"`
}

// DropLetterRequest is the body of POST /dlq/drop.
type DropLetterRequest struct {
	Number uint64 `json:"number"`
}

func (q DropLetterRequest) complete() bool { return q.Number != 0 }

// ReportRequest is the body of POST /report.
type ReportRequest struct {
	Since time.Time `json:"since"`
}

// ReplayRequest is the body of POST /replay: which events of the log are published once more, under
// the name of which job.
type ReplayRequest struct {
	Query EventQuery `json:"query"`
	Total int        `json:"total"` // as counted; only reported
	Job   string     `json:"job"`
	Rate  float64    `json:"rate"` // events a second; 0: as fast as they are acknowledged
}

// ReplayProgress is how far a replay is.
type ReplayProgress struct {
	Job          string `json:"job"`
	Subject      string `json:"subject"` // of all that it publishes
	Stream       string `json:"stream"`
	Total        int    `json:"total"`
	Published    int    `json:"published"`
	AlreadyThere int    `json:"alreadyThere"` // published by an earlier run of the job
}

// Nothing is the question or the answer that has no body.
type Nothing struct{}

// Verb is a question that a daemon answers: JSON with JSON. Both sides are made of it.
type Verb[Q, A any] struct {
	route string        // method and path
	limit time.Duration // for the answer; 0: it may take long
	code  int           // of a good answer; 0: 200
}

// askLimit is how long an answer may take that needs no long work.
const askLimit = 10 * time.Second

// The verbs. What they do stands at the fields of Verbs.
var (
	getStatus  = Verb[Nothing, Status]{route: "GET /v1/status", limit: askLimit}
	Resume     = Verb[AgencyRequest, ResumeAnswer]{route: "POST /v1/resume", limit: askLimit}
	Approve    = Verb[AgencyRequest, ApproveAnswer]{route: "POST /v1/approve", limit: askLimit}
	Poll       = Verb[AgencyRequest, poller.PolledNow]{"POST /v1/poll", askLimit, http.StatusAccepted}
	DropLetter = Verb[DropLetterRequest, Nothing]{route: "POST /dlq/drop", limit: askLimit}
	Find       = Verb[people.Wanted, people.Found]{route: "POST /find"}
	Export     = Verb[people.Wanted, []people.Exported]{route: "POST /export"}
	Forget     = Verb[ForgetRequest, people.Receipt]{route: "POST /forget"}
	Report     = Verb[ReportRequest, leads.Report]{route: "POST /report"}
)

// Handler serves the verbs; POST /events, /events/count and /replay, which answer with a line for
// each of many; and GET /backup, the bytes of a copy of the store.
func Handler(v Verbs) http.Handler {
	mux := http.NewServeMux()
	getStatus.serve(mux, func(context.Context, Nothing) (Status, error) { return v.Status() })
	if v.Refuse != nil {
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, 0, nil, v.Refuse()) })
		return mux
	}
	Resume.serve(mux, v.resume)
	Approve.serve(mux, v.approve)
	Poll.serve(mux, v.poll)
	DropLetter.serve(mux, func(ctx context.Context, q DropLetterRequest) (Nothing, error) {
		return Nothing{}, v.DropLetter(ctx, q.Number)
	})
	Find.serve(mux, v.Find)
	Export.serve(mux, v.Export)
	Forget.serve(mux, v.Forget)
	Report.serve(mux, v.Report)
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, _ *http.Request) {
		err := v.Backup(w, func(bytes int64) {
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.FormatInt(bytes, 10))
		})
		if err != nil {
			panic(http.ErrAbortHandler) // the connection ends before all announced bytes are there
		}
	})
	places := make(chan struct{}, mostStreams)
	mux.Handle("POST /events", streamed(places, func(ctx context.Context, q EventQuery, send func(frame) error) error {
		for e, err := range v.Events(ctx, q) {
			if err == nil {
				err = send(frame{Event: &e.Event, Acknowledged: e.Acknowledged})
			}
			if err != nil {
				return err
			}
		}
		return nil
	}))
	mux.Handle("POST /events/count", streamed(places, func(ctx context.Context, q EventQuery, send func(frame) error) error {
		c, err := v.CountEvents(ctx, q)
		return errors.Join(err, send(report(c)))
	}))
	mux.Handle("POST /replay", streamed(places, func(ctx context.Context, q ReplayRequest, send func(frame) error) error {
		return v.Replay(ctx, q, func(p ReplayProgress) error { return send(report(p)) })
	}))
	return paced(mux)
}

func (v Verbs) poll(_ context.Context, q AgencyRequest) (poller.PolledNow, error) {
	return v.Poll(q.AgencyID, q.PropertyReferenceID)
}

func (v Verbs) approve(_ context.Context, q AgencyRequest) (a ApproveAnswer, err error) {
	a.Held, err = v.Approve(q.AgencyID)
	return a, err
}

func (v Verbs) resume(_ context.Context, q AgencyRequest) (a ResumeAnswer, err error) {
	a.Ended, err = v.Resume(q.AgencyID, q.PropertyReferenceID)
	return a, err
}

// Errors of what is asked.
var (
	// ErrWaiting is wrapped by what a doorbell answers that waits while another one works.
	ErrWaiting  = errors.New("this doorbell waits")
	errBody     = errors.New(`the body must be JSON like {"agencyId":"A100"}`)
	errTooLarge = errors.New("the answer is too large")
)

// statuses are the HTTP statuses of errors; 500 for all others. A client finds the error again by
// them.
var statuses = []struct {
	err  error
	code int
}{
	{poller.ErrUnknownAgency, http.StatusNotFound},
	{poller.ErrHalted, http.StatusConflict},
	{poller.ErrTooSoon, http.StatusTooManyRequests},
	{people.ErrNothing, http.StatusGone},
	{stream.ErrMayNotErase, http.StatusFailedDependency},
	{ErrWaiting, http.StatusConflict},
	{errBody, http.StatusBadRequest},
	{errTooLarge, http.StatusRequestEntityTooLarge},
	{errChunked, http.StatusLengthRequired},
	{errWrongToken, http.StatusUnauthorized},
	{errNeedsToken, http.StatusUnauthorized},
	{errNoToken, http.StatusForbidden},
	{errNotLocal, http.StatusForbidden},
	{errForeign, http.StatusForbidden},
}

func statusOf(err error) int {
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return s.code
		}
	}
	return http.StatusInternalServerError
}

// errorBody is the body of every answer that is no success.
type errorBody struct {
	Error string `json:"error"`
}

// serve answers the verb.
func (v Verb[Q, A]) serve(mux *http.ServeMux, do func(context.Context, Q) (A, error)) {
	mux.HandleFunc(v.route, func(w http.ResponseWriter, r *http.Request) {
		q, err := question[Q](w, r)
		if err != nil {
			answer(w, 0, nil, err)
			return
		}
		a, err := do(r.Context(), q)
		answer(w, v.code, a, err)
	})
}

// Ask asks a daemon.
func (v Verb[Q, A]) Ask(ctx context.Context, c *Client, q Q) (a A, err error) {
	if v.limit > 0 {
		limited, cancel := context.WithTimeout(ctx, v.limit)
		defer cancel()
		ctx = limited
	}
	method, path, _ := strings.Cut(v.route, " ")
	response, err := c.open(ctx, method, path, q)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return a, json.Unmarshal(b, &a)
}

// question decodes the body of a request.
func question[Q any](w http.ResponseWriter, r *http.Request) (q Q, err error) {
	if _, none := any(q).(Nothing); none {
		return q, nil
	}
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q) != nil {
		return q, errBody
	}
	if c, checked := any(q).(interface{ complete() bool }); checked && !c.complete() {
		return q, errBody
	}
	return q, nil
}

// answer writes an answer under a status, 0 for 200; or an error.
func answer(w http.ResponseWriter, code int, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		code, v = statusOf(err), errorBody{Error: err.Error()}
		var early *poller.TooSoonError
		if errors.As(err, &early) {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(early.Wait.Seconds()))))
		}
	}
	w.WriteHeader(cmp.Or(code, http.StatusOK))
	json.NewEncoder(w).Encode(v) //nolint:errcheck // a client that hung up
}

// mostStreams bounds the answers under way that are written as they are read: each holds some
// megabytes.
const mostStreams = 8

// frame is one line of such an answer: an event, or a report, or why it ends. An answer that ends
// in another way was cut.
type frame struct {
	Event        *events.Event   `json:"event,omitempty"`
	Acknowledged bool            `json:"acknowledged,omitempty"`
	Report       json.RawMessage `json:"report,omitempty"`
	Error        string          `json:"error,omitempty"`
	Hint         string          `json:"hint,omitempty"`
	Done         bool            `json:"done,omitempty"`
}

func report(v any) frame {
	text, _ := json.Marshal(v) // numbers and texts only
	return frame{Report: text}
}

// hinted is an error that says what can be done about it.
type hinted struct {
	error
	hint string
}

func (e *hinted) Unwrap() error { return e.error }

// WithHint gives an error what a person can do about it; it travels with the error to the
// client.
func WithHint(err error, hint string) error { return &hinted{err, hint} }

// Hint is what to do about an error, empty if it does not say.
func Hint(err error) string {
	var h *hinted
	if errors.As(err, &h) {
		return h.hint
	}
	return ""
}

// streamed answers with frames. The header goes out at once, so that the other side knows that
// somebody is at work; so do reports. Events go out when there are enough of them.
func streamed[Q any](places chan struct{}, work func(ctx context.Context, q Q, send func(frame) error) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q, err := question[Q](w, r)
		if err != nil {
			answer(w, 0, nil, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines, flush := json.NewEncoder(w), http.NewResponseController(w).Flush
		lines.SetEscapeHTML(false) // payloads arrive as they are in the log
		last := frame{Error: "the daemon is busy with other such requests", Hint: "try again when they are answered"}
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
			_ = flush() // a client that hung up is noticed when it is written to
			last = frame{Done: true}
			err := work(r.Context(), q, func(f frame) error {
				err := lines.Encode(f)
				if f.Report != nil {
					err = errors.Join(err, flush())
				}
				return err
			})
			if err != nil {
				last = frame{Error: err.Error(), Hint: Hint(err)}
			}
		default:
		}
		lines.Encode(last) //nolint:errcheck // a client that hung up
	}
}

// answerLimit is how long a reader may take nothing of an answer, however long all of it takes. As
// long as a backup is under way, for instance, the store's file can only grow.
const answerLimit = 30 * time.Second

// paced gives each part of an answer its own time.
func paced(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := &pacedWriter{w, http.NewResponseController(w)}
		defer p.extend() // for what the server sends at the end
		next.ServeHTTP(p, r)
	})
}

type pacedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (w *pacedWriter) extend() { _ = w.control.SetWriteDeadline(time.Now().Add(answerLimit)) }

func (w *pacedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *pacedWriter) Write(p []byte) (int, error) {
	w.extend()
	return w.ResponseWriter.Write(p)
}

// Flush sends what was written.
func (w *pacedWriter) Flush() { _ = w.FlushError() }

// FlushError is Flush for http.ResponseController.
func (w *pacedWriter) FlushError() error {
	w.extend()
	return w.control.Flush()
}

// maxSocketPath is what every system takes for the path of a unix socket.
const maxSocketPath = 100

// CheckPath says whether a socket can stand at path, without touching anything.
func CheckPath(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("the path of the socket, %s, is longer than the %d bytes that systems allow; choose a shorter data directory", path, maxSocketPath)
	}
	return nil
}

// Listen opens the socket, for its owner only. It replaces one that a killed daemon left behind, so
// the caller must hold the store's lock.
func Listen(path string) (net.Listener, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// Client asks a daemon over its socket.
type Client struct{ http http.Client }

// NewClient returns a client of the socket at path.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{http: http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// ErrNoAnswer is returned when no daemon answers at the socket.
var ErrNoAnswer = errors.New("no daemon answers")

// Status asks how the daemon is.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return getStatus.Ask(ctx, c, Nothing{})
}

// mostAnswer is the longest answer that is read whole.
const mostAnswer = 64 << 20

// open asks and waits for the beginning of an answer that is a success.
func (c *Client) open(ctx context.Context, method, path string, body any) (*http.Response, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://doorbell"+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response, nil
}

// refusal is what an answer that is no success says.
func refusal(response *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	var p errorBody
	if json.Unmarshal(b, &p) != nil || p.Error == "" {
		return fmt.Errorf("the daemon answered %s", response.Status)
	}
	for _, s := range statuses {
		if s.code == response.StatusCode {
			return &Said{p.Error, s.err}
		}
	}
	return errors.New(p.Error)
}

// Said is an error of another process in its own words, which may be one that is known here.
type Said struct {
	Words string
	Known error
}

func (e *Said) Error() string { return e.Words }

func (e *Said) Unwrap() error { return e.Known }

// Backup writes a copy of the daemon's store to w, as long as that takes. sized is called first with
// the number of bytes, and may refuse them.
func (c *Client) Backup(ctx context.Context, w io.Writer, sized func(bytes int64) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	late := time.AfterFunc(answerLimit, cancel) // it begins at once, and then takes as long as it takes
	response, err := c.open(ctx, http.MethodGet, "/backup", nil)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	late.Stop()
	if err := sized(response.ContentLength); err != nil {
		return err
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("copy from the daemon: %w", err)
	}
	return nil
}

// Events yields the events of the daemon's log that a query means; see Log.Events. The error is
// ErrNoAnswer if no daemon answers, or breaks off.
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
	return counts, reports(ctx, c, "/events/count", q, func(c EventCounts) error {
		counts = c
		return nil
	})
}

// Replay lets the daemon publish events of its log once more. It reports its progress, at the end
// for the last time. The replay stops when ctx ends.
func (c *Client) Replay(ctx context.Context, q ReplayRequest, progress func(ReplayProgress) error) error {
	return reports(ctx, c, "/replay", q, progress)
}

// reports asks and hands over each report of the answer.
func reports[A any](ctx context.Context, c *Client, path string, q any, each func(A) error) error {
	for f, err := range c.frames(ctx, path, q) {
		var a A
		if err == nil && f.Report != nil {
			err = json.Unmarshal(f.Report, &a)
		}
		if err == nil && f.Report != nil {
			err = each(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// frames asks and yields the frames of the answer but the last. It takes as long as the answer
// does.
func (c *Client) frames(ctx context.Context, path string, q any) iter.Seq2[frame, error] {
	return func(yield func(frame, error) bool) {
		response, err := c.open(ctx, http.MethodPost, path, q)
		if err != nil {
			yield(frame{}, err)
			return
		}
		defer response.Body.Close()
		lines := json.NewDecoder(response.Body)
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
