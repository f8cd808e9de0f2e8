package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/cli"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
	"doorbell/poller/sandbox"
)

// lead is a person of a test, with words that occur nowhere else.
type lead struct {
	email, phone string
	texts        []string // whatever of the person may stand in a file
}

func newLead(name, phone string) lead {
	email := strings.ToLower(name) + sandbox.Marker + "@example.org"
	return lead{email: email, phone: phone, texts: []string{email, name + sandbox.Marker, "Gruss von " + name, phone}}
}

func (l lead) request(more string) sandbox.ContactRequest {
	return sandbox.ContactRequest{
		FirstName: "Nora", LastName: l.texts[1], Email: l.email, Phone: l.phone, Message: l.texts[2] + more + sandbox.Marker, Status: "NEW",
	}
}

// erasureScene is a scene in which two people wrote about three insertions each, were refused by a
// receiver, and were replayed.
type erasureScene struct {
	doorbelltest.Scene
	gone, stays lead
	ids         []string // of contact requests of the person to erase
}

// tooLong is more than a message may hold.
const tooLong = 1_200_000

// newErasureScene is the scene in which the longest contact request of the person to erase has the given
// number of bytes, with a daemon that runs.
func newErasureScene(t *testing.T, longest int) (m erasureScene, d *doorbelltest.Child, hook *doorbelltest.Place) {
	t.Helper()
	m = erasureScene{
		Scene: doorbelltest.NewScene(t, "A100"), gone: newLead("Vergissmeinnicht", "079 311 22 33"), stays: newLead("Bleibtreu", "079 444 55 66"),
	}
	hook = doorbelltest.NewPlace(t)
	hook.Status = http.StatusRequestEntityTooLarge
	m.Environ = m.With("DOORBELL_POLL_INTERVAL=300ms", "DOORBELL_WALK_INTERVAL=300ms", // or most of the time would go into polls
		doorbelltest.RoutesFile(t, ";webhook:"+strings.TrimPrefix(hook.Webhook(), "DOORBELL_WEBHOOK_URL=")))
	d, url := m.start(t)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	for _, person := range []lead{m.stays, m.gone} {
		m.ids = nil
		for n, i := range m.Model.Truth().Insertions[:3] {
			more := ""
			if person.email == m.gone.email && n == 0 {
				more = strings.Repeat("y", longest)
			}
			id, err := m.Model.AddContactRequest("A100", i.Reference, person.request(more))
			must(t, err)
			sub.Request(t, id)
			m.ids = append(m.ids, id)
		}
		m.answered(t, m.ids[1])
		sub.Event(t, "contact_request.changed", "A100")
	}
	doorbelltest.Eventually(t, "six dead letters", func() bool {
		return strings.Count(doorbelltest.Run(t, m.Environ, "dlq", "ls").Stdout, "contact_request.created") == 6
	})
	doorbelltest.Eventually(t, "the log knows what is published", func() bool {
		return !strings.Contains(doorbelltest.Run(t, m.Environ, "events", "ls").Stdout, "(waits)")
	})
	m.runs(t, exit.Done, "replay", "--job", "before", "--type", "contact_request.>")
	return m, d, hook
}

// answered changes a contact request at the API.
func (m erasureScene) answered(t *testing.T, id string) {
	t.Helper()
	must(t, m.Model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Status = "READ" }))
}

func (m erasureScene) start(t *testing.T) (d *doorbelltest.Child, url string) {
	t.Helper()
	d = doorbelltest.Launch(t, m.Environ, "run")
	return d, doorbelltest.NatsURL(t, m.Dir)
}

// runs runs a command, which must end with this code.
func (m erasureScene) runs(t *testing.T, code int, args ...string) doorbelltest.Result {
	t.Helper()
	got := doorbelltest.Run(t, m.Environ, args...)
	if got.Code != code {
		t.Errorf("%q: exit code %d, want %d: %s", args, got.Code, code, got.Stderr)
	}
	return got
}

