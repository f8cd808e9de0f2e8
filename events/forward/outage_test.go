package forward

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/stream"
)

func TestAReceiverThatIsDownForAnHourLosesNothingAndComesBackToDigests(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		f, stop := w.start()
		s.down()
		for n := range 60 {
			w.lead([]string{"A100", "B200", "C300"}[n%3])
			time.Sleep(time.Minute)
		}
		if n := s.called(); n < 10 || n > 60 {
			t.Errorf("tried %d times in an hour", n)
		}
		if st := f.Status()[0]; st.Waiting != 60 || st.LastError != "down" || st.Attempts < 10 || st.Failed["busy"]+st.Failed["receiver"] < uint64(st.Attempts) || st.DeadLetters != 0 || time.Since(st.FailingSince) < 59*time.Minute {
			t.Errorf("%+v", st)
		}
		for before := -1; before != s.called(); { // not between an attempt and that of another message
			before = s.called()
			time.Sleep(2 * s.traits.Pace)
		}
		s.up()
		time.Sleep(7 * time.Minute)
		w.must(stop())
		wantIDs(t, s, w.history)
		if n := len(s.deliveries()); n != 4 { // one alone, then 20, 20, 19
			t.Errorf("%d deliveries of 60 events", n)
		}
		if st := f.Status()[0]; st.Waiting != 0 || st.LastError != "" || st.Events != 60 || st.Attempts != 0 || !st.FailingSince.IsZero() {
			t.Errorf("%+v", st)
		}
	})
}

// TestWhatWaitedIsSentAsDigests has so many leads wait while no forwarder runs.
func TestWhatWaitedIsSentAsDigests(t *testing.T) {
	sizes := func(n, of int) (all []int) {
		for range n {
			all = append(all, of)
		}
		return all
	}
	for name, c := range map[string]struct {
		leads, digest  int
		alone, strange bool
		bad            int // the number of one that is refused whatever it comes with; 0: none
		want           []int
	}{
		"more than one holds":     {leads: 47, digest: 20, want: []int{20, 20, 7}},
		"five":                    {leads: 5, digest: 20, want: sizes(5, 1)},
		"for a program":           {leads: 8, digest: 20, alone: true, want: sizes(8, 1)},
		"others between them":     {leads: 20, digest: 20, strange: true, want: []int{20}},
		"one is bad":              {leads: 10, digest: 20, bad: 4, want: sizes(9, 1)},
		"one is bad, then others": {leads: 40, digest: 10, bad: 4, want: append(sizes(9, 1), 10, 10, 10)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				s := newScript("a", c.digest)
				s.traits.LeadsAlone = c.alone
				r := leadsTo(s)
				r.Filter.Except = []string{"X"}
				w := newWorld(t, r)
				w.run(time.Second)
				var want []events.Event
				for n := range c.leads {
					e := w.lead(fmt.Sprint("N", n%3))
					if n+1 != c.bad {
						want = append(want, e)
					}
					if c.strange {
						w.lead("X")
						if _, err := w.js.Publish(t.Context(), "listings.v1.N1.contact_request.created", []byte("foreign")); err != nil {
							t.Fatal(err)
						}
					}
				}
				w.rejects(s, c.bad-1)
				w.run(time.Minute)
				wantIDs(t, s, want)
				var got []int
				for _, d := range s.deliveries() {
					got = append(got, len(d.Events))
				}
				if !slices.Equal(got, c.want) {
					t.Errorf("deliveries of %d, want %d", got, c.want)
				}
				if l := w.letters(); c.bad == 0 && len(l) != 0 || c.bad > 0 && (len(l) != 1 || l[0].ID != w.history[c.bad-1].ID || l[0].Reason != "422" || l[0].Attempts != 1) {
					t.Errorf("%+v", l)
				}
			})
		})
	}
}

