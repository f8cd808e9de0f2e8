package poller_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/sandbox"
)

// The sandbox calls testKey key-1, and newKey, which is added later, key-2.

func key(text string) listings.Key { return listings.NewKey(text) }

// pair is an agency with a current and a next key; an empty next is none.
func pair(id, current, next string) poller.AgencyKeys {
	return poller.AgencyKeys{ID: id, Key: key(current), Next: key(next)}
}

// configure changes what is configured, now and for the next start.
func (w *world) configure(list ...poller.AgencyKeys) {
	w.t.Helper()
	w.options.Agencies = list
	if w.stop != nil {
		w.must(w.poller.SetAgencies(list))
	}
}

// lists counts the list requests of an agency with a key; status 0 for any.
func (w *world) lists(agency, label string, status int) int {
	return w.model.Requests(sandbox.Filter{AgencyID: agency, Operation: sandbox.OperationInsertions, Key: label, Status: status})
}

// rotating is an agency with two insertions that has been watched for a while, with a pair of keys of which both work.
func rotating(t *testing.T, test func(*world)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.model.AddKey(newKey, "A100")
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.options.Agencies = []poller.AgencyKeys{pair("A100", testKey, newKey)}
		w.start()
		w.pass(10 * time.Minute)
		test(w)
	})
}

func (w *world) member(e told, object, name string) string {
	o, _ := e.body[object].(map[string]any)
	text, _ := o[name].(string)
	return text
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

func TestTheSecondKeyTakesOverWithoutAHalt(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		if n := w.model.Requests(sandbox.Filter{Key: "key-2"}); n > 0 {
			t.Errorf("the next key was shown %d times though the current one works", n)
		}
		w.must(w.model.DeactivateKey(testKey))
		w.pass(5 * time.Minute)
		list := w.since("A100", before)
		w.wants(list, events.TypeAccessKeySwitched)
		for name, want := range map[string]poller.AgencyKeys{"from": pair("", testKey, ""), "to": pair("", newKey, "")} {
			if got := w.member(list[0], name, "fingerprint"); got != want.Key.Fingerprint() {
				t.Errorf("%s is the key %s", name, got)
			}
		}
		if w.member(list[0], "from", "slot") != "current" || w.member(list[0], "to", "slot") != "next" {
			t.Errorf("the slots are %v and %v", list[0].body["from"], list[0].body["to"])
		}
		w.mustBeWell("A100", "a#1##")
		w.restart()
		w.mustBeWell("A100", "a#2##")
		if n := w.lists("A100", "key-1", 403); n != 1 {
			t.Errorf("the list was asked for %d times with the refused key", n)
		}
	})
}

func TestWhereBothKeysAreRefusedThereIsOneHaltAndNoFurtherRequest(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.must(w.model.DeactivateKey(testKey))
		w.must(w.model.DeactivateKey(newKey))
		w.pass(5 * time.Minute)
		list := w.since("A100", before)
		w.wants(list, events.TypeAccessHalted)
		if w.member(list[0], "key", "slot") != "next" || w.member(list[0], "key", "fingerprint") != key(newKey).Fingerprint() {
			t.Errorf("the halt names %v, but the next key was refused last", list[0].body["key"])
		}
		w.mustBeSilent("A100")
		w.restart()
		w.mustBeSilent("A100")
		if one, two := w.lists("A100", "key-1", 403), w.lists("A100", "key-2", 403); one != 1 || two != 1 {
			t.Errorf("the list was asked for %d and %d times with refused keys", one, two)
		}
		w.wants(w.since("A100", before), events.TypeAccessHalted)
		// A person ends it: both may be tried again, the current one first.
		w.model.AddKey(newKey)
		_, err := w.poller.Resume("A100", "")
		w.must(err)
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeAccessResumed, events.TypeAccessKeySwitched)
		w.mustBeWell("A100", "a#1##")
	})
}

