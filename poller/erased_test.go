package poller_test

import (
	"os"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// TestAPollThatStillShowsAnErasedPersonIsNoNews is of contact requests with and without ids, that the store knows, or knows no more since
// it was restored; and whatever the API does with them then.
func TestAPollThatStillShowsAnErasedPersonIsNoNews(t *testing.T) {
	for name, with := range map[string]struct{ ids, known bool }{
		"ids": {true, true}, "ids, restored": {true, false}, "no ids": {false, true}, "no ids, restored": {false, false},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				w.publish("A100", "a#1##")
				set := bodies(w)
				w.start()
				w.pass(5 * time.Minute)
				one := func(n int, mail, message any) m {
					c := m{"createdAt": time.Date(2000, 1, 1, 0, 4, n, 0, time.UTC).Format(time.RFC3339), "email": mail, "message": message}
					if with.ids {
						c["id"] = n
					}
					return c
				}
				set([]m{one(2, "b@x", "x"), one(1, "a@x", "x")})
				before := t.TempDir()
				w.must(os.CopyFS(before, os.DirFS(w.dir)))
				w.pass(5 * time.Minute)
				log := ofContacts(w.log("A100"))
				w.wants(log, events.TypeContactRequestCreated, events.TypeContactRequestCreated)
				erased := log[0]
				if erased.body["contact"].(map[string]any)["email"] != "a@x" {
					erased = log[1]
				}
				request := store.Request{Reference: "a#1##", ID: erased.body["contactRequestId"].(string)}
				s := w.store
				if !with.known {
					w.halt()
					w.dir = before
					var err error
					s, err = store.Open(store.Options{Dir: w.dir, BaseURL: w.options.API.BaseURL})
					w.must(err)
				}
				done, err := s.Erase("A100", []store.Request{request})
				if !with.known {
					w.must(s.Close())
					w.start()
				}
				after := ofContacts(w.log("A100"))
				if err != nil || with.known && done != 1 || after[len(after)-1].Type != events.TypeContactRequestRedacted {
					t.Fatalf("%d events were erased, and the last is %v: %v", done, after[len(after)-1], err)
				}
				count := len(after)
				w.pass(5 * time.Minute)
				if with.ids { // else another message makes another contact request
					set([]m{one(2, "b@x", "x"), one(1, "a@x", "corrected")})
					w.pass(5 * time.Minute)
				}
				set([]m{one(2, "b@x", "x"), one(1, nil, nil)})
				w.pass(5 * time.Minute)
				set([]m{one(2, "b@x", "x"), one(1, "a@x", "x")}) // of a cache
				w.pass(5 * time.Minute)
				w.restart()
				w.pass(time.Hour)
				for _, e := range ofContacts(w.log("A100"))[count:] {
					if id := e.body["contactRequestId"]; id == request.ID || with.known || e.Type != events.TypeContactRequestCreated {
						t.Errorf("announced: %s", e.Type)
					}
				}
				for _, e := range w.log("A100") {
					if e.HoldsPerson() && e.body["contact"].(map[string]any)["email"] != "b@x" {
						t.Errorf("%s holds the person", e.Type)
					}
				}
			})
		})
	}
}
