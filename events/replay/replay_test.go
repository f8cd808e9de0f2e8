package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const streamName = "LISTINGS_REPLAY"

// world is a server, and a connection to it that may do all.
type world struct {
	server *natsd.Server
	conn   *nats.Conn
	js     jetstream.JetStream
}

func newWorld(t *testing.T) world {
	t.Helper()
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	conn, err := s.Connect("test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return world{s, conn, js}
}

func (w world) options() Options {
	return Options{Conn: w.conn, Prefix: "listings", Stream: streamName, Job: "j1", Embedded: true}
}

func (w world) open(t *testing.T, o Options) *Job {
	t.Helper()
	j, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// history are so many events of two agencies and three types.
func history(t *testing.T, size int) (list []events.Event) {
	t.Helper()
	at, sequence := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), map[string]uint64{}
	for n := range size {
		agency := []string{"A100", "B 200"}[n%2]
		common := events.Common{AgencyID: agency, ObservedAt: at.Add(time.Duration(n) * time.Second)}
		var p events.Payload = &events.InsertionAppeared{
			Common: common, PropertyReferenceID: fmt.Sprintf("see#%d##", n), Episode: 1,
			Record: []byte(`{"origin":"live","n":9007199254740993,"t":"Ruhig & <zentral>"}`),
		}
		switch n % 5 {
		case 0:
			p = &events.AccessHalted{Common: common, Scope: events.ScopeAgency}
		case 1, 2:
			p = &events.ContactRequestCreated{Common: common, PropertyReferenceID: "a", ContactRequestID: strconv.Itoa(n), CreatedAt: at, Identity: events.IdentityID}
		}
		e, err := events.New(p)
		if err != nil {
			t.Fatal(err)
		}
		sequence[agency]++
		list = append(list, e.Stamp(sequence[agency], at.Add(time.Duration(n)*time.Minute), "store").WithSequence(sequence[agency]))
	}
	return list
}

func each(list []events.Event) iter.Seq2[events.Event, error] {
	return func(yield func(events.Event, error) bool) {
		for _, e := range list {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func silent(Progress) {}

// message is one of the stream.
type message struct {
	subject string
	header  nats.Header
	data    []byte
}

func (w world) messages(t *testing.T) (all []message) {
	t.Helper()
	s, err := w.js.Stream(t.Context(), streamName)
	if err != nil {
		t.Fatal(err)
	}
	for n := uint64(1); n <= s.CachedInfo().State.LastSeq; n++ {
		m, err := s.GetMsg(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, message{m.Subject, m.Header, m.Data})
	}
	return all
}

// mustHold wants each event of the list once, in the order of its agency.
func (w world) mustHold(t *testing.T, list []events.Event) {
	t.Helper()
	all := w.messages(t)
	if len(all) != len(list) {
		t.Errorf("the stream holds %d messages, want %d", len(all), len(list))
	}
	for _, agency := range []string{"A100", "B 200"} {
		var have, want []string
		for _, m := range all {
			if m.header.Get("ce-partitionkey") == events.Token(agency) {
				have = append(have, m.header.Get("ce-id"))
			}
		}
		for _, e := range list {
			if e.AgencyID == agency {
				want = append(want, e.ID)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s has %d messages, want %d in their order", agency, len(have), len(want))
		}
	}
}

func TestAReplayedEventIsWhatItWasButForItsOrigin(t *testing.T) {
	w := newWorld(t)
	list := history(t, 10)
	p, err := w.open(t, w.options()).Run(t.Context(), each(list), silent)
	if err != nil || p != (Progress{Published: 10}) {
		t.Fatalf("%+v, %v", p, err)
	}
	all := w.messages(t)
	for i, e := range list {
		m := all[i]
		if want := "listings.replay.j1." + events.Token(e.AgencyID) + "." + string(e.Type); m.subject != want {
			t.Errorf("subject %s, want %s", m.subject, want)
		}
		want := e.Header()
		want["ce-origin"], want["Nats-Msg-Id"], want["doorbell-replay"] = []string{"replay"}, []string{"j1/" + e.ID}, []string{"j1"}
		want["doorbell-replay-choice"] = []string{Choice{}.text()}
		for name, value := range want {
			if m.header.Get(name) != value[0] {
				t.Errorf("%s is %q, want %q", name, m.header.Get(name), value[0])
			}
		}
		for name := range m.header {
			if _, ok := want[name]; !ok && !strings.HasPrefix(name, "Nats-") {
				t.Errorf("header %s", name)
			}
		}
		if want := bytes.Replace(e.Data, []byte(`"origin":"live"`), []byte(`"origin":"replay"`), 1); !bytes.Equal(m.data, want) {
			t.Errorf("payload %s, want %s", m.data, want)
		}
		if read, err := events.Decode(m.header, m.data); err != nil || read.Sequence != e.Sequence || read.Origin != events.OriginReplay {
			t.Errorf("read: %+v, %v", read.Header(), err)
		}
	}
	s, err := w.js.Stream(t.Context(), streamName)
	if err != nil {
		t.Fatal(err)
	}
	c := s.CachedInfo().Config
	if c.MaxAge != 24*time.Hour || c.Storage != jetstream.FileStorage || c.Retention != jetstream.LimitsPolicy || !slices.Equal(c.Subjects, []string{"listings.replay.>"}) {
		t.Errorf("the stream is %+v", c)
	}
}

var errStop = errors.New("stop")

func TestAJobIsOneChoiceOfEvents(t *testing.T) {
	w := newWorld(t)
	list := history(t, 10)
	o := w.options()
	since := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	o.Choice = Choice{Kind: "contact_request.created", From: 2, Since: since}
	if _, err := w.open(t, o).Run(t.Context(), each(list[:4]), silent); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		choice Choice
		goesOn bool
	}{
		"the same":          {o.Choice, true},
		"of all kinds":      {Choice{From: 2, Since: since}, false},
		"of another kind":   {Choice{Kind: "access.>", From: 2, Since: since}, false},
		"from before":       {Choice{Kind: o.Choice.Kind, From: 1, Since: since}, false},
		"recorded before":   {Choice{Kind: o.Choice.Kind, From: 2, Since: since.Add(-time.Hour)}, false},
		"whenever recorded": {Choice{Kind: o.Choice.Kind, From: 2}, false},
		"from later on":     {Choice{Kind: o.Choice.Kind, From: 7, Since: since.Add(time.Hour)}, true},
	} {
		other := o
		other.Choice = c.choice
		if _, err := Open(t.Context(), other); errors.Is(err, ErrChoice) == c.goesOn {
			t.Errorf("%s: %v", name, err)
		}
		other.Job = "another"
		w.open(t, other)
	}
}

func TestAJobGoesOnBehindTheLastEventOfEachAgency(t *testing.T) {
	w := newWorld(t)
	list := history(t, 60)
	for from := range 6 { // each run is stopped ten events later than the one before
		stopped := func(yield func(events.Event, error) bool) {
			for _, e := range list[:(from+1)*10] {
				if !yield(e, nil) {
					return
				}
			}
			yield(events.Event{}, errStop)
		}
		p, err := w.open(t, w.options()).Run(t.Context(), stopped, silent)
		if !errors.Is(err, errStop) || p != (Progress{Published: 10, AlreadyThere: from * 10}) {
			t.Fatalf("run %d: %+v, %v", from, p, err)
		}
	}
	w.mustHold(t, list)
	other := w.options()
	other.Job = "j2"
	if p, err := w.open(t, other).Run(t.Context(), each(list), silent); err != nil || p.Published != 60 {
		t.Errorf("another job: %+v, %v", p, err)
	}
}

func TestAStoppedRunHasTheEndOfItsContext(t *testing.T) {
	w := newWorld(t)
	list := history(t, 60)
	ctx, stop := context.WithCancel(t.Context())
	p, err := w.open(t, w.options()).Run(ctx, each(list), func(p Progress) {
		if p.Published == 25 {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) || p.Published != 25 {
		t.Fatalf("%+v, %v", p, err)
	}
	if p, err = w.open(t, w.options()).Run(t.Context(), each(list), silent); err != nil || p != (Progress{Published: 35, AlreadyThere: 25}) {
		t.Errorf("%+v, %v", p, err)
	}
	w.mustHold(t, list)
}

func TestHoweverManyRunAJobAtOnceNothingIsDoubled(t *testing.T) {
	w := newWorld(t)
	list := history(t, 300)
	done := make(chan error, 6)
	for range cap(done) {
		j := w.open(t, w.options())
		go func() {
			_, err := j.Run(t.Context(), each(list), silent)
			done <- err
		}()
	}
	whole := 0
	for range cap(done) {
		switch err := <-done; {
		case err == nil:
			whole++
		case !errors.Is(err, ErrBusy):
			t.Error(err)
		}
	}
	if whole == 0 {
		t.Error("all have ended for the sake of each other")
	}
	w.mustHold(t, list)
}

func TestARunThatIsOvertakenEnds(t *testing.T) {
	w := newWorld(t)
	list := history(t, 40)
	slow := w.open(t, w.options())
	p, err := slow.Run(t.Context(), each(list), func(p Progress) {
		if p.Published != 10 {
			return
		}
		if p, err := w.open(t, w.options()).Run(t.Context(), each(list[:30]), silent); err != nil || p.Published != 20 {
			t.Errorf("the other one: %+v, %v", p, err)
		}
	})
	if !errors.Is(err, ErrBusy) || p.Published != 10 {
		t.Errorf("%+v, %v", p, err)
	}
	w.mustHold(t, list[:30])
}

// breaker lies between client and server, and breaks the connection instead of passing on some of the acknowledgements.
type breaker struct {
	l       net.Listener
	to      string
	mu      sync.Mutex
	r       *rand.Rand
	broken  int
	running sync.WaitGroup
}

func newBreaker(t *testing.T, to string) *breaker {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &breaker{l: l, to: to, r: rand.New(rand.NewPCG(3, 4))}
	b.running.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			b.running.Go(func() { b.pass(client, server, false) })
			b.running.Go(func() { b.pass(server, client, true) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		b.running.Wait()
	})
	return b
}

func (b *breaker) pass(from, to net.Conn, answers bool) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || answers && bytes.Contains(buffer[:n], []byte(`{"stream":"`+streamName)) && b.breaks() {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (b *breaker) breaks() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.r.IntN(4) > 0 {
		return false
	}
	b.broken++
	return true
}

func TestAcknowledgementsThatAreLostDoubleNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := newBreaker(t, strings.TrimPrefix(w.server.ClientURL(), "nats://"))
	conn, err := nats.Connect(b.l.Addr().String(), nats.MaxReconnects(-1), nats.ReconnectWait(time.Millisecond), nats.ReconnectJitter(0, 0), nats.ReconnectBufSize(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	list := history(t, 60)
	w.open(t, w.options()) // the stream; guests may not make it
	o := w.options()
	o.Conn, o.Embedded, o.AckWait = conn, false, 200*time.Millisecond
	p, err := w.open(t, o).Run(t.Context(), each(list), silent)
	if err != nil || p != (Progress{Published: 60}) {
		t.Errorf("%+v, %v", p, err)
	}
	if b.broken == 0 {
		t.Error("no acknowledgement was lost")
	}
	w.mustHold(t, list)
}

func TestWhatWouldNotArriveIsRefused(t *testing.T) {
	w := newWorld(t)
	outside := w.options()
	outside.Embedded = false
	if _, err := Open(t.Context(), outside); !errors.Is(err, ErrNoStream) {
		t.Errorf("without the right to make the stream: %v", err)
	}
	if _, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"listings.>"}}); err != nil {
		t.Fatal(err)
	}
	outside.Manage = true
	if _, err := Open(t.Context(), outside); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "holds listings.replay.> already") {
		t.Errorf("where another stream holds the subjects: %v", err)
	}
	outside.Stream = "ALL"
	if _, err := Open(t.Context(), outside); err != nil {
		t.Errorf("a wider stream that is configured: %v", err)
	}
	if _, err := w.js.CreateStream(t.Context(), jetstream.StreamConfig{Name: streamName, Subjects: []string{"other.>"}}); err != nil {
		t.Fatal(err)
	}
	outside.Stream = streamName
	if _, err := Open(t.Context(), outside); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "do not cover listings.replay.>") {
		t.Errorf("a stream of something else: %v", err)
	}
	s, err := w.js.Stream(t.Context(), streamName)
	if err != nil || !slices.Equal(s.CachedInfo().Config.Subjects, []string{"other.>"}) {
		t.Errorf("somebody's stream was changed: %v", err)
	}
	for _, name := range []string{"", "a.b", "*", ">", "ä", "a b", strings.Repeat("a", 65)} {
		o := w.options()
		if o.Job = name; ValidJob(name) == nil {
			t.Errorf("job %q", name)
		}
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrJob) {
			t.Errorf("job %q: %v", name, err)
		}
	}
}

func TestAFullStreamIsSaid(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.MaxBytes = 8 << 10
	list := history(t, 60)
	p, err := w.open(t, o).Run(t.Context(), each(list), silent)
	if !errors.Is(err, ErrFull) || p.Published == 0 {
		t.Fatalf("%+v, %v", p, err)
	}
	o.MaxBytes = 1 << 20 // an embedded stream takes the new size
	if q, err := w.open(t, o).Run(t.Context(), each(list), silent); err != nil || q.AlreadyThere != p.Published {
		t.Errorf("with space: %+v after %+v, %v", q, p, err)
	}
	w.mustHold(t, list)
}

func TestMessagesOfSomebodyElseStopAJob(t *testing.T) {
	w := newWorld(t)
	list := history(t, 4)
	w.open(t, w.options())
	for job, m := range map[string]*nats.Msg{
		"plain":   {Data: []byte("hi")},
		"another": {Header: nats.Header(list[0].Header()), Data: list[0].Data}, // an event that no replay has published
	} {
		o := w.options()
		o.Job, m.Subject = job, "listings.replay."+job+".A100."+string(list[0].Type)
		if _, err := w.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if p, err := w.open(t, o).Run(t.Context(), each(list), silent); !errors.Is(err, ErrForeign) || p.Published != 0 {
			t.Errorf("%s: %+v, %v", job, p, err)
		}
	}
	if _, err := w.open(t, w.options()).Run(t.Context(), each(list), silent); err != nil {
		t.Errorf("other jobs: %v", err)
	}
	again := history(t, 4)
	for i := range again { // a log that began anew
		again[i].ID = strings.Repeat("a", 26)
	}
	if _, err := w.open(t, w.options()).Run(t.Context(), each(again), silent); !errors.Is(err, ErrForeign) {
		t.Errorf("another log: %v", err)
	}
}

func TestTooLargeEventsAreShortened(t *testing.T) {
	w := newWorld(t)
	list := history(t, 5)
	large, err := events.New(&events.InsertionAppeared{
		Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "a", Episode: 1,
		Record: []byte(`{"t":"` + strings.Repeat("x", 2<<20) + `"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	list = append(list, large.Stamp(4, time.Now(), "store").WithSequence(4))
	o := w.options()
	o.Job = strings.Repeat("j", 64)
	if _, err := w.open(t, o).Run(t.Context(), each(list), silent); err != nil {
		t.Fatal(err)
	}
	m := w.messages(t)[5]
	if !bytes.Contains(m.data, []byte(`"truncated":true`)) || !bytes.Contains(m.data, []byte(`"origin":"replay"`)) || bytes.Contains(m.data, []byte("record")) {
		t.Errorf("a payload of %d bytes", len(m.data))
	}
	w.mustHold(t, list)
}

func TestAServerThatComesBackIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	list := history(t, 40)
	restarted := make(chan error, 1)
	o := w.options()
	o.AckWait = 500 * time.Millisecond
	p, err := w.open(t, o).Run(t.Context(), each(list), func(p Progress) {
		if p.Published == 20 {
			go func() { restarted <- w.server.Restart(t.Context()) }()
		}
	})
	if err != nil || p.Published != 40 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	w.mustHold(t, list)
}

func TestNoServerIsSaidSoon(t *testing.T) {
	conn, err := nats.Connect("127.0.0.1:1", nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := Open(t.Context(), Options{Conn: conn, Prefix: "listings", Stream: streamName, Job: "j", AckWait: 100 * time.Millisecond}); !errors.Is(err, ErrNotConnected) {
		t.Errorf("got %v", err)
	}
}

func TestSoManyPassASecond(t *testing.T) {
	for rate, want := range map[float64]time.Duration{0.5: 38 * time.Second, 100: 190 * time.Millisecond, 5000: 0, 0: 0} {
		synctest.Test(t, func(t *testing.T) {
			l, began := limiter(rate), time.Now()
			for range 20 {
				if err := l.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if d := time.Since(began); d > want || d < want-25*time.Millisecond {
				t.Errorf("20 at %g a second take %s, want %s", rate, d, want)
			}
		})
	}
}
