package ops

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// MicroOptions configure ServeMicro. All are required.
type MicroOptions struct {
	Conn    *nats.Conn // the caller closes it when ServeMicro has ended, and uses it for nothing else
	Prefix  string     // of subjects: it answers on <prefix>.admin.status
	StoreID string     // tells several daemons apart
	Version string     // three numbers, as the protocol wants it
	Status  func() (Status, error)
	Log     *slog.Logger
}

// microName is the name of the service.
const microName = "doorbell"

// AdminSubjects are those on which a daemon with this prefix answers.
func AdminSubjects(prefix string) string { return prefix + ".admin.>" }

// DiscoverySubjects are those on which a micro service of this name is found and says how it is; there are others for services
// of every name.
func DiscoverySubjects() []string {
	return []string{micro.APIPrefix + ".*." + microName, micro.APIPrefix + ".*." + microName + ".>"}
}

// microQueue bounds the requests that wait.
const microQueue = 256

// ServeMicro is the NATS micro service doorbell (ADR-32): discovery and statistics for everybody, and one endpoint, status, which
// only reads. All instances answer, for each is another daemon. It ends with nil when ctx does, and with an error when the
// connection is closed for good.
//
// It speaks the protocol itself, because micro.AddService answers wherever a request says: who may ask us, but not publish
// to a stream or to JetStream's own subjects, could let us do it with the rights of the relay. Here a reply goes to an inbox
// or nowhere.
func ServeMicro(ctx context.Context, o MicroOptions) error {
	m := newService(o)
	requests := make(chan *nats.Msg, microQueue)
	closed := o.Conn.StatusChanged(nats.CLOSED)
	for _, subject := range m.subjects() {
		if _, err := o.Conn.ChanSubscribe(subject, requests); err != nil {
			return fmt.Errorf("micro service: %w", err)
		}
	}
	if o.Conn.IsClosed() {
		return errMicroClosed
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return errMicroClosed
		case r := <-requests:
			m.serve(r)
		}
	}
}

var errMicroClosed = errors.New("micro service: the connection is closed")

// service answers requests, one after the other.
type service struct {
	o        MicroOptions
	identity micro.ServiceIdentity
	endpoint micro.EndpointInfo
	stats    micro.EndpointStats
	started  time.Time
	room     int // bytes that an answer may have
}

func newService(o MicroOptions) *service {
	subject := o.Prefix + ".admin.status"
	return &service{
		o: o, started: time.Now().UTC(),
		identity: micro.ServiceIdentity{Name: microName, ID: rand.Text(), Version: o.Version, Metadata: map[string]string{"storeId": o.StoreID}},
		endpoint: micro.EndpointInfo{Name: "status", Subject: subject, Metadata: map[string]string{
			"request": `empty, or {"agencyId":"A100"}`, "response": "doorbell status --json",
		}},
		stats: micro.EndpointStats{Name: "status", Subject: subject},
	}
}

// subjects are all that it listens to.
func (m *service) subjects() []string {
	all := []string{m.endpoint.Subject}
	for _, verb := range []micro.Verb{micro.PingVerb, micro.InfoVerb, micro.StatsVerb} {
		p := micro.APIPrefix + "." + verb.String()
		all = append(all, p, p+"."+m.identity.Name, p+"."+m.identity.Name+"."+m.identity.ID)
	}
	return all
}

// serve answers one request, if its reply goes to an inbox.
func (m *service) serve(r *nats.Msg) {
	if !strings.HasPrefix(r.Reply, "_INBOX") {
		return
	}
	m.room = int(m.o.Conn.MaxPayload()) - 1<<10 // for headers
	var reply *nats.Msg
	switch verb, _, _ := strings.Cut(strings.TrimPrefix(r.Subject, micro.APIPrefix+"."), "."); {
	case r.Subject == m.endpoint.Subject:
		reply = m.status(r.Data)
	case verb == micro.PingVerb.String():
		reply = packed(micro.Ping{ServiceIdentity: m.identity, Type: micro.PingResponseType})
	case verb == micro.InfoVerb.String():
		reply = packed(micro.Info{
			ServiceIdentity: m.identity, Type: micro.InfoResponseType, Endpoints: []micro.EndpointInfo{m.endpoint},
			Description: "Rings when something happens at a listings API. Read-only.",
		})
	default:
		stats := m.stats
		reply = packed(micro.Stats{ServiceIdentity: m.identity, Type: micro.StatsResponseType, Started: m.started, Endpoints: []*micro.EndpointStats{&stats}})
	}
	reply.Subject = r.Reply
	if err := m.o.Conn.PublishMsg(reply); err != nil {
		m.o.Log.Debug("micro service", "err", err.Error())
	}
}

func packed(v any) *nats.Msg {
	b, _ := json.Marshal(v) // they are made of what JSON has
	return &nats.Msg{Data: b}
}

// status answers with the status, and counts.
func (m *service) status(request []byte) *nats.Msg {
	began := time.Now()
	reply, err := m.answer(request)
	if err != nil {
		m.stats.NumErrors++
		m.stats.LastError = err.Error()
		code := "500"
		if c := statusOf(err); c < 500 {
			code = fmt.Sprint(c)
		}
		reply = packed(errorBody{Error: err.Error()})
		reply.Header = nats.Header{micro.ErrorHeader: {err.Error()}, micro.ErrorCodeHeader: {code}}
	}
	m.stats.NumRequests++
	m.stats.ProcessingTime += time.Since(began)
	m.stats.AverageProcessingTime = m.stats.ProcessingTime / time.Duration(m.stats.NumRequests)
	return reply
}

// shortenedHeader says what was left out of an answer that would have been too large for a message.
const shortenedHeader = "doorbell-shortened"

// answer is the status of all, or of one agency. What is too large for a message of this server goes without the figures of each
// hour, and then without those of freshness, and says so in a header.
func (m *service) answer(request []byte) (*nats.Msg, error) {
	s, err := m.o.Status()
	if err != nil {
		return nil, err
	}
	var q struct {
		AgencyID string `json:"agencyId"`
	}
	if len(request) > 0 && (len(request) > 4<<10 || json.Unmarshal(request, &q) != nil) {
		return nil, errBody
	}
	if q.AgencyID != "" {
		if s, err = s.of(q.AgencyID); err != nil {
			return nil, err
		}
	}
	for _, without := range []string{"", "hours", "hours, freshness"} {
		reply := packed(s.without(without))
		if len(reply.Data) <= m.room {
			if without != "" {
				reply.Header = nats.Header{shortenedHeader: {without}}
			}
			return reply, nil
		}
	}
	return nil, fmt.Errorf(`%w: the status of %d agencies is larger than a message may be here; ask for one: {"agencyId":"…"}`, errTooLarge, len(s.Watch.Agencies))
}
