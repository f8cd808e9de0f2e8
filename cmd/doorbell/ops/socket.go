package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"doorbell/poller"
)

// Verbs are what can be asked of a daemon.
type Verbs struct {
	Status  func() (Status, error)
	Outlook func() poller.Outlook
	Resume  func(agencyID, reference string) (ended int, err error)
	Approve func(agencyID string) (held bool, err error)
	Poll    func(agencyID string) (poller.PolledNow, error)
	// VerifyKeys may take long.
	VerifyKeys func(ctx context.Context) (poller.KeyReport, error)
	// Backup writes a copy of the store; see store.Backup.
	Backup func(w io.Writer, sized func(bytes int64)) error
	StreamVerbs
	// Events and CountEvents read the event log, which may take long.
	Events      func(ctx context.Context, q EventQuery) iter.Seq2[LoggedEvent, error]
	CountEvents func(ctx context.Context, q EventQuery) (EventCounts, error)
	// Replay takes as long as its rate demands. It ends with the error of told, if that has one.
	Replay func(ctx context.Context, q ReplayRequest, told func(ReplayProgress) error) error
	// DropLetter erases a dead letter.
	DropLetter func(ctx context.Context, number uint64) error
}

// AgencyRequest is the body of POST /resume, /approve, /poll and /resend.
type AgencyRequest struct {
	AgencyID            string `json:"agencyId"`
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"` // of /resume alone; empty: the agency and all of its insertions
}

// ResumeAnswer is the answer to it.
type ResumeAnswer struct {
	Ended int `json:"ended"` // halts that were ended
}

// ApproveAnswer is the answer to it.
type ApproveAnswer struct {
	Held bool `json:"held"` // whether a change was held that is believed now
}

// problem is the body of every answer that is no success.
type problem struct {
	Error string `json:"error"`
}

// Handler serves the verbs, all JSON: GET /status and /outlook, POST /resume, /approve, /poll, /keys/verify, /compare, /resend,
// /events, /events/count, /replay and /dlq/drop, of which /events and /replay send a line each for many; and GET /backup, the
// bytes of a copy of the store.
func Handler(v Verbs) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s, err := v.Status()
		answer(w, s, err)
	})
	mux.HandleFunc("GET /outlook", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, v.Outlook(), nil)
	})
	mux.HandleFunc("POST /resume", ofAgency(func(_ context.Context, q AgencyRequest) (any, error) {
		n, err := v.Resume(q.AgencyID, q.PropertyReferenceID)
		return ResumeAnswer{Ended: n}, err
	}))
	mux.HandleFunc("POST /approve", ofAgency(func(_ context.Context, q AgencyRequest) (any, error) {
		held, err := v.Approve(q.AgencyID)
		return ApproveAnswer{Held: held}, err
	}))
	mux.HandleFunc("POST /poll", ofAgency(func(_ context.Context, q AgencyRequest) (any, error) {
		done, err := v.Poll(q.AgencyID)
		return done, err
	}))
	mux.HandleFunc("POST /keys/verify", func(w http.ResponseWriter, r *http.Request) {
		report, err := v.VerifyKeys(r.Context())
		answer(w, report, err)
	})
	mux.HandleFunc("GET /backup", func(w http.ResponseWriter, _ *http.Request) { sendBackup(w, v.Backup) })
	v.handle(mux)
	places := make(chan struct{}, mostStreams)
	serveEvents(mux, v, places)
	serveReplay(mux, v, places)
	serveLetters(mux, v)
	return mux
}

// ofAgency answers what is asked of an agency, which the body has to name.
func ofAgency(verb func(ctx context.Context, q AgencyRequest) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q AgencyRequest
		if !read(w, r, &q) {
			return
		}
		if q.AgencyID == "" {
			answer(w, nil, errBody)
			return
		}
		done, err := verb(r.Context(), q)
		answer(w, done, err)
	}
}

var errBody = errors.New(`the body must be JSON like {"agencyId":"A100"}`)

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	switch {
	case err == nil:
	case errors.Is(err, poller.ErrUnknownAgency):
		w.WriteHeader(http.StatusNotFound)
	case errors.Is(err, poller.ErrNoNextKey):
		w.WriteHeader(http.StatusConflict)
	case errors.Is(err, errBody):
		w.WriteHeader(http.StatusBadRequest)
	default:
		w.WriteHeader(http.StatusInternalServerError)
	}
	if err != nil {
		v = problem{Error: err.Error()}
	}
	json.NewEncoder(w).Encode(v) //nolint:errcheck // a client that hung up
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

