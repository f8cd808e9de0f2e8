package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
	"doorbell/events/natsd"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go"
)

const patience = 20 * time.Second // where sockets are real

func (w *world) deadLetters() *DeadLetters {
	w.t.Helper()
	return OpenDeadLetters(stream.Conn{Conn: w.nc}, "listings", "LISTINGS")
}

// letters are all dead letters.
func (w *world) letters() (all []Letter) {
	w.t.Helper()
	for l, err := range w.deadLetters().List(w.t.Context()) {
		w.must(err)
		all = append(all, l)
	}
	return all
}

// refuse makes dead letters of n leads.
func (w *world) refuse(s *script, n int) {
	w.t.Helper()
	s.will(func(Delivery) error { return &Refused{Reason: "400 invalid_payload", Certain: true} })
	w.run(time.Minute, func() {
		for range n {
			w.lead("A 1")
			time.Sleep(time.Second)
		}
	})
	s.up()
}

func TestADeadLetterIsTheMessageWithTheReason(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("chan-1", 20)
		w := newWorld(t, leadsTo(s))
		w.refuse(s, 1)
		stream, err := w.js.Stream(t.Context(), "LISTINGS_DLQ")
		must(t, err)
		if c := stream.CachedInfo().Config; c.MaxAge != 720*time.Hour || c.Subjects[0] != "listings.dlq.>" {
			t.Errorf("%+v", c)
		}
		m, err := stream.GetMsg(t.Context(), 1)
		must(t, err)
		e := w.history[0]
		if m.Subject != "listings.dlq.slack.A=201.contact_request.created" || string(m.Data) != string(e.Data) {
			t.Error(m.Subject)
		}
		for name, want := range map[string]string{
			"ce-id": e.ID, "ce-type": "contact_request.created", "doorbell-reason": "400 invalid_payload", "doorbell-attempts": "1",
			"doorbell-forwarder": "slack", "doorbell-destination": "chan-1", "Nats-Msg-Id": "slack/chan-1/" + e.ID,
		} {
			if got := m.Header.Get(name); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if text := fmt.Sprintf("%+v", w.letters()) + w.log.String(); strings.Contains(text, "ecret") {
			t.Error("a person is in the listing or in the log")
		}
		if l := w.letters()[0]; l.AgencyID != "A 1" || l.Destination != "chan-1" || l.Reference != "see#1" || l.Number != 1 || l.At.IsZero() {
			t.Errorf("%+v", l)
		}
	})
}

// retry does what doorbell dlq retry does.
func retry(t *testing.T, d *DeadLetters, number uint64, routes []Route) error {
	t.Helper()
	if err := d.Resend(t.Context(), number, routes); err != nil {
		return err
	}
	return d.Drop(t.Context(), number)
}

func TestADeliveredLetterIsRemoved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s, other := newScript("a", 20), newScript("b", 20)
		w := newWorld(t, leadsTo(s))
		d := w.deadLetters()
		if err := d.Drop(t.Context(), 1); !errors.Is(err, ErrNoLetter) || len(w.letters()) != 0 { // no stream yet
			t.Error(err)
		}
		w.refuse(s, 3)
		if err := retry(t, d, 1, []Route{leadsTo(other, "Z")}); !errors.Is(err, ErrNoReceiver) || len(w.letters()) != 3 {
			t.Error(err)
		}
		routes := []Route{leadsTo(other), leadsTo(s)}
		s.down()
		if err := retry(t, d, 2, routes); err == nil || len(w.letters()) != 3 {
			t.Fatal(err)
		}
		s.up()
		w.must(retry(t, d, 2, routes))
		wantIDs(t, s, w.history[1:2])
		w.must(d.Drop(t.Context(), 1))
		if l := w.letters(); len(l) != 1 || l[0].Number != 3 {
			t.Errorf("%+v", l)
		}
		for _, n := range []uint64{1, 2, 99, 0} {
			if err := retry(t, d, n, routes); !errors.Is(err, ErrNoLetter) {
				t.Errorf("%d: %v", n, err)
			}
			if err := d.Drop(t.Context(), n); !errors.Is(err, ErrNoLetter) {
				t.Errorf("%d: %v", n, err)
			}
		}
		elsewhere := []Route{leadsTo(s, "Z"), leadsTo(other)} // its agency has another destination now
		w.must(d.Resend(t.Context(), 3, elsewhere))
		wantIDs(t, other, w.history[2:3])
		s.traits.Destination = "moved" // the address is another one now
		w.must(retry(t, d, 3, []Route{leadsTo(s)}))
		if err := retry(t, d, 3, nil); !errors.Is(err, ErrNoLetter) || len(w.letters()) != 0 {
			t.Error(err)
		}
	})
}

