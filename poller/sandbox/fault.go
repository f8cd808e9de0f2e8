package sandbox

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Call is what a request is for, and who sent it.
type Call struct {
	At        time.Time // arrival
	Operation string
	// AgencyID is the one in the path or, for contact requests, the one that owns the reference;
	// empty if the model knows no such agency.
	AgencyID  string
	Reference string // as decoded from the path, also when unknown
	Key       string // label; empty without a known key
	Query     url.Values
}

// Fault is what happens to one response instead of normal service. Fields can be combined;
// [FaultNamed] has ready ones, and [Misbehave] says which calls get them.
type Fault struct {
	// Delay before anything else; it ends early when the client goes.
	Delay time.Duration
	// Status and Body replace the response. With both zero the normal response is given; a Body
	// alone comes with status 200. Neither is counted as serving anything.
	Status int
	Body   []byte
	// Header is set on the response, normal or not. A Content-Encoding that the body does not have
	// makes it unreadable.
	Header http.Header
	// Edit changes the body of a normal response. What is shown is served if that can still be
	// read: it is JSON, and insertions have the member that is promised, propertyReferenceId, which
	// contact requests can do without.
	Edit func([]byte) []byte
	// Stall is how long the last byte stays away.
	Stall time.Duration
	// Cut aborts the connection after this share of the body, at the latest before its last byte;
	// negative: before the status. Zero: not at all.
	Cut float64

	// Age shows the contact requests that were true so long ago, as a replica that lags behind
	// does.
	Age time.Duration
	// Without leaves out these references or ids, as if they did not exist; what is left is served.
	Without []string
	// Rendering is another shape for this response, which serves what it shows.
	Rendering *Rendering
}

func (f *Fault) leavesOut(name string) bool { return slices.Contains(f.Without, name) }

// readable says whether a normal response with this fault serves what it shows, if it leaves to
// its last byte.
func (f *Fault) readable(operation string, a answer) bool {
	if f.Header.Get("Content-Encoding") != "" {
		return false
	}
	return f.Edit == nil ||
		json.Valid(a.body) &&
			(operation == OperationContactRequests ||
				bytes.Contains(a.body, []byte(strconv.Quote(reference))))
}

// replaces says whether the normal response is not given at all.
func (f *Fault) replaces() bool { return f.Status != 0 || f.Body != nil }

// rendering is how a response is shown.
func (f *Fault) rendering(r Rendering) Rendering {
	if f.Rendering == nil {
		return r
	}
	other := *f.Rendering
	other.Steady = r.Steady || other.Steady
	return other
}