func TestAHaltOfAStoppedDaemonEndsWithBothKeysUntried(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.must(w.model.DeactivateKey(testKey))
		w.must(w.model.DeactivateKey(newKey))
		w.pass(5 * time.Minute)
		w.model.AddKey(newKey)
		if n, err := poller.ResumeRemembered(w.store, "A100", ""); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		w.restart()
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeAccessResumed, events.TypeAccessKeySwitched)
	})
}

func TestAPairNeverSwitchesBack(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		for n := range 6 { // the provider cannot make up its mind
			if n%2 == 0 {
				w.model.AddKey(newKey)
				w.must(w.model.DeactivateKey(testKey))
			} else {
				w.model.AddKey(testKey)
				w.must(w.model.DeactivateKey(newKey))
			}
			w.pass(10 * time.Minute)
			w.restart()
			w.pass(10 * time.Minute)
		}
		w.wants(w.since("A100", before), events.TypeAccessKeySwitched, events.TypeAccessHalted)
		if key := w.log("A100")[before+1].body["key"]; w.member(w.log("A100")[before+1], "key", "slot") != "next" {
			t.Errorf("the halt names %v", key)
		}
		w.mustBeSilent("A100")
	})
}

func TestAnAnswerThatDecidesNothingNeitherSwitchesNorHalts(t *testing.T) {
	for name, fault := range map[string]sandbox.Fault{
		"an error of the server": {Status: 500},
		"a time-out":             {Delay: time.Minute},
		"another page":           {Body: []byte("<html>maintenance</html>")},
		"a missing service":      {Status: 404},
		"a 429 with Retry-After": {Status: 429, Header: http.Header{"Retry-After": {"120"}}},
	} {
		t.Run(name, func(t *testing.T) {
			rotating(t, func(w *world) {
				before := len(w.log("A100"))
				w.must(w.model.DeactivateKey(testKey))
				w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
					if c.Key == "key-2" {
						return &fault
					}
					return nil
				})
				w.pass(5 * time.Minute)
				refused := w.model.Requests(sandbox.Filter{Key: "key-1"})
				w.pass(20 * time.Minute)
				w.restart()
				w.pass(20 * time.Minute)
				for _, e := range w.since("A100", before) {
					if e.Type == events.TypeAccessHalted || e.Type == events.TypeAccessKeySwitched {
						t.Errorf("%s of %s", e, name)
					}
				}
				if n := w.model.Requests(sandbox.Filter{Key: "key-1"}) - refused; n > 0 {
					t.Errorf("the refused key was shown %d times more", n)
				}
				if n := w.model.Requests(sandbox.Filter{Key: "key-2", Operation: sandbox.OperationContactRequests}); n > 0 {
					t.Errorf("%d contact requests were asked for with a key that is being tried with the list", n)
				}
				if n := w.lists("A100", "key-2", 0); n < 5 || n > 60 {
					t.Errorf("the other key was tried %d times in 45 minutes", n)
				}
				w.model.SetFault(nil)
				w.pass(10 * time.Minute)
				if n := count(w.since("A100", before), events.TypeAccessKeySwitched); n != 1 {
					t.Errorf("%d switches after the answers were good again", n)
				}
				w.mustBeWell("A100", "a#1##")
			})
		})
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

func TestWhereAllContactRequestsAreRefusedTheOtherKeyIsTriedWithThem(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.refuse(map[string]int{"key-1": 403})
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessKeySwitched)
		if n := w.lists("A100", "key-1", 403); n > 0 {
			t.Errorf("%d lists were refused", n)
		}
		w.mustBeWell("A100", "a#1##")
	})
}