// forget erases the person, and returns the receipt.
func (m erasureScene) forget(t *testing.T, by, value string) (r people.Receipt) {
	t.Helper()
	got := m.runs(t, exit.Done, "forget", by, value, "--yes", "--json")
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || r.Finished.IsZero() {
		t.Fatalf("%s\n%s", got.Stdout, got.Stderr)
	}
	return r
}

// nothingLeft wants nothing to forget or to export. Without a daemon it opens the store, and so
// compacts it.
func (m erasureScene) nothingLeft(t *testing.T) {
	t.Helper()
	m.runs(t, exit.CodeFailed, "export", "--email", m.gone.email)
}

// TestWhoWasForgottenIsInNoFile is the proof of the page on privacy: with the daemon, after its
// end, after a restart, and in a backup that is put back.
func TestWhoWasForgottenIsInNoFile(t *testing.T) {
	t.Parallel()
	m, d, hook := newErasureScene(t, tooLong)
	backup := filepath.Join(doorbelltest.ShortDir(t), "before.db")
	m.runs(t, exit.Done, "backup", backup)
	for who, person := range map[string]lead{"the one who stays": m.stays, "the one who goes": m.gone} {
		in := map[string]bool{}
		for _, found := range traces(t, m.Dir, person.texts) {
			folder, _, _ := strings.Cut(found.file, "/")
			in[folder] = true
		}
		if !in["doorbell.db"] || !in["jetstream"] {
			t.Fatalf("before: %s is found in %v alone", who, in)
		}
	}
	url := doorbelltest.NatsURL(t, m.Dir)
	_, js := doorbelltest.Connected(t, url)
	durable, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy})
	must(t, err)
	doorbelltest.NextOf(t, durable)

	dry := m.runs(t, exit.Done, "forget", "--email", m.gone.email, "--dry-run")
	doorbelltest.Has(t, dry.Stdout, m.ids[0], m.ids[1], m.ids[2], "4 in the event log, 4 in the stream, 4 replayed, 3 dead letters")
	m.runs(t, exit.CodeUsage, "forget", "--email", m.gone.email) // without --yes and a person at the terminal
	r := m.forgetWhileReplayed(t, hook)
	if r.Erased["log"] != 4 || r.Erased["stream"] != 4 || r.Erased["replays"] != 4 || r.Erased["deadLetters"] != 3 || len(r.Requests) != 3 {
		t.Errorf("erased: %v", r.Erased)
	}
	m.mustBeGone(t, "while the daemon runs", daemonStore)

	// The API shows the person as before, and changes what it shows.
	m.answered(t, m.ids[2])
	m.GoesOn(t, "A100", 30)
	last := m.Ring(t, "A100")
	doorbelltest.SubscribeTo(t, url).Request(t, last)
	m.mustBeErased(t, url)
	for doorbelltest.NextOf(t, durable).Body.ContactRequestID != last {
	}
	m.runs(t, exit.CodeFailed, "forget", "--dry-run", "--email", m.gone.email)
	m.nothingLeft(t)
	m.runs(t, exit.Done, "replay", "--job", "after", "--type", "contact_request.>")
	m.runs(t, exit.Done, "verify", "--json")
	m.mustBeGone(t, "after polls and a replay", daemonStore)
	d.Stop(t)
	m.mustBeGone(t, "after the end", daemonStore)

	d, _ = m.start(t)
	m.GoesOn(t, "A100", 30)
	m.mustBeGone(t, "after a restart")
	d.Stop(t)

	text, err := os.ReadFile(backup)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.Dir, daemonStore), text, 0o600)
	}
	must(t, err)
	d, url = m.start(t)
	d.Stderr.Await(t, "the store held data of erased people: it is erased again")
	d.Stderr.Await(t, "erasure finished")
	m.GoesOn(t, "A100", 30)
	doorbelltest.SubscribeTo(t, url).Request(t, m.Ring(t, "A100"))
	m.mustBeGone(t, "in the backup that was put back", daemonStore)
	m.mustBeErased(t, url)
	d.Stop(t)
	d, _ = m.start(t)
	m.mustBeGone(t, "after the next start of the restored one")
	d.Stop(t)
	m.runs(t, exit.Done, "verify")
}

