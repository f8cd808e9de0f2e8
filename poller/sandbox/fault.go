package sandbox

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// Call is what a request is for, and who sent it.
type Call struct {
	At        time.Time // arrival
	Operation string
	// AgencyID is the one in the path or, for contact requests, the one that owns the reference; empty if the model knows
	// no such agency.
	AgencyID  string
	Reference string // as decoded from the path, also when unknown
	Key       string // label; empty without a known key
	Query     url.Values
}

// Fault is what happens to one answer instead of the honest thing. Fields can be combined; [FaultNamed] has ready ones,
// and [Misbehave] says which calls get them.
type Fault struct {
	// Delay before anything else; it ends early when the client goes.
	Delay time.Duration
	// Status and Body replace the answer, as they are and never compressed. With both zero the honest answer is given; a
	// Body alone comes with status 200. Neither is counted as serving anything.
	Status int
	Body   []byte
	// Header is set on the answer, honest or not. A Content-Encoding that the body does not have makes it unreadable.
	Header http.Header
	// Trailing follows the body, which cannot be read then.
	Trailing []byte
	// Drip is how long the body takes, in twenty pieces.
	Drip time.Duration
	// CutAfter aborts the connection after so many bytes of the body as sent (which may be compressed); negative: before
	// the status. Zero, or as much as the body: not at all.
	CutAfter int
	// CutShare aborts after this share of the body, between 0 and 1.
	CutShare float64
	// Reset makes a cut a reset of the connection where it is one of TCP.
	Reset bool

	// Age shows the contact requests that were true so long ago, as a replica that lags behind does. It serves the
	// versions that it shows.
	Age time.Duration
	// Without leaves out these references or ids, as if they did not exist; what is left is served.
	Without []string
	// Rename calls members of these names by others. Insertions without the name that is promised, propertyReferenceId,
	// serve nothing; contact requests, whose path has it, are served without.
	Rename map[string]string
	// Rendering is another shape for this answer, which serves what it shows.
	Rendering *Rendering
	// Note is the value, as raw text, of a member "note" more in the first record. The record can be read around it, so it
	// is served.
	Note string
}

// note is that of the n-th record of an answer.
func (f *Fault) note(n int) string {
	if n > 0 {
		return ""
	}
	return f.Note
}

func (f *Fault) leavesOut(name string) bool { return slices.Contains(f.Without, name) }

// readable says whether an answer of the operation with this fault serves what it shows, if it leaves to its last byte.
func (f *Fault) readable(operation string) bool {
	return !f.replaces() && len(f.Trailing) == 0 &&
		(f.Rename[reference] == "" || operation == OperationContactRequests) && f.Header.Get("Content-Encoding") == ""
}

// replaces says whether the honest answer is not given at all.
func (f *Fault) replaces() bool { return f.Status != 0 || f.Body != nil }

func (f *Fault) answer() answer {
	return answer{status: cmp.Or(f.Status, http.StatusOK), body: f.Body, plain: true}
}

// cut is the number of bytes of the body that leave, if not all do.
func (f *Fault) cut(body int) (bytes int, cut bool) {
	switch {
	case f.CutAfter > 0 && f.CutAfter < body:
		return f.CutAfter, true
	case f.CutShare > 0 && f.CutShare < 1 && body > 0:
		return min(int(f.CutShare*float64(body)), body-1), true
	}
	return body, false
}

// rendering is how an answer is shown.
func (f *Fault) rendering(r Rendering) Rendering {
	if f.Rendering != nil {
		steady, seed := r.Steady, r.Seed
		r = *f.Rendering
		r.Steady, r.Seed = steady || r.Steady, seed
	}
	r.renames = f.Rename
	return r
}

// SetFault makes the function decide over every call of the two operations, also those that would be refused; nil from it
// is an honest answer. A nil function ends all faults. It may be called by several requests at once and may call the model.
func (m *Model) SetFault(f func(Call) *Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

// faultFor is what is wrong with the answer to a call, maybe nothing.
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

// FaultNamed returns a ready fault for something that services are known to do wrong, to be taken as it is or combined
// with other fields:
//
//   - refusals: 400 403_html 403_challenge 404 410 429 429_seconds 429_date 429_negative 429_huge 500 502 503 503_seconds redirect
//   - bodies with status 200: html empty null object error unsuccessful garbage encoding wrong_type
//   - connections: cut cut_late hangup reset reset_body late drip stuck
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
	reshaped := mustRendering("data-nested")
	return map[string]Fault{
		"400":           Refuse(400),
		"403_html":      as(403, Instead(htmlType, "<html><head><title>403 Forbidden</title></head><body>Blocked</body></html>")),
		"403_challenge": as(403, Instead(jsonType, `{"url":"https://geo.captcha-delivery.example/captcha/?cid=1"}`)),
		"404":           Refuse(404),
		"410":           Refuse(410),
		"429":           Refuse(429),
		"429_seconds":   until(429, "20"),
		"429_date":      until(429, "Fri, 31 Dec 1999 23:59:59 GMT"),
		"429_negative":  until(429, "-5"),
		"429_huge":      until(429, "99999999999999999999"),
		"500":           Refuse(500),
		"502":           as(502, Instead(htmlType, htmlPage)),
		"503":           Refuse(503),
		"503_seconds":   until(503, "20"),
		"redirect":      {Status: 302, Body: []byte{}, Header: http.Header{"Location": {"http://elsewhere.example/"}}},

		"html":         Instead(htmlType, htmlPage),
		"empty":        {Body: []byte{}},
		"null":         Instead(jsonType, "null"),
		"object":       Instead(jsonType, "{}"),
		"error":        Instead(jsonType, `{"error":{"code":"INTERNAL","message":"try again later"}}`),
		"unsuccessful": Instead(jsonType, `{"success":false,"message":"try again later"}`),
		"garbage":      {Trailing: []byte(`{"more":`)},
		"encoding":     {Header: http.Header{"Content-Encoding": {"br"}}},
		"wrong_type":   {Header: http.Header{"Content-Type": {htmlType}}},

		"cut":        {CutShare: 0.5},
		"cut_late":   {CutShare: 0.999},
		"hangup":     {CutAfter: -1},
		"reset":      {CutAfter: -1, Reset: true},
		"reset_body": {CutShare: 0.5, Reset: true},
		"late":       {Delay: 10 * time.Second},
		"drip":       {Drip: 20 * time.Second},
		"stuck":      {Delay: time.Hour},

		"stale":          {Age: 10 * time.Minute},
		"renamed":        {Rename: map[string]string{"offerType": "offer_kind", "language": "lang_code"}},
		"unnamed":        {Rename: map[string]string{reference: "ref"}},
		"reshaped":       {Rendering: &reshaped},
		"bad_utf8":       {Note: "\"caf\xe9\""},
		"half_surrogate": {Note: `"half \ud83d"`}, // an escape of half a character
		"name_twice":     {Note: `"first","note":"second"`},
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

// Misbehave returns a function for [Model.SetFault]: of the rules that select a call, and whose share it belongs to, the
// first decides. Equal seeds and equal calls lead to equal faults.
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