func TestWhereAllContactRequestsAreRefusedToBothKeysWalksGoOn(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.refuse(map[string]int{"key-1": 403, "key-2": 403})
		w.pass(10 * time.Minute)
		list := w.since("A100", before)
		w.wants(list, events.TypeAccessHalted)
		if list[0].body["scope"] != "contact_requests" || w.member(list[0], "key", "slot") != "next" {
			t.Errorf("halted: %v", list[0].body)
		}
		if n := w.model.Requests(sandbox.Filter{Key: "key-2"}); n != 1 {
			t.Errorf("the other key was shown %d times", n)
		}
		asked := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests})
		w.publish("A100", "a#5##")
		w.restart()
		w.pass(time.Hour)
		if n := w.model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}) - asked; n > 0 {
			t.Errorf("%d contact requests were asked for though halted", n)
		}
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeInsertionAppeared)
		// Now the list is refused too: the next key was tried before, so there is no switch any more.
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeInsertionAppeared, events.TypeAccessHalted)
		w.mustBeSilent("A100")
	})
}

func TestATrialWithContactRequestsWaitsForAPlainAnswer(t *testing.T) {
	rotating(t, func(w *world) {
		w.model.KeepLog()
		before := len(w.log("A100"))
		w.refuse(map[string]int{"key-1": 403, "key-2": 500})
		w.pass(5 * time.Minute)
		refused := w.model.Requests(sandbox.Filter{Key: "key-1", Operation: sandbox.OperationContactRequests})
		w.pass(30 * time.Minute)
		w.restart()
		w.pass(30 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{Key: "key-1", Operation: sandbox.OperationContactRequests}) - refused; n > 0 {
			t.Errorf("the refused key was shown %d times more", n)
		}
		if n := w.model.Requests(sandbox.Filter{Key: "key-2", Operation: sandbox.OperationContactRequests}); n < 5 || n > 80 {
			t.Errorf("the other key was tried %d times in an hour", n)
		}
		tried := map[string]bool{}
		for _, r := range w.model.Log(sandbox.Filter{Key: "key-2", Operation: sandbox.OperationContactRequests}) {
			tried[r.Reference] = true
		}
		if len(tried) != 4 {
			t.Errorf("it was tried with %v only", tried)
		}
		if n := w.lists("A100", "key-2", 0); n > 0 {
			t.Errorf("%d lists with the key that is being tried", n)
		}
		if list := w.since("A100", before); count(list, events.TypeAccessHalted)+count(list, events.TypeAccessKeySwitched) > 0 {
			t.Errorf("decided: %v", list)
		}
		// While it is tried, the list is refused as well: then it is tried with the list.
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		if n := count(w.since("A100", before), events.TypeAccessKeySwitched); n != 1 {
			t.Errorf("%d switches", n)
		}
		w.refuse(nil)
		w.mustBeWell("A100", "a#1##")
	})
}

func TestAnInsertionThatIsRefusedAloneSwitchesNothing(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Reference == "a#1##" && c.Key == "key-1" {
				return &sandbox.Fault{Status: 403}
			}
			return nil
		})
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted)
		if n := w.model.Requests(sandbox.Filter{Key: "key-2"}); n > 0 {
			t.Errorf("the next key was shown %d times", n)
		}
		// It was refused to a key; with another one it may be asked for.
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeAccessKeySwitched, events.TypeAccessResumed)
		w.mustBeWell("A100", "a#1##")
	})
}

// Steps of a rotation.
var rotation = map[string]func(*world){
	"link":       func(w *world) { w.model.AddKey(newKey, "A100") },
	"deactivate": func(w *world) { w.must(w.model.DeactivateKey(testKey)) },
	"pair":       func(w *world) { w.configure(pair("A100", testKey, newKey)) },
	"replace":    func(w *world) { w.configure(pair("A100", newKey, "")) },
}

func orders(of []string) (all [][]string) {
	if len(of) == 0 {
		return [][]string{nil}
	}
	for n, first := range of {
		var rest []string
		rest = append(append(rest, of[:n]...), of[n+1:]...)
		for _, o := range orders(rest) {
			all = append(all, append([]string{first}, o...))
		}
	}
	return all
}

