package sandbox

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// controlled sends a change and fails the test unless the status is as wanted.
func controlled(t *testing.T, h http.Handler, path, body string, status int) (answer map[string]string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	if err := json.Unmarshal(w.Body.Bytes(), &answer); w.Code != status || err != nil {
		t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
	}
	return answer
}

func TestAModelIsDrivenAndInterrogatedOverHTTP(t *testing.T) {
	m := NewModel(Options{KeepLog: true})
	api, c := New(m, Flat()), Control(m)
	m.AddAgency("A100")
	if got := controlled(t, c, "/keys", `{"key":"k","agencies":["A100"]}`, 200); got["label"] != "key-1" {
		t.Errorf("%v", got)
	}
	const of = `{"agencyId":"A100","propertyReferenceId":"r"`
	controlled(t, c, "/insertions", `{"agencyId":"A100","insertion":{"propertyReferenceId":"r","rankType":"TOP","prices":{"rent":{"net":2590,"gross":2790}},"extra":{"views":1}}}`, 200)
	controlled(t, c, "/insertions/edit", of+`,"patch":{"rankType":null,"prices":{"rent":{"gross":2690}},"extra":{"views":2}}}`, 200)
	id := controlled(t, c, "/contact-requests", of+`,"contactRequest":{"lastName":"Muster-zq7","createdAt":"2020-01-02T03:04:05Z"}}`, 200)["id"]
	controlled(t, c, "/contact-requests/edit", `{"id":"`+id+`","patch":{"status":"READ","score":3}}`, 200)
	record := decoded[struct{ Results []map[string]any }](t, ask(api, "k", insertionsPath("A100"))).Results[0]
	rent := record["prices"].(map[string]any)["rent"].(map[string]any)
	if record["rankType"] != nil || rent["gross"] != 2690.0 || rent["net"] != 2590.0 || record["views"] != 2.0 {
		t.Errorf("%v", record)
	}
	request := decoded[[]map[string]any](t, ask(api, "k", contactRequestsPath("r")))[0]
	if request["id"] != id || request["status"] != "READ" || request["lastName"] != "Muster-zq7" || request["createdAt"] != "2020-01-02T04:04:05.000+01:00" {
		t.Errorf("%v", request)
	}

	controlled(t, c, "/contact-requests/redact", `{"id":"`+id+`"}`, 200)
	controlled(t, c, "/insertions/withdraw", of+`}`, 200)
	controlled(t, c, "/keys", `{"key":"k2","agencies":["A100"]}`, 200)
	controlled(t, c, "/keys/unlink", `{"key":"k","agencies":["A100"]}`, 200)
	controlled(t, c, "/keys/deactivate", `{"key":"k2"}`, 200)
	for _, key := range []string{"k", "k2"} {
		if got := ask(api, key, insertionsPath("A100")).Code; got != 403 {
			t.Errorf("%d with %s", got, key)
		}
	}
	truth := decoded[Truth](t, ask(c, "", "/truth"))
	i, _ := truth.Insertion("A100", "r")
	r, _ := truth.ContactRequest(id)
	if len(i.Versions) != 2 || i.Visible[0].Until.IsZero() || i.Served != 1 || r.Served != 1 || len(r.Versions) != 3 || !r.Versions[2].Record.Redacted {
		t.Errorf("%+v %+v", i, r)
	}
	if counts := decoded[[]Count](t, ask(c, "", "/requests")); len(counts) != 4 {
		t.Errorf("%+v", counts)
	}
}

func TestControlRefusesWhatDoesNotFitAndChangesNothing(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", ContactRequest{LastName: "Muster-zq7"})
	c := Control(m)
	before := m.Truth()
	for _, bad := range []struct {
		path, body string
		status     int
	}{
		{"/keys", `{"agency":"A100"}`, 400},
		{"/keys", `{"key":"k"} {}`, 400},
		{"/insertions", `{"agencyId":"A100","insertion":{"propertyReferenceId":"x","colour":"red"}}`, 400},
		{"/insertions", `{"agencyId":"Z999","insertion":{"propertyReferenceId":"x"}}`, 404},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":{"rankType":7}}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":{"colour":"red"}}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":null}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r"}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"unknown","patch":{}}`, 404},
		{"/insertions/withdraw", `{"agencyId":"B200","propertyReferenceId":"r"}`, 404},
		{"/contact-requests", `{"agencyId":"B200","propertyReferenceId":"r","contactRequest":{}}`, 404},
		{"/contact-requests", `{"agencyId":"A100","propertyReferenceId":"r","contactRequest":{"id":"` + id + `"}}`, 400},
		{"/contact-requests/edit", `{"id":"` + id + `","patch":{"score":"high"}}`, 400},
		{"/contact-requests/redact", `{"id":"unknown"}`, 404},
		{"/keys/deactivate", `{"key":"secret-unknown"}`, 404},
		{"/keys", `{"key":"` + strings.Repeat("x", maxControlBody) + `"}`, 400},
	} {
		if answer := controlled(t, c, bad.path, bad.body, bad.status); answer["error"] == "" || strings.Contains(answer["error"], "secret") {
			t.Errorf("%s %.80s: %v", bad.path, bad.body, answer)
		}
	}
	if !reflect.DeepEqual(before.Insertions, m.Truth().Insertions) {
		t.Error("the model has changed")
	}
}
