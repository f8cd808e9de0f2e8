package ops_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"

	"doorbell/schemas/skiptest"

	"doorbell/cmd/doorbell/ops"
	"doorbell/schemas"
)

func askSchemas(t *testing.T, method, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	r := httptest.NewRequest(method, "http://localhost/", nil)
	r.URL.Path = path // as it is, also where a client or a mux would clean it
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	ops.Schemas().ServeHTTP(w, r)
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Result(), body
}

func TestTheIndexLeadsToEveryFileOfTheContract(t *testing.T) {
	response, body := askSchemas(t, "GET", "/schemas/")
	type entry struct{ Type, ID, Schema, Example string }
	var index struct {
		AsyncAPI      string
		Types, Others []entry
	}
	if err := json.Unmarshal(body, &index); err != nil || response.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("%v, %s", err, response.Header.Get("Content-Type"))
	}
	want := map[string]string{index.AsyncAPI: "application/vnd.aai.asyncapi+json;version=3.1.0"}
	for _, e := range append(index.Types, index.Others...) {
		want[e.Schema] = "application/schema+json"
		if e.Type != "" {
			want[e.Example] = "application/json"
		}
		var schema struct {
			ID string `json:"$id"`
		}
		_, text := askSchemas(t, "GET", "/schemas/"+e.Schema)
		if err := json.Unmarshal(text, &schema); err != nil || schema.ID != e.ID {
			t.Errorf("%s is %s: %v", e.Schema, schema.ID, err)
		}
	}
	for name, contentType := range want {
		response, body := askSchemas(t, "GET", "/schemas/"+name)
		if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != contentType || !json.Valid(body) {
			t.Errorf("%s: %s, %s", name, response.Status, response.Header.Get("Content-Type"))
		}
	}
	if len(index.Types) != len(schemas.Types()) || len(index.Others) != 2 {
		t.Errorf("%d types and %d others", len(index.Types), len(index.Others))
	}
}

func TestASchemaIsReadOnceAndThenOnlyCompared(t *testing.T) {
	const path = "/schemas/watch.stale.v1.schema.json"
	first, text := askSchemas(t, "GET", path)
	etag := first.Header.Get("ETag")
	if file, _ := schemas.Schema("watch.stale"); !bytes.Equal(text, file) || len(etag) < 10 || first.Header.Get("Cache-Control") == "" {
		t.Errorf("%d bytes, %v", len(text), first.Header)
	}
	again, text := askSchemas(t, "GET", path, "If-None-Match", etag)
	if again.StatusCode != http.StatusNotModified || len(text) > 0 {
		t.Errorf("%s with %d bytes", again.Status, len(text))
	}
	if other, _ := askSchemas(t, "GET", "/schemas/watch.recovered.v1.schema.json", "If-None-Match", etag); other.StatusCode != http.StatusOK {
		t.Errorf("another file: %s", other.Status)
	}
	head, text := askSchemas(t, "HEAD", path)
	if head.StatusCode != http.StatusOK || len(text) > 0 || head.Header.Get("ETag") != etag {
		t.Errorf("HEAD: %s with %d bytes, %v", head.Status, len(text), head.Header)
	}
}

func TestNothingButTheContractIsServed(t *testing.T) {
	for _, path := range []string{
		"", "/", "/schemas", "/schemas//", "/schemas/.", "/schemas/..", "/schemas/../schemas/", "/schemas/examples", "/schemas/examples/",
		"/schemas/../etc/passwd", "/schemas/../../../../etc/passwd", "/schemas/examples/../asyncapi.v1.json", "/schemas//asyncapi.v1.json",
		"/schemas/./asyncapi.v1.json", "/schemas/asyncapi.v1.json/", "/schemas/asyncapi.v1.json\x00", "/schemas/schemas.go", "/schemas/README.md",
		"/schemas/interop/package.json", "/schemas/ASYNCAPI.V1.JSON", "/schemas/watch.stale", "/other/asyncapi.v1.json", `/schemas/..\schemas.go`,
	} {
		if response, _ := askSchemas(t, "GET", path); response.StatusCode != http.StatusNotFound {
			t.Errorf("%q: %s", path, response.Status)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "TRACE"} {
		response, _ := askSchemas(t, method, "/schemas/asyncapi.v1.json")
		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %s", method, response.Status)
		}
	}
}

// TestTheDocumentCanBeReadFromTheServer: the foreign parser follows its relative references over HTTP.
func TestTheDocumentCanBeReadFromTheServer(t *testing.T) {
	t.Parallel()
	const interop = "../../../schemas/interop/"
	if _, err := os.Stat(interop + "node_modules/@asyncapi/parser"); err != nil {
		skiptest.Skipf(t, "the AsyncAPI parser is not installed; run, at the top of the repository: npm ci --ignore-scripts --prefix schemas/interop")
	}
	mux := http.NewServeMux()
	mux.Handle("/schemas/", ops.Schemas())
	server := httptest.NewServer(mux)
	defer server.Close()
	out, err := exec.Command("node", interop+"asyncapi.mjs", server.URL+"/schemas/asyncapi.v1.json").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "listings.v1.{agency}.watch.stale watch.stale urn:doorbell:schema:headers:v1 urn:doorbell:schema:watch.stale:v1 A100\n") {
		t.Errorf("%v\n%s", err, out)
	}
}