// atFirst does something before it takes the first text.
type atFirst struct {
	bytes.Buffer
	do func()
}

func (a *atFirst) Write(p []byte) (int, error) {
	if a.Len() == 0 {
		a.do()
	}
	return a.Buffer.Write(p)
}

// forgetWhileReplayed erases the person while two replays are at the first event, which is of the
// other person, and wants none of them, nor a later one, to name the erased person.
func (m erasureScene) forgetWhileReplayed(t *testing.T, hook *doorbelltest.Place) (r people.Receipt) {
	t.Helper()
	// Not about the insertion with the long messages: a reader that waits for a receiver leaves them
	// in the daemon, which waits 30 s.
	replay := []string{"replay", "--type", "contact_request.created", "--insertion", m.Model.Truth().Insertions[1].Reference, "--to"}
	hook.Answer(http.StatusServiceUnavailable)
	sending := doorbelltest.Launch(t, m.Environ, append(replay, "webhook")...)
	sending.Stderr.Await(t, "webhook failed; retrying")
	out := &atFirst{do: func() { r = m.forget(t, "--email", strings.ToUpper(m.gone.email)) }}
	if code := cli.Main(t.Context(), append(replay, "-"), strings.NewReader(""), out, io.Discard, m.Environ); code != exit.Done {
		t.Errorf("exit code %d of a replay to standard output", code)
	}
	if n := len(doorbelltest.Lines(out.String())); n != 1 || strings.Contains(out.String(), m.gone.email) {
		t.Errorf("a replay to standard output has %d contact requests, want one, and none of an erased person", n)
	}
	hook.Answer(http.StatusOK)
	if code := sending.Exit(t); code != exit.Done || sending.Stdout.String() != "1 event sent to webhook; refused: 0\n" {
		t.Errorf("exit code %d: %s\n%s", code, sending.Stdout.String(), sending.Stderr.String())
	}
	posts := hook.Hooked("contact_request.created")
	if len(posts) != 1 || strings.Contains(posts[0].Body, m.gone.email) {
		t.Errorf("%d contact requests arrived, want one, and none of an erased person", len(posts))
	}
	shown := doorbelltest.Run(t, m.Environ, "replay", "--type", "contact_request.created", "--to", "-")
	if n := len(doorbelltest.Lines(shown.Stdout)); n != 3 {
		t.Errorf("%d events would be replayed", n)
	}
	return r
}

// Files that may hold a person for a while: before the next start, which compacts the store, its
// free pages; where the server was interrupted while it erased, its own files.
const (
	daemonStore = "doorbell.db"
	streamFiles = "jetstream/"
)

// mustBeGone wants nothing of the one in any file but these, and the other one still there.
func (m erasureScene) mustBeGone(t *testing.T, when string, but ...string) {
	t.Helper()
	control := false
	for _, found := range traces(t, m.Dir, slices.Concat(m.gone.texts, m.stays.texts)) {
		excused := slices.ContainsFunc(but, func(file string) bool {
			return found.file == file || file == streamFiles && strings.HasPrefix(found.file, file)
		})
		switch {
		case found.text >= len(m.gone.texts):
			control = true
		case !excused:
			t.Errorf("%s the person is in %s, %s", when, found.file, found.form)
		}
	}
	if !control {
		t.Errorf("%s the search does not even find the person who stays", when)
	}
}

