// Package stream makes sure that a stream can hold what is published to it. [Ensure] creates a
// missing stream, corrects one on the embedded server, and reports how any other differs from the
// wanted configuration. A [Client] reads and erases messages. A [Conn] knows where JetStream is,
// and [Explain] what an error of NATS means.
package stream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Errors of Ensure that the operator has to act on.
var (
	// ErrMissing: the stream is missing, and Ensure may not create it.
	ErrMissing = errors.New("the stream is missing")
	// ErrUnfit: the stream exists with a configuration that is not fit, or cannot be created.
	ErrUnfit = errors.New("the stream is not suitable")
)

// Replays and DeadLetters derive the names of the other two streams from that of the events stream.
func Replays(events string) string     { return events + "_REPLAY" }
func DeadLetters(events string) string { return events + "_DLQ" }

// LeastMessage is the smallest message size limit to which every event can be shortened.
const LeastMessage = 4096

// Complete fills in what all our streams have in common: they are stored in files, and a full one
// refuses new messages instead of dropping old ones.
func Complete(c jetstream.StreamConfig) jetstream.StreamConfig {
	c.Retention, c.Storage, c.Discard = jetstream.LimitsPolicy, jetstream.FileStorage,
		jetstream.DiscardNew
	c.MaxConsumers, c.MaxMsgs, c.MaxMsgsPerSubject, c.MaxMsgSize = -1, -1, -1, -1
	c.MaxBytes, c.Replicas, c.AllowDirect = unlimited(c.MaxBytes), max(1, c.Replicas), true
	if c.MaxAge > 0 {
		c.Duplicates = min(c.Duplicates, c.MaxAge)
	}
	return c
}

// Rights are what Ensure may do.
type Rights struct {
	Manage bool // create the stream if it is missing
	// the server is ours: create the stream, and change it to the wanted configuration
	Embedded bool
}

// Found is a stream as Ensure left it.
type Found struct {
	Info      *jetstream.StreamInfo
	Made      bool
	Different []string // how it differs from the wanted configuration, in words
	// its duplicate window was widened: the server knows the ids of older messages only after a
	// restart
	Widened bool
}

// Ensure returns the stream named in a configuration, and creates or changes it first if that is
// allowed. A stream on a server that is not ours is never changed. The error wraps ErrMissing or
// ErrUnfit, or reports that the server did not respond or cannot change its stream.
func Ensure(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig,
	may Rights,
) (f Found, err error) {
	s, err := js.Stream(ctx, want.Name)
	if missing := errors.Is(err, jetstream.ErrStreamNotFound); missing && !may.Manage &&
		!may.Embedded {
		err = ErrMissing
	} else if missing {
		f.Made = true
		s, err = create(ctx, js, want)
	}
	if err != nil {
		return Found{}, fmt.Errorf("stream %s: %w", want.Name, err)
	}
	f.Info = s.CachedInfo()
	if f.Different = Differences(want, f.Info.Config); may.Embedded && len(f.Different) > 0 {
		was := f.Info
		if s, err = js.UpdateStream(ctx, want); err != nil {
			return f, fmt.Errorf("stream %s: change it: %w", want.Name, err)
		}
		f.Info = s.CachedInfo()
		f.Widened = f.Info.Config.Duplicates > was.Config.Duplicates && was.State.Msgs > 0
		f.Different = Differences(want, f.Info.Config)
	}
	return f, Unfit(want, f.Info.Config)
}

// create creates a stream. One beside the events stream gets as many replicas as that one has.
func create(ctx context.Context, js jetstream.JetStream, c jetstream.StreamConfig,
) (jetstream.Stream, error) {
	for _, suffix := range []string{Replays(""), DeadLetters("")} {
		if events, beside := strings.CutSuffix(c.Name, suffix); beside {
			n, err := Replicas(ctx, js, events)
			if err != nil {
				return nil, err
			}
			c.Replicas = n
		}
	}
	return js.CreateStream(ctx, c)
}

// Replicas returns how many replicas a stream has, 1 if it is missing.
func Replicas(ctx context.Context, js jetstream.JetStream, name string) (int, error) {
	s, err := js.Stream(ctx, name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return 1, nil
	case err != nil:
		return 0, err
	}
	return max(1, s.CachedInfo().Config.Replicas), nil
}

