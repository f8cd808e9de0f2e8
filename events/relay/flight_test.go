package relay

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events/natsd"

	"github.com/nats-io/nats.go"
)

// started runs a relay until its agencies are published and their lanes rest no more.
func (b *bell) started(t *testing.T, agencies ...string) (r *Relay, stop func()) {
	t.Helper()
	for _, a := range agencies {
		b.log.ring(t, a, 1)
	}
	r = b.relay()
	stop = b.start(r)
	for _, a := range agencies {
		within(t, time.Second, "published", func() bool { return b.published(a) })
	}
	return r, stop
}

// flights counts what took off. The relay has ended, or rests.
func flights(r *Relay, agency string) uint64 {
	l, _ := r.lane(agency)
	defer l.lock()()
	return l.flights
}

func TestAnEventThatComesAloneIsSentByWhoHasCommittedIt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		r, stop := b.started(t, "A100", "B200")
		defer stop()
		for _, ring := range []int{1, 1, 3, 1} {
			b.log.ring(t, "A100", ring)
			within(t, time.Second, "published", func() bool { return b.published("A100") })
		}
		b.log.ring(t, "B200", 1)
		within(t, time.Second, "published", func() bool { return b.published("B200") })
		if a, b := flights(r, "A100"), flights(r, "B200"); a != 3 || b != 1 {
			t.Errorf("%d and %d took off", a, b)
		}
		exactlyOnce(t, b.js, b.log, "A100", 0)
		exactlyOnce(t, b.js, b.log, "B200", 0)
	})
}

// Writing to it may take as long as the network likes, and who has committed must not wait.
func TestNothingTakesOffToAServerThatIsNotOurs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.o.Pipe = nil
		r, stop := b.started(t, "A100")
		defer stop()
		b.log.ring(t, "A100", 1)
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		if n := flights(r, "A100"); n != 0 {
			t.Errorf("%d took off", n)
		}
	})
}

// The client would write it at once, and with it whoever has committed would wait until the server has read it.
func TestALargeEventDoesNotTakeOff(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		r, stop := b.started(t, "A100")
		defer stop()
		b.log.mu.Lock()
		b.log.add(contactRequest(t, "A100", 2, strings.Repeat("Guten Tag. ", 2000)), time.Now())
		b.log.mu.Unlock()
		b.log.tell("A100")
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		if n := flights(r, "A100"); n != 0 {
			t.Errorf("%d took off", n)
		}
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

func TestAnAnswerToAnEarlierEventIsNotTakenForThatOfTheOneInFlight(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, s := newCutBell(t)
		r, stop := b.started(t, "A100")
		defer stop()
		b.log.ring(t, "A100", 1)
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		l, _ := r.lane("A100")
		if err := b.nc.PublishMsg(&nats.Msg{Subject: l.inbox + ".1", Data: []byte(`{"stream":"LISTINGS","seq":99}`)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		b.ringUnheard(t, s)
		if b.published("A100") {
			t.Error("nobody has answered")
		}
		within(t, time.Minute, "published", func() bool { return b.published("A100") })
		exactlyOnce(t, b.js, b.log, "A100", 0)
		b.wantRepairs("A100")
	})
}

func TestWhatIsInFlightWhenTheRelayEndsIsLookedForByTheNextAndHoldsUpNobody(t *testing.T) {
	for _, heard := range []bool{true, false} {
		t.Run(fmt.Sprintf("heard %t", heard), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b, s := newCutBell(t)
				agencies := []string{"A100", "B200", "C300", "D400", "E500"} // more than may be in flight
				r, stop := b.started(t, agencies...)
				for _, a := range agencies {
					if heard {
						b.log.ring(t, a, 1)
						continue
					}
					s.mu.Lock()
					s.at, s.hole = "Nats-Expected-Stream", true
					s.mu.Unlock()
					b.log.ring(t, a, 1)
				}
				stop()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if err := r.Drain(ctx); err != nil {
					t.Fatal(err)
				}
				if !r.budget.TryAcquire(inFlight) {
					t.Error("what was in flight keeps its share of the bound")
				}
				for _, a := range agencies {
					exactlyOnce(t, b.js, b.log, a, 0)
					b.wantRepairs(a)
					l, _ := r.lane(a)
					l.lock()()
				}
			})
		})
	}
}

