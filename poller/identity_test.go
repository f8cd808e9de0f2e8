package poller_test

import (
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// bodies lets a test write the answers itself.
func bodies(w *world) func(any) {
	var mu sync.Mutex
	now := []byte(`[]`)
	w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
		if c.Operation != sandbox.OperationContactRequests {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		return &sandbox.Fault{Body: now}
	})
	return func(v any) {
		mu.Lock()
		defer mu.Unlock()
		now, _ = json.Marshal(v)
	}
}

type m = map[string]any

// ofContacts are the events of contact requests.
func ofContacts(list []told) []told {
	return slices.DeleteFunc(list, func(e told) bool { return !strings.HasPrefix(string(e.Type), "contact_request.") })
}

func TestAnotherTimeZoneWithoutIdsIsNoNews(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		set := bodies(w)
		w.start()
		w.pass(5 * time.Minute)
		set([]m{{"createdAt": time.Now().UTC().Format("2006-01-02T15:04:05"), "email": "a@x", "message": "x"}})
		w.pass(5 * time.Minute)
		n := len(w.log("A100"))
		w.halt()
		w.options.API.TimeZone = time.UTC
		w.start()
		w.pass(5 * time.Minute)
		w.wants(ofContacts(w.since("A100", n)))
	})
}

func TestAnErasureBesideItsLateTwinSpeaksAgainstNoId(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		set := bodies(w)
		w.start()
		w.pass(5 * time.Minute)
		at := time.Now().UTC().Format(time.RFC3339)
		set([]m{{"id": 1, "createdAt": at, "email": "a@x", "message": "x"}})
		w.pass(5 * time.Minute)
		set([]m{{"id": 2, "createdAt": at, "email": "a@x", "message": "x"}, {"id": 1, "createdAt": at, "email": nil, "message": nil}})
		w.pass(5 * time.Minute)
		list := ofContacts(w.log("A100"))
		slices.SortFunc(list, func(a, b told) int { return strings.Compare(string(a.Type), string(b.Type)) })
		w.wants(list, "contact_request.created", "contact_request.created", "contact_request.redacted")
		for _, e := range list {
			if e.body["identity"] != "id" {
				t.Errorf("%s by %v", e.Type, e.body["identity"])
			}
		}
	})
}