// Differences describes how a stream differs from the wanted configuration. It ignores what
// operators may choose freely, such as placement, compression and description.
func Differences(want, have jetstream.StreamConfig) []string {
	var d []string
	note := func(name string, want, have any) {
		if w, h := fmt.Sprint(want), fmt.Sprint(have); w != h {
			d = append(d, fmt.Sprintf("%s is %s, should be %s", name, h, w))
		}
	}
	note("subjects", want.Subjects, have.Subjects)
	note("retention", want.Retention, have.Retention)
	note("storage", want.Storage, have.Storage)
	note("discard", want.Discard, have.Discard)
	note("discard per subject", want.DiscardNewPerSubject, have.DiscardNewPerSubject)
	note("max age", want.MaxAge, have.MaxAge)
	note("max bytes", unlimited(want.MaxBytes), unlimited(have.MaxBytes))
	note("max messages", unlimited(want.MaxMsgs), unlimited(have.MaxMsgs))
	note("max messages per subject", unlimited(want.MaxMsgsPerSubject),
		unlimited(have.MaxMsgsPerSubject))
	note("replicas", want.Replicas, have.Replicas)
	note("duplicate window", want.Duplicates, have.Duplicates)
	note("direct get", want.AllowDirect, have.AllowDirect)
	return d
}

