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

// Fault is what happens to one answer instead of the honest thing.
type Fault struct {
	// Delay before anything else; it ends early when the client goes.
	Delay time.Duration
	// Status and Body replace the answer, as they are and never compressed. With
	// both zero the honest answer is given; a Body alone comes with status 200.
	// Neither is counted as serving anything.
	Status int
	Body   []byte
	// Header is set on the answer, honest or not.
	Header http.Header
	// CutAfter aborts the connection after so many bytes of the body as sent
	// (which may be compressed); negative: before the status. Zero, or as much as
	// the body: not at all.
	CutAfter int
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