func TestEveryOrderOfARotationEndsWellAndAsksNobodyTwice(t *testing.T) {
	for n, order := range orders([]string{"link", "deactivate", "pair", "replace"}) {
		if raced && n%12 != 0 {
			continue
		}
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprint(order, restarts), func(t *testing.T) {
				inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
					w.publish("A100", "a#1##")
					w.start()
					w.pass(10 * time.Minute)
					for _, step := range order {
						rotation[step](w)
						// A key that was never linked is counted under no label.
						before := map[string]int{"key-1": w.lists("A100", "key-1", 403), "key-2": w.lists("A100", "key-2", 403), "": w.lists("A100", "", 403)}
						w.pass(7 * time.Minute)
						if restarts {
							w.restart()
							w.pass(7 * time.Minute)
						}
						most := 1
						if before[""] > 0 || w.lists("A100", "", 403) > before[""] {
							most = 2 // an empty label selects all
						}
						for label, n := range before {
							if got := w.lists("A100", label, 403) - n; got > most || label != "" && got > 1 {
								t.Errorf("after %q the list was refused %d times to key %q", step, got, label)
							}
						}
					}
					if len(w.status("A100").Halts) > 0 { // what is linked too late needs a person
						w.mustBeSilent("A100")
						_, err := w.poller.Resume("A100", "")
						w.must(err)
					}
					w.mustBeWell("A100", "a#1##")
					if n := count(w.log("A100"), events.TypeAccessKeySwitched); n > 1 {
						t.Errorf("%d switches of one pair", n)
					}
				})
			})
		}
	}
}

func TestWhoTidiesUpAfterASwitchHearsNothing(t *testing.T) {
	for name, tidied := range map[string]poller.AgencyKeys{
		"the other way round":        pair("A100", newKey, testKey),
		"promoted":                   pair("A100", newKey, ""),
		"promoted, with another one": pair("A100", newKey, "77777777-2222-4333-8444-555555555555"),
		"as it was":                  pair("A100", testKey, newKey),
	} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprint(name, stopped), func(t *testing.T) {
				rotating(t, func(w *world) {
					w.must(w.model.DeactivateKey(testKey))
					w.pass(5 * time.Minute)
					before, refused := len(w.log("A100")), w.model.Requests(sandbox.Filter{Status: 403})
					if stopped {
						w.halt()
					}
					w.configure(tidied)
					if stopped {
						w.start()
					}
					w.pass(30 * time.Minute)
					w.wants(w.since("A100", before))
					if n := w.model.Requests(sandbox.Filter{Status: 403}) - refused; n > 0 {
						t.Errorf("%d requests were refused", n)
					}
					w.mustBeWell("A100", "a#1##")
				})
			})
		}
	}
}

func TestAHaltEndsWhenEitherKeyOfThePairChanges(t *testing.T) {
	const third = "77777777-2222-4333-8444-555555555555"
	for name, now := range map[string]poller.AgencyKeys{
		"another current": pair("A100", third, newKey), "another next": pair("A100", testKey, third), "alone": pair("A100", third, ""),
	} {
		for _, stopped := range []bool{false, true} {
			t.Run(fmt.Sprint(name, stopped), func(t *testing.T) {
				rotating(t, func(w *world) {
					w.must(w.model.DeactivateKey(testKey))
					w.must(w.model.DeactivateKey(newKey))
					w.pass(5 * time.Minute)
					w.model.AddKey(third, "A100")
					before := len(w.log("A100"))
					w.configure(pair("A100", newKey, testKey)) // the same two
					w.pass(5 * time.Minute)
					w.wants(w.since("A100", before))
					if stopped {
						w.halt()
					}
					w.configure(now)
					if stopped {
						w.start()
					}
					w.pass(10 * time.Minute)
					list := w.since("A100", before)
					if len(list) == 0 || list[0].Type != events.TypeAccessResumed || list[0].body["cause"] != "key_changed" {
						t.Fatalf("told: %v", list)
					}
					if n := count(list, events.TypeAccessHalted); n > 0 {
						t.Errorf("halted %d times", n)
					}
					w.mustBeWell("A100", "a#1##")
				})
			})
		}
	}
}

