package ops

import (
	"net/http"

	"doorbell/schemas"
)

// Schemas serves the contract at /schemas/, where its files are listed: <type>.v1.schema.json,
// asyncapi.v1.json, and the examples that it refers to. It needs no token, and pages of other
// origins may read it.
func Schemas() http.Handler {
	files := http.StripPrefix("/schemas", http.FileServerFS(schemas.Files()))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// another version of doorbell has others
		w.Header().Set("Cache-Control", "public, max-age=300")
		w.Header().Set("Access-Control-Allow-Origin", "*")
		files.ServeHTTP(w, r)
	})
}
