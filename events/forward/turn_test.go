package forward

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go"
)

func TestAnAlertAmongManyHaltsOfOneAgencyIsNotSwallowed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		refused := func(n int) {
			w.publish(w.stamp(&events.AccessHalted{
				Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Scope: events.ScopeInsertion, ProbableReason: "insertion_not_allowed",
				PropertyReferenceID: string(rune('a' + n)), Key: events.KeyRef{Slot: "current", Fingerprint: "sha256:1"},
			}, "A100"))
		}
		w.run(20*time.Minute, func() {
			refused(0)
			w.publish(w.stamp(&events.WatchStale{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Operation: "insertions"}, "A100"))
			for n := range recent + 10 { // more than are known by name: they are done before the alert among them
				refused(n + 1)
			}
		})
		if len(s.ids()) != len(w.history) {
			t.Errorf("%d of %d alerts came", len(s.ids()), len(w.history))
		}
	})
}

func TestALeadThatCannotBecomeADeadLetterOutlivesThoseThatWereSentToFindOut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		w.o.Tries, w.o.Manage = 2, false // nobody has made the stream of dead letters
		bad := func(d Delivery) error {
			if d.Events[0].Sequence == 1 {
				return &Retry{Reason: "odd"}
			}
			return nil
		}
		s.will(bad)
		w.run(8*time.Hour, func() {
			for range 1 + 3*recent {
				w.lead("A100")
			}
		}, func() { time.Sleep(6 * time.Hour) }, s.up)
		if len(s.ids()) != len(w.history) {
			t.Errorf("%d of %d leads came; none is among the dead letters", len(s.ids()), len(w.history))
		}
	})
}

func TestADigestThatSomeHaveIsNotSentOneByOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, leadsTo(s))
		calls := 0
		s.will(func(d Delivery) error {
			if len(d.Events) > 1 {
				calls++
				return &Permanent{Reason: "one of two recipients is unknown", Partly: true, Had: []string{"0a", "1b"}}
			}
			return nil
		})
		w.run(time.Second)
		for range 12 { // nobody is there: they are in hand together
			w.lead("A100")
		}
		w.run(time.Hour)
		letters := 0
		for _, err := range w.deadLetters().List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			letters++
		}
		if err := w.deadLetters().Resend(t.Context(), 1, func(string) []Route { return []Route{leadsTo(s)} }); err != nil {
			t.Fatal(err)
		}
		again := s.deliveries()
		if had := again[len(again)-1].Had; !slices.Equal(had, []string{"0a", "1b"}) {
			t.Errorf("the receiver hears that %q have it", had)
		}
		if sent := len(s.ids()); letters != 12 || sent != 1 || calls != 1 {
			t.Errorf("%d of 12 are dead letters, %d were sent alone, %d digests", letters, sent, calls)
		}
	})
}

func TestWhatComesInTheFirstSecondIsNews(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		if err := w.js.DeleteStream(t.Context(), "LISTINGS"); err != nil {
			t.Fatal(err)
		}
		w.start()
		time.Sleep(300 * time.Millisecond) // the daemon makes the stream a little later than the forwarder begins
		w.makeStream()
		w.lead("A100")
		w.publish(w.stamp(&events.WatchBaselined{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, Reason: "first"}, "A100"))
		time.Sleep(time.Minute)
		if len(s.ids()) != 2 {
			t.Errorf("%d of 2 events came", len(s.ids()))
		}
	})
}

func TestALetterTooLargeForTheServerBlocksNobody(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		s.will(func(d Delivery) error {
			if len(d.Events[0].Data) > 100_000 {
				return &Permanent{Reason: "413"}
			}
			return nil
		})
		w.run(time.Hour, func() {
			e := w.stamp(&events.ContactRequestCreated{
				Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "see#1", ContactRequestID: "large", Identity: events.IdentityID,
				Record: []byte(`"` + strings.Repeat("x", 2<<20) + `"`), Contact: events.Contact{Message: strings.Repeat("y", 1<<20)},
			}, "A100").Fit(int(w.nc.MaxPayload()) - 60)
			m := nats.Msg{Header: nats.Header(e.Header()), Data: e.Data}
			e.Data = append(e.Data, bytes.Repeat([]byte(" "), int(w.nc.MaxPayload())-m.Size()-60)...)
			w.publish(e)
			w.lead("A100")
		})
		if len(s.ids()) != 1 {
			t.Errorf("%d of 1 leads came", len(s.ids()))
		}
	})
}

