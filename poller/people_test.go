package poller_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// writer is somebody of whom every text can be told from all others.
func writer(name string) sandbox.ContactRequest {
	return sandbox.ContactRequest{
		CreatedAt: time.Now(), Score: 50, Salutation: "Salut" + name, FirstName: "First" + name, LastName: "Last" + name, Email: "mail" + name + "@example.org",
		Phone: "0790000123", Message: "Guten Tag " + name + "\nbis bald", Status: "NEW",
		Extra: map[string]json.RawMessage{"company": json.RawMessage(`"Firma` + name + `"`), "comment": json.RawMessage(`"Guten Tag ` + name + `"`)},
	}
}

// texts are what stands in the data of an event of the texts of writers, whoever they are.
func textsIn(data []byte) (found []string) {
	for _, text := range []string{"Salut", "First", "Last", "mail", "790000123", "Firma", "Guten Tag", "bis bald"} {
		if bytes.Contains(data, []byte(text)) {
			found = append(found, text)
		}
	}
	return found
}

func TestAnAgencySaysOfPeopleWhatIsConfiguredWhateverTheShape(t *testing.T) {
	modes := map[string]events.People{"A100": events.PeopleFull, "B200": events.PeopleContact, "C300": events.PeopleNone}
	for _, r := range sandbox.Renderings() {
		t.Run(r.Name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, r, []string{"A100", "B200", "C300"}, func(w *world) {
				w.options.Announce = true
				var ids []string
				write := func() {
					for n := range w.options.Agencies {
						id, err := w.model.AddContactRequest(w.options.Agencies[n].ID, "a#1##", writer("-zq7"))
						w.must(err)
						ids = append(ids, id)
					}
				}
				for n, a := range w.options.Agencies {
					w.options.Agencies[n].People = modes[a.ID]
					w.publish(a.ID, "a#1##")
				}
				write()
				w.pass(time.Hour)
				w.start()
				w.pass(10 * time.Minute)
				write()
				w.pass(5 * time.Minute)
				for _, id := range ids {
					w.must(w.model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Message, c.Status = "Guten Tag -zq8", "READ" }))
				}
				w.pass(5 * time.Minute)
				var all [][]told
				for _, a := range w.options.Agencies {
					list := slices.DeleteFunc(w.log(a.ID), func(e told) bool { return !strings.HasPrefix(string(e.Type), "contact_request.") })
					w.holdsOfPeople(list, modes[a.ID])
					all = append(all, list)
				}
				w.wants(all[0], events.TypeContactRequestCreated, events.TypeContactRequestCreated, events.TypeContactRequestChanged, events.TypeContactRequestChanged)
				w.wants(all[1], types(all[0])...)
				w.wants(all[2], types(all[0])...)
			})
		})
	}
}

// holdsOfPeople fails unless the events hold what a setting lets them.
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

func TestAnotherSettingOfPeopleIsNoEventAndCountsFromTheNextOn(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Nested(), []string{"A100"}, func(w *world) {
		w.publish("A100", "a#1##")
		w.start()
		w.pass(5 * time.Minute)
		said := len(w.log("A100"))
		modes := []events.People{events.PeopleNone, events.PeopleContact, events.PeopleFull}
		for n, people := range append(modes, modes...) {
			w.options.Agencies[0].People = people
			if n < len(modes) {
				w.configure(w.options.Agencies[0])
			} else {
				w.restart()
			}
			w.pass(10 * time.Minute)
			w.wants(w.since("A100", said))
			_, err := w.model.AddContactRequest("A100", "a#1##", writer("-zq7"))
			w.must(err)
			w.pass(5 * time.Minute)
			w.wants(w.since("A100", said), events.TypeContactRequestCreated)
			w.holdsOfPeople(w.since("A100", said), people)
			said++
		}
	})
}
