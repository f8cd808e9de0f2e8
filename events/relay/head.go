package relay

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// # Several doorbells
//
// Where several doorbells share agencies ([Options.Owner]), each agency has one owner. Its head, one message in the stream, says who
// that is, and is the fence of everything that he sends: head, rows of the snapshot and events go out in one atomic batch, which is
// refused if the head is not the one that he wrote last. So who claims an agency ends the batches of the owner before him, and
// finds in the stream a snapshot with the events that belong to it.
//
// The fence is on the head's own subject: on a stream with replicas a fence over several subjects lets through what is written at the
// same moment. The events keep theirs, which holds against whoever knows no heads.

// Shared is what a log must be able to do where several doorbells share agencies.
type Shared interface {
	// Batch returns, within the bounds, the first events that the stream has not taken, and then the rows.
	Batch(agency string, most, maxBytes int) (events.Batch, error)
	// Sent notes that the stream has taken a batch, as Publish, and the claim under which it was taken.
	Sent(agency string, b events.Batch, c events.Cursor, claim events.Claim) error
	// Claim is the one that was noted last, and whether there is one.
	Claim(agency string) (events.Claim, bool, error)
	// Load puts rows in the place of all that the log and the snapshot hold of an agency.
	Load(agency string, rows []events.Row, c events.Cursor, claim events.Claim) error
	// Reseed lets the stream take all rows again.
	Reseed(agency string) error
}

// Head is the claim on an agency.
type Head struct {
	Owner string    `json:"owner"` // empty: it was released
	Run   string    `json:"run"`   // of the owner that has claimed it
	Epoch uint64    `json:"epoch"` // counts the claims
	Since time.Time `json:"since"` // of the claim
	// Complete is how far the events had come when the stream had all rows. Its place in the stream is that of the head and Behind.
	Complete events.Cursor `json:"complete"`
	Behind   uint64        `json:"behind,omitempty"`
	Place    uint64        `json:"-"` // of the head in the stream
}

// Errors of an agency that is not ours.
var (
	errNotOwned = errors.New("the agency is not claimed by this doorbell")
	// errLost: another doorbell has claimed the agency. What it was to publish is nobody's business any more.
	errLost = fmt.Errorf("another doorbell has claimed the agency: %w", errNotOwned)
)

func (r *Relay) stateSubject(agency string) string {
	return r.o.Prefix + ".state.v1." + events.Token(agency)
}

func (r *Relay) headSubject(agency string) string { return r.stateSubject(agency) + ".head" }

// rowName is a token for a row, whatever its key holds.
func rowName(row events.Row) string {
	sum := sha256.Sum256([]byte(row.Bucket + "\x00" + row.Key))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:20]))
}

const (
	deletedHeader = "doorbell-deleted" // of a row that says that there is none any more
	deletedFor    = time.Hour          // longer than anybody takes to load an agency
)

func (r *Relay) stateMessage(subject string, data []byte, keep string) *nats.Msg {
	return &nats.Msg{Subject: subject, Data: data, Header: nats.Header{
		jetstream.ExpectedStreamHeader: {r.o.Stream}, jetstream.MsgRollup: {jetstream.MsgRollupSubject}, jetstream.MsgTTLHeader: {keep},
	}}
}

func (r *Relay) rowMessage(agency string, row events.Row) *nats.Msg {
	data := binary.BigEndian.AppendUint16(nil, uint16(len(row.Bucket)))
	data = binary.BigEndian.AppendUint16(append(data, row.Bucket...), uint16(len(row.Key)))
	m := r.stateMessage(r.stateSubject(agency)+".r."+rowName(row), append(append(data, row.Key...), row.Value...), "never")
	if row.Value == nil {
		m.Header[jetstream.MsgTTLHeader], m.Header[deletedHeader] = []string{deletedFor.String()}, []string{"1"}
	}
	return m
}

