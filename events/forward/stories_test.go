package forward

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

	"github.com/nats-io/nats.go/jetstream"
)

// A story is a forwarder's life in lines. Events are numbered as they are published, from 1.
//
//	routes 1:a/A,B email.2:b!X@insertion.>   the table: forwarder, line, receiver, agencies, all but these, types
//	start, stop                              a forwarder; what it knows is in its files
//	crash sent 2; start; lead A; dead        the next one dies at a step, when it comes to it for the second time
//	agencies A B, instance x, untaken        options of the next one; since: its routes are read now
//	behind, on time                          whether events of the past may still be published
//	lead A [n], halt A, gone A               publishes leads, a halt, an insertion that disappeared
//	past A, stranger A                       leads that are not live, and what is no event
//	held A [n], publish, resend              leads that are recorded now, and published later
//	clock -1h                                of the daemon that records events
//	wait 1m                                  of virtual time
//	a: up | down | full | wait 4m | lost | refuses 2 | fails 2 | unfit [2] | wakes 2 | hangs     what a receiver answers from now on
//	a: slow 3m, a: forgets                   how long it takes; it has lost what it took
//	digest 20                                that a receiver takes 20 events as one message; pace 20ms
//	rebuild, no stream, stream, server, no consumer, other consumer, paused 1h, erase 1          what happens around it
//	no files, save, restore, no disk, disk   what happens to its files
//	no letters, letters allowed              whether it may make their stream
//	a took 1-3 5, a has 1-3 5                exactly these, in this order or in any
//	a once                                   all, in the order of their agencies, but for one delivery after each crash when it was sent
//	a called 3, a sent 1 20 20, a tried 8    how often, and how many events each time; paced 1s: never faster
//	letters 1 2, waiting a 3, untaken 2, lost 1, consumers a b
//	failing a 20m, alive 1m, says the words  the status: since when, its heartbeat, an error; logged the words
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
	disk      map[string][]byte // that a crash left, or a backup
	crash     func(*Forwarder)
	died      atomic.Bool
	doubles   int // deliveries that a crash may have doubled
}

