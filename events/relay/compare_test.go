package relay

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func (b *bell) compared(agency string) Comparison {
	b.t.Helper()
	found, err := b.relay().Compare(b.t.Context(), []string{agency})
	if err != nil || len(found) != 1 {
		b.t.Fatalf("%v, %v", found, err)
	}
	return found[0]
}

func (b *bell) wantCompared(want Comparison) {
	b.t.Helper()
	if got := b.compared(want.AgencyID); !reflect.DeepEqual(got, want) {
		b.t.Errorf("found %+v\nwant  %+v", got, want)
	}
}

// erase deletes messages by their place.
func (b *bell) erase(places ...uint64) {
	b.t.Helper()
	for _, place := range places {
		if err := b.stream().DeleteMsg(b.t.Context(), place); err != nil {
			b.t.Fatal(err)
		}
	}
}

func TestALogAndItsStreamAreEqual(t *testing.T) {
	t.Parallel()
	b := newBell(t)
	b.log.ring(t, "A100", 700)
	b.log.ring(t, "C#300", 3)
	b.deliver()
	b.log.ring(t, "A100", 2)
	b.wantCompared(Comparison{AgencyID: "A100", Logged: 702, Streamed: 700, Waiting: 2})
	found, err := b.relay().Compare(t.Context(), nil)
	if err != nil || len(found) != 2 || !found[0].Well() || !found[1].Well() {
		t.Errorf("%+v, %v", found, err)
	}
	if n := b.stream().CachedInfo().State.Consumers; n != 0 {
		t.Errorf("%d consumers are left", n)
	}
}

func TestWhatTheStreamLacksIsFoundAndSentAgainOnRequest(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.log.ring(t, "A100", 1000)
		b.deliver()
		b.erase(1, 5, 6, 7, 300, 999, 1000)
		want := Comparison{AgencyID: "A100", Logged: 1000, Streamed: 993, Missing: []Range{{1, 1}, {5, 7}, {300, 300}, {999, 1000}}}
		b.wantCompared(want)
		if n := want.CountMissing(); n != 7 {
			t.Errorf("%d are missing", n)
		}
		b.deliver() // removed: nobody sends it again by himself
		b.wantCompared(want)
		if _, err := b.relay().Resend(t.Context(), "A100"); err == nil || !strings.Contains(err.Error(), "two minutes") {
			t.Errorf("within the duplicate window: %v", err)
		}
		time.Sleep(3 * time.Minute)
		sent, err := b.relay().Resend(t.Context(), "A100")
		if err != nil || sent != 7 {
			t.Fatalf("%d sent again, %v", sent, err)
		}
		b.settled()
		b.wantCompared(Comparison{AgencyID: "A100", Logged: 1001, Streamed: 1001})
		b.wantRepairs("A100", "missing 1-1000 sent 7")
		if n := b.resent("A100"); n != 7 {
			t.Errorf("%d are marked", n)
		}
		if sent, err := b.relay().Resend(t.Context(), "A100"); err != nil || sent != 0 {
			t.Errorf("%d sent once more, %v", sent, err)
		}
	})
}

func TestATailThatIsLostAfterEventsWereSentAgainIsNotDoubled(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b, folder := newFolderBell(t)
		b.log.ring(t, "A100", 20)
		b.deliver()
		b.erase(3)
		time.Sleep(3 * time.Minute)
		if sent, err := b.relay().Resend(t.Context(), "A100"); err != nil || sent != 1 {
			t.Fatalf("%d sent again, %v", sent, err)
		}
		restore := b.backup(folder) // its last message is an early event
		b.settled()
		b.log.ring(t, "A100", 5)
		b.deliver()
		restore()
		b.deliver()
		b.wantRepairs("A100", "missing 3-3 sent 1", "tail_lost 21-26 sent 6")
		b.wantCompared(Comparison{AgencyID: "A100", Logged: 27, Streamed: 27})
	})
}

func TestTheReportOfALossCountsNothingOfARepairBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBell(t)
		b.log.ring(t, "A100", 10)
		r := b.relay()
		if err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.erase(5)
		time.Sleep(3 * time.Minute)
		if _, err := r.Resend(t.Context(), "A100"); err != nil {
			t.Fatal(err)
		}
		b.makeAnew()
		if err := r.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		b.settled()
		b.wantRepairs("A100", "missing 5-5 sent 1", "recreated 1-10 sent 10")
	})
}

func TestWhatIsMissingForItsAgeIsNotMissed(t *testing.T) {
	b := newBell(t)
	b.log.ringAt(t, "A100", 5, time.Now().Add(-2*time.Hour))
	b.log.ring(t, "A100", 5)
	b.deliver()
	b.erase(1, 2, 3, 4, 5)
	b.o.MaxAge = time.Hour
	b.wantCompared(Comparison{AgencyID: "A100", Logged: 10, Streamed: 5, Expired: 5})
	if sent, err := b.relay().Resend(t.Context(), "A100"); err != nil || sent != 0 {
		t.Errorf("%d sent again, %v", sent, err)
	}
}

