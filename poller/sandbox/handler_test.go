package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func market(t *testing.T) (*Model, http.Handler) {
	m := newModel(Options{})
	for _, i := range []Insertion{
		{Reference: "r1", OfferType: "RENT", RankType: "TOP", Address: Address{PostalCode: "8005", Locality: "Zürich"}},
		{Reference: "r2", OfferType: "RENT", RankType: "STANDARD", Address: Address{PostalCode: "8005", Locality: "Zürich"}},
		{Reference: "r3", OfferType: "BUY", RankType: "TOP", Address: Address{PostalCode: "3011", Locality: "Bern", Street: "Weg 8005"}},
		{Reference: "r4", OfferType: "RENT", RankType: "TOP", Address: Address{PostalCode: "3011", Locality: "Bern"}, Localization: titled("Loft am Fluss")},
	} {
		must(t, m.Publish("A100", i))
	}
	publish(t, m, "B200", "other")
	return m, New(m, Flat())
}

func TestEachParameterOfGetInsertionsIsObeyed(t *testing.T) {
	_, h := market(t)
	for query, want := range map[string][]string{
		"":                              {"r4", "r3", "r2", "r1"},
		"pageSize=2":                    {"r4", "r3"},
		"pageSize=2&page=1":             {"r4", "r3"},
		"pageSize=2&page=2":             {"r2", "r1"},
		"pageSize=3&page=2":             {"r1"},
		"pageSize=2&page=3":             {},
		"page=9000000000000000000":      {},
		"offerType=RENT":                {"r4", "r2", "r1"},
		"rankType=TOP":                  {"r4", "r3", "r1"},
		"offerType=RENT&rankType=TOP":   {"r4", "r1"},
		"offerType=GIFT":                {},
		"searchQuery=8005":              {"r2", "r1"},
		"searchQuery=loft+FLUSS":        {"r4"},
		"searchQuery=z%C3%BCrich":       {"r2", "r1"},
		"searchQuery=3011&rankType=TOP": {"r4", "r3"},
		"searchQuery=bern&offerType=RENT&rankType=TOP&pageSize=1": {"r4"},
		"somethingElse=1": {"r4", "r3", "r2", "r1"},
	} {
		if got := listed(t, h, "A100", query).references(); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	if got := *listed(t, h, "A100", "rankType=TOP&pageSize=2").Total; got != 3 {
		t.Errorf("total of a filtered page is %d, want all that match", got)
	}
}

func TestEachParameterOfGetContactRequestsIsObeyed(t *testing.T) {
	m, h := market(t)
	now := time.Now()
	for n, score := range []float64{50, 90, 10} {
		add(t, m, "A100", "r1", ContactRequest{ID: fmt.Sprint("c", n+1), Score: score, CreatedAt: now.Add(time.Duration(n) * time.Second)})
	}
	for query, want := range map[string][]string{
		"":                                {"c3", "c2", "c1"},
		"sortOrder=desc":                  {"c3", "c2", "c1"},
		"sortOrder=asc":                   {"c1", "c2", "c3"},
		"sortBy=createdAt":                {"c3", "c2", "c1"},
		"sortBy=createdAt&sortOrder=asc":  {"c1", "c2", "c3"},
		"sortBy=createdAt&sortOrder=desc": {"c3", "c2", "c1"},
		"sortBy=score":                    {"c2", "c1", "c3"},
		"sortBy=score&sortOrder=desc":     {"c2", "c1", "c3"},
		"sortBy=score&sortOrder=asc":      {"c3", "c1", "c2"},
		"numberOfItemsPerPage=1":          {"c3"},
		"numberOfItemsPerPage=2&sortBy=score&sortOrder=asc": {"c3", "c1"},
		"numberOfItemsPerPage=500":                          {"c3", "c2", "c1"},
	} {
		if got := ids(t, h, "r1", query); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

func TestEveryCauseOfRefusalIsThe403OfTheOthers(t *testing.T) {
	m, _ := market(t)
	m.AddKey(otherKey, "B200", "C300") // C300 does not exist
	m.AddKey("gone", "A100")
	must(t, m.DeactivateKey("gone"))
	m.KeepLog()
	h := New(m, Flat())
	bodies := map[string]bool{}
	for _, c := range []struct {
		authorization []string
		path          string
	}{
		{nil, insertionsPath("A100")},
		{[]string{""}, insertionsPath("A100")},
		{[]string{"Bearer " + testKey}, insertionsPath("A100")},
		{[]string{"apikey " + testKey}, insertionsPath("A100")},
		{[]string{testKey}, insertionsPath("A100")},
		{[]string{"ApiKey"}, insertionsPath("A100")},
		{[]string{"ApiKey  " + testKey}, insertionsPath("A100")},
		{[]string{"ApiKey " + testKey, "ApiKey " + testKey}, insertionsPath("A100")},
		{[]string{"ApiKey " + strings.ToUpper(testKey)}, insertionsPath("A100")},
		{[]string{"ApiKey nonsense"}, contactRequestsPath("r1")},
		{[]string{"ApiKey gone"}, insertionsPath("A100")},
		{[]string{"ApiKey gone"}, contactRequestsPath("r1")},
		{[]string{"ApiKey " + otherKey}, insertionsPath("Z999")},
		{[]string{"ApiKey " + otherKey}, insertionsPath("C300")},
		{[]string{"ApiKey " + otherKey}, insertionsPath("A100")},
		{[]string{"ApiKey " + otherKey}, contactRequestsPath("r1")},
	} {
		r := httptest.NewRequest(http.MethodGet, c.path, nil)
		r.Header["Authorization"] = c.authorization
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden {
			t.Errorf("%q %s: %d, want 403", c.authorization, c.path, w.Code)
		}
		bodies[w.Body.String()] = json.Valid(w.Body.Bytes())
	}
	if len(bodies) != 1 || slices.Contains(slices.Collect(maps.Values(bodies)), false) {
		t.Errorf("bodies %v, want one, JSON, that does not tell the cause", bodies)
	}
}

func TestNothingIsWritableAndNothingElseIsThere(t *testing.T) {
	m, h := market(t)
	before := m.Truth()
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
		for _, path := range []string{insertionsPath("A100"), contactRequestsPath("r1")} {
			r := httptest.NewRequest(method, path, strings.NewReader("{}"))
			r.Header.Set("Authorization", "ApiKey "+testKey)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
		}
	}
	for _, path := range []string{
		"/", "/truth", "/insertion-funnel/integration/A100", "/insertion-funnel/integration//insertions",
		"/insertion-funnel/integration/A100/insertions/", "/insertion-funnel/integration/A100/x/insertions",
		"/ubm-contact-request/property/", "/ubm-contact-request/property/r1/", "/ubm-contact-request/property/a/b",
	} {
		if w := ask(h, testKey, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	after := m.Truth()
	after.At = before.At
	if !reflect.DeepEqual(before, after) {
		t.Error("the model changed")
	}
}