// rowOf is the row that a message is; deleted rows have no value.
func rowOf(m jetstream.Msg) (row events.Row, err error) {
	var parts [2]string
	data := m.Data()
	for i := range parts {
		if len(data) < 2 || len(data) < 2+int(binary.BigEndian.Uint16(data)) {
			return row, fmt.Errorf("row at %s: %w", m.Subject(), stream.ErrAnswer)
		}
		n := 2 + int(binary.BigEndian.Uint16(data))
		parts[i], data = string(data[2:n]), data[n:]
	}
	row = events.Row{Bucket: parts[0], Key: parts[1]}
	if m.Headers().Get(deletedHeader) == "" {
		row.Value = data
	}
	return row, nil
}

func (r *Relay) headMessage(agency string, h Head, fence uint64) (*nats.Msg, error) {
	data, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	m := r.stateMessage(r.headSubject(agency), data, "never")
	m.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{fmt.Sprint(fence)}
	return m, nil
}

// Head reads the head of an agency from the leader of the stream; nil if there is none.
func (r *Relay) Head(ctx context.Context, agency string) (*Head, error) {
	m, err := r.stream.Get(ctx, stream.Query{Last: r.headSubject(agency)})
	if err != nil || m == nil {
		return nil, err
	}
	h := &Head{Place: m.Sequence}
	if err := json.Unmarshal(m.Data, h); err != nil {
		return nil, fmt.Errorf("head of agency %s: %w", agency, stream.ErrAnswer)
	}
	if h.Behind > 0 {
		h.Complete.StreamSequence, h.Behind = h.Place+h.Behind, 0
	}
	return h, nil
}

// Heads shows the head of each agency as it stands, and then each new one, by the agency's token in subjects. It ends with ctx, or with
// what went wrong.
func (r *Relay) Heads(ctx context.Context, show func(token string, h Head)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	before, after := r.o.Prefix+".state.v1.", ".head"
	c, err := r.js.OrderedConsumer(ctx, r.o.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{before + "*" + after}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return fmt.Errorf("heads of agencies: %w", err)
	}
	list, err := deliveries(ctx, c, jetstream.PullHeartbeat(5*time.Second)) // else a consumer that went with its server is missed after 30 s
	if err != nil {
		return fmt.Errorf("heads of agencies: %w", err)
	}
	for {
		m, err := receive(ctx, list)
		if err != nil {
			return fmt.Errorf("heads of agencies: %w", err)
		}
		var h Head
		if json.Unmarshal(m.Data(), &h) == nil { // else a claim says what is wrong
			show(strings.TrimSuffix(strings.TrimPrefix(m.Subject(), before), after), h)
		}
	}
}

// putHead writes a head where the one that it follows still stands.
func (r *Relay) putHead(ctx context.Context, agency string, h Head, fence uint64) (place uint64, err error) {
	m, err := r.headMessage(agency, h, fence)
	if err != nil {
		return 0, err
	}
	a, err := r.js.PublishMsg(ctx, m)
	if err != nil {
		return 0, err
	}
	return a.Sequence, nil
}

// Claim makes this doorbell the owner of an agency, if it has none, or if may says of its owner, and the run of it that has claimed the
// agency, that it can be taken from him. It loads
// what the stream holds, unless the log has it: then the agency is to be published, and polled. The head says who owns it now. Claim is
// not to be called while the agency is polled.
func (r *Relay) Claim(ctx context.Context, agency string, may func(owner, run string) (bool, error)) (h Head, err error) {
	l := r.worker(agency)
	defer l.lock()()
	info, err := r.state(ctx)
	if err != nil {
		return h, err
	}
	before, err := r.Head(ctx, agency)
	if err != nil {
		return h, err
	}
	known, exists, err := r.o.Shared.Claim(agency)
	if err != nil {
		return h, fmt.Errorf("%w: %w", ErrLog, err)
	}
	claim := events.Claim{Epoch: known.Epoch + 1, StreamCreated: info.Created.UTC()}
	h = Head{Owner: r.o.Owner, Run: r.o.Run, Since: time.Now().UTC()}
	load := false
	if before != nil {
		if before.Owner != "" && before.Owner != r.o.Owner {
			if ok, err := may(before.Owner, before.Run); err != nil || !ok {
				return *before, err
			}
		}
		load = !exists || known.Place != before.Place || !known.StreamCreated.Equal(claim.StreamCreated)
		claim.Epoch, claim.Place, h.Complete = before.Epoch+1, before.Place, before.Complete
	} else if exists { // the stream has lost it, or is another one
		if err := r.o.Shared.Reseed(agency); err != nil {
			return h, fmt.Errorf("%w: %w", ErrLog, err)
		}
	}
	h.Epoch = claim.Epoch
	if claim.Place, err = r.putHead(ctx, agency, h, claim.Place); err != nil {
		return Head{}, err
	}
	h.Place = claim.Place
	if load {
		err = r.load(ctx, agency, h, claim)
	} else {
		err = r.noteClaim(agency, claim)
	}
	if err != nil {
		return Head{}, err
	}
	l.claim, l.head, l.synced = &claim, h, 0
	l.owned.Store(true)
	r.Begin() // there may be no worker yet
	poke(l.poked)
	return h, nil
}

