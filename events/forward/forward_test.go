package forward

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

func TestTheStateIsForNobodyElseToRead(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.run(time.Minute, func() { w.lead("A100") })
		path := filepath.Join(w.o.Dir, "forward", "slack.json")
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Fatalf("%v %v", info.Mode(), err)
		}
		text, err := os.ReadFile(path)
		if err != nil || strings.Contains(string(text), "ecret") || !strings.Contains(string(text), `"tables":[{"from":"`) {
			t.Errorf("%s %v", text, err)
		}
	})
}

func TestASecondForwarderOfTheSameNameIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, leadsTo(newScript("a", 20)))
		first := w.forwarder()
		_, err := New(w.o)
		if !errors.Is(err, ErrBusy) || !strings.Contains(err.Error(), "slack") {
			t.Fatal(err)
		}
		first.Close()
		w.forwarder().Close()
		w.o.Name = "other"
		w.forwarder().Close()
	})
}

func TestADamagedStateIsRefusedAndLeftAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, leadsTo(newScript("a", 20)))
		path := filepath.Join(w.o.Dir, "forward", "slack.json")
		w.must(os.MkdirAll(filepath.Dir(path), 0o700))
		const rules = `"tables":[{"rules":[]}]`
		for _, text := range []string{
			"", "{", "null", "[]", `{"version":3,"name":"slack"}`, `{"version":3,"name":"mail",` + rules + `}`, `{"version":2,"name":"slack",` + rules + `}`,
			`{"version":4,"name":"slack",` + rules + `}`, `{"version":3,"name":"slack",` + rules + `}x`, `{"version":3,"name":"slack","tables":[]}`,
		} {
			w.must(os.WriteFile(path, []byte(text), 0o600))
			_, err := New(w.o)
			if !errors.Is(err, ErrState) || !strings.Contains(err.Error(), path) {
				t.Errorf("%s: %v", text, err)
			}
			if now, _ := os.ReadFile(path); string(now) != text {
				t.Errorf("%s became %s", text, now)
			}
		}
	})
}

func TestOptionsThatCannotWorkAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		w := newWorld(t, leadsTo(newScript("a", 20)))
		for name, change := range map[string]func(*Options){
			"prefix":     func(o *Options) { o.Prefix = "a..b" },
			"name":       func(o *Options) { o.Name = "a/b" },
			"forwarders": func(o *Options) { o.Forwarders = []string{"a.b"} },
			"type":       func(o *Options) { o.Routes[0].Filter.Types = []string{"contact_request.create"} },
		} {
			o := w.o
			o.Routes = []Route{leadsTo(newScript("a", 20))}
			change(&o)
			if f, err := New(o); !errors.Is(err, ErrOptions) {
				t.Errorf("%s: %v", name, err)
				if err == nil {
					f.Close()
				}
			}
		}
	})
}

func TestThePaceIsKeptOverAllLanesOfADestination(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newScript("a", 0)
		w := newWorld(t, Route{Receiver: s})
		w.run(time.Minute, func() {
			for range 8 {
				w.lead("A100")
				w.halt("A100", "k")
			}
		})
		if len(s.begun) != 16 {
			t.Fatalf("%d sends", len(s.begun))
		}
		for n := 1; n < len(s.begun); n++ {
			if d := s.begun[n].Sub(s.begun[n-1]); d < time.Second {
				t.Errorf("%s between two", d)
			}
		}
	})
}

func TestWhatIsSlowIsNotDeliveredTwice(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		s.wait = func(ctx context.Context) { sleep(ctx, 3*time.Minute) }
		w.run(10*time.Minute, func() { w.lead("A100") })
		wantIDs(t, s, w.history)
		if s.called() != 1 {
			t.Errorf("called %d times", s.called())
		}
		if strings.Contains(w.log.String(), "attempts=2") {
			t.Error("delivered again")
		}
	})
}

func TestASendThatNeverEndsIsCut(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		first := true
		s.wait = func(ctx context.Context) {
			if first {
				<-ctx.Done()
			}
		}
		s.will(func(Delivery) error {
			if first {
				first = false
				return context.DeadlineExceeded
			}
			return nil
		})
		w.run(5*time.Minute, func() { w.lead("A100") })
		wantIDs(t, s, w.history)
		if !strings.Contains(w.log.String(), "no answer in time") {
			t.Error("not told")
		}
	})
}

func TestASendUnderWayAtTheEndMayComeToItsEnd(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		cut := false
		s.wait = func(ctx context.Context) { cut = !sleep(ctx, 4*time.Second) }
		_, stop := w.start()
		w.lead("A100")
		time.Sleep(time.Second)
		begin := time.Now()
		w.must(stop())
		if d := time.Since(begin); cut || d > 6*time.Second {
			t.Errorf("cut: %v, after %s", cut, d)
		}
		s.wait = nil
		w.run(time.Minute)
		wantIDs(t, s, w.history)
	})
}

// TestWhatIsNoLiveEventIsPassedOver has messages of strangers in the stream, and events of the past.
func TestWhatIsNoLiveEventIsPassedOver(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		f, stop := w.start()
		if _, err := w.js.Publish(t.Context(), "listings.v1.A100.contact_request.created", []byte("Secretname")); err != nil {
			t.Fatal(err)
		}
		for _, o := range []events.Origin{events.OriginBaseline, events.OriginReplay} {
			w.put(w.stampLead("A100").WithOrigin(o), nil)
		}
		w.lead("A100")
		time.Sleep(time.Minute)
		if st := f.Status()[0]; st.Events != 1 || st.Waiting != 0 || st.Problem != "" {
			t.Errorf("%+v", st)
		}
		w.must(stop())
		wantIDs(t, s, w.history)
		if strings.Contains(w.log.String(), "Secretname") {
			t.Error("the log quotes it")
		}
	})
}

// TestWhatFailsIsShown has a stream that is missing for minutes, and a receiver that is down.
func TestWhatFailsIsShown(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		w.must(w.js.DeleteStream(t.Context(), "LISTINGS"))
		f, _ := w.start()
		time.Sleep(20 * time.Second) // it may be just being made
		if p := f.Status()[0].Problem; p != "" || strings.Contains(w.log.String(), "WARN") {
			t.Errorf("%s, %s", p, w.log.String())
		}
		time.Sleep(10 * time.Minute)
		if p := f.Status()[0].Problem; !strings.Contains(p, "missing") || strings.Count(w.log.String(), "no events from NATS; retrying") != 1 {
			t.Errorf("%s, %s", p, w.log.String())
		}
		w.makeStream()
		s.down()
		w.leads(2, "A100")
		time.Sleep(time.Hour)
		st := f.Status()[0]
		if st.Waiting != 2 || st.LastError != "down" || st.Attempts < 10 || st.Failed["busy"] < uint64(st.Attempts) || st.DeadLetters != 0 || time.Since(st.FailingSince) < 55*time.Minute {
			t.Errorf("%+v", st)
		}
		if n := s.called(); n > 60 {
			t.Errorf("tried %d times in an hour", n)
		}
		s.up()
		time.Sleep(7 * time.Minute)
		if st := f.Status()[0]; st.Waiting != 0 || st.LastError != "" || st.Events != 2 || st.Attempts != 0 || !st.FailingSince.IsZero() {
			t.Errorf("%+v", st)
		}
	})
}
