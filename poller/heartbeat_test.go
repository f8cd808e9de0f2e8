package poller_test

import (
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

func TestTheLoopsBeatWhateverTheAPIDoes(t *testing.T) {
	for name, failure := range map[string]func(*world){
		"nothing": func(*world) {},
		"a halt":  func(w *world) { w.must(w.model.DeactivateKey(testKey)) },
		"an outage": func(w *world) {
			w.model.SetFault(func(sandbox.Call) *sandbox.Fault { return &sandbox.Fault{Status: 500} })
		},
		"little left": func(w *world) {
			w.halt()
			w.options.RequestsPerSecond = 0.001
			w.start()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##")
				w.start()
				w.pass(10 * time.Minute)
				failure(w)
				p := w.poller
				for range 20 {
					w.pass(17 * time.Minute)
					polls, staleness := p.Turned()
					if since := time.Since(polls); since > 2*time.Minute {
						t.Errorf("polls: none since %s", since)
					}
					if since := time.Since(staleness); since > 2*time.Minute {
						t.Errorf("staleness: none since %s", since)
					}
				}
				w.halt()
				time.Sleep(time.Hour)
				if polls, staleness := p.Turned(); time.Since(polls) < time.Hour || time.Since(staleness) < time.Hour {
					t.Error("one after their end")
				}
			})
		})
	}
}