func TestWhatNobodyLetsLandAnyMoreIsLookedForAndNothingElseTakesOff(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	r := b.relay()
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, _ := r.lane("A100")
	l.man()()
	b.log.ring(t, "A100", 1)
	if len(l.flying) != 0 {
		t.Fatal("an event took off, and nobody waits for it")
	}
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	end := l.man()
	l.listen()
	b.log.ring(t, "A100", 1)
	if len(l.flying) != 1 {
		t.Fatal("the event did not take off")
	}
	end()
	if err := r.Drain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !r.budget.TryAcquire(inFlight) {
		t.Error("what was in flight keeps its share of the bound")
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
	if _, failures := r.figures.read(); len(failures) != 0 {
		t.Errorf("it was sent again: %v", failures)
	}
}

func TestNothingTakesOffWithoutASubjectOfItsOwnForTheAnswer(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	r := b.relay()
	l, _ := r.lane("A100")
	defer l.man()()
	for _, listens := range []bool{false, true, false} { // RunOnce does not listen
		for range 2 { // the first one lets land what took off
			if err := r.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if listens {
			l.listen()
		}
		b.log.ring(t, "A100", 1)
		if tookOff := len(l.flying) == 1; tookOff != listens {
			t.Errorf("took off: %t", tookOff)
		}
	}
	if err := r.RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

// Between the commit and the call everything may have happened: the event may be published, and may have another sequence.
func TestWhoTellsLateOfACommitDoublesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		r, stop := b.started(t, "A100")
		defer stop()
		l, _ := r.lane("A100")
		b.log.ring(t, "A100", 2)
		within(t, time.Second, "published", func() bool { return b.published("A100") })
		for last := range uint64(6) {
			l.appended(last)
			synctest.Wait()
		}
		time.Sleep(time.Second)
		if n := flights(r, "A100"); n != 0 {
			t.Errorf("%d took off", n)
		}
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

func TestManyWhoCommitAtOnceDoubleNothingAndLoseNothing(t *testing.T) {
	b := newBell(t)
	r, stop := b.started(t, "A100")
	const each = 50
	done := make(chan struct{})
	for range 4 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range each {
				b.log.ring(t, "A100", 1)
			}
		}()
	}
	for range 4 {
		<-done
	}
	eventually(t, "published", func() bool { return b.published("A100") })
	stop()
	t.Logf("%d of %d took off", flights(r, "A100"), 4*each)
	exactlyOnce(t, b.js, b.log, "A100", 0)
	b.wantRepairs("A100")
}

// A look that is due is asked for as an event is: by a poke.
func TestALookThatIsDueWhileALaneRestsIsNotForgotten(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		began := time.Now()
		_, stop := b.started(t, "A100")
		defer stop()
		time.Sleep(time.Until(began.Add(time.Hour - storeAfter/2)))
		b.log.ring(t, "A100", 1)
		synctest.Wait()
		b.stray("listings.v1.A100.test")
		time.Sleep(time.Minute)
		b.wantRepairs("A100", "foreign_message 2-2 sent 0")
	})
}

// Somebody else may have brought the lane up to date, while who runs it waits after a failure.
func TestNothingTakesOffWhileNobodyLetsItLand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		r, stop := b.started(t, "A100")
		defer stop()
		c := b.o.StreamConfig()
		c.MaxBytes = 10_000
		if _, err := b.js.UpdateStream(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		b.log.ring(t, "A100", 100)
		time.Sleep(10 * time.Minute)                   // it waits for half a minute now
		if err := r.RunOnce(t.Context()); err != nil { // changes the stream back
			t.Fatal(err)
		}
		b.log.ring(t, "A100", 1)
		synctest.Wait()
		if !r.budget.TryAcquire(inFlight) {
			t.Fatal("what is in flight keeps its share of the bound, and nobody lets it land")
		}
		r.budget.Release(inFlight)
		within(t, time.Minute, "published", func() bool { return b.published("A100") })
		exactlyOnce(t, b.js, b.log, "A100", 0)
	})
}

// What the client could not write in time is gone, though the connection stays.
func TestAnswersThatTheServerDoesNotKnowOfAreAskedForAnew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, s := newCutBell(t)
		r, stop := b.started(t, "A100")
		defer stop()
		s.mu.Lock()
		s.at, s.hole = "SUB ", true
		s.mu.Unlock()
		ring := func() (failed uint64) {
			b.log.ring(t, "B200", 1)
			within(t, time.Minute, "published", func() bool { return b.published("B200") })
			_, failures := r.figures.read()
			return failures["unknown"]
		}
		ring() // begins the lane, which asks for answers
		failed := ring()
		if n := flights(r, "B200"); s.breaks != 1 || n != 1 || failed == 0 {
			t.Fatalf("%d subscriptions were lost, %d events took off, %d publishes failed", s.breaks, n, failed)
		}
		for range 3 {
			if now := ring(); now != failed {
				t.Errorf("%d publishes failed, not %d: the answers did not come", now, failed)
			}
		}
		if n := flights(r, "B200"); n != 4 {
			t.Errorf("%d took off", n)
		}
		exactlyOnce(t, b.js, b.log, "B200", 0)
	})
}

