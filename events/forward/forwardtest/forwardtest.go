// Package forwardtest is the conformance suite of forward.Receiver, which every receiver must pass.
//
// A receiver's own test describes how to open a receiver whose other end behaves in some way
// ([Suite]), and calls [Receiver]. For receivers that speak HTTP, [HTTP] makes the other ends.
package forwardtest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// Want is what an answer means.
type Want string

// The outcomes. Waits is a Retry that is about the receiver, and never makes a dead letter.
const (
	Done    Want = "done"
	Retry   Want = "later"
	Waits   Want = "waits"
	Refused Want = "refused"
)

// Answer is one row of the table of outcomes.
type Answer struct {
	Name string
	// Open makes a receiver whose other end answers so.
	Open func(t *testing.T) forward.Receiver
	Want Want
	// After is what a Retry has to say at least. Zero: it has to say none.
	After time.Duration
}

// Place is a receiver whose other end takes everything.
type Place struct {
	Receiver forward.Receiver
	// Took are the messages that arrived, in their order: as much of them as there is, so that it
	// can be searched.
	Took func() []string
	// ID is what the receiver can tell a message by, such as its Message-ID. Nil: there is nothing.
	ID func(message string) string
}

// Suite is a receiver and its other ends.
type Suite struct {
	Works   func(t *testing.T) Place
	Answers []Answer
	// Silent makes a receiver whose other end accepts the connection and sends nothing.
	Silent func(t *testing.T) forward.Receiver
	// Away makes a receiver whose other end does not exist.
	Away func(t *testing.T) forward.Receiver
	// Redirects makes a receiver that is sent elsewhere, and tells what arrived there. Nil: there
	// is no such thing.
	Redirects func(t *testing.T) (o forward.Receiver, arrived func() int)
	// Secrets must not be in errors and traits.
	Secrets []string
	// Check looks at a message made of hostile texts. Nil: only that there is one.
	Check func(t *testing.T, message string)
}

// person occurs in every event of the suite, and may occur in no error.
const person = "Zwiebelfisch"

// Receiver runs the suite.
func Receiver(t *testing.T, s Suite) {
	t.Run("traits", func(t *testing.T) { s.traits(t) })
	t.Run("every type", func(t *testing.T) { s.everyType(t) })
	t.Run("test", func(t *testing.T) { s.test(t) })
	t.Run("digest", func(t *testing.T) { s.digest(t) })
	t.Run("again", func(t *testing.T) { s.again(t) })
	t.Run("hostile", func(t *testing.T) { s.hostile(t) })
	for _, a := range s.Answers {
		t.Run("answer "+a.Name, func(t *testing.T) { s.answer(t, a) })
	}
	t.Run("away", func(t *testing.T) { s.away(t) })
	t.Run("silent", func(t *testing.T) { s.silent(t) })
	t.Run("cancelled", func(t *testing.T) { s.cancelled(t) })
	if s.Redirects != nil {
		t.Run("redirect", func(t *testing.T) { s.redirect(t) })
	}
}

// send is what the pipeline does: one delivery, with a limit. Every error is searched.
func (s Suite) send(t *testing.T, o forward.Receiver, d forward.Delivery) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := o.Send(ctx, d)
	s.clean(t, err)
	return err
}

// clean wants no secret and no person in an error, also not in what it wraps.
func (s Suite) clean(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		return
	}
	text := fmt.Sprintf("%s %+v", err, err)
	for _, forbidden := range append([]string{person}, s.Secrets...) {
		if strings.Contains(text, forbidden) {
			t.Errorf("an error holds what it must not: %s", strings.ReplaceAll(text, forbidden, "[HERE]"))
		}
	}
}

func one(e events.Event) forward.Delivery { return forward.Delivery{Events: []events.Event{e}} }

func (s Suite) traits(t *testing.T) {
	o := s.Works(t).Receiver
	traits := o.Traits()
	if d := traits.Destination; d == "" || len(d) > 64 || events.Token(d) != d {
		t.Errorf("destination %q: want 1 to 64 letters, digits, _ and -", d)
	}
	for _, secret := range s.Secrets {
		if strings.Contains(traits.Destination, secret) {
			t.Error("the destination holds a secret")
		}
	}
	if o.Traits() != traits {
		t.Error("traits change")
	}
}

func (s Suite) everyType(t *testing.T) {
	p := s.Works(t)
	for n, kind := range events.Types {
		e := Example(t, kind)
		if err := s.send(t, p.Receiver, one(e)); err != nil {
			t.Errorf("%s: %v", e.Type, err)
		}
		if took := len(p.Took()); took != n+1 {
			t.Fatalf("%s: %d messages arrived, want %d", e.Type, took, n+1)
		}
	}
}