func TestWhatTheLogLacksOrHasOtherwiseIsFound(t *testing.T) {
	p := startConfigured(t, same)
	b := p.dialled(natsd.Dial{})
	c := b.o.StreamConfig()
	c.Duplicates = 100 * time.Millisecond
	if _, err := b.js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	b.log.ring(t, "A100", 10)
	b.deliver()
	log := b.log.list("A100")
	send := func(sequence uint64, id, message string) {
		e := contactRequest(t, "A100", int(sequence), message).Stamp(sequence, time.Now(), "s1").WithSequence(sequence)
		e.ID = id
		if _, err := b.js.PublishMsg(t.Context(), b.relay().message(e, 1<<20, false)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(150 * time.Millisecond) // the server has forgotten the ids
	b.erase(4)
	send(4, log[3].ID, "Anders als zuvor")              // another payload
	send(5, log[4].ID, "Anders als zuvor")              // twice, of another payload
	send(7, "another", "Guten Tag")                     // another id
	send(11, "unlogged", "Guten Tag")                   // a log of elsewhere
	b.stray("listings.v1.A100.contact_request.created") // nobody's
	got := b.compared("A100")
	want := Comparison{
		AgencyID: "A100", Logged: 10, Streamed: 14, Foreign: 1, Unlogged: []Range{{11, 11}}, Different: []uint64{4, 5, 7},
		Doubled: []uint64{5}, Misplaced: []uint64{4, 5, 7},
	}
	if !reflect.DeepEqual(got, want) || got.Well() {
		t.Errorf("found %+v\nwant  %+v", got, want)
	}
	if text := fmt.Sprintf("%+v", got); strings.Contains(text, "Beispiel") || strings.Contains(text, "Guten") {
		t.Error("a person is in the comparison")
	}
	b.erase(8)
	send(8, "stranger", "Guten Tag")
	if got := b.compared("A100"); !slices.Equal(got.Missing, []Range{{8, 8}}) {
		t.Errorf("an event in whose place another one stands is not missed: %+v", got)
	}
	b.log.mu.Lock()
	b.log.events["A100"] = log[8:] // as when the log is trimmed
	b.log.mu.Unlock()
	if got := b.compared("A100"); got.Trimmed != 10 || got.Logged != 2 || len(got.Missing) != 0 {
		t.Errorf("trimmed: %+v", got)
	}
}

func TestACompareWithoutItsStreamSaysSo(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	if _, err := b.relay().Compare(t.Context(), nil); err == nil || !strings.Contains(err.Error(), jetstream.ErrStreamNotFound.Error()) {
		t.Errorf("%v", err)
	}
}

// eraser is a way to a server on which something happens before the first messages are asked for.
type eraser struct {
	server nats.InProcessConnProvider
	erase  func()
}

func (e *eraser) InProcessConn() (net.Conn, error) {
	c, err := e.server.InProcessConn()
	return eraserConn{c, e}, err
}

type eraserConn struct {
	net.Conn
	*eraser
}

func (c eraserConn) Write(b []byte) (int, error) {
	if erase := c.erase; erase != nil && bytes.Contains(b, []byte("CONSUMER.MSG.NEXT")) {
		c.eraser.erase = nil
		erase()
	}
	return c.Conn.Write(b)
}

// TestACompareEndsWhereMessagesGoMeanwhile: the agency's own events wait for it where it is to send again what is missing.
func TestACompareEndsWhereMessagesGoMeanwhile(t *testing.T) {
	for name, left := range map[string]int{"all of them": 0, "some of them": 3} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBell(t)
				b.log.ring(t, "A100", 10)
				b.deliver()
				b.o.Embedded = false // another server is read by a consumer
				b.o.Conn = b.connect(nats.InProcessServer(&eraser{server: b.server, erase: func() {
					if err := b.stream().Purge(t.Context(), jetstream.WithPurgeKeep(uint64(left))); err != nil {
						t.Error(err)
					}
				}}))
				began := time.Now()
				if c := b.compared("A100"); c.Streamed != left {
					t.Errorf("%+v", c)
				}
				if d := time.Since(began); d > time.Minute {
					t.Errorf("it took %s", d)
				}
			})
		})
	}
}

// trimming is a log that forgets its first events after it was looked at once.
type trimming struct {
	Log
	forgets uint64
	looked  bool
}

func (l *trimming) Read(agency string, after uint64, most, bytes int) ([]events.Event, error) {
	if l.looked {
		after = max(after, l.forgets)
	}
	l.looked = true
	return l.Log.Read(agency, after, most, bytes)
}

func TestWhatTheLogForgetsMeanwhileIsNotUnlogged(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 5)
	b.deliver()
	b.o.Log = &trimming{Log: b.log, forgets: 2}
	found, err := b.relay().Compare(t.Context(), []string{"A100"})
	if err != nil || !found[0].Well() || found[0].Logged != 3 || found[0].Streamed != 5 {
		t.Errorf("%+v, %v", found, err)
	}
}

// unreadable is a log that cannot be read any more, while the connection is lost as well.
type unreadable struct {
	*memLog
	lose func()
}

func (u unreadable) Read(string, uint64, int, int) ([]events.Event, error) {
	u.lose()
	return nil, errors.New("input/output error")
}

func TestALogThatCannotBeReadEndsAComparisonAlsoWhereTheConnectionIsLost(t *testing.T) {
	b := newBell(t)
	b.log.ring(t, "A100", 1)
	b.deliver()
	b.o.Log = unreadable{b.log, b.nc.Close}
	if _, err := b.relay().Resend(t.Context(), "A100"); !errors.Is(err, ErrLog) {
		t.Errorf("Resend: %v", err)
	}
	if _, err := b.relay().Compare(t.Context(), nil); !errors.Is(err, ErrLog) {
		t.Errorf("Compare: %v", err)
	}
}
