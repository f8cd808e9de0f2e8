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

// ResumeRequest is the body of POST /resume.
type ResumeRequest struct {
	AgencyID            string `json:"agencyId"`
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"` // empty: the agency and all of its insertions
}

// ResumeAnswer is the answer to it.
type ResumeAnswer struct {
	Ended int `json:"ended"` // halts that were ended
}

// ApproveRequest is the body of POST /approve.
type ApproveRequest struct {
	AgencyID string `json:"agencyId"`
}

// ApproveAnswer is the answer to it.
type ApproveAnswer struct {
	Held bool `json:"held"` // whether a change was held that is believed now
}

// PollRequest is the body of POST /poll. The answer is poller.PolledNow.
type PollRequest struct {
	AgencyID string `json:"agencyId"`
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
	mux.HandleFunc("POST /resume", func(w http.ResponseWriter, r *http.Request) {
		var q ResumeRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&q); err != nil || q.AgencyID == "" {
			answer(w, nil, errBody)
			return
		}
		n, err := v.Resume(q.AgencyID, q.PropertyReferenceID)
		answer(w, ResumeAnswer{Ended: n}, err)
	})
	mux.HandleFunc("POST /approve", func(w http.ResponseWriter, r *http.Request) {
		var q ApproveRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&q); err != nil || q.AgencyID == "" {
			answer(w, nil, errBody)
			return
		}
		held, err := v.Approve(q.AgencyID)
		answer(w, ApproveAnswer{Held: held}, err)
	})
	mux.HandleFunc("POST /poll", func(w http.ResponseWriter, r *http.Request) {
		var q PollRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&q); err != nil || q.AgencyID == "" {
			answer(w, nil, errBody)
			return
		}
		done, err := v.Poll(q.AgencyID)
		answer(w, done, err)
	})
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
func (c *Client) Resume(ctx context.Context, q ResumeRequest) (int, error) {
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
	err = c.ask(ctx, http.MethodPost, "/approve", ApproveRequest{AgencyID: agencyID}, &a)
	return a.Held, err
}

// Poll lets an agency be asked for now.
func (c *Client) Poll(ctx context.Context, agencyID string) (done poller.PolledNow, err error) {
	return done, c.ask(ctx, http.MethodPost, "/poll", PollRequest{AgencyID: agencyID}, &done)
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