// test checks that a test can be distinguished from a lead.
func (s Suite) test(t *testing.T) {
	p := s.Works(t)
	e := Lead(t, "A100", 1)
	for _, test := range []bool{false, true} {
		d := one(e)
		d.Test = test
		if err := s.send(t, p.Receiver, d); err != nil {
			t.Fatal(err)
		}
	}
	took := p.Took()
	if len(took) == 2 && strings.Count(strings.ToLower(took[1]), "test") <= strings.Count(strings.ToLower(took[0]), "test") {
		t.Error("a test does not say that it is one")
	}
	for _, alert := range []bool{false, true} {
		if err := forward.SendTest(t.Context(), p.Receiver, forward.TestAgency, alert); err != nil {
			t.Error(err)
		}
	}
}

func (s Suite) digest(t *testing.T) {
	p := s.Works(t)
	most := p.Receiver.Traits().Digest
	if most < 2 {
		return
	}
	var leads forward.Delivery
	for n := range most {
		leads.Events = append(leads.Events, Lead(t, "A100", n+1))
	}
	for n, d := range []forward.Delivery{leads, {Events: Halts(t, 200)}, {Events: leads.Events[:2]}} {
		if err := s.send(t, p.Receiver, d); err != nil {
			t.Errorf("%d events of %s: %v", len(d.Events), d.Events[0].Type, err)
		}
		if took := len(p.Took()); took != n+1 {
			t.Fatalf("%d messages arrived, want %d", took, n+1)
		}
	}
}

// again wants the same delivery to be recognised, and others not to be taken for it.
func (s Suite) again(t *testing.T) {
	p := s.Works(t)
	if p.ID == nil {
		t.Skip("a receiver cannot tell messages apart")
	}
	for _, e := range []events.Event{Lead(t, "A100", 1), Lead(t, "A100", 1), Lead(t, "A100", 2), Lead(t, "B200", 1)} {
		if err := s.send(t, p.Receiver, one(e)); err != nil {
			t.Fatal(err)
		}
	}
	ids := map[string]bool{}
	for _, m := range p.Took() {
		if p.ID(m) == "" {
			t.Error("a message has no id")
		}
		ids[p.ID(m)] = true
	}
	if len(ids) != 3 || p.ID(p.Took()[0]) != p.ID(p.Took()[1]) {
		t.Errorf("%d ids, want 3, of which the first twice", len(ids))
	}
}

func (s Suite) hostile(t *testing.T) {
	for _, text := range Hostile {
		p := s.Works(t)
		for _, kind := range []events.Type{events.TypeContactRequestCreated, events.TypeAccessHalted} {
			if err := s.send(t, p.Receiver, Everywhere(t, text, kind)); err != nil {
				t.Errorf("%.30q in %s: %v", text, kind, err)
			}
		}
		for _, m := range p.Took() {
			if s.Check != nil {
				s.Check(t, m)
			}
		}
	}
}

func (s Suite) answer(t *testing.T, a Answer) {
	err := s.send(t, a.Open(t), one(Lead(t, "A100", 1)))
	if got := outcome(err); got != a.Want && !(a.Want == Retry && got == Waits) {
		t.Fatalf("%s (%v), want %s", got, err, a.Want)
	}
	var retry *forward.Retry
	if errors.As(err, &retry) && (retry.After < a.After || a.After == 0 && retry.After != 0) {
		t.Errorf("after %s, want %s", retry.After, a.After)
	}
}

func outcome(err error) Want {
	var retry *forward.Retry
	switch {
	case err == nil:
		return Done
	case errors.As(err, new(*forward.Refused)):
		return Refused
	case errors.As(err, &retry) && retry.Receiver:
		return Waits
	}
	return Retry
}

// again reports whether a delivery is tried again.
func again(err error) bool { return outcome(err) == Retry || outcome(err) == Waits }

func (s Suite) away(t *testing.T) {
	err := s.send(t, s.Away(t), one(Lead(t, "A100", 1)))
	var retry *forward.Retry
	if !errors.As(err, &retry) || retry.Reason == "" {
		t.Errorf("%v: want a *forward.Retry with a reason", err)
	}
}

func (s Suite) silent(t *testing.T) {
	o := s.Silent(t)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := o.Send(ctx, one(Lead(t, "A100", 1)))
	s.clean(t, err)
	if !again(err) {
		t.Errorf("%v: want one to be tried again", err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("ended after %s", d)
	}
}

func (s Suite) cancelled(t *testing.T) {
	p := s.Works(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := p.Receiver.Send(ctx, one(Lead(t, "A100", 1)))
	s.clean(t, err)
	if !again(err) || len(p.Took()) != 0 {
		t.Errorf("%v, and %d messages arrived", err, len(p.Took()))
	}
}

func (s Suite) redirect(t *testing.T) {
	o, arrived := s.Redirects(t)
	err := s.send(t, o, one(Lead(t, "A100", 1)))
	if err == nil || arrived() != 0 {
		t.Errorf("%v, and %d requests arrived elsewhere", err, arrived())
	}
}

// messages is a list that can be read while it grows.
type messages struct {
	mu   sync.Mutex
	list []string
}

func (m *messages) add(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = append(m.list, s)
}

func (m *messages) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.list...)
}