// Listen opens the socket, for its owner only. It replaces one that a killed daemon left behind, so the caller must hold
// the store's lock.
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
	return &Client{http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// ErrNoAnswer is returned when no daemon answers at the socket.
var ErrNoAnswer = errors.New("no daemon answers")

// Status asks how the daemon is.
func (c *Client) Status(ctx context.Context) (s Status, err error) {
	return s, c.ask(ctx, http.MethodGet, "/status", nil, &s)
}

// Outlook asks for what a forecast must know.
func (c *Client) Outlook(ctx context.Context) (o poller.Outlook, err error) {
	return o, c.ask(ctx, http.MethodGet, "/outlook", nil, &o)
}

// Resume ends halts.
func (c *Client) Resume(ctx context.Context, q AgencyRequest) (int, error) {
	var a ResumeAnswer
	err := c.ask(ctx, http.MethodPost, "/resume", q, &a)
	return a.Ended, err
}

// VerifyKeys compares the keys of the daemon's agencies, which takes as long as its budget demands. The error wraps
// poller.ErrNoNextKey if there is nothing to compare.
func (c *Client) VerifyKeys(ctx context.Context) (report poller.KeyReport, err error) {
	patient := Client{http.Client{Transport: c.http.Transport}} // ctx alone ends it
	return report, patient.ask(ctx, http.MethodPost, "/keys/verify", nil, &report)
}

// Approve believes the held change of an agency.
func (c *Client) Approve(ctx context.Context, agencyID string) (held bool, err error) {
	var a ApproveAnswer
	err = c.ask(ctx, http.MethodPost, "/approve", AgencyRequest{AgencyID: agencyID}, &a)
	return a.Held, err
}

// Poll lets an agency be asked for now.
func (c *Client) Poll(ctx context.Context, agencyID string) (done poller.PolledNow, err error) {
	return done, c.ask(ctx, http.MethodPost, "/poll", AgencyRequest{AgencyID: agencyID}, &done)
}

func (c *Client) ask(ctx context.Context, method, path string, body, into any) error {
	r, err := request(ctx, method, path, body)
	if err != nil {
		return err
	}
	response, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusConflict {
		return poller.ErrNoNextKey
	}
	if response.StatusCode != http.StatusOK {
		return refusal(response)
	}
	b, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	return json.Unmarshal(b, into)
}

// mostAnswer is the longest answer that is read whole.
const mostAnswer = 64 << 20

func request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, method, "http://doorbell"+path, bytes.NewReader(b))
}

// refusal is what an answer that is no success says.
func refusal(response *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	var p problem
	switch {
	case json.Unmarshal(b, &p) != nil || p.Error == "":
		return fmt.Errorf("the daemon answered %s", response.Status)
	case response.StatusCode == http.StatusNotFound:
		return &saidError{p.Error, poller.ErrUnknownAgency}
	}
	return errors.New(p.Error)
}

// saidError is an error of the daemon in its own words, which is one that is known here.
type saidError struct {
	words string
	known error
}

func (e *saidError) Error() string { return e.words }

func (e *saidError) Unwrap() error { return e.known }

// stalled is how long a reader of a backup may take nothing: as long as a copy is under way, the store's file can only grow.
const stalled = 30 * time.Second

// sendBackup streams a copy of the store. A copy that fails ends the connection before all announced bytes are there.
func sendBackup(w http.ResponseWriter, backup func(w io.Writer, sized func(bytes int64)) error) {
	err := backup(patientWriter{w, http.NewResponseController(w)}, func(bytes int64) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(bytes, 10))
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// patientWriter writes as long as somebody reads.
type patientWriter struct {
	io.Writer
	control *http.ResponseController
}

func (w patientWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// Backup writes a copy of the daemon's store to w, as long as that takes. sized is told first how many bytes there will be, and
// may refuse them.
func (c *Client) Backup(ctx context.Context, w io.Writer, sized func(bytes int64) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://doorbell/backup", nil)
	if err != nil {
		return err
	}
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = stalled // it begins at once, and then takes as long as it takes
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answered %s", response.Status)
	}
	if err := sized(response.ContentLength); err != nil {
		return err
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("copy from the daemon: %w", err)
	}
	return nil
}

// StreamVerbs compare the event log with the stream; both may take long. Their answers are JSON of the caller's making: this
// room knows no relay.
type StreamVerbs struct {
	Compare func(ctx context.Context) (any, error)
	Resend  func(ctx context.Context, agencyID string) (sent int, err error)
}

// ResendAnswer is the answer to it.
type ResendAnswer struct {
	Sent int `json:"sent"` // events
}

func (v StreamVerbs) handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /compare", func(w http.ResponseWriter, r *http.Request) {
		found, err := v.Compare(r.Context())
		answer(w, found, err)
	})
	mux.HandleFunc("POST /resend", ofAgency(func(ctx context.Context, q AgencyRequest) (any, error) {
		sent, err := v.Resend(ctx, q.AgencyID)
		return ResendAnswer{Sent: sent}, err
	}))
}

// Compare asks for the comparison of log and stream, which takes as long as both are.
func (c *Client) Compare(ctx context.Context, into any) error {
	patient := Client{http.Client{Transport: c.http.Transport}} // ctx alone ends it
	return patient.ask(ctx, http.MethodPost, "/compare", nil, into)
}

// Resend lets an agency's events that the stream lacks be sent again.
func (c *Client) Resend(ctx context.Context, agencyID string) (sent int, err error) {
	patient := Client{http.Client{Transport: c.http.Transport}}
	var a ResendAnswer
	err = patient.ask(ctx, http.MethodPost, "/resend", AgencyRequest{AgencyID: agencyID}, &a)
	return a.Sent, err
}

// ReplayRequest is the body of POST /replay: which events of the log are published once more, under the name of which job.
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

// serveReplay adds POST /replay, which reports while it goes on and ends when it is done, or when whoever asked has left.
func serveReplay(mux *http.ServeMux, v Verbs, places chan struct{}) {
	mux.HandleFunc("POST /replay", func(w http.ResponseWriter, r *http.Request) {
		var q ReplayRequest
		if !read(w, r, &q) {
			return
		}
		stream(w, places, func(send func(frame) error) error {
			return v.Replay(r.Context(), q, func(p ReplayProgress) error {
				report, err := json.Marshal(p)
				if err != nil {
					return err
				}
				return send(frame{Report: report})
			})
		})
	})
}

// Replay lets the daemon publish events of its log once more. It tells how far it is as it goes on, at the end for the last
// time. The replay stops when ctx ends.
func (c *Client) Replay(ctx context.Context, q ReplayRequest, told func(ReplayProgress) error) error {
	return c.reports(ctx, "/replay", q, func(report json.RawMessage) error {
		var p ReplayProgress
		if err := json.Unmarshal(report, &p); err != nil {
			return err
		}
		return told(p)
	})
}
