package poller_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// setMember gives every listed insertion a member, or takes it away where the value is nil.
func (w *world) setMember(agency string, references []string, name string, value func(reference string) any) {
	w.t.Helper()
	for _, r := range references {
		w.must(w.model.Edit(agency, r, func(i *sandbox.Insertion) {
			if i.Extra == nil {
				i.Extra = map[string]json.RawMessage{}
			}
			if value == nil {
				delete(i.Extra, name)
				return
			}
			text, err := json.Marshal(value(r))
			w.must(err)
			i.Extra[name] = text
		}))
	}
}

func same(v any) func(string) any { return func(string) any { return v } }

func references(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("a#%03d##", i))
	}
	return all
}

func TestAMemberThatComesEverywhereIsOneDriftAndNoChange(t *testing.T) {
	bothRenderings(t, func(t *testing.T, r sandbox.Rendering) {
		inWorld(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
			all := references(101) // the last page holds one
			w.publish("A100", all...)
			w.options.PollInterval = time.Hour
			w.start()
			w.pass(30 * time.Minute)
			n := len(w.log("A100"))
			w.setMember("A100", all, "energyLabel", func(r string) any { return "Nora of " + r })
			w.pass(10 * time.Minute)
			w.restart()
			w.pass(10 * time.Minute)
			got := w.since("A100", n)
			w.wants(got, events.TypeWatchSchemaDrifted)
			if e, f := got[0].body["expected"], got[0].body["found"]; e != "nothing at /energyLabel" || f != "string at /energyLabel" {
				t.Errorf("expected %v, found %v", e, f)
			}
			n = len(w.log("A100"))
			w.setMember("A100", all[:1], "energyLabel", same("other"))
			w.pass(5 * time.Minute)
			w.wants(w.since("A100", n), events.TypeInsertionChanged)
			if r := w.since("A100", n)[0].body["revision"]; r != 1.0 {
				t.Errorf("revision %v: drift has counted", r)
			}
			n = len(w.log("A100"))
			w.setMember("A100", all, "energyLabel", nil)
			w.pass(10 * time.Minute)
			w.wants(w.since("A100", n), events.TypeWatchSchemaDrifted)
		})
	})
}

func TestAChangeAmongDriftIsToldAlone(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(40)
		w.publish("A100", all...)
		w.setMember("A100", all, "rooms", same(3))
		w.start()
		w.pass(10 * time.Minute)
		n := len(w.log("A100"))
		w.setMember("A100", all, "rooms", same("3"))
		w.setMember("A100", all[5:], "lift", same(nil))
		w.setMember("A100", all[7:8], "rentedSince", same("2026"))
		w.pass(10 * time.Minute)
		got := w.since("A100", n)
		w.wants(got, events.TypeWatchSchemaDrifted, events.TypeInsertionChanged)
		if e := fmt.Sprint(got[0].body["expected"], "; ", got[0].body["found"]); e != "nothing at /lift, number at /rooms; null at /lift, string at /rooms" {
			t.Error(e)
		}
		if c := fmt.Sprint(got[1].body["changes"]); c != "[map[after:2026 path:/rentedSince]]" {
			t.Error(c)
		}
	})
}

func TestAMemberOfFewRecordsIsAChangeOfEach(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(6)
		w.publish("A100", all...)
		w.publish("A100", "b#1##")
		w.start()
		w.pass(10 * time.Minute)
		n := len(w.log("A100"))
		w.setMember("A100", all[:3], "lift", same(true)) // three of seven
		w.pass(10 * time.Minute)
		if c := count(w.since("A100", n), events.TypeInsertionChanged); c != 3 || len(w.since("A100", n)) != 3 {
			t.Errorf("%v", w.since("A100", n))
		}
	})
}

// TestAFormThatComesAndGoesIsVolatile is two servers of different versions behind one address.
func TestAFormThatComesAndGoesIsVolatile(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(20)
		w.publish("A100", all...)
		w.options.PollInterval, w.options.WalkInterval = time.Hour, time.Hour
		w.start()
		w.pass(10 * time.Minute)
		n := len(w.log("A100"))
		for flip := range 20 {
			lift := same(true)
			if flip%2 == 1 {
				lift = nil
			}
			w.setMember("A100", all, "lift", lift)
			w.poller.WalkNow("A100")
			w.pass(time.Minute)
		}
		list := w.since("A100", n)
		var said []any
		for _, e := range list {
			said = append(said, e.body["change"])
		}
		if got := fmt.Sprint(said); count(list, events.TypeWatchSchemaDrifted) != len(list) || got != "[appeared vanished appeared vanished volatile]" {
			t.Errorf("%s: %v", got, list)
		}
	})
}

func TestADriftQuotesNothingAndIsBounded(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(10)
		w.publish("A100", all...)
		w.start()
		w.pass(10 * time.Minute)
		n := len(w.log("A100"))
		extra := map[string]json.RawMessage{}
		for m := range 80 {
			extra[fmt.Sprintf("nora%d@example.org %s", m, strings.Repeat("x", 500))] = json.RawMessage(`"` + sandbox.Marker + `"`)
		}
		for _, r := range all {
			w.must(w.model.Edit("A100", r, func(i *sandbox.Insertion) { i.Extra = extra }))
		}
		w.pass(10 * time.Minute)
		got := w.since("A100", n)
		w.wants(got, events.TypeWatchSchemaDrifted)
		if text := string(got[0].Data); len(text) > 2000 || strings.Contains(text, "nora") || strings.Contains(text, sandbox.Marker) {
			t.Errorf("%d bytes: %.300s", len(text), text)
		}
	})
}