func TestAgenciesThatShareAPairLearnEachForItself(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200", "C300"}, func(w *world) {
		w.model.AddKey(newKey, "A100")
		w.publish("A100", "a#1##")
		w.publish("B200", "b#1##")
		w.publish("C300", "c#1##")
		w.options.Agencies = []poller.AgencyKeys{pair("A100", testKey, newKey), pair("B200", testKey, newKey), pair("C300", testKey, "")}
		w.start()
		w.pass(10 * time.Minute)
		w.must(w.model.UnlinkKey(testKey, "A100", "B200"))
		w.pass(10 * time.Minute)
		if n := count(w.log("A100"), events.TypeAccessKeySwitched); n != 1 || len(w.status("A100").Halts) > 0 {
			t.Errorf("A100: %v", w.log("A100"))
		}
		b := w.log("B200")
		halted := b[len(b)-1]
		if halted.Type != events.TypeAccessHalted || w.member(halted, "key", "slot") != "next" {
			t.Fatalf("B200: %v", b)
		}
		// The key that was refused last is the next one: it works for A100, and C300 does not have it.
		evidence, _ := halted.body["evidence"].(map[string]any)
		others, _ := evidence["otherAgenciesOfKey"].(map[string]any)
		if fmt.Sprint(others) != "map[refused:0 unknown:0 working:1]" && fmt.Sprint(others) != "map[refused:0 unknown:1 working:0]" {
			t.Errorf("evidence: %v", others)
		}
		for _, agency := range []string{"A100", "B200"} {
			if n := w.lists(agency, "key-1", 403); n != 1 {
				t.Errorf("%s was asked for %d times with the refused key", agency, n)
			}
		}
		w.mustBeWell("C300", "c#1##")
		w.must(w.model.DeactivateKey(testKey))
		w.pass(10 * time.Minute)
		c := w.log("C300")
		evidence, _ = c[len(c)-1].body["evidence"].(map[string]any)
		if got := fmt.Sprint(evidence["otherAgenciesOfKey"]); got != "map[refused:2 unknown:0 working:0]" {
			t.Errorf("C300 was refused the current key, as both others were: %s", got)
		}
	})
}

func TestARefusalOfAKeyThatIsNotConfiguredAnyMoreDecidesNothing(t *testing.T) {
	const third = "77777777-2222-4333-8444-555555555555"
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.model.AddKey(third, "A100")
		var trying atomic.Bool
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Key == "key-2" {
				trying.Store(true)
				return &sandbox.Fault{Delay: 20 * time.Second, Status: 403}
			}
			return nil
		})
		w.must(w.model.DeactivateKey(testKey))
		for range 3000 {
			if trying.Load() {
				break
			}
			w.pass(100 * time.Millisecond)
		}
		w.configure(pair("A100", third, newKey))
		w.pass(time.Hour)
		w.wants(w.since("A100", before))
		w.mustBeWell("A100", "a#1##")
	})
}