// tell plays a story.
func tell(t *testing.T, text string) {
	t.Helper()
	bubble(t, func(t *testing.T) {
		s := &story{world: newWorld(t), receivers: map[string]*script{}, digest: 1, pace: time.Second, crash: func(*Forwarder) {}}
		s.o.Forwarders, s.o.Behind = []string{"slack", "email"}, s.behind.Load
		for n, line := range strings.Split(strings.TrimSpace(text), "\n") {
			for _, command := range strings.Split(line, ";") {
				if words := strings.Fields(command); len(words) > 0 {
					s.do(fmt.Sprintf("line %d, %s", n+1, strings.TrimSpace(command)), words[0], words[1:])
				}
			}
		}
		if strings.Contains(s.log.String(), "ecret") {
			t.Error("a person is in the log")
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

// ids are those of the events with these numbers.
func (s *story) ids(words []string) (ids []string) {
	for _, n := range s.numbers(words) {
		ids = append(ids, s.history[n-1].ID)
	}
	return ids
}

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	s.must(err)
	return d
}

// answer is what a receiver answers from now on.
func (s *story) answer(r *script, what string, about []string) {
	numbers := s.numbers(nil)
	if what != "wait" && what != "slow" {
		numbers = s.numbers(about)
	}
	tells := func(d Delivery) bool { // of the events at these positions
		return slices.ContainsFunc(d.Events, func(e events.Event) bool { return slices.Contains(numbers, int(e.Sequence)) })
	}
	with := func(err error) {
		r.will(func(d Delivery) error {
			if numbers == nil || tells(d) {
				return err
			}
			return nil
		})
	}
	switch what {
	case "up":
		r.up()
	case "down":
		r.down()
	case "full":
		with(&Retry{Receiver: true, Reason: "full"})
	case "wait":
		with(&Retry{After: s.duration(about[0]), Reason: "429"})
	case "lost":
		with(&Retry{Unanswered: true, Reason: "no answer in time"})
	case "refuses":
		with(&Refused{Reason: "422"})
	case "fails":
		with(&Retry{Reason: "500"})
	case "unfit":
		with(&Refused{Certain: true, Reason: "413"})
	case "wakes": // when it is sent this event
		r.will(func(d Delivery) error {
			if tells(d) {
				r.answer = nil
				return nil
			}
			return &Retry{Reason: "500"}
		})
	case "hangs": // once
		r.wait = func(ctx context.Context) { <-ctx.Done() }
		r.will(func(Delivery) error { r.wait, r.answer = nil, nil; return context.DeadlineExceeded })
	case "slow":
		r.wait = func(ctx context.Context) {
			if !sleep(ctx, s.duration(about[0])) {
				s.t.Error("a send was cut off")
			}
		}
	case "forgets":
		r.took = nil
	default:
		s.t.Fatalf("a receiver cannot be %s", what)
	}
}

// crashAt makes the next forwarder die when it reaches a step for the n-th time.
func (s *story) crashAt(step string, n int) {
	s.died.Store(false)
	s.crash = func(f *Forwarder) {
		f.cut = func(at string) error {
			if at == step {
				n--
			}
			if n != 0 && !s.died.Load() {
				return nil
			}
			if !s.died.Swap(true) {
				s.disk = s.files()
				if step == "sent" { // and it is not known
					s.doubles++
				}
			}
			return errCut
		}
	}
}

// dead waits for the crash, for at most 20 minutes, and leaves the disk as it was then.
func (s *story) dead() {
	for end := time.Now().Add(20 * time.Minute); !s.died.Load() && time.Now().Before(end); {
		time.Sleep(10 * time.Second)
	}
	err := s.stop()
	s.crash = func(*Forwarder) {}
	if !s.died.Load() {
		s.must(err)
		return
	}
	if !errors.Is(err, errCut) {
		s.t.Fatal(err)
	}
	s.restore()
}

// files are those of the forwarder, but for its lock.
func (s *story) files() map[string][]byte {
	all := map[string][]byte{}
	paths, err := filepath.Glob(filepath.Join(s.o.Dir, "forward", "*.json"))
	s.must(err)
	for _, path := range paths {
		all[path], err = os.ReadFile(path)
		s.must(err)
	}
	return all
}

func (s *story) restore() {
	for path := range s.files() {
		s.must(os.Remove(path))
	}
	for path, text := range s.disk {
		s.must(os.WriteFile(path, text, 0o600))
	}
}

// blocked is in the way of the file of receiver a.
func (s *story) blocked() string { return filepath.Join(s.o.Dir, "forward", "slack.a.json.new") }

func (s *story) do(where, verb string, words []string) {
	s.t.Helper()
	first, n := "", 1
	if len(words) > 0 {
		first = words[0]
	}
	if len(words) > 1 {
		n, _ = strconv.Atoi(words[1])
	}
	if name, ok := strings.CutSuffix(verb, ":"); ok {
		s.answer(s.receiver(name), first, words[min(1, len(words)):])
		return
	}
	switch verb {
	case "routes":
		s.o.Routes = s.table(words)
		if s.f != nil {
			s.f.Change(s.o.Routes, time.Now())
		}
	case "start":
		s.f, s.stop = s.start(s.crash)
	case "stop":
		begin := time.Now()
		s.must(s.stop())
		if took := time.Since(begin); took > 6*time.Second {
			s.t.Errorf("%s: it took %s", where, took)
		}
		s.f = nil
		time.Sleep(100 * time.Millisecond) // the server has forgotten the pull
	case "crash":
		s.crashAt(first, n)
	case "dead":
		s.dead()
		s.f = nil
	case "agencies":
		s.o.Agencies = func() []string { return words }
	case "instance":
		s.o.Instance = first
	case "since":
		s.o.Since = time.Now()
	case "behind", "on":
		s.behind.Store(verb == "behind")
	case "digest":
		s.digest, _ = strconv.Atoi(first)
	case "pace":
		s.pace = s.duration(first)
	case "clock":
		s.clock = s.duration(first)
	case "lead":
		s.leads(n, first)
	case "halt":
		s.halt(first, fmt.Sprint(len(s.history)))
	case "gone":
		s.publish(s.stamp(&events.InsertionDisappeared{
			Common: events.Common{AgencyID: first, ObservedAt: time.Now()}, PropertyReferenceID: fmt.Sprint(len(s.history)),
		}))
	case "past":
		for _, o := range []events.Origin{events.OriginBaseline, events.OriginReplay} {
			s.publish(s.stampLead(first).WithOrigin(o))
		}
	case "stranger":
		_, err := s.js.Publish(s.t.Context(), "listings.v1."+first+".contact_request.created", []byte("Secretname"))
		s.must(err)
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
		time.Sleep(s.duration(first))
	case "rebuild":
		s.rebuild()
	case "stream":
		s.makeStream()
	case "server":
		s.must(s.server.Restart(s.t.Context()))
	case "no":
		s.no(first)
	case "other": // a consumer that was made again, by one that died before it wrote its file
		c := s.consumer()
		s.must(s.js.DeleteConsumer(s.t.Context(), "LISTINGS", c.Durable))
		c.DeliverPolicy, c.OptStartTime = jetstream.DeliverAllPolicy, nil
		_, err := s.js.CreateConsumer(s.t.Context(), "LISTINGS", c)
		s.must(err)
	case "paused":
		_, err := s.js.PauseConsumer(s.t.Context(), "LISTINGS", consumer("a"), time.Now().Add(s.duration(first)))
		s.must(err)
	case "erase":
		last, _ := strconv.Atoi(first)
		s.erase(last)
	case "position":
		s.sequence, _ = strconv.ParseUint(first, 10, 64)
	case "store":
		s.store = first
	case "save":
		s.disk = s.files()
	case "restore":
		s.restore()
	case "disk":
		s.must(os.Remove(s.blocked()))
	default:
		s.want(where, verb, first, words, n)
	}
}

// no takes something away.
func (s *story) no(what string) {
	switch what {
	case "stream":
		s.must(s.js.DeleteStream(s.t.Context(), "LISTINGS"))
		time.Sleep(time.Second) // the folder is being removed
	case "consumer":
		for _, name := range consumerNames(s.t, s.world) {
			s.must(s.js.DeleteConsumer(s.t.Context(), "LISTINGS", name))
		}
	case "files":
		s.must(os.RemoveAll(filepath.Join(s.o.Dir, "forward")))
	case "disk":
		s.must(os.Mkdir(s.blocked(), 0o700))
	case "letters":
		s.o.Manage = false
	}
}

func (s *story) want(where, verb, first string, words []string, n int) {
	s.t.Helper()
	check := func(ok bool, got any) {
		s.t.Helper()
		if !ok {
			s.t.Errorf("%s: %+v", where, got)
		}
	}
	status := func(which func(WorkerStatus) bool) (sum WorkerStatus) {
		for _, w := range s.f.Status() {
			if which(w) {
				w.Waiting, w.Lost = w.Waiting+sum.Waiting, w.Lost+sum.Lost
				sum = w
			}
			check(w.Problem == "", w)
		}
		return sum
	}
	to := func(w WorkerStatus) bool { return w.Destination == first }
	switch verb {
	case "untaken":
		if first == "" {
			s.o.Untaken = true
			return
		}
		got := status(func(w WorkerStatus) bool { return w.Destination == "" })
		check(fmt.Sprint(got.Lost) == first, got)
	case "lost":
		got := status(func(w WorkerStatus) bool { return w.Destination != "" })
		check(fmt.Sprint(got.Lost) == first, got)
	case "waiting":
		got := status(to)
		check(got.Waiting == uint64(n) && got.WaitingSince.IsZero() == (n == 0), got)
	case "failing":
		got := status(to)
		check(time.Since(got.FailingSince) >= s.duration(words[1]) && time.Since(got.WaitingSince) >= s.duration(words[1]), got)
	case "alive":
		for _, w := range s.f.Status() {
			check(time.Since(w.Turned) <= s.duration(first), w)
		}
	case "says":
		check(strings.Contains(s.f.Status()[0].LastError, strings.Join(words, " ")), s.f.Status())
	case "logged":
		check(strings.Contains(s.log.String(), strings.Join(words, " ")), "it was not")
	case "letters":
		if first == "allowed" {
			s.must(EnsureDeadLetters(s.t.Context(), s.o.Conn, DeadLetterConfig("listings", "LISTINGS", time.Hour, 0), false))
			return
		}
		var got []string
		for _, l := range s.letters() {
			got = append(got, l.ID)
		}
		check(slices.Equal(got, s.ids(words)), s.letters())
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

// heard is what a receiver has received.
func (s *story) heard(where string, r *script, verb string, words []string, check func(bool, any)) {
	s.t.Helper()
	switch verb {
	case "took", "has":
		want, got := s.ids(words), r.ids()
		if verb == "has" {
			slices.Sort(got)
			slices.Sort(want)
		}
		var numbers []int
		for _, id := range r.ids() {
			numbers = append(numbers, 1+slices.IndexFunc(s.history, func(e events.Event) bool { return e.ID == id }))
		}
		check(slices.Equal(got, want), numbers)
	case "once":
		onceButFor(s.t, r, s.history, s.doubles)
	case "called":
		check(fmt.Sprint(r.called()) == words[0], r.called())
	case "sent":
		var got []string
		for _, d := range r.deliveries() {
			got = append(got, fmt.Sprint(len(d.Events)))
		}
		check(slices.Equal(got, words), got)
	case "tried":
		_, sizes := r.tries()
		check(fmt.Sprint(slices.Compact(slices.Clone(sizes))) == fmt.Sprint(words), sizes)
	case "paced":
		begun, _ := r.tries()
		for n := 1; n < len(begun); n++ {
			check(begun[n].Sub(begun[n-1]) >= s.duration(words[0]), begun[n-1:n+1])
		}
	default:
		s.t.Fatalf("%s: not a line of a story", where)
	}
}

// onceButFor wants every event, the first time in the order of its agency, and at most n repeated deliveries.
func onceButFor(t *testing.T, s *script, want []events.Event, doubles int) {
	t.Helper()
	seen, order, again := map[string]bool{}, map[string]uint64{}, 0
	for _, d := range s.deliveries() {
		repeated := false
		for _, e := range d.Events {
			switch {
			case seen[e.ID]:
				repeated = true
			case e.Sequence <= order[e.AgencyID]:
				t.Errorf("%s: %d comes after %d", e.AgencyID, e.Sequence, order[e.AgencyID])
			}
			seen[e.ID], order[e.AgencyID] = true, max(e.Sequence, order[e.AgencyID])
		}
		if repeated {
			again++
		}
	}
	for _, e := range want {
		if !seen[e.ID] {
			t.Errorf("event %d did not arrive", e.Sequence)
		}
	}
	if len(seen) != len(want) || again > doubles {
		t.Errorf("%d events, want %d; %d deliveries arrived twice, want at most %d", len(seen), len(want), again, doubles)
	}
}

func TestStories(t *testing.T) {
	for name, text := range stories {
		t.Run(name, func(t *testing.T) { tell(t, text) })
	}
}

func TestKilledAtEveryStepNoLeadIsLostAndAtMostOneIsDoubled(t *testing.T) {
	for _, step := range []string{"sent", "marked", "done"} {
		for at := 1; at <= 3; at++ {
			for _, backlog := range []int{3, 30} {
				t.Run(fmt.Sprintf("%s %d of %d", step, at, backlog), func(t *testing.T) {
					tell(t, fmt.Sprintf(`digest 10; routes 1:a; start; stop; crash %s %d; start; lead A %d; dead
						start; wait 5m; stop; a once`, step, at, backlog))
				})
			}
		}
	}
}

// TestAnyScheduleOfCrashesLosesNothing makes a receiver, a forwarder, a consumer and the stream fail as a seed decides.
func TestAnyScheduleOfCrashesLosesNothing(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		pick := func(of ...string) string { return of[r.IntN(len(of))] }
		text := fmt.Sprintf("digest %d; routes 1:a; start; stop\n", []int{0, 10}[seed%2])
		for range 6 {
			text += fmt.Sprintf("a: %s; crash %s %d; start", pick("up", "up", "down"), pick("sent", "marked", "done"), 1+r.IntN(4))
			for range r.IntN(12) {
				text += fmt.Sprintf("; lead %s; wait %ds", pick("A", "B", "C"), r.IntN(3))
			}
			text += "; dead" + pick("; no consumer", "; rebuild", "; server; wait 10s", "") + "\n"
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			tell(t, text+"a: up; start; wait 20m; stop; a once")
		})
	}
}

var stories = map[string]string{
	// Order, digests, and what becomes of a message.
	"one by one, in order, across a restart": `
		digest 20; routes 1:a; start; lead A; wait 2s; lead B; wait 2s; lead A; wait 1m; stop
		start; wait 1m; a took 1-3; a sent 1 1 1; waiting a 0`,
	"an hour's outage": `
		digest 20; routes 1:a; start; a: down; lead A; wait 20m; lead B 9; wait 40m; waiting a 10; letters
		a: wakes 1; wait 7m; a took 1-10; waiting a 0; letters`,
	"more are waiting than one message holds": `
		digest 20; routes 1:a; start; stop; lead A 47; start; wait 1m; a took 1-47; a sent 20 20 7`,
	"five make no digest":                                  `digest 20; routes 1:a; start; stop; lead A 5; start; wait 1m; a took 1-5; a sent 1 1 1 1 1`,
	"leads and alerts do not share a digest":               `digest 20; routes 1:a@>; start; stop; lead A 8; halt A; halt B; halt C; halt D; halt E; halt F; start; wait 1m; a sent 8 6`,
	"events of other agencies lie between those of a line": `digest 20; routes 1:a!X; start; stop; lead A 10; lead X 5; lead A 10; start; wait 1m; a took 1-10 16-25; a sent 20`,
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
	"possibly delivered": `
		digest 20; routes 1:a; start; stop; lead A 8; a: lost; start; wait 10m; a called 3; letters 1-8
		a: up; stop; start; wait 1m; a took`,
	"no response, and then a refusal": `
		digest 20; routes 1:a; start; stop; lead A 8; a: lost; start; a: refuses 1; wait 10m; a has 2-8; letters 1`,
	"a full mailbox delays no other": `
		routes 1:nora 1:max; start; max: full; lead A 4; wait 1m; nora took 1-4; stop
		max: up; start; wait 1m; nora took 1-4; max took 1-4`,

	"tried once more after the receiver took another": `routes 1:a; start; a: wakes 2; lead A 2; wait 1h; a has 1 2; letters`,
	"a delivery that is tried again is the same": `
		digest 20; routes 1:a; start; stop; lead A 8; a: down; start; wait 1m; lead A 8; wait 5m; a tried 8`,
	"a dead letter that cannot be written keeps the message": `
		no letters; routes 1:a; a: unfit; start; lead A; wait 1h; waiting a 1; says no dead letter can be written
		letters allowed; wait 7m; waiting a 0; letters 1`,
	"a refused one without a dead letter lets the others pass": `
		no letters; routes 1:a; a: refuses 1; start; lead A 10; wait 24h; a took 2-10`,
	"one that is too large and has no dead letter": `
		no letters; routes 1:a; a: unfit 1; start; lead A 10; wait 24h; a took 2-10`,
	"a slow send is not repeated":                  `routes 1:a; a: slow 55s; start; lead A; wait 10m; a took 1; a called 1`,
	"a send that never ends is cut":                `routes 1:a; a: hangs; start; lead A; wait 5m; a took 1; logged no answer in time`,
	"a send under way at the stop is finished":     `routes 1:a; a: slow 4s; start; lead A; wait 1s; stop; a: slow 0s; start; wait 1m; a took 1; a called 1`,
	"a receiver has one pace":                      `routes 1:a@>; start; lead A; halt A; lead A; halt A; lead A; halt A; wait 1m; a called 6; a paced 1s`,
	"anything but a live event is skipped":         `routes 1:a; start; stranger A; past A; lead A; wait 1m; a took 3; waiting a 0`,
	"messages that wait on the server are counted": `routes 1:a; start; paused 1h; lead A 3; wait 2m; waiting a 3; wait 1h; waiting a 0; a took 1-3`,
	"a worker is alive whatever it waits for": `
		routes 1:a@>; start; wait 10m; alive 1m; wait 10m; alive 1m; a: wait 60m; lead A; halt A; wait 30m; alive 150m; wait 2h; alive 150m`,

	// Crashes.
	"killed after a letter":         `routes 1:a; a: unfit; crash dead 1; start; lead A; dead; wait 3h; start; lead A; wait 5m; letters 1 2`,
	"killed after a letter is done": `routes 1:a; a: unfit; crash done 1; start; lead A; dead; wait 3h; start; lead A; wait 5m; letters 1 2`,
	"the message in hand is redelivered within 30 s": `
		routes 1:a; crash sent 1; start; lead A; dead; a: forgets; start; wait 31s; a took 1`,
	"a connection breaks with a message in hand": `
		routes 1:a; start; a: down; lead A; wait 20s; lead A 306; stop; server; a: up; start; server; wait 10m; a took 1-307`,
	"a connection breaks, with digests": `
		digest 20; routes 1:a; start; a: down; lead A; wait 20s; lead A 306; stop; server; a: up; start; server; wait 10m; a took 1-307`,
	"killed while a consumer is recreated": `
		digest 20; lead A 50; wait 1s; routes 1:a; start; lead A; wait 1m; stop; other consumer; lead A; start; wait 1m; a took 51 52`,
	"its file cannot be written": `
		routes 1:a; start; lead A; wait 1s; stop; start; no disk; lead A 50; wait 5m; stop; disk; start; lead A; wait 5m; a took 1-52`,
	"its file is restored from a backup": `
		routes 1:a; start; lead A; wait 1s; stop; save; start; lead A 50; wait 5m; stop; restore; start; lead A; wait 5m; a took 1-52`,

	// The stream and the store around it.
	"the daemon's clock is behind": `routes 1:a; start; clock -1h; lead A 3; wait 1m; a took 1-3`,
	"events after the routes were read are new": `
		routes 1:a; lead A; wait 1m; since; lead A; wait 8s; start; lead A; wait 1m; a took 2 3`,
	"a stream that is missing at the start": `
		routes 1:a; no stream; start; wait 20s; stream; lead A; wait 1m; a took 1`,
	"a recreated stream": `
		digest 20; lead A 50; wait 1m; routes 1:a; start; lead A 60; wait 1m; lead B; wait 1m; stop
		lead A; lead B; lead C; rebuild; start; wait 1m; a has 51-114
		rebuild; wait 30s; lead B; wait 30s; a has 51-115`,
	"a stream that is recreated after more events than are listed": `
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
	"positions of another store mean nothing": `
		digest 200; routes 1:a; start; lead A 768; wait 3m; stop; position 0; store moved; start; lead A 50; wait 3m; a took 1-818`,
	"without files the consumer counts": `
		routes 1:a; lead A; wait 1s; start; lead A; wait 1m; stop; lead A; no files; start; wait 1m; a took 2 3
		stop; rebuild; start; wait 1m; a took 2 3`,
	"without files and consumer it starts now": `
		routes 1:a; start; lead A; wait 1m; stop; lead A; no files; no consumer; start; lead A; wait 1m; a took 1 3`,
	"a name changes":        `routes 1:a; instance x; start; lead A; wait 1m; stop; lead A; instance y; start; lead A; wait 1m; a took 1-3`,
	"a dead letter is done": `routes 1:a; start; a: unfit; lead A 2; wait 1m; stop; a: up; rebuild; start; lead A; wait 1m; a took 3; letters 1 2`,

	// People who were erased.
	"erased while it is tried": `
		routes 1:a@>; start; a: down; lead A; wait 2m; erase 1; a: up; lead A; wait 20m; a took 2; letters`,
	"erased while it waits for another": `
		routes 1:a@>; start; a: full; lead A 2; wait 2m; erase 1; a: up; lead A; wait 20m; a took 1 3; letters`,
	"erased while the receiver asks to wait": `
		routes 1:a@>; start; a: wait 30m; halt A; wait 1m; lead A; wait 2m; erase 1; a: up; lead A; wait 40m; a took 1 3; letters`,
	"lost with its stream, and not erased": `
		routes 1:a; start; a: down; halt A; lead A; wait 2m; no stream; a: up; wait 1h; a took 2`,
	"another event takes its place in another stream": `
		routes 1:a; start; a: down; halt A; lead A; wait 2m; no stream; stream; halt A; halt A; halt A; erase 2; a: up; wait 1h; a took 2`,

	// The table changes while leads wait.
	"a line is inserted above":          `routes 1:a/A 2:b; a: down; b: down; start; lead A; lead B; wait 1m; a: up; b: up; routes 1:c/A 2:a/A 3:b; wait 15m; a has; b has 2; c has 1; stop; rebuild; start; wait 15m; a has; b has 2; c has 1`,
	"two lines are swapped":             `routes 1:a/A 2:b; a: down; b: down; start; lead A; lead B; wait 1m; a: up; b: up; routes 1:b 2:a/A; wait 15m; a has; b has 1 2; stop; rebuild; start; wait 15m; b has 1 2`,
	"an address is replaced":            `routes 1:a/A 2:b; a: down; start; lead A; lead B; wait 1m; routes 1:c/A 2:b; wait 15m; a has; b has 2; c has 1`,
	"a line is removed":                 `routes 1:a/A 2:b; a: down; start; lead A; lead B; wait 1m; routes 1:b; wait 15m; b has 1 2`,
	"two recipients become two others":  `routes 1:a 1:b; a: down; b: down; start; lead A; wait 1m; routes 1:c 1:d; wait 15m; a has; b has; c has 1; d has 1`,
	"one of two recipients is replaced": `routes 1:a 1:b; a: down; b: down; start; lead A; wait 1m; b: up; routes 1:c 1:b; wait 15m; a has; b has 1; c has 1`,
	"leads that wait at the second of two receivers move": `
		routes 1:a 1:b; b: full; start; lead A; wait 1m; stop; lead A; wait 1s; routes 1:c 1:d 1:e; start; lead A; wait 1m
		a has 1; c has 2 3; d has 1-3; e has 1-3`,
	"a kind replaces another":                      `routes 1:a/A email.2:d/B; a: down; d: down; start; lead A; lead B; wait 1m; a: up; routes email.1:c/A 2:a/B; wait 15m; a has 2; c has 1; d has`,
	"one of two kinds is removed":                  `routes 1:a email.1:b; a: down; b: down; start; lead A; wait 1m; routes email.1:c; wait 15m; c has 1`,
	"each kind gets another address":               `routes 1:a email.2:b; b: down; start; lead A; wait 1m; routes email.1:d 2:c; wait 15m; a has 1; c has; d has 1`,
	"an added line gets nothing old":               `routes 1:a; a: down; start; lead A; wait 1m; a: up; routes email.1:b 2:a 2:c; wait 15m; a has 1; b has; c has`,
	"added types start with new events":            `routes 1:a; start; lead A; gone A; wait 1s; routes 1:a@contact_request.created,insertion.>; wait 1m; gone A; wait 1m; a took 1 3`,
	"two addresses take over, one of them is down": `routes 1:a; a: down; d: down; start; lead A; wait 2s; routes 1:c 1:d; wait 2m; routes 1:c 1:d 2:a/X; wait 2m; d: up; wait 10m; c took 1; d took 1`,
	"a line is put back":                           `routes 1:a/A 2:b; start; lead A; wait 1m; routes 1:b; wait 15m; consumers b; lead A; wait 1m; routes 1:a/A 2:b; wait 2s; lead A; wait 1m; a took 1 3; b took 2`,
	"a line is removed while the publisher is behind": `
		behind; routes 1:a; start; held A; wait 1s; routes 1:b; wait 20m; publish; wait 1m; b took 1
		on time; wait 11m; consumers b`,
	"a change before the forwarder has begun": `
		routes 1:a; no stream; start; wait 1m; stream; lead A; wait 1ms; routes 1:b; wait 1m; b took 1`,
	"a change while NATS is away": `
		routes 1:a; start; lead A; wait 1m; no stream; held A; wait 1s; routes 1:b/A 2:a; wait 10m; stream; held A; publish; wait 2m; a has 1; b has 2 3`,
	"a table that is read at startup while NATS is away": `
		routes 1:a; start; lead A; wait 1m; no stream; held A; wait 1s; stop; routes 1:b/A 2:a; start; wait 10m; stream; held A; publish; wait 2m; a has 1; b has 2 3`,

	"Retry-After outlives changes":                         `routes 1:a; start; a: wait 30m; lead A; routes 1:b/Z 2:a; wait 90s; routes 1:a; wait 25m; a called 1`,
	"a possibly delivered lead is tried three times":       `routes 1:a; start; a: lost; lead A; wait 2s; routes 1:b/Z 2:a; wait 90s; routes 1:a; wait 25m; a called 3; letters 1`,
	"a receiver has been failing since before the changes": `routes 1:a; start; a: full; lead A; wait 1m; routes 1:b/Z 2:a; wait 90s; routes 1:a; wait 25m; failing a 20m`,
	"a send under way outlives changes":                    `routes 1:a; start; a: slow 50s; lead A; wait 1s; routes 1:b/Z 2:a; wait 90s; routes 1:a; wait 25m; a called 1; a took 1`,

	// Leads that no line takes.
	"no line takes it any longer": `
		routes 1:a; a: down; start; lead A; lead B; wait 1m; routes 1:b/B; wait 1h; lost 1; b has 2; stop; start; wait 1m; lost 1; routes 1:b; wait 1h; lost 0; b has 1 2`,
	"more than a worker fetches delay no other": `
		routes 1:a; a: down; start; lead A 1005; lead B; wait 1s; routes 1:b/B; wait 2m; b took 1006`,
	"no line ever took it": `
		agencies A B; untaken; routes 1:a/A; lead B; wait 1s; start; lead A; halt B; lead C; wait 1m; untaken 0
		no consumer; wait 1m; untaken 0; lead B 2; wait 2s; untaken 2; routes 1:a/A 2:b/X; wait 1m; untaken 2
		stop; start; wait 1m; untaken 2; erase 1; wait 1m; untaken 1; routes 1:a/A 2:b/B; wait 1m; untaken 0
		lead B; wait 1m; a took 2; b took 7`,

	// What the status reports of an event.
	"which receivers have an event": `
		routes 1:a 1:b/A; lead A; wait 1s; b: down; start; lead A; lead B; halt A; held A; wait 1m
		event 1; event 2 a:listed b:waits; event 3 a:listed; event 4; event 5 a:waits b:waits
		b: unfit; wait 10m; event 2 a:listed b:listed; stop; start; event 2 a:listed b:listed; event 1`,
	"beyond the events that are listed": `
		digest 20; pace 0s; routes 1:a; start; lead A 768; wait 1m; held A; event 1 a:done; event 768 a:listed; event 769 a:waits`,
	"of receivers that were removed": `
		routes 1:a 1:b; b: down; start; lead A; wait 1m; event 1 a:listed b:waits; routes 1:a 1:c; wait 10m; lead A; wait 1m
		event 1 a:listed b:listed; event 2 a:listed c:listed; routes 1:a; wait 1h; routes 1:a/A; wait 1m; event 2 a:listed c:done`,
	"of an event that no longer goes anywhere": `
		routes 1:a 1:b; start; lead A; wait 1m; b: down; lead A; wait 1m; routes 1:a; wait 5m; event 1 a:listed b:listed; event 2 a:listed`,
}
