// Package page is the status page: ops.Status and the newest events as one page that a browser can
// keep open. It is rendered by the server and whole without a script; with one it renews itself and
// shows events as they come. It needs nothing from elsewhere and works under a
// Content-Security-Policy without inline style or script.
//
// Everything that it shows came from outside: it is escaped by html/template, bounded here, and
// cannot break the layout. People are masked unless the options say otherwise. The package decides
// nothing and changes nothing: where something is to be done, the page prints the command. The
// server around it decides who may read it.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// Options are what the page shows.
type Options struct {
	// Status may be called at any time, by several at once.
	Status func() (ops.Status, error)
	// Recent returns the newest events of all agencies, the oldest of them first. nil: there are
	// none.
	Recent func() []events.Event
	// After returns the events that follow a position, in order, and the position to ask with for the
	// next ones. nil: there is no live tail.
	After func(position uint64) (list []events.Event, next uint64, err error)
	// ShowPeople: the data of people are shown. Else names, messages and the API's records are
	// masked.
	ShowPeople bool
	// AgencyName is what people call an agency, empty if there is nothing but its id. May be nil.
	AgencyName func(agencyID string) string
}

// Handler serves GET / (the page), /events (server-sent events) and /assets/, and responds to
// /favicon.ico with no content. All links are relative, so the page works below any path of a reverse
// proxy.
func Handler(o Options) http.Handler {
	h := &handler{o: o, shared: ops.Shared(o.Status), readers: make(chan struct{}, mostReaders)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.serve)
	mux.HandleFunc("GET /events", h.stream)
	mux.HandleFunc("GET /assets/{name}", serveAsset)
	// A browser asks for it beside /v1/status and every other document that names no icon of its
	// own.
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return mux
}

type handler struct {
	o       Options
	shared  func() (ops.Status, error)
	readers chan struct{} // one for each stream of events
}

// name is an agency as the page calls it.
func (h *handler) name(agencyID string) string {
	id := ops.Short(agencyID, 64)
	if h.o.AgencyName == nil {
		return id
	}
	return strings.TrimSpace(id + " " + ops.Short(h.o.AgencyName(agencyID), 80))
}

func (h *handler) serve(w http.ResponseWriter, _ *http.Request) {
	s, err := h.shared()
	if err != nil {
		http.Error(w, "doorbell cannot read its status; its log says why", http.StatusServiceUnavailable)
		return
	}
	var b bytes.Buffer
	if err := templates.ExecuteTemplate(&b, "page", h.view(s)); err != nil {
		http.Error(w, "doorbell cannot draw its page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Write(b.Bytes()) //nolint:errcheck // a reader who left
}

//go:embed page.html
var pageHTML string

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"asset": assetURL, "shape": func(l ops.Level) string { return shapes[l] },
}).Parse(pageHTML))

//go:embed assets
var assetFiles embed.FS

// asset is a file beside the page.
type asset struct {
	body            []byte
	kind, tag, name string
}

var assets = func() map[string]asset {
	all := map[string]asset{}
	entries, _ := fs.ReadDir(assetFiles, "assets") // embedded: cannot fail
	for _, e := range entries {
		body, _ := assetFiles.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(body)
		kind := map[string]string{".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}[path.Ext(e.Name())]
		all[e.Name()] = asset{body, kind + "; charset=utf-8", hex.EncodeToString(sum[:4]), e.Name()}
	}
	return all
}()

// assetURL names a version of a file, so that a browser may keep it.
func assetURL(name string) string { return "assets/" + name + "?v=" + assets[name].tag }

func serveAsset(w http.ResponseWriter, r *http.Request) {
	a, ok := assets[r.PathValue("name")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", a.kind)
	w.Header().Set("ETag", `"`+a.tag+`"`)
	w.Header().Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == a.tag {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	http.ServeContent(w, r, a.name, time.Time{}, bytes.NewReader(a.body))
}