func TestAMessageThatIsNeverTakenIsADeadLetterOnceOthersAre(t *testing.T) {
	for _, answer := range []*Retry{{Reason: "500"}, {Reason: "429", After: 4 * time.Minute}} {
		t.Run(answer.Reason, func(t *testing.T) {
			scene(t, 20, func(t *testing.T, w *world, s *script) {
				_, stop := w.start()
				s.will(func(d Delivery) error {
					if slices.ContainsFunc(d.Events, func(e events.Event) bool { return e.Sequence == 1 }) {
						return answer
					}
					return nil
				})
				w.lead("A100")
				time.Sleep(150 * time.Minute)
				if n := len(w.letters()); n != 0 {
					t.Error("a dead letter although nobody waits")
				}
				w.leads(3, "A100")
				time.Sleep(20 * time.Minute)
				w.must(stop())
				wantIDs(t, s, w.history[1:])
				if l := w.letters(); len(l) != 1 || l[0].ID != w.history[0].ID || l[0].Attempts < 30 || l[0].Reason != answer.Reason {
					t.Errorf("%+v", l)
				}
			})
		})
	}
}

// The receiver takes one message, and then none of those that were tried before: what is tried once
// more may be taken now.
func TestAMessageIsTriedOnceMoreAfterTheReceiverTookAnother(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		s.down()
		w := newWorld(t, leadsTo(s))
		_, stop := w.start()
		w.lead("A100")
		w.lead("A100")
		s.will(func(d Delivery) error {
			if d.Events[0].Sequence == 2 { // it begins to work just when the other one is tried
				s.answer = nil
				return nil
			}
			return &Retry{Reason: "500"}
		})
		time.Sleep(time.Hour)
		w.must(stop())
		if l := w.letters(); len(l) != 0 || len(s.ids()) != 2 {
			t.Errorf("%+v, %d events", l, len(s.ids()))
		}
	})
}

func TestADeliveryThatIsTriedAgainIsTheSame(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Second)
		w.leads(8, "A100")
		s.will(func(d Delivery) error {
			if len(d.Events) != 8 || d.Events[7].ID != w.history[7].ID {
				t.Errorf("a delivery of %d", len(d.Events))
			}
			return &Retry{Reason: "greylisted"}
		})
		w.run(6*time.Minute, func() { // less than ten tries take
			time.Sleep(time.Minute)
			w.leads(8, "A100")
		})
		if s.called() < 8 {
			t.Error(s.called())
		}
	})
}

// TestLeadsAndAlertsAreInNoDigestTogether has both wait in turn.
func TestLeadsAndAlertsAreInNoDigestTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		w.run(time.Second)
		for n := range 8 {
			w.lead("A100")
			w.halt(fmt.Sprint("N", n), "k")
		}
		w.run(time.Minute)
		wantAll(t, s, w.history)
		if n := len(s.deliveries()); n != 2 {
			t.Errorf("%d deliveries", n)
		}
	})
}

func TestADeadLetterThatCannotBeWrittenKeepsTheMessage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		s.will(func(Delivery) error { return &Refused{Reason: "no", Certain: true} })
		w := newWorld(t, leadsTo(s))
		w.o.Manage = false
		f, stop := w.start()
		w.lead("A100")
		time.Sleep(time.Hour)
		if st := f.Status()[0]; st.Waiting != 1 || !strings.Contains(st.LastError, "dead letter") {
			t.Errorf("%+v", st)
		}
		w.must(EnsureDeadLetters(t.Context(), stream.Conn{Conn: w.nc}, DeadLetterConfig("listings", "LISTINGS", time.Hour, 0), false))
		time.Sleep(7 * time.Minute)
		if st := f.Status()[0]; st.Waiting != 0 || st.DeadLetters != 1 {
			t.Errorf("%+v", st)
		}
		if err := stop(); err != nil || len(w.letters()) != 1 {
			t.Errorf("%v, %+v", err, w.letters())
		}
	})
}

func TestErrorsOfReceiversAreNotQuotedUnlessTheyAreOurs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		s.will(func(Delivery) error {
			return fmt.Errorf("Post https://hooks.example/s3cret: %w", context.Canceled)
		})
		w := newWorld(t, leadsTo(s))
		f, stop := w.start()
		w.lead("A100")
		time.Sleep(time.Minute)
		text := fmt.Sprintf("%+v", f.Status())
		w.must(stop())
		if strings.Contains(text+w.log.String(), "s3cret") {
			t.Error("a secret is told")
		}
		s.will(func(Delivery) error {
			return &Refused{Certain: true, Reason: "ä\r\nx: y" + strings.Repeat("z", 10_000)}
		})
		w.run(10 * time.Minute)
		if l := w.letters(); len(l) != 1 || strings.ContainsAny(l[0].Reason, "\r\nä") || len(l[0].Reason) > 300 {
			t.Errorf("%+v", l)
		}
	})
}