// TestAGuestOfTheEmbeddedServerCanForward has a forwarder that is a process of its own, which connects over the network without a password:
// it may make consumers and publish letters, but no streams, and erase nothing.
func TestAGuestOfTheEmbeddedServerCanForward(t *testing.T) {
	s, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", Protected: []string{"listings.v1.>"}})
	must(t, err)
	defer s.Shutdown()
	w := worldOn(t, s)
	guest, err := natsd.Connect(natsd.Dial{URL: s.ClientURL()}, w.o.Log)
	must(t, err)
	defer guest.Close()
	w.must(EnsureDeadLetters(t.Context(), stream.Conn{Conn: w.nc}, DeadLetterConfig("listings", "LISTINGS", time.Hour, 0), false))
	o := newScript("a", 5)
	o.traits.Pace = 0
	w.o.AckWait = 2 * time.Second // a message can be on its way to a forwarder that ends
	w.o.Conn.Conn, w.o.Routes, w.o.Manage = guest, []Route{leadsTo(o)}, false
	helptest.Within(t, patience, "connected", guest.IsConnected)
	_, stop := w.launch()
	helptest.Within(t, patience, "the consumer is there", func() bool { return len(consumerNames(t, w)) == 1 })
	w.must(stop())
	w.leads(7, "A100")
	bad := w.history[0].ID
	o.will(func(d Delivery) error {
		if d.Events[0].ID == bad {
			return &Refused{Reason: "no", Certain: true}
		}
		return nil
	})
	_, stop = w.launch()
	helptest.Within(t, patience, "forwarded", func() bool { return len(o.ids()) == 6 && len(w.letters()) == 1 })
	w.must(stop())
	d := OpenDeadLetters(stream.Conn{Conn: guest}, "listings", "LISTINGS")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := d.Drop(ctx, 1); err == nil || len(w.letters()) != 1 {
		t.Error("a guest has erased a letter")
	}
}

func TestAForeignLetterIsListedAndCanBeDropped(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.refuse(s, 1)
		if _, err := w.js.Publish(t.Context(), "listings.dlq.slack.A.contact_request.created", []byte("Secret Person")); err != nil {
			t.Fatal(err)
		}
		l := w.letters()
		if len(l) != 2 || l[0].Unreadable || l[1] != (Letter{Number: 2, At: l[1].At, Reason: ErrUnreadable.Error(), Unreadable: true}) {
			t.Fatalf("%+v", l)
		}
		d := w.deadLetters()
		if err := d.Resend(t.Context(), 2, []Route{leadsTo(s)}); !errors.Is(err, ErrUnreadable) {
			t.Error(err)
		}
		if err := d.Drop(t.Context(), 2); err != nil || len(w.letters()) != 1 {
			t.Error(err)
		}
	})
}

func TestALetterTooLargeForTheServerBlocksNobody(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		s.will(func(d Delivery) error {
			if len(d.Events[0].Data) > 100_000 {
				return &Refused{Reason: "413", Certain: true}
			}
			return nil
		})
		w.run(time.Hour, func() {
			e := w.stamp(&events.ContactRequestCreated{
				Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: "see#1", ContactRequestID: "large", Identity: events.IdentityID,
				Record: []byte(`"` + strings.Repeat("x", 2<<20) + `"`), Contact: events.Contact{Message: strings.Repeat("y", 1<<20)},
			}).Fit(int(w.nc.MaxPayload()) - 60)
			m := nats.Msg{Header: nats.Header(e.Header()), Data: e.Data}
			e.Data = append(e.Data, bytes.Repeat([]byte(" "), int(w.nc.MaxPayload())-m.Size()-60)...)
			w.publish(e)
			w.lead("A100")
		})
		if len(s.ids()) != 1 {
			t.Errorf("%d leads arrived, want 1", len(s.ids()))
		}
	})
}

func TestLettersAreSentAgainAtThePaceOfTheReceiver(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.refuse(s, 5)
		before := s.called()
		for _, l := range w.letters() {
			w.must(w.deadLetters().Resend(t.Context(), l.Number, w.o.Routes))
		}
		begun := s.begun[before:]
		if took := begun[len(begun)-1].Sub(begun[0]); len(begun) != 5 || took < 4*time.Second {
			t.Errorf("%d letters within %s, want a second between two", len(begun), took)
		}
	})
}

func TestALetterOfALeadThatWasErasedIsNotWritten(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		s.will(func(d Delivery) error {
			if d.Events[0].Sequence == 2 {
				w.erase(1) // at this moment
			}
			return &Refused{Reason: "no", Certain: true}
		})
		w.run(time.Minute, func() { w.leads(2, "A100") })
		if log := w.log.String(); strings.Count(log, "moved to the dead letters") != 1 || strings.Count(log, "was erased before") != 1 {
			t.Error("the log does not have one letter and one erasure")
		}
		written, err := w.js.Stream(t.Context(), "LISTINGS_DLQ")
		w.must(err)
		if n := written.CachedInfo().State.LastSeq; n != 1 || len(w.letters()) != 1 {
			t.Errorf("%d letters were written", n)
		}
	})
}
