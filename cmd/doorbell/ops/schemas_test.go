package ops_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/ops"
	"doorbell/schemas"
)

func askSchemas(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	ops.Schemas().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
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