// letters are all dead letters.
func (w *world) letters() (all []Letter) {
	w.t.Helper()
	d, err := OpenDeadLetters(stream.Conn{Conn: w.nc}, "listings", "LISTINGS")
	if err != nil {
		w.t.Fatal(err)
	}
	for l, err := range d.List(w.t.Context()) {
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

func TestALaneGivesSignsOfLifeWhateverItWaitsFor(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 20)
		w := newWorld(t, Route{Receiver: s})
		f, stop := w.start()
		quiet := func(most time.Duration) {
			t.Helper()
			for _, l := range f.Status() {
				if since := time.Since(l.Turned); since > most {
					t.Errorf("%s: none since %s", l.Destination, since)
				}
			}
		}
		for range 3 {
			time.Sleep(10 * time.Minute)
			quiet(time.Minute)
		}
		s.will(func(Delivery) error { return &Retry{After: time.Hour, Reason: "429"} })
		w.lead("A100")
		w.halt("A100", "k")
		for range 6 {
			time.Sleep(30 * time.Minute)
			quiet(150 * time.Minute)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestAfterADayOfFailuresOnlyWhatIsRefusedAloneIsADeadLetter has one receiver that is down with ten
// leads, one whose address is wrong, and one that refuses its only lead.
func TestAfterADayOfFailuresOnlyWhatIsRefusedAloneIsADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		down, wrong, refuses := newScript("down", 20), newScript("wrong", 20), newScript("refuses", 20)
		down.down()
		wrong.will(func(Delivery) error { return &Retry{Receiver: true, Reason: "404"} })
		refuses.will(func(Delivery) error { return &Refused{Reason: "422"} })
		w := newWorld(t, leadsTo(down, "A"), leadsTo(wrong, "B"), leadsTo(refuses, "C"))
		_, stop := w.start()
		w.leads(10, "A")
		w.lead("B")
		w.lead("C")
		time.Sleep(23 * time.Hour)
		if n := len(w.letters()); n != 0 {
			t.Errorf("%d letters before a day is over", n)
		}
		time.Sleep(2 * time.Hour)
		if l := w.letters(); len(l) != 1 || l[0].ID != w.history[11].ID || !strings.Contains(l[0].Reason, "no other message") {
			t.Errorf("%+v", l)
		}
		if n := down.called(); n > 2*25*12+100 {
			t.Errorf("called %d times", n)
		}
		down.up()
		wrong.up()
		time.Sleep(7 * time.Minute)
		wantAll(t, down, w.history[:10])
		wantIDs(t, wrong, w.history[10:11])
		if err := stop(); err != nil || len(w.letters()) != 1 {
			t.Errorf("%v, %+v", err, w.letters())
		}
	})
}

// rejects has a receiver refuse these of the events that the world stamps, counted from 0, and no
// other.
func (w *world) rejects(s *script, bad ...int) {
	s.will(func(d Delivery) error {
		for _, n := range bad {
			if slices.ContainsFunc(d.Events, func(e events.Event) bool { return e.Sequence == uint64(n+1) }) {
				return &Refused{Reason: "422"}
			}
		}
		return nil
	})
}

func TestTwoLeadsInARowThatAreRefusedHoldUpNoOther(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		w.rejects(s, 0, 1)
		w.run(20*time.Minute, func() { w.leads(4, "A100") })
		wantIDs(t, s, w.history[2:])
		if l := w.letters(); len(l) != 2 || l[0].ID != w.history[0].ID || l[1].ID != w.history[1].ID || l[0].Attempts < 2 || l[1].Attempts < 2 {
			t.Errorf("%+v", l)
		}
	})
}

func TestARefusedLeadWaitsNoLongerThanUntilTheNextIsAccepted(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		w.rejects(s, 0)
		_, stop := w.start()
		w.lead("A100")
		time.Sleep(6 * time.Minute)
		w.lead("A100")
		time.Sleep(time.Minute)
		wantIDs(t, s, w.history[1:])
		if l := w.letters(); len(l) != 1 || l[0].ID != w.history[0].ID {
			t.Errorf("%+v", l)
		}
		w.must(stop())
	})
}

