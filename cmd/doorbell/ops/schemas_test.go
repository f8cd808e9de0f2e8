package ops_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/ops"
	"doorbell/schemas"
)

func askSchemas(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	ops.Schemas().ServeHTTP(w, &http.Request{Method: "GET", URL: &url.URL{Path: path}}) // as it is, also where a client or a mux would clean it
	return w
}

func TestEveryFileOfTheContractIsListedAndServed(t *testing.T) {
	err := fs.WalkDir(schemas.Files(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schemas.Files(), name)
		w := askSchemas("/schemas/" + name)
		if !bytes.Equal(w.Body.Bytes(), text) || w.Header().Get("Content-Type") != "application/json" ||
			w.Header().Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d, %v", name, w.Code, w.Header())
		}
		folder := askSchemas("/schemas/" + strings.TrimPrefix(path.Dir(name)+"/", "./"))
		if !strings.Contains(folder.Body.String(), `<a href="`+path.Base(name)+`">`) {
			t.Errorf("%s is not listed in\n%s", name, folder.Body)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNothingButTheContractIsServed(t *testing.T) {
	for _, path := range []string{
		"", "/", "/schemas/../etc/passwd", "/schemas/../../../../etc/passwd", "/schemas/asyncapi.v1.json\x00", "/schemas/schemas.go", "/schemas/README.md",
		"/schemas/interop/package.json", "/schemas/ASYNCAPI.V1.JSON", "/schemas/watch.stale", "/other/asyncapi.v1.json", `/schemas/..\schemas.go`,
	} {
		if w := askSchemas(path); w.Code != http.StatusNotFound {
			t.Errorf("%q: %d", path, w.Code)
		}
	}
}
