package sandbox

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// Call is what a request for one of the two operations asks, as far as a fault
// may want to know.
type Call struct {
	At        time.Time
	Operation string
	AgencyID  string // as in [Request]
	Reference string
	Key       string // label
	Query     url.Values
}

// Fault is what happens to one answer instead of the honest thing. Fields can be
// combined; [Faults] has ready ones by name, and [Misbehave] says which calls get
// them. [Fault.Good] says after which of them an answer still serves what it shows.
type Fault struct {
	// Delay before anything else; it ends early when the client goes.
	Delay time.Duration
	// Status and Body replace the answer, as they are and never compressed. With
	// both zero the honest answer is given; a Body alone comes with status 200.
	// Neither is counted as serving anything.
	Status int
	Body   []byte
	// Header is set on the answer, honest or not. A Content-Encoding that the body
	// does not have makes it unreadable.
	Header http.Header
	// Trailing follows the body, which cannot be read then.
	Trailing []byte
	// Drip is how long the body takes, in twenty pieces.
	Drip time.Duration
	// CutAfter aborts the connection after so many bytes of the body as sent
	// (which may be compressed); negative: before the status. Zero, or as much as
	// the body: not at all.
	CutAfter int
	// CutShare aborts after this share of the body, between 0 and 1.
	CutShare float64
	// Reset makes a cut a reset of the connection where it is one of TCP.
	Reset bool

	// Another shows the contact requests of another insertion, or the insertions
	// of another agency: two answers mixed up on the way. It serves nothing.
	Another bool
	// Age shows what was true so long ago, as a replica that lags behind does. It
	// serves the versions that it shows.
	Age time.Duration
	// Without leaves out these references or ids, and Newest so many of the newest,
	// as if they did not exist; what is left is served.
	Without []string
	Newest  int
	// Rename calls members of these names by others. Insertions without the name
	// that is promised, propertyReferenceId, serve nothing; contact requests are
	// asked for by it, and are served without.
	Rename map[string]string
	// Rendering is another shape for this answer, which serves what it shows.
	Rendering *Rendering
	// Damage is done to the first record, by a member "note" more. The record can
	// be read around it, so it is served.
	Damage Damage
	// Unserved says that nobody can read the answer, though it looks honest.
	Unserved bool
}

// Damage is what is wrong inside one record.
type Damage string

// The zero value is none.
const (
	BadUTF8       Damage = "bad_utf8"
	HalfSurrogate Damage = "half_surrogate" // an escape of half a character
	NameTwice     Damage = "name_twice"
)

// Good says whether an answer of the operation with this fault counts as serving
// what it shows, given that it is granted and leaves to its last byte.
func (f *Fault) Good(operation string) bool {
	return f.readable(operation) && (f == nil || f.CutAfter == 0 && f.CutShare == 0)
}

// readable is Good, cuts aside: those may lie behind the end.
func (f *Fault) readable(operation string) bool {
	return f == nil || !f.replaces() && !f.Another && !f.Unserved && len(f.Trailing) == 0 &&
		(f.Rename[reference] == "" || operation == OperationContactRequests) && f.Header.Get("Content-Encoding") == ""
}

// cut is the number of bytes of the body that leave, if not all do.
func (f *Fault) cut(body int) (bytes int, cut bool) {
	switch {
	case f == nil:
		return body, false
	case f.CutAfter > 0 && f.CutAfter < body:
		return f.CutAfter, true
	case f.CutShare > 0 && f.CutShare < 1 && body > 0:
		return min(int(f.CutShare*float64(body)), body-1), true
	}
	return body, false
}

// sight is what of the model an answer shows.
func (f *Fault) sight(now time.Time) sight {
	if f == nil {
		return sight{at: now}
	}
	return sight{at: now.Add(-f.Age), past: f.Age > 0, without: f.Without, newest: f.Newest, another: f.Another, damage: f.Damage}
}

// rendering is how an answer is shown.
func (f *Fault) rendering(r Rendering) Rendering {
	if f == nil {
		return r
	}
	if f.Rendering != nil {
		steady, seed := r.Steady, r.Seed
		r = *f.Rendering
		r.Steady, r.Seed = steady || r.Steady, seed
	}
	r.renames = f.Rename
	return r
}

// SetFault makes the function decide over every call of the two operations,
// also those that would be refused; nil from it is an honest answer. A nil
// function ends all faults. It may be called by several requests at once and
// may call the model.
func (m *Model) SetFault(f func(Call) *Fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = f
}

func (m *Model) faultFor(c Call) *Fault {
	m.mu.Lock()
	f := m.fault
	m.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(c)
}

// replaces says whether the honest answer is not given at all.
func (f *Fault) replaces() bool {
	return f != nil && (f.Status != 0 || f.Body != nil)
}

func (f *Fault) answer() answer {
	status := f.Status
	if status == 0 {
		status = http.StatusOK
	}
	return answer{status: status, body: f.Body, plain: true}
}

// wait returns false if the client went away meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
