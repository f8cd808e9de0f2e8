package forward

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"

	"github.com/nats-io/nats.go/jetstream"
)

// crash runs a forwarder until it reaches a step for the n-th time, and then leaves the disk as it was at that moment. It is false if that
// did not happen within 20 minutes.
func (w *world) crash(step string, n int, meanwhile func()) bool {
	w.t.Helper()
	disk := map[string][]byte{}
	var died atomic.Bool
	_, stop := w.start(func(f *Forwarder) {
		f.cut = func(at string) error {
			if at == step {
				n--
			}
			if died.Load() {
				return errCut
			}
			if n != 0 {
				return nil
			}
			for _, path := range w.files() {
				disk[path], _ = os.ReadFile(path)
			}
			died.Store(true)
			return errCut
		}
	})
	meanwhile()
	for end := time.Now().Add(20 * time.Minute); !died.Load() && time.Now().Before(end); {
		time.Sleep(10 * time.Second)
	}
	err := stop()
	if !died.Load() {
		if err != nil {
			w.t.Fatal(err)
		}
		return false
	}
	if !errors.Is(err, errCut) {
		w.t.Fatal(err)
	}
	for _, path := range w.files() {
		if disk[path] == nil {
			_ = os.Remove(path)
		} else {
			w.must(os.WriteFile(path, disk[path], 0o600))
		}
	}
	return true
}

// files are those of the forwarder, but for its lock.
func (w *world) files() []string {
	w.t.Helper()
	paths, err := filepath.Glob(filepath.Join(w.o.Dir, "forward", "*.json"))
	if err != nil {
		w.t.Fatal(err)
	}
	return paths
}

// onceButFor wants every event, the first time in the order of its agency, and so many deliveries too many.
func onceButFor(t *testing.T, s *script, want []events.Event, doubles int) {
	t.Helper()
	var first []string
	order := map[string]uint64{}
	again := 0
	for _, d := range s.deliveries() {
		repeated := false
		for _, e := range d.Events {
			if slices.Contains(first, e.ID) {
				repeated = true
			} else {
				first = append(first, e.ID)
				if e.Sequence <= order[e.AgencyID] {
					t.Errorf("%s: %d comes after %d", e.AgencyID, e.Sequence, order[e.AgencyID])
				}
				order[e.AgencyID] = e.Sequence
			}
		}
		if repeated {
			again++
		}
	}
	var ids []string
	for _, e := range want {
		ids = append(ids, e.ID)
	}
	slices.Sort(first)
	slices.Sort(ids)
	if !slices.Equal(first, ids) {
		t.Errorf("%d events, want %d", len(first), len(ids))
	}
	if again > doubles {
		t.Errorf("%d deliveries doubled, want at most %d", again, doubles)
	}
}

func TestKilledAtEveryStepNoLeadIsLostAndAtMostOneIsDoubled(t *testing.T) {
	for _, step := range []string{"sent", "marked", "done"} {
		for n := 1; n <= 3; n++ {
			for _, backlog := range []int{3, 30} {
				t.Run(fmt.Sprintf("%s %d of %d", step, n, backlog), func(t *testing.T) {
					scene(t, 10, func(t *testing.T, w *world, s *script) {
						w.run(time.Second)
						died := w.crash(step, n, func() { w.leads(backlog, "A100") })
						if !died {
							t.Fatal("it was never there")
						}
						w.run(5 * time.Minute)
						doubles := 0
						if step == "sent" {
							doubles = 1
						}
						onceButFor(t, s, w.history, doubles)
					})
				})
			}
		}
	}
}

func TestKilledBetweenLetterAndEndThereIsOneLetter(t *testing.T) {
	for _, step := range []string{"dead", "done"} {
		for _, pause := range []time.Duration{time.Minute, 3 * time.Hour} {
			t.Run(step+" "+pause.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					s := newScript("a", 10)
					s.will(func(Delivery) error { return &Refused{Reason: "no", Certain: true} })
					w := newWorld(t, leadsTo(s))
					if !w.crash(step, 1, func() { w.lead("A100") }) {
						t.Fatal("it was never there")
					}
					time.Sleep(pause)
					w.run(5*time.Minute, func() { w.lead("A100") })
					if l := w.letters(); len(l) != 2 || l[0].ID != w.history[0].ID || l[1].ID != w.history[1].ID {
						t.Errorf("%+v", l)
					}
				})
			})
		}
	}
}

