package forward

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
)

// A story is a forwarder's life in lines. Events are numbered as they are published, from 1.
//
//	routes 1:a/A,B email.2:b!X@insertion.>   the table: forwarder, line, receiver, agencies, all but these, types
//	start, stop                              a forwarder; what it knows is in its files
//	agencies A B, instance x, untaken        options of the next one
//	behind, on time                          whether events of the past may still be published
//	lead A [n], halt A, gone A               publishes leads, a halt, an insertion that disappeared
//	held A [n], publish, resend              leads that are recorded now, and published later
//	wait 1m                                  of virtual time
//	a: up | down | full | wait 4m | lost | refuses 2 | fails 2 | unfit     what a receiver answers from now on
//	digest 20                                that a receiver takes 20 events as one message; pace 20ms
//	rebuild, no stream, stream, server, no consumer, no files, erase 1     what happens around it
//	a took 1-3 5, a has 1-3 5                exactly these, in this order or in any
//	a called 3, a sent 1 20 20               how often, and how many events each time
//	letters 1 2, waiting a 3, untaken 2, lost 1, consumers a b
//	event 3 a:listed b:waits c:done          as Delivered says
type story struct {
	*world
	f         *Forwarder
	stop      func() error
	receivers map[string]*script
	digest    int
	pace      time.Duration
	held      []events.Event
	behind    atomic.Bool
}

// tell plays a story.
func tell(t *testing.T, text string) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		s := &story{world: newWorld(t), receivers: map[string]*script{}, digest: 1, pace: time.Second}
		s.o.Forwarders, s.o.Behind = []string{"slack", "email"}, s.behind.Load
		for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
			for _, command := range strings.Split(line, ";") {
				if words := strings.Fields(command); len(words) > 0 {
					s.do(fmt.Sprintf("line %d, %s", n+1, strings.TrimSpace(command)), words[0], words[1:])
				}
			}
		}
	})
}

func (s *story) receiver(name string) *script {
	if s.receivers[name] == nil {
		s.receivers[name] = newScript(name, s.digest)
		s.receivers[name].traits.Pace = s.pace
	}
	return s.receivers[name]
}

var routeForm = regexp.MustCompile(`^(?:(\w+)\.)?(\d+):(\w+)(?:/([\w,]+))?(?:!([\w,]+))?(?:@(\S+))?$`)

func (s *story) table(words []string) (routes []Route) {
	list := func(text string) []string {
		if text == "" {
			return nil
		}
		return strings.Split(text, ",")
	}
	for _, word := range words {
		m := routeForm.FindStringSubmatch(word)
		if m == nil {
			s.t.Fatalf("a route %q", word)
		}
		n, _ := strconv.Atoi(m[2])
		r := Route{Forwarder: m[1], Line: n, Receiver: s.receiver(m[3])}
		r.Filter = Filter{Agencies: list(m[4]), Except: list(m[5]), Types: []string{"contact_request.created"}}
		if m[6] != "" {
			r.Filter.Types = strings.Split(m[6], ",")
		}
		routes = append(routes, r)
	}
	return routes
}

// numbers reads 1 3-5.
func (s *story) numbers(words []string) (list []int) {
	for _, word := range words {
		from, to, isRange := strings.Cut(word, "-")
		first, err := strconv.Atoi(from)
		last := first
		if isRange && err == nil {
			last, err = strconv.Atoi(to)
		}
		s.must(err)
		for ; first <= last; first++ {
			list = append(list, first)
		}
	}
	return list
}

func (s *story) events(words []string) (list []events.Event) {
	for _, n := range s.numbers(words) {
		list = append(list, s.history[n-1])
	}
	return list
}

