package sandbox

import (
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Rule says which calls get a fault. Empty fields select all; all that are set
// must hold.
type Rule struct {
	Operation, AgencyID, Reference, Key string

	From, Until time.Time // by the model's clock; Until not included
	Further     bool      // only pages of a list behind the first, which is asked for without page

	// Of the calls selected so far, counted from 1, by this rule:
	Nth   int     // only this one
	Every int     // each of so many
	Times int     // at most so many get the fault
	Share float64 // this part, as the seed decides; zero: all

	Fault Fault
	// Decide is asked instead of Fault, if it is set. It may return nil.
	Decide func(Call) *Fault
}

func (r *Rule) selects(c Call) bool {
	return (r.Operation == "" || r.Operation == c.Operation) &&
		(r.AgencyID == "" || r.AgencyID == c.AgencyID) &&
		(r.Reference == "" || r.Reference == c.Reference) &&
		(r.Key == "" || r.Key == c.Key) &&
		!c.At.Before(r.From) && (r.Until.IsZero() || c.At.Before(r.Until)) &&
		(!r.Further || c.Query.Has("page"))
}

// misbehaviour is the rules with their counters.
type misbehaviour struct {
	mu     sync.Mutex
	random *rand.Rand
	rules  []Rule
	seen   []int // calls selected, by rule
	given  []int // faults given, by rule
}

// Misbehave returns a function for [Model.SetFault]: the first rule that selects
// a call and has a fault for it decides. The seed and the order of calls decide
// over shares.
func Misbehave(seed uint64, rules ...Rule) func(Call) *Fault {
	m := &misbehaviour{
		random: rand.New(rand.NewPCG(seed, 1)), rules: rules,
		seen: make([]int, len(rules)), given: make([]int, len(rules)),
	}
	return m.fault
}

func (m *misbehaviour) fault(c Call) *Fault {
	n := m.find(c)
	if n < 0 {
		return nil
	}
	if decide := m.rules[n].Decide; decide != nil {
		return decide(c) // without the lock: it may call the model
	}
	f := m.rules[n].Fault
	return &f
}

// find returns the number of the rule that decides; negative: none.
func (m *misbehaviour) find(c Call) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.rules {
		if m.rules[n].selects(c) && m.due(n) {
			m.given[n]++
			return n
		}
	}
	return -1
}

// due counts a call that the rule selects and says whether it is one of those.
func (m *misbehaviour) due(n int) bool {
	r := &m.rules[n]
	m.seen[n]++
	switch {
	case r.Nth > 0 && m.seen[n] != r.Nth,
		r.Every > 0 && m.seen[n]%r.Every != 0,
		r.Times > 0 && m.given[n] >= r.Times:
		return false
	}
	return r.Share == 0 || m.random.Float64() < r.Share
}

// Refuse answers with a status and a body of JSON.
func Refuse(status int) Fault {
	return Fault{Status: status, Body: refused(status).body}
}

// RefuseUntil is Refuse with a Retry-After of this text, whatever it is.
func RefuseUntil(status int, retryAfter string) Fault {
	f := Refuse(status)
	f.Header = http.Header{"Retry-After": {retryAfter}}
	return f
}

// Instead answers with status 200, this type and this body.
func Instead(contentType, body string) Fault {
	return Fault{Body: []byte(body), Header: http.Header{"Content-Type": {contentType}}}
}