// killed runs a rotation and returns the store as a kill would leave it before each request and after each answer, from
// the moment at which the current key was deactivated.
func killed(w *world) (left [][]byte) {
	file := filepath.Join(w.dir, "doorbell.db")
	var mu sync.Mutex
	var on atomic.Bool
	keep := func() {
		if !on.Load() {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		b, err := os.ReadFile(file)
		if err != nil {
			w.t.Error(err)
		}
		left = append(left, b)
	}
	w.halt()
	inner := w.options.API.Transport
	w.options.API.Transport = tripper(func(r *http.Request) (*http.Response, error) {
		keep()
		response, err := inner.RoundTrip(r)
		keep()
		return response, err
	})
	w.start()
	w.pass(5 * time.Minute)
	w.must(w.model.DeactivateKey(testKey))
	on.Store(true)
	for range 600 {
		w.pass(time.Second)
		mu.Lock()
		enough := len(left) >= 40
		mu.Unlock()
		if enough {
			break
		}
	}
	on.Store(false)
	w.pass(time.Minute)
	w.halt()
	return left
}

func TestAKillAtAnyInstantLeavesOneSwitchOrOneHalt(t *testing.T) {
	for _, works := range []bool{true, false} {
		t.Run(fmt.Sprint(works), func(t *testing.T) {
			rotating(t, func(w *world) {
				if !works {
					w.must(w.model.DeactivateKey(newKey))
				}
				left := killed(w)
				if len(left) < 3 {
					t.Fatalf("only %d instants", len(left))
				}
				for n, b := range left {
					if raced && n%12 != 0 {
						continue
					}
					w.must(os.WriteFile(filepath.Join(w.dir, "doorbell.db"), b, 0o600))
					refused := w.lists("A100", "key-1", 403)
					w.start()
					w.pass(10 * time.Minute)
					switched, halted := count(w.log("A100"), events.TypeAccessKeySwitched), count(w.log("A100"), events.TypeAccessHalted)
					if works && (switched != 1 || halted != 0) || !works && (switched != 0 || halted != 1) {
						t.Errorf("after a kill at instant %d there are %d switches and %d halts", n, switched, halted)
					}
					if more := w.lists("A100", "key-1", 403) - refused; more > 1 {
						t.Errorf("after a kill at instant %d the refused key was shown %d times", n, more)
					}
					if works {
						w.mustBeWell("A100", "a#1##")
					} else {
						w.mustBeSilent("A100")
					}
					w.halt()
				}
				w.start()
			})
		})
	}
}

func TestARefusalIsRememberedOfThePairTheOtherWayRound(t *testing.T) {
	rotating(t, func(w *world) {
		before := len(w.log("A100"))
		w.must(w.model.DeactivateKey(testKey))
		w.pass(5 * time.Minute)
		w.configure(pair("A100", newKey, testKey))
		w.must(w.model.DeactivateKey(newKey))
		w.model.AddKey(testKey)
		w.pass(10 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessKeySwitched, events.TypeAccessHalted)
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
		w.configure(pair("A100", testKey, "")) // the one that was refused is shown as before
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted)
		w.configure(pair("A100", newKey, ""))
		w.pass(5 * time.Minute)
		w.wants(w.since("A100", before), events.TypeAccessHalted, events.TypeAccessResumed)
		w.mustBeWell("A100", "a#1##")
	})
}

func TestAKeyIsNotTriedWithAnInsertionThatIsNotListedAnyMore(t *testing.T) {
	inWorld(t, sandbox.Options{WithdrawnStatus: 403}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.model.AddKey(newKey, "A100")
		w.publish("A100", "a#1##", "a#2##", "a#3##", "a#4##")
		w.configure(pair("A100", testKey, newKey))
		w.start()
		w.pass(10 * time.Minute)
		before := len(w.log("A100"))
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Status: 500} // what the refusals mean is not known yet
			}
			return &sandbox.Fault{Status: 403}
		})
		w.pass(4 * time.Minute)
		w.must(w.model.Withdraw("A100", "a#1##"))
		w.refuse(map[string]int{"key-1": 403})
		w.pass(20 * time.Minute)
		if n := count(w.since("A100", before), events.TypeAccessHalted); n > 0 {
			t.Errorf("halted though the next key works: %v", w.since("A100", before))
		}
		w.mustBeWell("A100", "a#2##")
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
		w.must(w.poller.SetAgencies(w.options.Agencies))
		w.pass(24 * time.Hour)
		w.restart()
		s := w.poller.Status()
		if s.Effective != s.RequestsPerSecond {
			t.Errorf("%g of %g requests a second", s.Effective, s.RequestsPerSecond)
		}
	})
}
