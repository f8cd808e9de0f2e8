package poller_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/poller"
	"doorbell/poller/sandbox"
)

func (w *world) verify() poller.KeyReport {
	w.t.Helper()
	r, err := w.poller.VerifyKeys(w.t.Context())
	w.must(err)
	text, err := json.Marshal(r)
	w.must(err)
	if strings.Contains(string(text), testKey) || strings.Contains(string(text), newKey) {
		w.t.Errorf("a key is in the report: %s", text)
	}
	return r
}

func TestTheCurrentKeyMayBeGivenUpOnlyIfTheNextOneDoesTheSame(t *testing.T) {
	answer := func(status int, body string) func(*world) {
		return func(w *world) {
			w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
				if c.Key != "key-2" {
					return nil
				}
				f := sandbox.Fault{Status: status}
				if body != "" {
					f.Body = []byte(body)
				}
				return &f
			})
		}
	}
	records := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`{"propertyReferenceId":"a#%d##"}`, i)
		}
		return fmt.Sprintf(`{"results":[%s],"total":%d}`, strings.Join(all, ","), n)
	}
	for name, tt := range map[string]struct {
		change func(*world)
		want   bool
		text   string
	}{
		"both work":             {func(*world) {}, true, "see the same"},
		"the next is unlinked":  {func(w *world) { w.must(w.model.UnlinkKey(newKey, "A100")) }, false, "ask the provider to link"},
		"the current is dead":   {func(w *world) { w.must(w.model.DeactivateKey(testKey)) }, true, "refused already"},
		"both are dead":         {func(w *world) { w.must(w.model.DeactivateKey(testKey)); w.must(w.model.DeactivateKey(newKey)) }, false, "neither key works"},
		"the next is in error":  {answer(500, ""), false, "no plain answer"},
		"the next answers HTML": {answer(200, "<html></html>"), false, "no plain answer"},
		"the next sees none":    {answer(200, records(0)), false, "ask the provider why"},
		"the next sees fewer":   {answer(200, records(2)), false, "ask the provider why"},
		"one has just gone":     {answer(200, records(3)), true, "gone in between"},
		"one has just come":     {answer(200, records(5)), true, "gone in between"},
	} {
		t.Run(name, func(t *testing.T) {
			rotating(t, func(w *world) {
				w.options.PollInterval, w.options.WalkInterval = time.Hour, time.Hour
				w.restart()
				w.pass(5 * time.Minute) // nothing is due when the keys are compared
				told := len(w.log("A100"))
				tt.change(w)
				before := w.model.Requests(sandbox.Filter{})
				r := w.verify()
				if r.MayGiveUp != tt.want || !strings.Contains(r.Agencies[0].Text, tt.text) {
					t.Errorf("%+v", r)
				}
				if n := w.model.Requests(sandbox.Filter{}) - before; n < 2 {
					t.Errorf("%d requests", n)
				}
				w.wants(w.since("A100", told)) // what finds out comes later
				if h := w.status("A100").Halts; len(h) > 0 {
					t.Errorf("verifying halted: %+v", h)
				}
			})
		})
	}
}

func TestVerifyingComparesEachAgencyAndLeavesOutWhoHasOneKey(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100", "B200", "C300"}, func(w *world) {
		w.model.AddKey(newKey, "A100")
		const third = "77777777-2222-4333-8444-555555555555"
		w.model.AddKey(third, "C300")
		w.options.Agencies = []poller.AgencyKeys{pair("A100", testKey, newKey), pair("B200", testKey, newKey), pair("C300", third, "")}
		w.start()
		w.pass(5 * time.Minute)
		r := w.verify()
		if r.MayGiveUp || !r.Agencies[0].Ready || r.Agencies[1].Ready || r.Agencies[2].Next != nil || !strings.Contains(r.Text, "B200") || strings.Contains(r.Text, "C300") {
			t.Errorf("%+v", r)
		}
		w.model.AddKey(newKey, "B200")
		if r := w.verify(); !r.MayGiveUp {
			t.Errorf("%+v", r)
		}
		w.configure(pair("A100", testKey, newKey), pair("B200", testKey, ""), pair("C300", third, ""))
		if r := w.verify(); r.MayGiveUp || !strings.Contains(r.Agencies[1].Text, "only one") {
			t.Errorf("B200 has nothing but the key that would be given up: %+v", r)
		}
		w.configure(pair("A100", testKey, ""), pair("B200", testKey, ""))
		if _, err := w.poller.VerifyKeys(t.Context()); !errors.Is(err, poller.ErrNoNextKey) {
			t.Errorf("without a second key: %v", err)
		}
	})
}

func TestVerifyingKeepsToTheBudgetAndToRetryAfter(t *testing.T) {
	rotating(t, func(w *world) {
		w.model.KeepLog()
		for range 20 {
			w.verify()
		}
		w.pass(time.Second)
		if n := peak(w.model.Log(sandbox.Filter{}), time.Second); n > 6 {
			t.Errorf("%d requests within a second at 5 a second", n)
		}
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Key == "key-2" {
				return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"600"}}}
			}
			return nil
		})
		w.verify()
		before := w.model.Requests(sandbox.Filter{Key: "key-2"})
		if r := w.verify(); r.MayGiveUp || !strings.Contains(r.Agencies[0].Next.Problem, "asked to wait until") {
			t.Errorf("%+v", r.Agencies[0].Next)
		}
		if n := w.model.Requests(sandbox.Filter{Key: "key-2"}) - before; n > 0 {
			t.Errorf("%d requests before the time that the API gave", n)
		}
	})
}

func TestVerifyingAHaltedAgencyAsksAndLeavesItHalted(t *testing.T) {
	rotating(t, func(w *world) {
		w.must(w.model.DeactivateKey(testKey))
		w.must(w.model.DeactivateKey(newKey))
		w.pass(5 * time.Minute)
		w.model.AddKey(newKey)
		told := len(w.log("A100"))
		if r := w.verify(); !r.MayGiveUp || r.Agencies[0].Current.Status != 403 {
			t.Errorf("%+v", r)
		}
		w.mustBeSilent("A100")
		w.wants(w.since("A100", told))
	})
}

func TestVerifyingKeysShortensNoWait(t *testing.T) {
	rotating(t, func(w *world) {
		var step atomic.Int64
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			switch {
			case c.Key != "key-1":
				return nil
			case step.CompareAndSwap(0, 1): // of keys verify
				return &sandbox.Fault{Status: 429, Delay: 29 * time.Second}
			case step.CompareAndSwap(1, 2):
				return &sandbox.Fault{Status: 429, Header: http.Header{"Retry-After": {"1800"}}}
			}
			return nil
		})
		w.verify()
		if step.Load() != 2 {
			t.Fatal("nothing else was asked meanwhile")
		}
		w.pass(30 * time.Second) // where a walk came first, it waits for the late answer, and verify has returned before
		before := w.model.Requests(sandbox.Filter{Key: "key-1"})
		w.pass(25 * time.Minute)
		if n := w.model.Requests(sandbox.Filter{Key: "key-1"}) - before; n > 0 {
			t.Errorf("%d requests with a key that had to wait", n)
		}
	})
}