// answer is what a receiver answers from now on.
func (s *story) answer(r *script, what string, about []string) {
	with := func(err error) func(Delivery) error { // of the events at these positions
		numbers := s.numbers(about)
		return func(d Delivery) error {
			if slices.ContainsFunc(d.Events, func(e events.Event) bool { return slices.Contains(numbers, int(e.Sequence)) }) {
				return err
			}
			return nil
		}
	}
	always := func(err error) func(Delivery) error { return func(Delivery) error { return err } }
	switch what {
	case "up":
		r.up()
	case "down":
		r.down()
	case "full":
		r.will(always(&Retry{Receiver: true, Reason: "full"}))
	case "wait":
		after, err := time.ParseDuration(about[0])
		s.must(err)
		r.will(always(&Retry{After: after, Reason: "429"}))
	case "lost":
		r.will(always(&Retry{Unanswered: true, Reason: "no answer in time"}))
	case "refuses":
		r.will(with(&Refused{Reason: "422"}))
	case "fails":
		r.will(with(&Retry{Reason: "500"}))
	case "unfit":
		r.will(always(&Refused{Certain: true, Reason: "413"}))
	default:
		s.t.Fatalf("a receiver cannot be %s", what)
	}
}

func (s *story) do(where, verb string, words []string) {
	s.t.Helper()
	first, n := "", 1
	if len(words) > 0 {
		first = words[0]
	}
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	check := func(ok bool, got any) {
		s.t.Helper()
		if !ok {
			s.t.Errorf("%s: %+v", where, got)
		}
	}
	status := func(of func(WorkerStatus) uint64, which func(WorkerStatus) bool) (sum uint64) {
		for _, w := range s.f.Status() {
			if which(w) {
				sum += of(w)
			}
			check(w.Problem == "", w)
		}
		return sum
	}
	lost := func(w WorkerStatus) uint64 { return w.Lost }
	if name, ok := strings.CutSuffix(verb, ":"); ok {
		s.answer(s.receiver(name), first, words[min(1, len(words)):])
		return
	}
	switch verb {
	case "routes":
		s.o.Routes = s.table(words)
		if s.f != nil {
			s.reroute(s.f, s.o.Routes...)
		}
	case "start":
		s.f, s.stop = s.start()
	case "stop":
		s.must(s.stop())
		s.f = nil
		time.Sleep(100 * time.Millisecond) // the server has forgotten the pull
	case "agencies":
		s.o.Agencies = func() []string { return words }
	case "instance":
		s.o.Instance = first
	case "untaken":
		if first == "" {
			s.o.Untaken = true
			return
		}
		got := status(lost, func(w WorkerStatus) bool { return w.Destination == "" })
		check(fmt.Sprint(got) == first, got)
	case "behind", "on":
		s.behind.Store(verb == "behind")
	case "digest":
		s.digest, _ = strconv.Atoi(first)
	case "pace":
		s.pace, _ = time.ParseDuration(first)
	case "lead":
		s.leads(n, first)
	case "halt":
		s.halt(first, fmt.Sprint(len(s.history)))
	case "gone":
		s.publish(s.stamp(&events.InsertionDisappeared{
			Common: events.Common{AgencyID: first, ObservedAt: time.Now()}, PropertyReferenceID: fmt.Sprint(len(s.history)),
		}))
	case "held":
		for range n {
			e := s.stampLead(first)
			s.held, s.history = append(s.held, e), append(s.history, e)
		}
	case "publish", "resend":
		for _, e := range s.held {
			if verb == "resend" {
				s.put(e, map[string]string{events.ResentHeader: "1"})
			} else {
				s.put(e, nil)
			}
		}
		s.held = nil
	case "wait":
		d, err := time.ParseDuration(first)
		s.must(err)
		time.Sleep(d)
	case "rebuild":
		s.rebuild()
	case "stream":
		s.makeStream()
	case "server":
		s.must(s.server.Restart(s.t.Context()))
	case "no":
		switch first {
		case "stream":
			s.must(s.js.DeleteStream(s.t.Context(), "LISTINGS"))
			time.Sleep(time.Second) // the folder is being removed
		case "consumer":
			for _, name := range consumerNames(s.t, s.world) {
				s.must(s.js.DeleteConsumer(s.t.Context(), "LISTINGS", name))
			}
		case "files":
			s.must(os.RemoveAll(filepath.Join(s.o.Dir, "forward")))
		}
	case "erase":
		last, _ := strconv.Atoi(first)
		s.erase(last)
	case "position":
		s.sequence, _ = strconv.ParseUint(first, 10, 64)
	case "store":
		s.store = first
	case "letters":
		var want []string
		for _, e := range s.events(words) {
			want = append(want, e.ID)
		}
		var got []string
		for _, l := range s.letters() {
			got = append(got, l.ID)
		}
		check(slices.Equal(got, want), s.letters())
	case "lost":
		got := status(lost, func(w WorkerStatus) bool { return w.Destination != "" })
		check(fmt.Sprint(got) == first, got)
	case "waiting":
		got := status(func(w WorkerStatus) uint64 { return w.Waiting }, func(w WorkerStatus) bool { return w.Destination == first })
		check(got == uint64(n), got)
	case "consumers":
		var want []string
		for _, name := range words {
			want = append(want, consumer(name))
		}
		check(slices.Equal(consumerNames(s.t, s.world), want), consumerNames(s.t, s.world))
	case "event":
		number, _ := strconv.Atoi(first)
		var got []string
		for _, d := range s.f.Delivered(s.history[number-1]) {
			word := "waits"
			switch {
			case d.Done && d.At.IsZero():
				word = "done"
			case d.Done:
				word = "listed"
			}
			got = append(got, strings.TrimPrefix(d.Receiver, "slack.")+":"+word)
		}
		check(slices.Equal(got, words[1:]), got)
	default:
		s.heard(where, s.receiver(verb), first, words[1:], check)
	}
}

