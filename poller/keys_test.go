package poller_test

import (
	"net/http"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

// The sandbox calls testKey key-1, and newKey, which is added later, key-2.

func keyed(id, key string) poller.AgencyKeys {
	return poller.AgencyKeys{ID: id, Key: listings.NewKey(key)}
}

// configure changes what is configured, now and for the next start.
func (w *world) configure(list ...poller.AgencyKeys) {
	w.t.Helper()
	w.options.Agencies = list
	if w.stop != nil {
		w.restart()
	}
}

// lists counts the list requests of an agency with a key; status 0 for any.
func (w *world) lists(agency, label string, status int) int {
	return w.model.Requests(sandbox.Filter{AgencyID: agency, Operation: sandbox.OperationInsertions, Key: label, Status: status})
}

// rotating is an agency that has been watched for a while, while the provider accepts the next key too.
func rotating(t *testing.T, test func(*world)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.model.AddKey(newKey, "A100")
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.start()
		w.pass(10 * time.Minute)
		test(w)
	})
}

// mustBeWell wants an agency that is not halted and tells of a contact request.
func (w *world) mustBeWell(agency, reference string) {
	w.t.Helper()
	id := w.write(agency, reference, 0)
	w.pass(10 * time.Minute)
	if got := announced(w.log(agency)); got[id] != 1 {
		w.t.Errorf("a contact request was announced %d times; %+v", got[id], w.status(agency))
	}
}

// mustBeSilent wants no request for an agency in a long time.
func (w *world) mustBeSilent(agency string) {
	w.t.Helper()
	before := w.model.Requests(sandbox.Filter{AgencyID: agency})
	w.pass(3 * time.Hour)
	if n := w.model.Requests(sandbox.Filter{AgencyID: agency}) - before; n > 0 {
		w.t.Errorf("%d requests for %s, which is halted", n, agency)
	}
}

// refuse answers the contact requests of all insertions with a status for each key, where one is given.
func (w *world) refuse(statuses map[string]int) {
	w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation == sandbox.OperationContactRequests && statuses[c.Key] > 0 {
			return &sandbox.Fault{Status: statuses[c.Key]}
		}
		return nil
	})
}

func TestWhereAllContactRequestsAreRefusedWalksGoOn(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.refuse(map[string]int{"key-1": 403})
		w.pass(10 * time.Minute)
		list := w.since("A100", before)
		w.wants(list, events.TypeAccessHalted)
		if list[0].body["scope"] != "contact_requests" {
			t.Errorf("halted: %v", list[0].body)
		}
		asked := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests})
		w.publish("A100", "a#5##")
		w.restart()
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}) - asked; n != 1 { // a new insertion tries again
			t.Errorf("%d contact requests were asked for though halted", n)
		}
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeInsertionAppeared)
		// Now the list is refused too.
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeInsertionAppeared, events.TypeAccessHalted)
		w.mustBeSilent("A100")
	})
}

func TestAnotherKeyEndsTheHaltOfAnInsertion(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" && c.Key == "key-1" {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(10 * time.Minute)
		w.configure(keyed("A100", testKey)) // the same
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted)
		w.configure(keyed("A100", newKey))
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeAccessResumed)
		w.mustBeWell("A100", "a#1##")
	})
}

func TestARetryAfterToAKeyThatIsGoneSlowsNoLaterStart(t *testing.T) {
	long(t)
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##", "a#2##")
		w.model.AddKey(newKey, "A100")
		w.options.PollInterval, w.options.WalkInterval = 5*time.Minute, 10*time.Minute // for a day, in which nothing but its end matters
		w.start()
		w.pass(10 * time.Minute)
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"600"}}}
		})
		w.pass(2 * time.Minute)
		w.options.Agencies = []poller.AgencyKeys{{ID: "A100", Key: listings.NewKey(newKey)}}
		w.model.SetFault(nil)
		w.configure(w.options.Agencies...)
		w.pass(24 * time.Hour)
		w.restart()
		s := w.poller.Status()
		if s.Effective != s.RequestsPerSecond {
			t.Errorf("%g of %g requests a second", s.Effective, s.RequestsPerSecond)
		}
	})
}
