package ops

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"doorbell/schemas"
)

// schemasPath is where the contract is served.
const schemasPath = "/schemas/"

// Content types of the contract.
const (
	jsonType     = "application/json"
	schemaType   = "application/schema+json"
	asyncAPIType = "application/vnd.aai.asyncapi+json;version=3.1.0"
)

// contractFile is a file as it goes out.
type contractFile struct {
	contentType, etag string // the tag is weak, as the text may be compressed on its way
	text              []byte
}

// Schemas serves the contract at /schemas/: an index, <type>.v1.schema.json, asyncapi.v1.json, and the examples that it
// refers to. The same for everybody: it needs no token, and pages of other origins may read it. It wants the whole path,
// without http.StripPrefix, and answers anything but GET and HEAD with 405.
func Schemas() http.Handler {
	files := map[string]contractFile{}
	read := func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(schemas.Files(), name)
		files[name] = newContractFile(contentType(name), text)
		return err
	}
	if err := fs.WalkDir(schemas.Files(), ".", read); err != nil {
		panic(err) // they are embedded
	}
	files[""] = newContractFile(jsonType, schemaIndex())
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serveSchema(w, r, files) })
}

func newContractFile(contentType string, text []byte) contractFile {
	sum := sha256.Sum256(text)
	return contractFile{contentType: contentType, etag: `W/"` + hex.EncodeToString(sum[:8]) + `"`, text: text}
}

func contentType(name string) string {
	switch {
	case name == schemas.AsyncAPIName:
		return asyncAPIType
	case strings.HasSuffix(name, ".schema.json"):
		return schemaType
	}
	return jsonType
}

// serveSchema looks the path up as it is: there are no directories to climb out of.
func serveSchema(w http.ResponseWriter, r *http.Request, files map[string]contractFile) {
	name, below := strings.CutPrefix(r.URL.Path, schemasPath)
	f, ok := files[name]
	if !below || !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.contentType)
	h.Set("ETag", f.etag)
	h.Set("Cache-Control", "public, max-age=300") // another version of doorbell has others
	h.Set("Access-Control-Allow-Origin", "*")
	h.Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.text))
}

// schemaIndex lists what there is, with relative addresses.
func schemaIndex() []byte {
	type entry struct {
		Type    string `json:"type,omitempty"`
		ID      string `json:"id"`
		Schema  string `json:"schema"`
		Example string `json:"example,omitempty"`
	}
	index := struct {
		AsyncAPI string  `json:"asyncapi"`
		Types    []entry `json:"types"`
		Others   []entry `json:"others"`
	}{AsyncAPI: schemas.AsyncAPIName}
	names, _ := fs.Glob(schemas.Files(), "*.schema.json") // the pattern is fine
	for _, file := range names {
		name := strings.TrimSuffix(file, ".v1.schema.json")
		e := entry{ID: "urn:doorbell:schema:" + name + ":v1", Schema: file}
		if _, ok := schemas.Example(name); !ok {
			index.Others = append(index.Others, e)
			continue
		}
		e.Type, e.Example = name, "examples/"+name+".v1.json"
		index.Types = append(index.Types, e)
	}
	text, _ := json.MarshalIndent(index, "", "  ") // texts only
	return append(text, '\n')
}
