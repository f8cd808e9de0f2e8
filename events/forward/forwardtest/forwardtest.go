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
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/helptest"
)

var must = helptest.Must

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
	Open  func(t *testing.T) forward.Receiver
	Want  Want
	After time.Duration // the delay that a Retry asks for
	Says  string        // what the error contains
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
	// Secrets must not be in errors and traits.
	Secrets []string
	// Check looks at a message made of hostile texts. Nil: only that there is one.
	Check func(t *testing.T, message string)
}

// person occurs in every event of the suite, and may occur in no error.
const person = "Zwiebelfisch"

// Receiver runs the suite.
func Receiver(t *testing.T, s Suite) {
	t.Run("traits", s.traits)
	t.Run("every message", s.everyMessage)
	t.Run("again", s.again)
	t.Run("hostile", s.hostile)
	for _, a := range s.Answers {
		t.Run("answer "+a.Name, func(t *testing.T) { s.answer(t, a) })
	}
	t.Run("no answer", s.noAnswer)
}

// send is what the pipeline does: one delivery, with a limit. No error may hold a secret or a person.
func (s Suite) send(t *testing.T, limit time.Duration, o forward.Receiver, d forward.Delivery) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	err := o.Send(ctx, d)
	for _, forbidden := range append([]string{person}, s.Secrets...) {
		if text := fmt.Sprintf("%v %+v", err, err); strings.Contains(text, forbidden) {
			t.Errorf("an error holds what it must not: %s", strings.ReplaceAll(text, forbidden, "[HERE]"))
		}
	}
	return err
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

// everyMessage sends each type, tests and digests: one message for each delivery, and a test is marked as one.
func (s Suite) everyMessage(t *testing.T) {
	p := s.Works(t)
	lead := one(Lead(t, "A100", 1))
	test := lead
	test.Test = true
	all := []forward.Delivery{lead, test}
	for _, kind := range events.Types {
		all = append(all, one(Example(t, kind)))
	}
	if most := p.Receiver.Traits().Digest; most > 1 {
		var leads []events.Event
		for n := range most {
			leads = append(leads, Lead(t, "A100", n+1))
		}
		all = append(all, forward.Delivery{Events: leads}, forward.Delivery{Events: leads[:2]}, forward.Delivery{Events: Halts(t, 200)})
	}
	for n, d := range all {
		if err := s.send(t, time.Minute, p.Receiver, d); err != nil {
			t.Errorf("%d events of %s: %v", len(d.Events), d.Events[0].Type, err)
		}
		if took := len(p.Took()); took != n+1 {
			t.Fatalf("%d messages arrived, want %d", took, n+1)
		}
	}
	says := func(n int) int { return strings.Count(strings.ToLower(p.Took()[n]), "test") }
	if says(1) <= says(0) {
		t.Error("a test is not marked as one")
	}
	for _, alert := range []bool{false, true} {
		if err := forward.SendTest(t.Context(), p.Receiver, forward.TestAgency, alert); err != nil {
			t.Error(err)
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
		must(t, s.send(t, time.Minute, p.Receiver, one(e)))
	}
	ids := map[string]bool{}
	for _, m := range p.Took() {
		ids[p.ID(m)] = true
	}
	if len(ids) != 3 || ids[""] || p.ID(p.Took()[0]) != p.ID(p.Took()[1]) {
		t.Errorf("the ids are %v, want 3, of which the first twice", ids)
	}
}

func (s Suite) hostile(t *testing.T) {
	for _, text := range Hostile {
		p := s.Works(t)
		for _, kind := range []events.Type{events.TypeContactRequestCreated, events.TypeAccessHalted} {
			if err := s.send(t, time.Minute, p.Receiver, Everywhere(t, text, kind)); err != nil {
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
	err := s.send(t, time.Minute, a.Open(t), one(Lead(t, "A100", 1)))
	if got := outcome(err); got != a.Want || err != nil && !strings.Contains(err.Error(), a.Says) {
		t.Fatalf("%s (%v), want %s, %s", got, err, a.Want, a.Says)
	}
	var retry *forward.Retry
	if errors.As(err, &retry) && retry.After != a.After {
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

// noAnswer has another end that does not exist, one that is silent, and a delivery that is cut off.
func (s Suite) noAnswer(t *testing.T) {
	lead := one(Lead(t, "A100", 1))
	var retry *forward.Retry
	if err := s.send(t, time.Minute, s.Away(t), lead); !errors.As(err, &retry) || retry.Reason == "" {
		t.Errorf("unreachable: %v, want a *forward.Retry with a reason", err)
	}
	begin := time.Now()
	if err := s.send(t, 300*time.Millisecond, s.Silent(t), lead); !errors.As(err, &retry) || time.Since(begin) > 5*time.Second {
		t.Errorf("silent: %v after %s", err, time.Since(begin))
	}
	p := s.Works(t)
	if err := s.send(t, 0, p.Receiver, lead); !errors.As(err, &retry) || len(p.Took()) != 0 {
		t.Errorf("cut off: %v, and %d messages arrived", err, len(p.Took()))
	}
}