// TestAnyScheduleOfCrashesLosesNothing lets a receiver, a forwarder, a consumer and the stream fail as a seed decides.
func TestAnyScheduleOfCrashesLosesNothing(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				s := newScript("a", []int{0, 10}[seed%2])
				w := newWorld(t, leadsTo(s))
				w.run(time.Second)
				doubles := 0
				for range 6 {
					s.up()
					if r.IntN(3) == 0 {
						s.down()
					}
					step := []string{"sent", "marked", "done"}[r.IntN(3)]
					if w.crash(step, 1+r.IntN(4), func() {
						for range r.IntN(12) {
							w.lead([]string{"A100", "B200", "C 3"}[r.IntN(3)])
							time.Sleep(time.Duration(r.IntN(3)) * time.Second)
						}
					}) && step == "sent" {
						doubles++
					}
					switch r.IntN(4) {
					case 0:
						_ = w.js.DeleteConsumer(t.Context(), "LISTINGS", consumer("a"))
					case 1:
						w.rebuild()
					case 2:
						w.must(w.server.Restart(t.Context()))
						time.Sleep(10 * time.Second)
					}
				}
				s.up()
				w.run(20 * time.Minute)
				onceButFor(t, s, w.history, doubles)
			})
		})
	}
}

func TestTheMessageInHandComesBackWithin30SecondsOfACrash(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		if !w.crash("sent", 1, func() { w.lead("A100") }) {
			t.Fatal("it was never there")
		}
		s.mu.Lock()
		s.took = nil // it was on its way when the power went
		s.mu.Unlock()
		w.run(31 * time.Second) // and two in which the consumer is found
		wantIDs(t, s, w.history)
	})
}

// TestAConnectionThatBreaksWithOneInHandSwallowsNothing breaks it while the first lead is tried and
// others wait behind it: they must not be delivered before it, and it must not count as done with them.
func TestAConnectionThatBreaksWithOneInHandSwallowsNothing(t *testing.T) {
	for _, digest := range []int{1, 20} {
		scene(t, digest, func(t *testing.T, w *world, s *script) {
			s.down()
			_, stop := w.start()
			w.lead("A100")
			time.Sleep(20 * time.Second) // it is in hand
			w.leads(recent+50, "A100")
			if err := stop(); err != nil { // with the first one in hand
				t.Fatal(err)
			}
			w.must(w.server.Restart(t.Context()))
			s.up()
			w.run(10*time.Minute, func() {
				w.must(w.server.Restart(t.Context()))
			})
			wantIDs(t, s, w.history)
		})
	}
}

// TestACrashWhileAConsumerIsMadeAgainFloodsNothing ends between the answer of the server, which has the
// consumer begin with the stream, and the file.
func TestACrashWhileAConsumerIsMadeAgainFloodsNothing(t *testing.T) {
	scene(t, 20, func(t *testing.T, w *world, s *script) {
		for range 50 {
			w.lead("A100") // before the forwarder began
		}
		time.Sleep(time.Second)
		w.run(time.Minute, func() { w.lead("A100") })
		have, err := w.js.Consumer(t.Context(), "LISTINGS", consumer("a"))
		if err != nil {
			t.Fatal(err)
		}
		c := have.CachedInfo().Config
		w.must(w.js.DeleteConsumer(t.Context(), "LISTINGS", c.Durable))
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverAllPolicy, nil
		if _, err := w.js.CreateConsumer(t.Context(), "LISTINGS", c); err != nil {
			t.Fatal(err)
		}
		w.lead("A100")
		w.run(time.Minute)
		wantIDs(t, s, w.history[50:])
	})
}

func TestAStateThatIsBehindItsConsumerDoublesNothing(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *world, path string){
		"it could not be written": func(t *testing.T, w *world, path string) {
			block := path + ".new"
			w.run(5*time.Minute, func() {
				w.must(os.Mkdir(block, 0o700))
				w.leads(50, "A100")
			})
			w.must(os.Remove(block))
		},
		"it is that of a backup": func(t *testing.T, w *world, path string) {
			backup, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w.run(5*time.Minute, func() { w.leads(50, "A100") })
			w.must(os.WriteFile(path, backup, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, 1, func(t *testing.T, w *world, s *script) {
				w.run(time.Second, func() { w.lead("A100") })
				spoil(t, w, filepath.Join(w.o.Dir, "forward", "slack.a.json"))
				w.run(5*time.Minute, func() { w.lead("A100") })
				wantIDs(t, s, w.history)
			})
		})
	}
}