// mustBeErased checks what stream and log hold of a forgotten person: nothing in the stream
// but one redaction of each contact request, everything else once and in order, and a log without
// gap.
func (m erasureScene) mustBeErased(t *testing.T, url string) {
	t.Helper()
	var all []doorbelltest.Message
	doorbelltest.Eventually(t, "the redactions are published", func() bool { // the relay of this life may not have made the stream yet
		var err error
		if all, err = doorbelltest.ReadStream(t.Context(), url); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			t.Fatal(err)
		}
		return m.kindsOfGone(all)["contact_request.redacted"] >= 3
	})
	ids, last := map[string]bool{}, ""
	for _, message := range all {
		sequence := message.Header.Get("ce-sequence")
		if id := message.Header.Get("ce-id"); ids[id] || sequence <= last {
			t.Errorf("event %s of the stream is doubled or not in order", sequence)
		} else {
			ids[id], last = true, sequence
		}
	}
	if kinds := m.kindsOfGone(all); len(kinds) != 1 || kinds["contact_request.redacted"] != 3 {
		t.Errorf("the stream names the person in %v, want three redactions", kinds)
	}
	erased, before := 0, uint64(0)
	for line := range strings.Lines(doorbelltest.Run(t, m.Environ, "events", "ls", "--limit", "0", "--json").Stdout) {
		var e events.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Sequence <= before {
			t.Fatalf("in the log sequence %d follows %d, %v", e.Sequence, before, err != nil)
		}
		if before = e.Sequence; e.Erased() {
			erased++
		}
	}
	if erased != 4 {
		t.Errorf("%d events of the log are erased, want 4", erased)
	}
}

// kindsOfGone are the events of the erased person, by type.
func (m erasureScene) kindsOfGone(all []doorbelltest.Message) map[string]int {
	kinds := map[string]int{}
	for _, message := range all {
		if slices.Contains(m.ids, message.Body.ContactRequestID) {
			kinds[message.Kind()]++
		}
	}
	return kinds
}

func TestWithoutADaemonAPersonIsForgottenByThePhoneNumber(t *testing.T) {
	t.Parallel()
	m, d, _ := newErasureScene(t, tooLong)
	d.Stop(t)
	got := doorbelltest.Run(t, m.Environ, "export", "--phone", "+41 79 311 22 33")
	var held struct{ Events []people.Exported }
	if err := json.Unmarshal([]byte(got.Stdout), &held); err != nil || len(held.Events) != 8 {
		t.Fatalf("exit %d, %d events, want four and their replays", got.Code, len(held.Events))
	}
	if r := m.forget(t, "--phone", "0793112233"); r.FreePages != people.Compacted {
		t.Errorf("the receipt says of free pages %q", r.FreePages)
	}
	m.mustBeGone(t, "after a command without daemon")
	d, url := m.start(t)
	m.GoesOn(t, "A100", 30)
	m.mustBeErased(t, url)
	m.mustBeGone(t, "after the next start")
	d.Stop(t)
}

// TestWhoWasForgottenIsNotAnnouncedAgainByAStoreThatWasLost loses the store beside the stream, with
// the receipts and without: then the redactions in the stream show who was erased.
func TestWhoWasForgottenIsNotAnnouncedAgainByAStoreThatWasLost(t *testing.T) {
	t.Parallel()
	m, d, _ := newErasureScene(t, 20_000)
	m.forget(t, "--email", m.gone.email)
	for _, lost := range [][]string{{daemonStore}, {daemonStore, people.Folder}} {
		d.Stop(t)
		for _, name := range lost {
			must(t, os.RemoveAll(filepath.Join(m.Dir, name)))
		}
		url := ""
		d, url = m.start(t)
		sub := doorbelltest.SubscribeTo(t, url)
		m.GoesOn(t, "A100", 30)
		sub.Request(t, m.Ring(t, "A100")) // by then all contact requests have been read
		m.GoesOn(t, "A100", 30)
		all, err := doorbelltest.ReadStream(t.Context(), url)
		must(t, err)
		others := slices.DeleteFunc(slices.Clone(all), func(message doorbelltest.Message) bool {
			return slices.Contains(m.ids, message.Body.ContactRequestID) || message.Kind() != "contact_request.created"
		})
		if kinds := m.kindsOfGone(all); len(kinds) != 1 || kinds["contact_request.redacted"] != 3 || len(others) < 4 {
			t.Errorf("without %q the stream names the person in %v, and has %d others", lost, kinds, len(others))
		}
		m.mustBeGone(t, "after the store was lost", daemonStore)
	}
	d.Stop(t)
	m.nothingLeft(t)
	m.mustBeGone(t, "after the next start")
}

