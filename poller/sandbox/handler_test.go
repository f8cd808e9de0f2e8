package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
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
		{Reference: "r4", OfferType: "RENT", RankType: "TOP", Address: Address{PostalCode: "3011", Locality: "Bern", Street: "Loft am Fluss"}},
	} {
		must(t, m.Publish("A100", i))
	}
	publish(t, m, "B200", "other")
	return m, New(m, Flat())
}

func TestEachParameterOfGetInsertionsIsObeyed(t *testing.T) {
	_, h := market(t)
	for query, want := range map[string][]string{
		"":                            {"r4", "r3", "r2", "r1"},
		"pageSize=2":                  {"r4", "r3"},
		"pageSize=2&page=2":           {"r2", "r1"},
		"pageSize=3&page=2":           {"r1"},
		"pageSize=2&page=3":           {},
		"page=9000000000000000000":    {},
		"rankType=TOP":                {"r4", "r3", "r1"},
		"offerType=RENT&rankType=TOP": {"r4", "r1"},
		"offerType=GIFT":              {},
		"searchQuery=8005":            {"r2", "r1"},
		"searchQuery=loft+FLUSS":      {"r4"},
		"searchQuery=z%C3%BCrich":     {"r2", "r1"},
		"searchQuery=bern&offerType=RENT&rankType=TOP&pageSize=1": {"r4"},
		"somethingElse=1": {"r4", "r3", "r2", "r1"},
	} {
		if got := listed(h, "A100", query); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	body := ask(h, testKey, insertionsPath("A100")+"?rankType=TOP&pageSize=2").Body.String()
	if !strings.Contains(strings.ReplaceAll(body, " ", ""), `"total":3`) { // white space is drawn
		t.Errorf("the total of a filtered page is not all that match: %s", body)
	}
}

func TestEachParameterOfGetContactRequestsIsObeyed(t *testing.T) {
	m, h := market(t)
	now := time.Now()
	for n, score := range []float64{50, 90, 10} {
		add(t, m, "A100", "r1", ContactRequest{ID: fmt.Sprint("c", n+1), Score: score, CreatedAt: now.Add(time.Duration(n) * time.Second)})
	}
	for query, want := range map[string][]string{
		"":                               {"c3", "c2", "c1"},
		"sortOrder=asc":                  {"c1", "c2", "c3"},
		"sortBy=createdAt&sortOrder=asc": {"c1", "c2", "c3"},
		"sortBy=score":                   {"c2", "c1", "c3"},
		"sortBy=score&sortOrder=asc":     {"c3", "c1", "c2"},
		"numberOfItemsPerPage=1":         {"c3"},
		"numberOfItemsPerPage=2&sortBy=score&sortOrder=asc": {"c3", "c1"},
		"numberOfItemsPerPage=500":                          {"c3", "c2", "c1"},
	} {
		if got := ids(h, "r1", query); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
}

func TestEveryCauseOfRefusalGivesTheSame403(t *testing.T) {
	m, _ := market(t)
	m.AddKey(otherKey, "B200", "C300") // C300 does not exist
	m.AddKey("gone", "A100")
	must(t, m.DeactivateKey("gone"))
	m.KeepLog()
	h := New(m, Flat())
	bodies := map[string]bool{}
	refused := func(path string, authorization ...string) {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header["Authorization"] = authorization
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%q %s: %d, want 403", authorization, path, w.Code)
		}
		bodies[w.Body.String()] = true
	}
	for _, path := range []string{insertionsPath("A100"), contactRequestsPath("r1")} {
		refused(path)
		refused(path, "ApiKey "+testKey, "ApiKey "+testKey)
		for _, value := range []string{
			"", "Bearer " + testKey, "apikey " + testKey, testKey, "ApiKey", "ApiKey  " + testKey, "ApiKey " + strings.ToUpper(testKey),
			"ApiKey nonsense", "ApiKey gone", "ApiKey " + otherKey,
		} {
			refused(path, value)
		}
	}
	refused(insertionsPath("Z999"), "ApiKey "+otherKey)
	refused(insertionsPath("C300"), "ApiKey "+otherKey)
	if len(bodies) != 1 {
		t.Errorf("bodies %v, want one that does not reveal the cause", bodies)
	}
}

func TestNothingIsWritableAndNoOtherPathExists(t *testing.T) {
	_, h := market(t)
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, contactRequestsPath("r1"), strings.NewReader("{}")))
		if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	for _, path := range []string{
		"/", "/truth", "/insertion-funnel/integration//insertions", "/insertion-funnel/integration/A100/insertions/",
		"/insertion-funnel/integration/A100/x/insertions", "/ubm-contact-request/property/", "/ubm-contact-request/property/a/b",
	} {
		if w := ask(h, testKey, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