func TestLettersAreSentAgainAtThePaceOfTheReceiver(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, leadsTo(s))
		w.refuse(s, 5)
		d, before := w.deadLetters(), s.called()
		for l, err := range d.List(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			if err := d.Resend(t.Context(), l.Number, func(string) []Route { return w.o.Routes }); err != nil {
				t.Fatal(err)
			}
		}
		begun := s.begun[before:]
		if took := begun[len(begun)-1].Sub(begun[0]); len(begun) != 5 || took < 4*time.Second {
			t.Errorf("%d letters within %s, want a second between two", len(begun), took)
		}
	})
}

func TestASecondForwarderOfTheNameTakesNothingAwayFromTheFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		one, two := newScript("a", 1), newScript("b", 1)
		w := newWorld(t, leadsTo(one, "A100"))
		w.start()
		time.Sleep(2 * time.Second)
		w.o.Dir, w.o.Routes = tempDir(t), []Route{leadsTo(two, "B200")} // on another machine, say
		second, _ := w.start()
		time.Sleep(2 * time.Second)
		var want []events.Event
		for range 10 {
			want = append(want, w.lead("A100"))
			w.lead("B200")
		}
		time.Sleep(time.Minute)
		wantIDs(t, one, want)
		if p := second.Status().Workers[0].Problem; !strings.Contains(p, "another name") {
			t.Errorf("the second one says %q", p)
		}
	})
}

// runIn has the forwarder with this directory at work.
func (w *world) runIn(dir string, meanwhile ...func()) {
	w.t.Helper()
	w.o.Dir = dir
	w.run(time.Minute, meanwhile...)
}

func TestAForwarderWithoutAStateOrWithAnOlderOneGoesOnWhereItsConsumerStands(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		var want []events.Event
		one, two := w.o.Dir, tempDir(t)
		leads := func() { want = append(want, w.lead("A100"), w.lead("A100")) }
		w.runIn(one, leads)
		w.runIn(two, leads)
		w.runIn(two) // a consumer made again that has acknowledged nothing
		w.runIn(one, leads)
		wantIDs(t, s, want)
	})
}

func TestANumberOfALostTailThatIsUsedAgainIsNoPlaceToGoOn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		w.run(time.Minute, func() {
			w.lead("A100")
			w.lead("A100")
		})
		stream, err := w.js.Stream(t.Context(), "LISTINGS")
		if err != nil {
			t.Fatal(err)
		}
		f := w.forwarder()
		f.state.change(func(m *memory) {
			m.Workers["a/leads"].Position = &position{5, "an event of the lost tail", stream.CachedInfo().Created}
		})
		if err := f.state.save(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		w.lead("A100")
		w.lead("A100")
		if _, err := w.js.Publish(t.Context(), "listings.v1.A100.row", []byte("x")); err != nil { // without an id
			t.Fatal(err)
		}
		w.run(time.Minute, func() { w.lead("A100") })
		wantIDs(t, s, w.history)
	})
}

// A replicated consumer may stand at what it passed over, here a halt.
func TestAForwarderGoesOnBehindAMessageThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		var want []events.Event
		one := w.o.Dir
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		w.o.Dir = tempDir(t)
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		w.halt("A100", "sha256:1")
		stream, err := w.js.Stream(t.Context(), "LISTINGS")
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.DeleteMsg(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		w.o.Dir = one
		f := w.forwarder()
		f.state.change(func(m *memory) { m.Workers["a/leads"].Position = &position{3, "", stream.CachedInfo().Created} })
		if err := f.state.save(); err != nil {
			t.Fatal(err)
		}
		f.Close()
		w.run(time.Minute)
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		wantIDs(t, s, want)
	})
}

func TestWhatComesFromTheMomentOfTheOptionsOnIsNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 1)
		w := newWorld(t, leadsTo(s))
		w.lead("A100")
		time.Sleep(time.Minute) // virtual: nobody forwards yet
		w.o.Since = time.Now()
		want := []events.Event{w.lead("A100")}
		time.Sleep(8 * time.Second) // virtual, as the forwarder begins later than the daemon
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		wantIDs(t, s, want)
	})
}