// heap is what is in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestToWaitForAnswersCostsAnAgencyLittle(t *testing.T) {
	b := newBell(t)
	agencies := agencyNames(50)
	for _, a := range agencies {
		b.log.ring(t, a, 1)
	}
	r := b.relay()
	defer b.start(r)()
	for _, a := range agencies {
		eventually(t, "published", func() bool { return b.published(a) })
	}
	before := heap()
	for _, a := range agencies {
		b.log.ring(t, a, 1)
		eventually(t, "published", func() bool { return b.published(a) })
	}
	if more := int64(heap()-before) / int64(len(agencies)); more > 50_000 {
		t.Errorf("%d bytes for each agency", more)
	}
}

// The server answers anybody's questions to where he likes, and who listens to an event sees where its answer goes.
func TestAGuestCannotTellBeforeWhereAnAnswerWillGo(t *testing.T) {
	b := newBell(t, func(o *natsd.Options) { o.Listen = "127.0.0.1:0" })
	b.log.ring(t, "A100", 1)
	r := b.relay()
	stop := b.start(r)
	eventually(t, "published", func() bool { return b.published("A100") })
	guest, err := nats.Connect(b.server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	seen, err := guest.SubscribeSync("listings.v1.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := guest.Flush(); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		b.log.ring(t, "A100", 1)
		eventually(t, "published", func() bool { return b.published("A100") })
		m, err := seen.NextMsg(5 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		inbox := m.Reply[:strings.LastIndex(m.Reply, ".")]
		if err := guest.PublishRequest("$JS.API.STREAM.INFO.NONE", fmt.Sprintf("%s.%d", inbox, n+2), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := guest.Request("$JS.API.STREAM.INFO.NONE", nil, 5*time.Second); err != nil { // the one before is answered
			t.Fatal(err)
		}
	}
	stop()
	if _, failures := r.figures.read(); len(failures) != 0 {
		t.Errorf("failures %v", failures)
	}
	if n := flights(r, "A100"); n != 5 {
		t.Errorf("%d took off", n)
	}
}

// deafWay leads to a server that reads nothing any more once it is deaf.
type deafWay struct {
	nats.InProcessConnProvider
	deaf atomic.Bool
	over chan struct{}
}

type deafConn struct {
	net.Conn
	way *deafWay
}

func (w *deafWay) InProcessConn() (net.Conn, error) {
	c, err := w.InProcessConnProvider.InProcessConn()
	return deafConn{c, w}, err
}

func (c deafConn) Write(b []byte) (int, error) {
	if c.way.deaf.Load() {
		<-c.way.over
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

func TestWhoCommitsIsNotHeldUpByAServerThatReadsNothingAnyMore(t *testing.T) {
	for _, overdue := range []bool{false, true} {
		t.Run(fmt.Sprintf("overdue %t", overdue), func(t *testing.T) {
			b := newBell(t)
			w := &deafWay{InProcessConnProvider: b.server, over: make(chan struct{})}
			b.o.Pipe = &Pipe{Server: w}
			b.o.Conn, b.o.AckWait = b.connect(nats.InProcessServer(b.o.Pipe)), 200*time.Millisecond
			agencies := agencyNames(2)
			for _, a := range agencies {
				b.log.ring(t, a, 1)
			}
			r := b.relay()
			defer b.start(r)()
			defer close(w.over)
			for _, a := range agencies {
				eventually(t, "published", func() bool { return b.published(a) })
			}
			w.deaf.Store(true)
			for n, a := range agencies {
				committed := make(chan struct{})
				go func() { b.log.ring(t, a, 1); close(committed) }()
				select {
				case <-committed:
				case <-time.After(3 * time.Second):
					t.Fatalf("%s: who commits is held up", a)
				}
				if n == 0 && overdue {
					eventually(t, "overdue", func() bool { return r.budget.TryAcquire(inFlight) })
					r.budget.Release(inFlight)
				}
			}
		})
	}
}