// noteClaim notes a claim in the log, and nothing else.
func (r *Relay) noteClaim(agency string, claim events.Claim) error {
	c, err := r.o.Log.Cursor(agency)
	if err == nil {
		err = r.o.Shared.Sent(agency, events.Batch{}, c, claim)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	return nil
}

// load reads the rows of an agency as they stand behind a head, and puts them into the log. A replica may be behind: it has all rows as
// soon as it shows the head.
func (r *Relay) load(ctx context.Context, agency string, h Head, claim events.Claim) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	c, err := r.js.OrderedConsumer(ctx, r.o.Stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{r.stateSubject(agency) + ".>"}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy,
	})
	if err != nil {
		return fmt.Errorf("load agency %s: %w", agency, err)
	}
	list, err := deliveries(ctx, c, jetstream.PullHeartbeat(time.Second)) // one that has just been made on a replica may not answer: then another is made
	if err != nil {
		return fmt.Errorf("load agency %s: %w", agency, err)
	}
	rows := map[string]events.Row{}
	for {
		m, err := receive(ctx, list)
		if err != nil {
			return fmt.Errorf("load agency %s: %w", agency, err)
		}
		at, err := m.Metadata()
		if err != nil {
			return fmt.Errorf("load agency %s: %w", agency, err)
		}
		if m.Subject() == r.headSubject(agency) {
			if at.Sequence.Stream >= h.Place {
				break
			}
			continue
		}
		row, err := rowOf(m)
		if err != nil {
			return err
		}
		if rows[m.Subject()] = row; row.Value == nil {
			delete(rows, m.Subject())
		}
	}
	all := slices.Collect(maps.Values(rows))
	if err := r.o.Shared.Load(agency, all, h.Complete, claim); err != nil {
		return fmt.Errorf("%w: %w", ErrLog, err)
	}
	r.o.Logger.Info("agency loaded from the stream", "agency", agency, "rows", len(all), "epoch", claim.Epoch)
	return nil
}

// Release ends the claim on an agency that is not polled any more, once all of it is published, so that another doorbell can
// claim it at once. What is left to a doorbell beside the cluster is not published: the next owner finds it again, as after a crash. One
// of which our claim was not known to have succeeded is released as well; one that is not ours needs nothing.
func (r *Relay) Release(ctx context.Context, agency string) error {
	l := r.worker(agency)
	if l.owned.Load() {
		s, err := r.check(ctx)
		if err != nil {
			return fmt.Errorf("relay: %w", err)
		}
		if err := l.finish(ctx, s); err != nil && !errors.Is(err, errContested) {
			return err
		}
	}
	defer l.lock()()
	h, err := r.Head(ctx, agency)
	if err != nil {
		return err
	}
	if h == nil || h.Owner != r.o.Owner || h.Run != r.o.Run {
		l.disown()
		return nil
	}
	h.Owner, h.Run, h.Since = "", "", time.Now().UTC()
	place, err := r.putHead(ctx, agency, *h, h.Place)
	if err != nil || l.claim == nil {
		return err
	}
	claim := *l.claim
	l.disown()
	claim.Place = place
	return r.noteClaim(agency, claim)
}

// disown ends what was ours. Whoever owns the agency next finds out himself whether a doorbell beside the cluster publishes it.
func (l *worker) disown() {
	l.claim = nil
	l.owned.Store(false)
	l.rival.contested.Store(false)
}

