package sandbox

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type controlled struct {
	t testing.TB
	h http.Handler
}

// post sends a change and fails the test unless the status is as wanted.
func (c controlled) post(path, body string, status int) map[string]string {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	var answer map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &answer); w.Code != status || err != nil {
		c.t.Fatalf("%s %s: %d %s", path, body, w.Code, w.Body)
	}
	return answer
}

func read[T any](c controlled, path string) T {
	c.t.Helper()
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return decoded[T](c.t, w)
}

func TestAModelIsDrivenAndInterrogatedOverHTTP(t *testing.T) {
	m := NewModel(Options{KeepLog: true})
	api := New(m, Flat())
	c := controlled{t, Control(m)}
	m.AddAgency("A100")
	if got := c.post("/keys", `{"key":"k","agencies":["A100"]}`, 200); got["label"] != "key-1" {
		t.Errorf("%v", got)
	}
	c.post("/insertions", `{"agencyId":"A100","insertion":{"propertyReferenceId":"a#b##","rankType":"TOP","prices":{"currency":"CHF","rent":{"net":2590,"gross":2790}},"extra":{"views":1}}}`, 200)
	c.post("/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"a#b##","patch":{"rankType":null,"prices":{"rent":{"gross":2690}},"extra":{"views":2}}}`, 200)
	id := c.post("/contact-requests", `{"agencyId":"A100","propertyReferenceId":"a#b##","contactRequest":{"lastName":"Muster-zq7","email":"m-zq7@example.org","createdAt":"2020-01-02T03:04:05Z"}}`, 200)["id"]
	c.post("/contact-requests/edit", `{"id":"`+id+`","patch":{"status":"READ","score":3}}`, 200)

	record := decoded[flatPage](t, ask(api, "k", insertionsPath("A100"))).Results[0]
	rent := record["prices"].(map[string]any)["rent"].(map[string]any)
	if record["rankType"] != nil || rent["gross"] != 2690.0 || rent["net"] != 2590.0 || record["views"] != 2.0 {
		t.Errorf("%v", record)
	}
	request := decoded[[]map[string]any](t, ask(api, "k", contactRequestsPath("a#b##")))[0]
	if request["id"] != id || request["status"] != "READ" || request["lastName"] != "Muster-zq7" || request["createdAt"] != "2020-01-02T04:04:05.000+01:00" {
		t.Errorf("%v", request)
	}

	c.post("/contact-requests/redact", `{"id":"`+id+`"}`, 200)
	c.post("/insertions/withdraw", `{"agencyId":"A100","propertyReferenceId":"a#b##"}`, 200)
	c.post("/keys/unlink", `{"key":"k","agencies":["A100"]}`, 200)
	if got := ask(api, "k", insertionsPath("A100")).Code; got != 403 {
		t.Errorf("%d after unlinking", got)
	}
	c.post("/keys", `{"key":"k2","agencies":["A100"]}`, 200)
	c.post("/keys/deactivate", `{"key":"k2"}`, 200)
	if got := ask(api, "k2", insertionsPath("A100")).Code; got != 403 {
		t.Errorf("%d after deactivating", got)
	}

	truth := read[Truth](c, "/truth")
	i, _ := truth.Insertion("A100", "a#b##")
	r, _ := truth.ContactRequest(id)
	if len(i.Versions) != 2 || i.Visible[0].Until.IsZero() || i.Served != 1 || i.Versions[1].Record.Prices.Rent.Gross != 2690 {
		t.Errorf("%+v", i)
	}
	if r.Served != 1 || len(r.Versions) != 3 || !r.Versions[2].Record.Redacted || r.Versions[1].Record.LastName != "Muster-zq7" {
		t.Errorf("%+v", r)
	}
	counts := read[[]Count](c, "/requests")
	if len(counts) != 4 || counts[1] != (Count{Filter{AgencyID: "A100", Operation: OperationInsertions, Key: "key-1", Status: 200}, 1}) {
		t.Errorf("%+v", counts)
	}
}

func TestControlRefusesWhatDoesNotFitAndChangesNothing(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", ContactRequest{LastName: "Muster-zq7"})
	c := controlled{t, Control(m)}
	before, err := json.Marshal(m.Truth().Insertions)
	must(t, err)
	for _, bad := range []struct {
		path, body string
		status     int
	}{
		{"/keys", `{"agency":"A100"}`, 400},
		{"/keys", `{"key":"k"} {}`, 400},
		{"/keys", ``, 400},
		{"/insertions", `{"agencyId":"A100","insertion":{"propertyReferenceId":"x","colour":"red"}}`, 400},
		{"/insertions", `{"agencyId":"A100","insertion":{}}`, 400},
		{"/insertions", `{"agencyId":"Z999","insertion":{"propertyReferenceId":"x"}}`, 404},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":{"rankType":7}}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":{"colour":"red"}}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":{"RankType":"TOP"}}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":[]}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r","patch":null}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"r"}`, 400},
		{"/insertions/edit", `{"agencyId":"A100","propertyReferenceId":"unknown","patch":{}}`, 404},
		{"/insertions/withdraw", `{"agencyId":"B200","propertyReferenceId":"r"}`, 404},
		{"/contact-requests", `{"agencyId":"B200","propertyReferenceId":"r","contactRequest":{}}`, 404},
		{"/contact-requests", `{"agencyId":"A100","propertyReferenceId":"r","contactRequest":{"id":"` + id + `"}}`, 400},
		{"/contact-requests/edit", `{"id":"` + id + `","patch":{"score":"high"}}`, 400},
		{"/contact-requests/redact", `{"id":"unknown"}`, 404},
		{"/keys/deactivate", `{"key":"secret-unknown"}`, 404},
		{"/keys/unlink", `{"key":"secret-unknown"}`, 404},
		{"/keys", `{"key":"` + strings.Repeat("x", maxControlBody) + `"}`, 400},
	} {
		if answer := c.post(bad.path, bad.body, bad.status); answer["error"] == "" || strings.Contains(answer["error"], "secret") {
			t.Errorf("%s %.80s: %v", bad.path, bad.body, answer)
		}
	}
	after, err := json.Marshal(m.Truth().Insertions)
	must(t, err)
	if string(before) != string(after) {
		t.Errorf("\n%s\n%s", before, after)
	}
}