// SetFault makes the function decide over every call of the two operations, also those that would
// be refused; nil from it is a normal response. A nil function ends all faults. It may be called
// by several requests at once and may call the model.
func (m *Model) SetFault(f func(Call) *Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// faultFor is what is wrong with the response to a call, maybe nothing.
func (m *Model) faultFor(c Call) *Fault {
	m.mu.Lock()
	decide := m.fault
	m.mu.Unlock()
	if decide != nil {
		if f := decide(c); f != nil {
			return f
		}
	}
	return &Fault{}
}

// Refuse answers with a status and a body of JSON.
func Refuse(status int) Fault {
	return Fault{Status: status, Body: refused(status).body}
}

// Instead answers with status 200, this type and this body.
func Instead(contentType, body string) Fault {
	return Fault{Body: []byte(body), Header: http.Header{"Content-Type": {contentType}}}
}

// FaultNamed returns a ready fault for something that services are known to do wrong, to be taken
// as it is or combined with other fields:
//
//   - refusals: 400 404 410 429 429_seconds 429_date 429_negative 429_huge 500 502 503 503_seconds redirect
//   - bodies with status 200: html empty null object error unsuccessful garbage encoding wrong_type
//   - connections: cut cut_late hangup late stall stuck
//   - content: stale renamed unnamed reshaped bad_utf8 half_surrogate name_twice
func FaultNamed(name string) (Fault, bool) {
	f, ok := faults()[name]
	return f, ok
}

func faults() map[string]Fault {
	const (
		jsonType = "application/json"
		htmlType = "text/html"
		htmlPage = "<!DOCTYPE html><html><head><title>Maintenance</title></head><body><h1>Back soon</h1></body></html>"
	)
	as := func(status int, f Fault) Fault { f.Status = status; return f }
	until := func(status int, retryAfter string) Fault {
		f := Refuse(status)
		f.Header = http.Header{"Retry-After": {retryAfter}}
		return f
	}
	reshaped, _ := RenderingNamed("data-nested") // it exists
	return map[string]Fault{
		"400":          Refuse(400),
		"404":          Refuse(404),
		"410":          Refuse(410),
		"429":          Refuse(429),
		"429_seconds":  until(429, "20"),
		"429_date":     until(429, "Fri, 31 Dec 1999 23:59:59 GMT"),
		"429_negative": until(429, "-5"),
		"429_huge":     until(429, "99999999999999999999"),
		"500":          Refuse(500),
		"502":          as(502, Instead(htmlType, htmlPage)),
		"503":          Refuse(503),
		"503_seconds":  until(503, "20"),
		"redirect": {
			Status: 302, Body: []byte{},
			Header: http.Header{"Location": {"http://elsewhere.example/"}},
		},

		"html":         Instead(htmlType, htmlPage),
		"empty":        {Body: []byte{}},
		"null":         Instead(jsonType, "null"),
		"object":       Instead(jsonType, "{}"),
		"error":        Instead(jsonType, `{"error":{"code":"INTERNAL","message":"try again later"}}`),
		"unsuccessful": Instead(jsonType, `{"success":false,"message":"try again later"}`),
		"garbage":      {Edit: func(body []byte) []byte { return append(body, `{"more":`...) }},
		"encoding":     {Header: http.Header{"Content-Encoding": {"br"}}},
		"wrong_type":   {Header: http.Header{"Content-Type": {htmlType}}},

		"cut":      {Cut: 0.5},
		"cut_late": {Cut: 0.999},
		"hangup":   {Cut: -1},
		"late":     {Delay: 10 * time.Second},
		"stall":    {Stall: 20 * time.Second},
		"stuck":    {Delay: time.Hour},

		"stale":          {Age: 10 * time.Minute},
		"renamed":        {Edit: rename("offerType", "offer_kind", "language", "lang_code")},
		"unnamed":        {Edit: rename(reference, "ref")},
		"reshaped":       {Rendering: &reshaped},
		"bad_utf8":       {Edit: note("\"caf\xe9\"")},
		"half_surrogate": {Edit: note(`"half \ud83d"`)}, // an escape of half a character
		"name_twice":     {Edit: note(`"first","note":"second"`)},
	}
}

// rename calls members by other names: old, new, old, new.
func rename(names ...string) func([]byte) []byte {
	for n := range names {
		names[n] = strconv.Quote(names[n])
	}
	r := strings.NewReplacer(names...)
	return func(body []byte) []byte { return []byte(r.Replace(string(body))) }
}

// note gives the first record one member more, with this text as its value. Every record has a
// createdAt.
func note(value string) func([]byte) []byte {
	return func(body []byte) []byte {
		before, after, found := bytes.Cut(body, []byte(`"created`))
		if !found {
			return body
		}
		return slices.Concat(before, []byte(`"note":`+value+`,"created`), after)
	}
}

// Rule says which calls get a fault. Empty fields select all; all that are set must hold.
type Rule struct {
	Operation, AgencyID, Reference string

	Further bool    // only pages of a list behind the first, which is read without page
	Share   float64 // this part of the calls selected, as the seed decides; zero: all

	Fault Fault
	// Decide is called instead of Fault, if it is set. It may return nil.
	Decide func(Call) *Fault

	during func() bool // nil: always
}

func (r *Rule) selects(c Call) bool {
	return (r.Operation == "" || r.Operation == c.Operation) &&
		(r.AgencyID == "" || r.AgencyID == c.AgencyID) &&
		(r.Reference == "" || r.Reference == c.Reference) &&
		(!r.Further || c.Query.Has("page")) && (r.during == nil || r.during())
}

// Misbehave returns a function for [Model.SetFault]: of the rules that select a call, and whose
// share it belongs to, the first decides. Equal seeds and equal calls lead to equal faults.
func Misbehave(seed uint64, rules ...Rule) func(Call) *Fault {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	find := func(c Call) *Rule {
		mu.Lock()
		defer mu.Unlock()
		for n := range rules {
			if r := &rules[n]; r.selects(c) && (r.Share == 0 || random.Float64() < r.Share) {
				return r
			}
		}
		return nil
	}
	return func(c Call) *Fault {
		r := find(c)
		switch {
		case r == nil:
			return nil
		case r.Decide != nil:
			return r.Decide(c) // without the lock: it may call the model
		}
		f := r.Fault
		return &f
	}
}
