// Package page is the status page: ops.Status and the newest events as one page that a browser can
// keep open. The server renders it, and it is complete without a script; with one it updates
// itself, immediately when an event arrives. It needs nothing from elsewhere and works under a
// Content-Security-Policy without inline style or script.
//
// Everything that it shows came from outside: it is escaped by html/template, bounded here, and
// cannot break the layout. People are masked unless the options say otherwise. The package decides
// nothing and changes nothing: if something needs to be done, the page prints the command. The
// server around it decides who may read it.
package page

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/store"
)

// Options are what the page shows.
type Options struct {
	// Status may be called at any time, concurrently.
	Status func() (ops.Status, error)
	// Store has the events. nil: there are none.
	Store *store.Store
	// ShowPeople: the data of people are shown. Else names, messages and the API's records are
	// masked.
	ShowPeople bool
	// AgencyName is what people call an agency, empty if there is nothing but its id. May be nil.
	AgencyName func(agencyID string) string
}

// Handler serves GET / (the page), /events (server-sent events) and /assets/, and responds to
// /favicon.ico with no content. All links are relative, so the page works below any path of a
// reverse proxy.
func Handler(o Options) http.Handler {
	h := &handler{o: o, shared: ops.Shared(o.Status), hours: newHours(o.Store)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", h.serve)
	mux.HandleFunc("GET /events", h.stream)
	mux.Handle("GET /assets/", http.FileServerFS(assets))
	// A browser asks for it beside /v1/status and every other document that names no icon of its
	// own.
	mux.HandleFunc("GET /favicon.ico", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	return mux
}

type handler struct {
	o      Options
	shared func() (ops.Status, error)
	hours  *hours
}

//go:embed assets
var assets embed.FS

//go:embed page.html
var pageHTML string

var templates = template.Must(template.New("page").Funcs(template.FuncMap{
	"short": func(n int, text string) string { return ops.Short(text, n) }, "number": number, "ago": ops.Ago, "iso": iso,
	"trouble": ops.Trouble, "destination": ops.Destination, "mark": func(l ops.Level) string { return marks[l] },
}).Parse(pageHTML))

// marks say the same as the colours of the levels, for those who see none.
var marks = map[ops.Level]string{ops.Well: "●", ops.Busy: "◌", ops.Warn: "▲", ops.Bad: "■"}

func number(n uint64) string { return ops.Number(int(n)) }

// iso is a time as browsers read it; empty if there is none.
func iso(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// view is what the template needs.
type view struct {
	ops.Status
	Name, Title string
	Headline    ops.Headline
	Now         time.Time
	Events      []line
	Figures     []figure
	Chart       chart
	People      bool
	AgencyName  func(agencyID string) string
}

// line is an event as the page has it.
type line struct {
	events.Event
	Group, What, Text string
}

func (h *handler) serve(w http.ResponseWriter, _ *http.Request) {
	s, err := h.shared()
	if err != nil {
		http.Error(w, "doorbell cannot read its status; its log says why",
			http.StatusServiceUnavailable)
		return
	}
	v := view{
		Status: s, Name: strings.TrimSpace("doorbell " + ops.Short(s.Instance, 40)),
		Headline: ops.NewHeadline(s), Now: s.Watch.At, People: h.o.ShowPeople,
		AgencyName: h.agencyName,
	}
	v.Title = ops.Short(v.Headline.Title, 100) + " – " + v.Name
	if v.Headline.Level != ops.Well {
		v.Title = marks[v.Headline.Level] + " " + v.Title
	}
	for _, e := range h.newest() {
		what, parts := ops.Tell(e, h.o.ShowPeople)
		group, _, _ := strings.Cut(string(e.Type), ".")
		v.Events = append(v.Events,
			line{e, ops.Short(group, 32), what, ops.Short(strings.Join(parts, " · "), 400)})
	}
	if v.Chart, err = h.hours.chart(s); err != nil {
		http.Error(w, "doorbell cannot read its event log; its log says why",
			http.StatusServiceUnavailable)
		return
	}
	v.Figures = v.figures()
	var b bytes.Buffer
	if err := templates.Execute(&b, v); err != nil {
		http.Error(w, "doorbell cannot draw its page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Write(b.Bytes()) //nolint:errcheck // the reader may have left
}

func (h *handler) agencyName(agencyID string) string {
	if h.o.AgencyName == nil {
		return ""
	}
	return ops.Short(h.o.AgencyName(agencyID), 80)
}
