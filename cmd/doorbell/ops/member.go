package ops

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"doorbell/events"
)

// Members of a cluster ask each other as commands ask a daemon, over NATS in the place of the socket: a request on
// <prefix>.admin.member.<member>.<verb> is what the socket would get as POST /<verb>, and so is its answer. The rights of the
// account say who may: whoever may publish there steers the member.

// ErrElsewhere is wrapped where an agency is another member's, and that one cannot be asked.
var ErrElsewhere = errors.New("the owner cannot be asked")

// ErrAlone is wrapped by what only a member of a cluster can do.
var ErrAlone = errors.New("this doorbell shares its agencies with nobody")

// ErrNoOther is wrapped where no other member could own an agency.
var ErrNoOther = errors.New("no other member of this configuration holds a permit")

// passedOn are the verbs that a member does for another one.
var passedOn = []string{"poll", "resume", "approve", "takeover", "release", "find", "export", "forget"}

const statusHeader = "doorbell-status" // of an answer, as in HTTP

func memberSubject(prefix, member string) string {
	return prefix + ".admin.member." + events.Token(member)
}

// NewMemberClient returns a client of another member.
func NewMemberClient(conn *nats.Conn, prefix, member string) *Client {
	return &Client{http: http.Client{Transport: overNATS{conn, memberSubject(prefix, member)}}, member: member}
}

// overNATS brings a request to a member.
type overNATS struct {
	conn    *nats.Conn
	subject string
}

// RoundTrip asks once.
func (o overNATS) RoundTrip(r *http.Request) (*http.Response, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	m, err := o.conn.RequestWithContext(r.Context(), o.subject+strings.ReplaceAll(r.URL.Path, "/", "."), body)
	if err != nil {
		return nil, err
	}
	code, err := strconv.Atoi(m.Header.Get(statusHeader))
	if err != nil {
		return nil, errors.New("the answer has no status")
	}
	return &http.Response{
		StatusCode: code, Status: fmt.Sprint(code), ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(m.Data)), Request: r,
	}, nil
}

// memberLimit is how long another member has to answer: less than who asked this one waits.
const memberLimit = 5 * time.Second

func askMember[Q, A any](ctx context.Context, member *Client, verb Verb[Q, A], q Q) (A, error) {
	ctx, cancel := context.WithTimeout(ctx, memberLimit)
	defer cancel()
	return verb.Of(ctx, member, q)
}

// Of asks another member.
func (v Verb[Q, A]) Of(ctx context.Context, member *Client, q Q) (A, error) {
	a, err := v.Ask(ctx, member, q)
	if errors.Is(err, ErrNoAnswer) {
		err = fmt.Errorf("%w: member %s does not answer", ErrElsewhere, member.member)
	}
	return a, err
}

// byOwner is what the owner of an agency answers: this daemon, which does it here, or another member, who is asked.
func byOwner[A any](ctx context.Context, v Verbs, verb Verb[AgencyRequest, A], q AgencyRequest, here func() (A, error)) (none A, err error) {
	if v.Owner != nil {
		owner, err := v.Owner(q.AgencyID)
		if err != nil {
			return none, err
		}
		if owner != nil {
			return askMember(ctx, owner, verb, q)
		}
	}
	return here()
}

// MemberOptions configure ServeMember. All are required.
type MemberOptions struct {
	Conn   *nats.Conn // the caller closes it when ServeMember has ended
	Prefix string     // of subjects
	Member string     // this one
	Verbs  Verbs      // their Owner names nobody else: what a member was asked for, it does not pass on
	Log    *slog.Logger
}

const (
	memberQueue  = 64 // requests that wait
	memberAtOnce = 8
)

// ServeMember does for other members what concerns agencies of this one, until ctx ends. Replies go to inboxes or nowhere.
func ServeMember(ctx context.Context, o MemberOptions) error {
	requests, closed := make(chan *nats.Msg, memberQueue), o.Conn.StatusChanged(nats.CLOSED)
	if _, err := o.Conn.ChanSubscribe(memberSubject(o.Prefix, o.Member)+".*", requests); err != nil {
		return fmt.Errorf("requests of members: %w", err)
	}
	if o.Conn.IsClosed() {
		return nats.ErrConnectionClosed
	}
	h := Handler(o.Verbs)
	var working errgroup.Group
	working.SetLimit(memberAtOnce)
	for {
		select {
		case <-ctx.Done():
			return working.Wait()
		case <-closed:
			return nats.ErrConnectionClosed
		case m := <-requests:
			verb := m.Subject[strings.LastIndex(m.Subject, ".")+1:]
			if !strings.HasPrefix(m.Reply, "_INBOX") {
				continue
			}
			working.Go(func() error {
				a := overHTTP(ctx, h, verb, m.Data)
				a.Subject = m.Reply
				o.Log.Info("a member has asked", "verb", verb)
				if err := o.Conn.PublishMsg(a); err != nil {
					o.Log.Debug("answer to a member", "err", err.Error())
				}
				return nil
			})
		}
	}
}

// overHTTP answers a request of a member as the socket does.
func overHTTP(ctx context.Context, h http.Handler, verb string, body []byte) *nats.Msg {
	w := &written{header: http.Header{}, code: http.StatusNotFound}
	for _, known := range passedOn {
		if r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/"+known, bytes.NewReader(body)); known == verb && err == nil {
			w.code = http.StatusOK
			h.ServeHTTP(w, r)
		}
	}
	return &nats.Msg{Data: w.body.Bytes(), Header: nats.Header{statusHeader: {strconv.Itoa(w.code)}}}
}

// written is an answer in memory.
type written struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (w *written) Header() http.Header         { return w.header }
func (w *written) WriteHeader(code int)        { w.code = code }
func (w *written) Write(p []byte) (int, error) { return w.body.Write(p) }