func unlimited(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// Unfit returns an error that wraps ErrUnfit if, with this configuration, events would not arrive,
// would be altered, would be lost silently or could be stored twice; otherwise nil.
func Unfit(want, have jetstream.StreamConfig) error {
	var why []string
	refuse := func(bad bool, text string) {
		if bad {
			why = append(why, text)
		}
	}
	for _, subject := range want.Subjects {
		refuse(!slices.ContainsFunc(have.Subjects, func(s string) bool { return covers(s, subject) }), "its subjects do not cover "+subject)
	}
	refuse(have.MaxMsgSize > 0 && have.MaxMsgSize < LeastMessage, "it accepts only small messages")
	refuse(have.NoAck, "it does not acknowledge")
	refuse(have.SubjectTransform != nil, "it transforms subjects")
	refuse(have.PersistMode == jetstream.AsyncPersistMode, "it acknowledges before it writes")
	if takesOnce(want) {
		least := leastWindow
		if have.MaxAge > 0 {
			least = min(least, have.MaxAge)
		}
		refuse(have.Duplicates < least,
			fmt.Sprintf("its duplicate window is %s, and an event that is offered again later would be stored twice: run "+
				"`nats stream edit %s --dupe-window=%s`, then restart its servers, which know older ids only after that",
				have.Duplicates, want.Name,
				min(want.Duplicates, cmp.Or(have.MaxAge, want.Duplicates))))
		refuse(have.Retention != jetstream.LimitsPolicy,
			"it drops consumed messages: it needs the retention policy limits")
		refuse(have.MaxMsgsPerSubject > 0,
			"it drops messages by a limit for each subject: run `nats stream edit "+want.Name+
				" --max-msgs-per-subject=-1`")
		refuse(have.Discard == jetstream.DiscardOld && (have.MaxBytes > 0 || have.MaxMsgs > 0),
			"it drops old messages at its limit: run `nats stream edit "+want.Name+" --discard=new`")
	}
	if len(why) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", ErrUnfit, want.Name, strings.Join(why, "; "))
}

// leastWindow is the shortest duplicate window with which a stream takes each event once.
const leastWindow = 72 * time.Hour

// takesOnce reports whether a stream has to refuse a second copy of a message for as long as it
// keeps the first.
func takesOnce(c jetstream.StreamConfig) bool {
	return c.Duplicates >= cmp.Or(c.MaxAge, leastWindow)
}

// covers reports whether have matches every subject below want, which ends in ">".
func covers(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i, token := range h {
		if token == ">" {
			return true
		}
		if i >= len(w)-1 || token != "*" && token != w[i] {
			return false
		}
	}
	return false
}

// Message is a message in a stream. Header is nil if it cannot be decoded: the message is damaged,
// or was not written by doorbell.
type Message struct {
	Subject  string
	Sequence uint64
	Header   nats.Header
	Data     []byte
	Time     time.Time
}

// Client reads and erases messages of one stream. It does not retry: the caller decides what a
// failure means.
type Client struct {
	Conn   Conn
	Stream string
	Wait   time.Duration // timeout of each request
	// Alone says that the stream has no replicas. It is then read in batches, which in a cluster a
	// replica that lags behind might answer.
	Alone bool
}

// Query selects a message: the one at Sequence; with Next, the first one from Sequence on whose
// subject the filter matches; with Last, the last one that the filter matches.
type Query struct {
	Sequence uint64 `json:"seq,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
}

// ErrAnswer: the reply is not one that JetStream sends.
var ErrAnswer = errors.New("answer that cannot be understood")

const noMessage jetstream.ErrorCode = 10037

// Get returns a message, or nil if there is none. It asks the leader of the stream. A direct get
// may be answered by a replica that lags behind, and callers decide by the result whether to send
// events again.
func (c Client) Get(ctx context.Context, q Query) (*Message, error) {
	a, err := c.ask(ctx, "STREAM.MSG.GET."+c.Stream, q)
	switch {
	case a.Error != nil && a.Error.ErrorCode == noMessage:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get message: %w", err)
	case a.Message == nil || a.Message.Sequence == 0:
		return nil, fmt.Errorf("get message: %w", ErrAnswer)
	}
	m := &Message{
		Subject: a.Message.Subject, Sequence: a.Message.Sequence, Data: a.Message.Data,
		Time: a.Message.Time,
	}
	if len(a.Message.Header) > 0 {
		if m.Header, err = nats.DecodeHeadersMsg(a.Message.Header); err != nil {
			m.Header = nil
		}
	}
	return m, nil
}

// Read yields the messages of a filter after a sequence, and ends at the end of the stream or with
// the first error. It requests each message, or a batch of them. A consumer would wait forever for
// messages that a damaged stream counts and does not have.
func (c Client) Read(ctx context.Context, filter string, after uint64) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		for inBatches := c.Alone; ; {
			if inBatches {
				list, err := c.batch(ctx, filter, after)
				for _, m := range list {
					if after = m.Sequence; !yield(m, nil) {
						return
					}
				}
				inBatches = err == nil
			}
			m, err := c.Get(ctx, Query{Sequence: after + 1, Next: filter})
			if err == nil && m == nil || !yield(m, err) || err != nil {
				return
			}
			after = m.Sequence
		}
	}
}

const (
	batchSize  = 256
	batchBytes = 8 << 20 // below what a server lets wait for a client
)

// batch returns the next messages of a filter behind a place by one direct get, up to one that
// cannot be read (ADR-31 of NATS).
func (c Client) batch(ctx context.Context, filter string, after uint64) (list []*Message, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	inbox := c.Conn.NewRespInbox()
	replies, err := c.Conn.SubscribeSync(inbox)
	if err != nil {
		return nil, err
	}
	defer func() { _ = replies.Unsubscribe() }()
	request := fmt.Sprintf(`{"seq":%d,"next_by_subj":%q,"batch":%d,"max_bytes":%d}`, after+1,
		filter, batchSize, batchBytes)
	if err := c.Conn.PublishRequest(c.Conn.api()+"DIRECT.GET."+c.Stream, inbox,
		[]byte(request)); err != nil {
		return nil, err
	}
	for {
		m, err := replies.NextMsgWithContext(ctx)
		if err != nil {
			return list, err
		}
		sequence, err := strconv.ParseUint(m.Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil { // the end, nothing, or a message whose headers are damaged
			return list, nil
		}
		at, _ := time.Parse(time.RFC3339Nano, m.Header.Get(jetstream.TimeStampHeaer))
		subject := m.Header.Get(jetstream.SubjectHeader)
		for _, name := range []string{
			jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader,
			jetstream.TimeStampHeaer, "Nats-Num-Pending", "Nats-Last-Sequence",
		} {
			m.Header.Del(name)
		}
		list = append(list,
			&Message{Subject: subject, Sequence: sequence, Header: m.Header, Data: m.Data, Time: at})
	}
}

// ReadToEnd calls meet with each message of a filter after a sequence. It returns the sequence of
// the filter's last message, even if that is not after the given one; 0 if there is no message.
func (c Client) ReadToEnd(ctx context.Context, filter string, after uint64,
	meet func(*Message) error,
) (uint64, error) {
	for last := (*Message)(nil); ; {
		read := false
		for m, err := range c.Read(ctx, filter, after) {
			if err != nil {
				return 0, err
			}
			if err := meet(m); err != nil {
				return 0, err
			}
			after, read = m.Sequence, true
		}
		if last != nil && !read { // a damaged server finds it only as the last one
			return last.Sequence, meet(last)
		}
		var err error
		if last, err = c.Get(ctx, Query{Last: filter}); err != nil || last == nil {
			return 0, err
		}
		if last.Sequence <= after {
			return last.Sequence, nil
		}
	}
}

// answer is the reply of JetStream to a request to get or erase a message.
type answer struct {
	Error   *jetstream.APIError `json:"error"`
	Success bool                `json:"success"`
	Message *struct {
		Subject  string    `json:"subject"`
		Sequence uint64    `json:"seq"`
		Header   []byte    `json:"hdrs"`
		Data     []byte    `json:"data"`
		Time     time.Time `json:"time"`
	} `json:"message"`
}

// ask puts a question to the API of JetStream. An error that it answers is a [*jetstream.APIError].
func (c Client) ask(ctx context.Context, method string, question any) (a answer, err error) {
	data, err := json.Marshal(question)
	if err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.Wait)
	defer cancel()
	reply, err := c.Conn.RequestWithContext(ctx, c.Conn.api()+method, data)
	switch {
	case err != nil:
		return a, err
	case json.Unmarshal(reply.Data, &a) != nil:
		return a, ErrAnswer
	case a.Error != nil:
		return a, a.Error
	}
	return a, nil
}