// own looks whether the agency is still ours, after a doubt, and finds the fence of the next batch. Where the stream has lost the claim,
// the one who claimed last, of whom it knows nothing any more, goes on.
func (l *worker) own(ctx context.Context, created time.Time) error {
	h, err := l.r.Head(ctx, l.agency)
	if err != nil {
		return err
	}
	ours := h != nil && h.Owner == l.r.o.Owner && h.Epoch == l.claim.Epoch
	if !ours && h != nil && h.Epoch >= l.claim.Epoch {
		l.disown()
		l.r.o.Lost(l.agency)
		return errLost
	}
	if !ours || !created.Equal(l.claim.StreamCreated) || h.Place < l.claim.Place {
		if err := l.r.o.Shared.Reseed(l.agency); err != nil {
			return fmt.Errorf("%w: %w", ErrLog, err)
		}
		l.head.Complete = events.Cursor{}
		fence := uint64(0)
		if h != nil {
			fence = h.Place
		}
		if l.claim.Place, err = l.r.putHead(ctx, l.agency, l.head, fence); err != nil {
			return err
		}
		l.claim.StreamCreated = created
		return l.r.noteClaim(l.agency, *l.claim)
	}
	l.claim.Place, l.head = h.Place, *h
	return nil
}

// publishShared sends the next batch with head and rows. It is false if there is none.
func (l *worker) publishShared(ctx context.Context, s session) (bool, error) {
	if !s.atomic {
		return false, fmt.Errorf("%w: it takes no atomic batches", ErrStreamUnfit)
	}
	b, err := l.r.o.Shared.Batch(l.agency, max(1, l.most-1), l.r.o.BatchBytes)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	if n := distinct(b.Events); n < len(b.Events) {
		b.Events, b.Rows, b.All = b.Events[:n], nil, false
	}
	if len(b.Events)+len(b.Rows) == 0 {
		return false, nil
	}
	h := l.head
	messages := make([]*nats.Msg, 1, 1+len(b.Rows)+len(b.Events))
	for _, row := range b.Rows {
		m := l.r.rowMessage(l.agency, row)
		if m.Size() > s.maxMessage { // only the record of an insertion can be so large; events do not wait for it
			l.r.o.Logger.Error("an entry of the snapshot is larger than the server accepts; another doorbell would lack it",
				"agency", l.agency, "bucket", row.Bucket, "in_use", m.Size(), "most", s.maxMessage)
			continue
		}
		messages = append(messages, m)
	}
	cursor := l.cursor
	for i := range b.Events {
		b.Events[i].Sequence = cursor.Sequence + 1
		cursor = events.Cursor{Sequence: b.Events[i].Sequence, ID: b.Events[i].ID, Position: b.Events[i].Position, StreamCreated: l.created}
		m := l.r.message(b.Events[i], s.maxMessage, false)
		if i == 0 {
			l.fenceEvents(m, l.fence)
		}
		messages = append(messages, m)
	}
	if b.All {
		if h.Complete = cursor; len(b.Events) > 0 {
			h.Behind = uint64(len(messages) - 1)
		}
	}
	if messages[0], err = l.r.headMessage(l.agency, h, l.claim.Place); err != nil {
		return false, err
	}
	last, err := l.r.publish(ctx, messages)
	if err != nil {
		if classify(err) == classTooMany {
			l.most = max(2, len(messages)/2)
		}
		return false, err
	}
	l.claim.Place = last - uint64(len(messages)-1)
	if len(b.Events) > 0 {
		cursor.StreamSequence, l.fence = last, last
		l.cursor = cursor
		l.r.countPublished(b.Events)
	}
	if h.Behind > 0 {
		h.Complete.StreamSequence, h.Behind = last, 0
	}
	l.head = h
	if err := l.r.o.Shared.Sent(l.agency, b, l.cursor, *l.claim); err != nil {
		return false, fmt.Errorf("%w: %w", ErrLog, err)
	}
	l.show(func(a *AgencyStatus) { a.Acknowledged = l.cursor.Sequence })
	return true, nil
}
