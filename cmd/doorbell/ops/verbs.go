package ops

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/people"
	leads "doorbell/cmd/doorbell/report"
	"doorbell/poller"
)

// Verbs are what can be asked of a daemon.
type Verbs struct {
	Status  func() (Status, error)
	Resume  func(ctx context.Context, q AgencyRequest) (ResumeAnswer, error)
	Approve func(ctx context.Context, q AgencyRequest) (ApproveAnswer, error)
	// Poll polls what waits the longest of an agency; with a reference that insertion next, see
	// poller.Nudge.
	Poll func(ctx context.Context, q AgencyRequest) (poller.PolledNow, error)
	// Backup writes a copy of the store; see store.Backup.
	Backup func(w io.Writer, sized func(bytes int64)) error
	// Events and CountEvents read the event log, which may take long.
	Events      func(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error]
	CountEvents func(ctx context.Context, q EventQuery) (EventCounts, error)
	// Replay takes as long as its rate demands, and stops when its context ends.
	Replay func(ctx context.Context, q ReplayRequest) (ReplayAnswer, error)
	// Find, Export and Forget are about a person's data; see people.Places. They may take long.
	Find   func(ctx context.Context, w people.Wanted) (people.Found, error)
	Export func(ctx context.Context, w people.Wanted) ([]people.Exported, error)
	Forget func(ctx context.Context, q ForgetRequest) (people.Receipt, error)
	// Report counts what became of the leads of some days. It may take long.
	Report func(ctx context.Context, q ReportRequest) (leads.Report, error)
	// DropLetter erases a dead letter.
	DropLetter func(ctx context.Context, q DropLetterRequest) (Nothing, error)
	// Refuse returns why nothing but the status can be asked; the other fields are then not used.
	// Nil: everything can.
	Refuse func() error
}

// The verbs: what is asked with what, and answered by what. What they do stands at the fields of
// Verbs.
var (
	getStatus   = Verb[Nothing, Status]{route: "GET /v1/status", limit: askLimit}
	Resume      = Verb[AgencyRequest, ResumeAnswer]{route: "POST /v1/resume", limit: askLimit}
	Approve     = Verb[AgencyRequest, ApproveAnswer]{route: "POST /v1/approve", limit: askLimit}
	Poll        = Verb[AgencyRequest, poller.PolledNow]{"POST /v1/poll", askLimit, http.StatusAccepted}
	DropLetter  = Verb[DropLetterRequest, Nothing]{route: "POST /dlq/drop", limit: askLimit}
	Find        = Verb[people.Wanted, people.Found]{route: "POST /find"}
	Export      = Verb[people.Wanted, []people.Exported]{route: "POST /export"}
	Forget      = Verb[ForgetRequest, people.Receipt]{route: "POST /forget"}
	Report      = Verb[ReportRequest, leads.Report]{route: "POST /report"}
	Replay      = Verb[ReplayRequest, ReplayAnswer]{route: "POST /replay"}
	CountEvents = Verb[EventQuery, EventCounts]{route: "POST /events/count"}
)

// The other two questions are answered at length: by the events that are meant, a line each, and by
// the bytes of a copy of the store.
const (
	eventsPath = "/events"
	backupPath = "/backup"
)

// askLimit is how long an answer may take that needs no long work.
const askLimit = 10 * time.Second

// Questions and answers of the verbs.
type (
	// Nothing is the question or the answer that has no body.
	Nothing struct{}

	AgencyRequest struct {
		AgencyID string `json:"agencyId"`
		// empty: the agency and all of its insertions
		PropertyReferenceID string `json:"propertyReferenceId,omitempty"`
	}
	ResumeAnswer struct {
		Ended int `json:"ended"` // halts that were ended
	}
	ApproveAnswer struct {
		Held bool `json:"held"` // whether a change was held that is approved now
	}

	// ForgetRequest says who is to be forgotten and in which requests, as they were found.
	ForgetRequest struct {
		people.Wanted
		Requests []people.Request `json:"requests"`
	}
	DropLetterRequest struct {
		Number uint64 `json:"number"`
	}
	ReportRequest struct {
		Since time.Time `json:"since"`
	}

	// ReplayRequest says which events of the log are published once more, under the name of which
	// job.
	ReplayRequest struct {
		Query EventQuery `json:"query"`
		Job   string     `json:"job"`
		Total int        `json:"total"` // as counted; only reported
		Rate  float64    `json:"rate"`  // events a second; 0: as fast as they are acknowledged
	}
	ReplayAnswer struct {
		Job          string `json:"job"`
		Subject      string `json:"subject"` // of all that it publishes
		Stream       string `json:"stream"`
		Total        int    `json:"total"`
		Published    int    `json:"published"`
		AlreadyThere int    `json:"alreadyThere"` // published by an earlier run of the job
	}
)

// maxReference is longer than any id or reference that a request may name, in bytes.
const maxReference = 1 << 10

func (q AgencyRequest) complete() bool {
	return q.AgencyID != "" && len(q.AgencyID) <= maxReference &&
		len(q.PropertyReferenceID) <= maxReference
}