// A digest is one request: each of its leads may have been accepted with it.
func TestADigestThatIsPerhapsDeliveredIsTriedThreeTimes(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Second)
		w.leads(8, "A100")
		s.will(func(Delivery) error { return &Retry{Unanswered: true, Reason: "no answer in time"} })
		w.run(10 * time.Minute)
		l := w.letters()
		if s.called() != 3 || len(l) != 8 || l[7].Attempts != 3 || l[7].Reason != "perhaps delivered: no answer in time" {
			t.Errorf("after %d attempts %+v", s.called(), l)
		}
		s.up()
		w.run(time.Minute)
		wantIDs(t, s, nil)
	})
}

// What has had no answer once is a witness all the same: else the others would wait for a new lead.
func TestADigestThatHasNoAnswerAndIsThenRefusedIsSentOneByOne(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Second)
		w.leads(8, "A100")
		bad := w.history[0].ID
		s.will(func(d Delivery) error {
			switch {
			case s.called() == 1:
				return &Retry{Unanswered: true, Reason: "no answer in time"}
			case slices.ContainsFunc(d.Events, func(e events.Event) bool { return e.ID == bad }):
				return &Refused{Reason: "no"}
			}
			return nil
		})
		w.run(10 * time.Minute)
		if got := len(s.ids()); got != 7 || len(w.letters()) != 1 {
			t.Errorf("%d leads and %d letters", got, len(w.letters()))
		}
	})
}

func TestWhatWaitsOnTheServerIsCounted(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		f, stop := w.start()
		if _, err := w.js.PauseConsumer(t.Context(), "LISTINGS", consumer("a"), time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		w.leads(3, "A100")
		time.Sleep(2 * time.Minute)
		if st := f.Status()[0]; st.Waiting != 3 || time.Since(st.WaitingSince) < time.Minute {
			t.Errorf("%+v", st)
		}
		time.Sleep(time.Hour)
		if st := f.Status()[0]; st.Waiting != 0 || !st.WaitingSince.IsZero() {
			t.Errorf("%+v", st)
		}
		w.must(stop())
		wantIDs(t, s, w.history)
	})
}

func TestOfTwoRecipientsTheFullMailboxHoldsUpNoOther(t *testing.T) {
	bubble(t, func(t *testing.T) {
		nora, max := newScript("nora", 1), newScript("max", 1)
		w := newWorld(t, leadsTo(nora), leadsTo(max))
		max.will(func(Delivery) error { return &Retry{Receiver: true, Reason: "452 4.2.2"} })
		w.run(time.Minute, func() { w.leads(4, "A100") })
		wantIDs(t, nora, w.history)
		max.up()
		w.run(time.Minute)
		wantIDs(t, nora, w.history)
		wantIDs(t, max, w.history)
	})
}

// TestWhatIsLostOnTheWayFromTheServerIsNotDoneWithThoseBehindIt has messages that the server has
// sent and the worker never got, as when a connection breaks and is made again. The server offers
// them again after half a minute, when the worker has delivered more behind them than a checkpoint
// lists.
func TestWhatIsLostOnTheWayFromTheServerIsNotDoneWithThoseBehindIt(t *testing.T) {
	for _, digest := range []int{1, 200} {
		bubble(t, func(t *testing.T) {
			s := newScript("a", digest)
			s.traits.Pace = 20 * time.Millisecond
			w := newWorld(t, leadsTo(s))
			s.will(func(d Delivery) error {
				if d.Events[0].Sequence > 1 {
					return nil
				}
				w.leads(3*recent, "A100")
				c, err := w.js.Consumer(t.Context(), "LISTINGS", consumer("a"))
				if err != nil {
					t.Fatal(err)
				}
				lost, err := c.FetchNoWait(3)
				if err != nil {
					t.Fatal(err)
				}
				n := 0
				for range lost.Messages() {
					n++
				}
				if n != 3 {
					t.Errorf("%d messages are lost", n)
				}
				return nil
			})
			w.run(2*time.Minute, func() { w.lead("A100") })
			ids := map[string]bool{}
			for _, id := range s.ids() {
				ids[id] = true
			}
			if len(ids) != len(w.history) || len(s.ids()) != len(ids) {
				t.Errorf("%d deliveries of %d leads, of %d", len(s.ids()), len(ids), len(w.history))
			}
		})
	}
}
