package poller_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// writer is a person whose every text differs from all others.
func writer(name string) sandbox.ContactRequest {
	return sandbox.ContactRequest{
		CreatedAt: time.Now(), Score: 50, Salutation: "Salut" + name, FirstName: "First" + name, LastName: "Last" + name, Email: "mail" + name + "@example.org",
		Phone: "0790000123", Message: "Guten Tag " + name + "\nbis bald", Status: "NEW",
		Extra: map[string]json.RawMessage{"company": json.RawMessage(`"Firma` + name + `"`), "comment": json.RawMessage(`"Guten Tag ` + name + `"`)},
	}
}

// texts are those of the texts of writers that are in the data of an event.
func textsIn(data []byte) (found []string) {
	for _, text := range []string{"Salut", "First", "Last", "mail", "790000123", "Firma", "Guten Tag", "bis bald"} {
		if bytes.Contains(data, []byte(text)) {
			found = append(found, text)
		}
	}
	return found
}

// TestEventsHoldAsMuchOfPeopleAsIsConfiguredInEveryShape configures three agencies differently, and
// changes that, which causes no event and applies from the next event on.
func TestEventsHoldAsMuchOfPeopleAsIsConfiguredInEveryShape(t *testing.T) {
	modes := []events.People{events.PeopleFull, events.PeopleContact, events.PeopleNone}
	for _, r := range sandbox.Renderings() {
		t.Run(r.Name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, r, []string{"A100", "B200", "C300"}, func(w *world) {
				w.options.Announce = true
				for _, a := range w.options.Agencies {
					w.publish(a.ID, "a#1##")
				}
				for round := range modes {
					for n := range w.options.Agencies {
						w.options.Agencies[n].People = modes[(n+round)%len(modes)]
					}
					var ids []string
					write := func() {
						for _, a := range w.options.Agencies {
							id, err := w.model.AddContactRequest(a.ID, "a#1##", writer("-zq7"))
							w.must(err)
							ids = append(ids, id)
						}
					}
					if round == 0 { // of the baseline
						write()
						w.pass(time.Hour)
					}
					before := map[string]int{}
					w.restart()
					if round > 0 {
						for _, a := range w.options.Agencies {
							before[a.ID] = len(w.log(a.ID))
						}
					}
					w.pass(10 * time.Minute)
					write()
					w.pass(5 * time.Minute)
					for _, id := range ids {
						w.must(w.model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Message, c.Status = "Guten Tag -zq8", "READ" }))
					}
					w.pass(5 * time.Minute)
					for n, a := range w.options.Agencies {
						list := slices.DeleteFunc(w.since(a.ID, before[a.ID]), func(e told) bool { return e.body["contactRequestId"] == nil })
						if c, d := count(list, events.TypeContactRequestCreated), count(list, events.TypeContactRequestChanged); c != d || c != len(ids)/3 || c+d != len(list) {
							t.Errorf("%v", types(list))
						}
						w.holdsOfPeople(list, modes[(n+round)%len(modes)])
					}
				}
			})
		})
	}
}

// holdsOfPeople fails unless the events hold what a setting allows.
func (w *world) holdsOfPeople(list []told, people events.People) {
	w.t.Helper()
	for _, e := range list {
		texts := textsIn(e.Data)
		contact, _ := e.body["contact"].(map[string]any)
		_, record := e.body["record"]
		whole, score := e.body["truncated"] != true, e.body["score"]
		switch {
		case score != 50.0:
			w.t.Errorf("%v has the score %v", e, score)
		case people == events.PeopleFull && (len(texts) < 7 || !record || !whole):
			w.t.Errorf("%v holds %v, with a record: %v, whole: %v", e, texts, record, whole)
		case people == events.PeopleContact && (!slices.Contains(texts, "mail") || !slices.Contains(texts, "Last") || contact["message"] != nil ||
			slices.Contains(texts, "Guten Tag") || record || whole):
			w.t.Errorf("%v holds %v, with a record: %v, whole: %v", e, texts, record, whole)
		case people == events.PeopleNone && (len(texts) > 0 || contact == nil || len(contact) > 0 || record || whole):
			w.t.Errorf("%v holds %v, with a record: %v, whole: %v", e, texts, record, whole)
		}
	}
}
