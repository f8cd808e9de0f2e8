package poller_test

import (
	"fmt"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

func onList(f func(sandbox.Call) *sandbox.Fault) func(sandbox.Call) *sandbox.Fault {
	return func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != sandbox.OperationInsertions {
			return nil
		}
		return f(c)
	}
}

func TestManyNewInsertionsAfterALongOutageBringTheirContactRequests(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.options.PollInterval = time.Hour
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(failing("insertions", 500))
		w.pass(time.Hour)
		var ids []string
		for n := range 8 {
			w.publish("A100", fmt.Sprintf("b#%d##", n))
			ids = append(ids, w.write("A100", fmt.Sprintf("b#%d##", n), 0))
		}
		w.pass(72 * time.Hour)
		w.model.SetFault(nil)
		w.pass(time.Hour)
		got := announced(w.log("A100"))
		for _, id := range ids {
			if got[id] != 1 {
				t.Errorf("a lead was announced %d times", got[id])
			}
		}
		for _, e := range w.log("A100") {
			if after, _ := e.body["observedAfter"].(string); e.Type == events.TypeInsertionAppeared && after > "2000-01-01T01" {
				t.Errorf("appeared after %s, when the list had failed", after)
			}
		}
	})
}