// Handler serves the verbs.
func Handler(v Verbs) http.Handler {
	mux := http.NewServeMux()
	getStatus.serve(mux, func(context.Context, Nothing) (Status, error) { return v.Status() })
	if v.Refuse != nil {
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { answer(w, 0, nil, v.Refuse()) })
		return mux
	}
	Resume.serve(mux, v.Resume)
	Approve.serve(mux, v.Approve)
	Poll.serve(mux, v.Poll)
	DropLetter.serve(mux, v.DropLetter)
	Find.serve(mux, v.Find)
	Export.serve(mux, v.Export)
	Forget.serve(mux, v.Forget)
	Report.serve(mux, v.Report)
	Replay.serve(mux, v.Replay)
	CountEvents.serve(mux, v.CountEvents)
	mux.HandleFunc("POST "+eventsPath, v.serveEvents)
	mux.HandleFunc("GET "+backupPath, v.serveBackup)
	return mux
}

// Verb is a question that a daemon answers: JSON with JSON. Both sides are made of it.
type Verb[Q, A any] struct {
	route string        // method and path
	limit time.Duration // for the answer; 0: it may take long
	code  int           // of a good answer; 0: 200
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
	b, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return a, fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return a, json.Unmarshal(b, &a)
}

// eventLine is an event of the log, or why there are no more; empty: all were sent. An answer that
// ends in another way was cut.
type eventLine struct {
	Event *LoggedEvent `json:"event,omitempty"`
	refusal
}

func (v Verbs) serveEvents(w http.ResponseWriter, r *http.Request) {
	q, err := question[EventQuery](w, r)
	if err != nil {
		answer(w, 0, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false) // payloads arrive as they are in the log
	var last eventLine
	for e, err := range v.Events(r.Context(), q) {
		if err != nil {
			last.refusal, _ = refused(err)
			break
		}
		if out.Encode(eventLine{Event: &e}) != nil {
			return // a client that hung up
		}
	}
	out.Encode(last) //nolint:errcheck // as above
}

// Events yields the events of the daemon's log that a query means; see Log.Events. An error is the
// last thing that is yielded; it is ErrNoAnswer if no daemon answers, or breaks off.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error] {
	return func(yield func(LoggedEvent, error) bool) {
		response, err := c.open(ctx, http.MethodPost, eventsPath, q)
		if err != nil {
			yield(LoggedEvent{}, err)
			return
		}
		defer response.Body.Close()
		for in := json.NewDecoder(response.Body); ; {
			var next eventLine
			switch err := in.Decode(&next); {
			case err != nil:
				yield(LoggedEvent{}, fmt.Errorf("%w: it broke off", ErrNoAnswer))
				return
			case next.Error != "":
				yield(LoggedEvent{}, next.asError())
				return
			case next.Event == nil, !yield(*next.Event, nil):
				return
			}
		}
	}
}

func (v Verbs) serveBackup(w http.ResponseWriter, _ *http.Request) {
	err := v.Backup(pacedWriter{w}, func(bytes int64) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(bytes, 10))
	})
	if err != nil {
		panic(http.ErrAbortHandler) // the connection ends before all announced bytes are there
	}
}

// Errors of what is asked.
var (
	// ErrWaiting is wrapped by what a doorbell answers that waits while another one works.
	ErrWaiting = errors.New("this doorbell is waiting")
	errBody    = errors.New(`the body must be JSON like {"agencyId":"A100"}`)
)

// statuses are the HTTP statuses of errors, and what to do about them; 500 for all others.
var statuses = []struct {
	err  error
	code int
	hint string
}{
	{
		poller.ErrUnknownAgency, http.StatusNotFound,
		"doorbell status lists the agencies; their ids are case-sensitive",
	},
	{poller.ErrHalted, http.StatusConflict, "doorbell status says why, and what ends it"},
	{poller.ErrTooSoon, http.StatusTooManyRequests, ""},
	{ErrWaiting, http.StatusConflict, ""},
	{errBody, http.StatusBadRequest, ""},
	{errChunked, http.StatusLengthRequired, ""},
	{errWrongToken, http.StatusUnauthorized, ""},
	{errNeedsToken, http.StatusUnauthorized, ""},
	{errNoToken, http.StatusForbidden, ""},
	{errNotLocal, http.StatusForbidden, ""},
	{errForeign, http.StatusForbidden, ""},
}

// refusal is the body of every answer that is no success.
type refusal struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Exit  int    `json:"exit,omitempty"` // with which a command ends; 0: 1
}

// refused returns an error as an answer, and its HTTP status.
func refused(err error) (refusal, int) {
	code, _, hint := exit.Outcome(err)
	r := refusal{Error: err.Error(), Hint: hint}
	if code != exit.CodeFailed {
		r.Exit = code
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			r.Hint = cmp.Or(hint, s.hint)
			return r, s.code
		}
	}
	return r, http.StatusInternalServerError
}

// asError is what a refusal is at the client.
func (r refusal) asError() error {
	return &exit.Error{Code: cmp.Or(r.Exit, exit.CodeFailed), Hint: r.Hint, Err: errors.New(r.Error)}
}

// question decodes the body of a request.
func question[Q any](w http.ResponseWriter, r *http.Request) (q Q, err error) {
	if _, none := any(q).(Nothing); none {
		return q, nil
	}
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&q)
	if c, checked := any(q).(AgencyRequest); err != nil || checked && !c.complete() {
		return q, errBody
	}
	return q, nil
}

// answer writes an answer under a status, 0 for 200; or an error.
func answer(w http.ResponseWriter, code int, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		v, code = refused(err)
		if early, is := errors.AsType[*poller.TooSoonError](err); is {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(early.Wait.Seconds()))))
		}
	}
	w.WriteHeader(cmp.Or(code, http.StatusOK))
	json.NewEncoder(w).Encode(v) //nolint:errcheck // a client that hung up
}