// heard is what a receiver has got.
func (s *story) heard(where string, r *script, verb string, words []string, check func(bool, any)) {
	s.t.Helper()
	switch verb {
	case "took", "has":
		var want []string
		for _, e := range s.events(words) {
			want = append(want, e.ID)
		}
		got := r.ids()
		if verb == "has" {
			slices.Sort(got)
			slices.Sort(want)
		}
		var numbers []int
		for _, id := range r.ids() {
			numbers = append(numbers, 1+slices.IndexFunc(s.history, func(e events.Event) bool { return e.ID == id }))
		}
		check(slices.Equal(got, want), numbers)
	case "called":
		check(fmt.Sprint(r.called()) == words[0], r.called())
	case "sent":
		var got []string
		for _, d := range r.deliveries() {
			got = append(got, fmt.Sprint(len(d.Events)))
		}
		check(slices.Equal(got, words), got)
	default:
		s.t.Fatalf("%s: not a line of a story", where)
	}
}

func TestStories(t *testing.T) {
	for name, text := range stories {
		t.Run(name, func(t *testing.T) { tell(t, text) })
	}
}

var stories = map[string]string{
	// Order, digests, and what becomes of a message.
	"one by one, in order, over a restart": `
		digest 20; routes 1:a; start; lead A; wait 2s; lead B; wait 2s; lead A; wait 1m; stop
		start; wait 1m; a took 1-3; a sent 1 1 1; waiting a 0`,
	"an hour's outage": `
		digest 20; routes 1:a; start; a: down; lead A; wait 20m; lead B 9; wait 40m; waiting a 10; letters
		a: up; wait 7m; a took 1-10; waiting a 0; letters`,
	"more wait than one message holds": `
		digest 20; routes 1:a; start; stop; lead A 47; start; wait 1m; a took 1-47; a sent 20 20 7`,
	"five are no digest":                 `digest 20; routes 1:a; start; stop; lead A 5; start; wait 1m; a took 1-5; a sent 1 1 1 1 1`,
	"leads and alerts in no one digest":  `digest 20; routes 1:a@>; start; stop; lead A 8; halt A; halt B; halt C; halt D; halt E; halt F; start; wait 1m; a sent 8 6`,
	"others are between those of a line": `digest 20; routes 1:a!X; start; stop; lead A 10; lead X 5; lead A 10; start; wait 1m; a took 1-10 16-25; a sent 20`,
	"one of a digest is refused": `
		digest 10; routes 1:a; start; stop; lead A 40; a: refuses 4; start; wait 1m
		a took 1-3 5-40; a sent 1 1 1 1 1 1 1 1 1 10 10 10; letters 4`,
	"one that always fails": `
		digest 20; routes 1:a; start; a: fails 1; lead A; wait 150m; letters; lead A 3; wait 20m; a took 2-4; letters 1`,
	"two in a row are refused": `routes 1:a; start; a: refuses 1 2; lead A 4; wait 20m; a took 3 4; letters 1 2`,
	"a refused one waits for the next": `
		routes 1:a; start; a: refuses 1; lead A; wait 6m; letters; lead A; wait 1m; a took 2; letters 1`,
	"a day of failures": `
		digest 20; routes 1:a/A 2:b/B 3:c/C; start; a: down; b: full; c: refuses 12; lead A 10; lead B; lead C
		wait 23h; letters; wait 2h; letters 12; a: up; b: up; wait 7m; a has 1-10; b took 11; letters 12`,
	"perhaps delivered": `
		digest 20; routes 1:a; start; stop; lead A 8; a: lost; start; wait 10m; a called 3; letters 1-8
		a: up; stop; start; wait 1m; a took`,
	"no answer, and then a refusal": `
		digest 20; routes 1:a; start; stop; lead A 8; a: lost; start; a: refuses 1; wait 10m; a has 2-8; letters 1`,
	"a full mailbox holds up no other": `
		routes 1:nora 1:max; start; max: full; lead A 4; wait 1m; nora took 1-4; stop
		max: up; start; wait 1m; nora took 1-4; max took 1-4`,

	// The stream and the store around it.
	"a stream that is missing at the start": `
		routes 1:a; no stream; start; wait 20s; stream; lead A; wait 1m; a took 1`,
	"a stream that is made again": `
		digest 20; lead A 50; wait 1m; routes 1:a; start; lead A 60; wait 1m; lead B; wait 1m; stop
		lead A; lead B; lead C; rebuild; start; wait 1m; a has 51-114
		rebuild; wait 30s; lead B; wait 30s; a has 51-115`,
	"a stream that is made again after more than is listed": `
		digest 200; routes 1:a; start; lead A 768; wait 2m; stop; lead A; rebuild; start; wait 2m; stop; rebuild; start; wait 2m; a took 1-769`,
	"a consumer that is deleted": `
		lead A 20; wait 1s; routes 1:a; start; lead A; wait 3s; no consumer; lead A; wait 1m; a took 21 22
		stop; no consumer; lead A; start; wait 1m; a took 21-23`,
	"a tail that is lost and offered again": `
		digest 200; routes 1:a; start; lead A; held A 5; lead A 512; wait 1m; lead A; wait 1m; resend; wait 1m; a has 1-519`,
	"a store that is restored beside a new forwarder": `
		held A 30; wait 1h; routes 1:a; start; wait 1s; resend; lead A; wait 1m; a took 31`,
	"a store that was set back while NATS was away": `
		pace 20ms; digest 20; routes 1:a; start; lead A 512; wait 3m; stop
		position 40; held A 100; wait 1s; start; publish; position 3000; lead A; wait 3m; a took 1-613
		stop; rebuild; start; lead A; wait 1m; a took 1-614`,
	"positions of another store say nothing": `
		digest 200; routes 1:a; start; lead A 768; wait 3m; stop; position 0; store moved; start; lead A 50; wait 3m; a took 1-818`,
	"without files the consumer counts": `
		routes 1:a; lead A; wait 1s; start; lead A; wait 1m; stop; lead A; no files; start; wait 1m; a took 2 3
		stop; rebuild; start; wait 1m; a took 2 3`,
	"without files and consumer it begins now": `
		routes 1:a; start; lead A; wait 1m; stop; lead A; no files; no consumer; start; lead A; wait 1m; a took 1 3`,
	"a name changes":        `routes 1:a; instance x; start; lead A; wait 1m; stop; lead A; instance y; start; lead A; wait 1m; a took 1-3`,
	"a dead letter is done": `routes 1:a; start; a: unfit; lead A 2; wait 1m; stop; a: up; rebuild; start; lead A; wait 1m; a took 3; letters 1 2`,

	// People who were erased.
	"erased while it is tried": `
		routes 1:a@>; start; a: down; lead A; wait 2m; erase 1; a: up; lead A; wait 20m; a took 2; letters`,
	"erased while it waits for another": `
		routes 1:a@>; start; a: full; lead A 2; wait 2m; erase 1; a: up; lead A; wait 20m; a took 1 3; letters`,
	"erased while the receiver wants silence": `
		routes 1:a@>; start; a: wait 30m; halt A; wait 1m; lead A; wait 2m; erase 1; a: up; lead A; wait 40m; a took 1 3; letters`,
	"lost with its stream, and not erased": `
		routes 1:a; start; a: down; halt A; lead A; wait 2m; no stream; a: up; wait 1h; a took 2`,
	"another stands at its place in another stream": `
		routes 1:a; start; a: down; halt A; lead A; wait 2m; no stream; stream; halt A; halt A; halt A; erase 2; a: up; wait 1h; a took 2`,

	// The table changes while leads wait.
	"a line is inserted above":          `routes 1:a/A 2:b; a: down; b: down; start; lead A; lead B; wait 1m; a: up; b: up; routes 1:c/A 2:a/A 3:b; wait 15m; a has; b has 2; c has 1; stop; rebuild; start; wait 15m; a has; b has 2; c has 1`,
	"two lines are swapped":             `routes 1:a/A 2:b; a: down; b: down; start; lead A; lead B; wait 1m; a: up; b: up; routes 1:b 2:a/A; wait 15m; a has; b has 1 2; stop; rebuild; start; wait 15m; b has 1 2`,
	"an address is replaced":            `routes 1:a/A 2:b; a: down; start; lead A; lead B; wait 1m; routes 1:c/A 2:b; wait 15m; a has; b has 2; c has 1`,
	"a line goes":                       `routes 1:a/A 2:b; a: down; start; lead A; lead B; wait 1m; routes 1:b; wait 15m; b has 1 2`,
	"two recipients become two others":  `routes 1:a 1:b; a: down; b: down; start; lead A; wait 1m; routes 1:c 1:d; wait 15m; a has; b has; c has 1; d has 1`,
	"one of two recipients is replaced": `routes 1:a 1:b; a: down; b: down; start; lead A; wait 1m; b: up; routes 1:c 1:b; wait 15m; a has; b has 1; c has 1`,
	"what waits at the second of two moves": `
		routes 1:a 1:b; b: full; start; lead A; wait 1m; stop; lead A; wait 1s; routes 1:c 1:d 1:e; start; lead A; wait 1m
		a has 1; c has 2 3; d has 1-3; e has 1-3`,
	"a kind takes the place of another":            `routes 1:a/A email.2:d/B; a: down; d: down; start; lead A; lead B; wait 1m; a: up; routes email.1:c/A 2:a/B; wait 15m; a has 2; c has 1; d has`,
	"one of two kinds goes":                        `routes 1:a email.1:b; a: down; b: down; start; lead A; wait 1m; routes email.1:c; wait 15m; c has 1`,
	"each kind gets another address":               `routes 1:a email.2:b; b: down; start; lead A; wait 1m; routes email.1:d 2:c; wait 15m; a has 1; c has; d has 1`,
	"what is added gets nothing old":               `routes 1:a; a: down; start; lead A; wait 1m; a: up; routes email.1:b 2:a 2:c; wait 15m; a has 1; b has; c has`,
	"types that are added begin with what is new":  `routes 1:a; start; lead A; gone A; wait 1s; routes 1:a@contact_request.created,insertion.>; wait 1m; gone A; wait 1m; a took 1 3`,
	"two addresses take over, one of them is down": `routes 1:a; a: down; d: down; start; lead A; wait 2s; routes 1:c 1:d; wait 2m; routes 1:c 1:d 2:a/X; wait 2m; d: up; wait 10m; c took 1; d took 1`,
	"a line is put back":                           `routes 1:a/A 2:b; start; lead A; wait 1m; routes 1:b; wait 15m; consumers b; lead A; wait 1m; routes 1:a/A 2:b; wait 2s; lead A; wait 1m; a took 1 3; b took 2`,
	"a line goes while the publisher is behind": `
		behind; routes 1:a; start; held A; wait 1s; routes 1:b; wait 20m; publish; wait 1m; b took 1
		on time; wait 11m; consumers b`,
	"a change before the forwarder has begun": `
		routes 1:a; no stream; start; wait 1m; stream; lead A; wait 1ms; routes 1:b; wait 1m; b took 1`,
	"a change while NATS is away": `
		routes 1:a; start; lead A; wait 1m; no stream; held A; wait 1s; routes 1:b/A 2:a; wait 10m; stream; held A; publish; wait 2m; a has 1; b has 2 3`,
	"a table that is read at a start while NATS is away": `
		routes 1:a; start; lead A; wait 1m; no stream; held A; wait 1s; stop; routes 1:b/A 2:a; start; wait 10m; stream; held A; publish; wait 2m; a has 1; b has 2 3`,

	// Leads that no line takes.
	"no line takes it any more": `
		routes 1:a; a: down; start; lead A; lead B; wait 1m; routes 1:b/B; wait 1h; lost 1; b has 2; stop; start; wait 1m; lost 1; routes 1:b; wait 1h; lost 0; b has 1 2`,
	"more than a worker fetches hold up no other": `
		routes 1:a; a: down; start; lead A 1005; lead B; wait 1s; routes 1:b/B; wait 2m; b took 1006`,
	"no line ever took it": `
		agencies A B; untaken; routes 1:a/A; lead B; wait 1s; start; lead A; halt B; lead C; wait 1m; untaken 0
		no consumer; wait 1m; untaken 0; lead B 2; wait 2s; untaken 2; routes 1:a/A 2:b/X; wait 1m; untaken 2
		stop; start; wait 1m; untaken 2; erase 1; wait 1m; untaken 1; routes 1:a/A 2:b/B; wait 1m; untaken 0
		lead B; wait 1m; a took 2; b took 7`,

	// What the status says of an event.
	"who has an event": `
		routes 1:a 1:b/A; lead A; wait 1s; b: down; start; lead A; lead B; halt A; held A; wait 1m
		event 1; event 2 a:listed b:waits; event 3 a:listed; event 4; event 5 a:waits b:waits
		b: unfit; wait 10m; event 2 a:listed b:listed; stop; start; event 2 a:listed b:listed; event 1`,
	"beyond the events that are listed": `
		digest 20; pace 0s; routes 1:a; start; lead A 768; wait 1m; held A; event 1 a:done; event 768 a:listed; event 769 a:waits`,
	"of receivers that were removed": `
		routes 1:a 1:b; b: down; start; lead A; wait 1m; event 1 a:listed b:waits; routes 1:a 1:c; wait 10m; lead A; wait 1m
		event 1 a:listed b:listed; event 2 a:listed c:listed; routes 1:a; wait 1h; routes 1:a/A; wait 1m; event 2 a:listed c:done`,
	"of one that goes nowhere any more": `
		routes 1:a 1:b; start; lead A; wait 1m; b: down; lead A; wait 1m; routes 1:a; wait 5m; event 1 a:listed b:listed; event 2 a:listed`,
}