// TestAFaultAtAnyCallOfForgetIsFinishedByTheNextStart strikes one call by which `doorbell forget`
// changes a file; the next start has to finish what has begun. All of them:
// `go test ./cmd/doorbell/torture -run TestAFaultAtAnyCallOfForget -rounds 1000 -timeout 2h -v`.
func TestAFaultAtAnyCallOfForgetIsFinishedByTheNextStart(t *testing.T) {
	t.Parallel()
	m, d, _ := newErasureScene(t, 20_000) // more pages of the store would be more calls of one kind
	d.Stop(t)
	forget := func(t *testing.T, tr *tracer) erasureScene {
		s, output := m.copied(t), &bytes.Buffer{}
		tr.below = s.Dir
		tr.mustRun(t, s.Environ, output, "forget", "--email", m.gone.email, "--yes")
		<-tr.gone
		doorbelltest.HoldsNobody(t, output.String())
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("forget said:\n%s", output)
			}
		})
		return s
	}
	first := &tracer{}
	forget(t, first)
	strikeCalls(t, first, 20, strikesInARound**rounds/2, func(t *testing.T, tr *tracer) { forget(t, tr).finish(t) })
}

// TestAKilledDaemonFinishesItsErasureAtTheNextStart kills it while it erases: each third time soon
// after the request, otherwise after the receipt is written.
func TestAKilledDaemonFinishesItsErasureAtTheNextStart(t *testing.T) {
	t.Parallel()
	m, d, _ := newErasureScene(t, 20_000)
	d.Stop(t)
	for n := range 3 * *rounds {
		s := m.copied(t)
		d, _ := s.start(t)
		asks := doorbelltest.Launch(t, s.Environ, "forget", "--email", m.gone.email, "--yes")
		if n%3 > 0 {
			doorbelltest.Eventually(t, "a receipt", func() bool { return len(s.receipts(t)) > 0 })
		}
		time.Sleep(rand.N(60 * time.Millisecond)) // the moment of the kill is the point of the test
		d.End(t, syscall.SIGKILL)
		<-asks.Gone
		t.Logf("receipts: %d", len(s.receipts(t)))
		s.finish(t)
	}
}

// copied is the scene in a copy of the data directory.
func (m erasureScene) copied(t *testing.T) erasureScene {
	t.Helper()
	from := m.Dir
	m.Dir = doorbelltest.ShortDir(t)
	must(t, os.CopyFS(m.Dir, os.DirFS(from)))
	m.Environ = m.With("DOORBELL_DATA_DIR=" + m.Dir)
	return m
}

func (m erasureScene) receipts(t *testing.T) []people.Receipt {
	t.Helper()
	all, err := people.Receipts(m.Dir)
	must(t, err)
	return all
}

// finish starts the daemon, which finishes what has begun; what had not begun yet is begun again.
func (m erasureScene) finish(t *testing.T) {
	t.Helper()
	d, url := m.start(t)
	if len(m.receipts(t)) == 0 {
		m.forget(t, "--email", m.gone.email)
	}
	doorbelltest.Eventually(t, "the end of the erasure", func() bool { return !m.receipts(t)[0].Finished.IsZero() })
	m.mustBeErased(t, url)
	m.runs(t, exit.Done, "verify")
	d.Stop(t)
	m.nothingLeft(t)
	// Where the server was interrupted between deleting a message and overwriting it, no request to it
	// can make that good.
	interrupted := func(what string) bool { return strings.Contains(what, "interrupted") }
	if !slices.ContainsFunc(m.receipts(t)[0].OutOfReach, interrupted) {
		m.mustBeGone(t, "after the next start")
		return
	}
	m.mustBeGone(t, "after the next start", streamFiles)
	if err := os.RemoveAll(filepath.Join(m.Dir, streamFiles)); err != nil { // as the receipt says
		t.Fatal(err)
	}
	d, url = m.start(t)
	m.mustBeErased(t, url)
	d.Stop(t)
	m.mustBeGone(t, "after the stream was filled again")
}
