package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/bytesearch"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
	"doorbell/poller/sandbox"
)

// lead is a person of a test, with words that stand nowhere else.
type lead struct {
	email, phone string
	texts        []string // whatever of the person may stand in a file
}

func newLead(name, phone string) lead {
	email := strings.ToLower(name) + sandbox.Marker + "@example.org"
	return lead{email: email, phone: phone, texts: []string{email, name + sandbox.Marker, "Gruss von " + name, phone}}
}

func (l lead) request(more string) sandbox.ContactRequest {
	name, _, _ := strings.Cut(l.texts[1], sandbox.Marker)
	return sandbox.ContactRequest{
		FirstName: "Nora", LastName: l.texts[1], Email: l.email, Phone: l.phone, Message: "Gruss von " + name + more + sandbox.Marker, Status: "NEW",
	}
}

// traces are the files below a directory in which the person stands, and how.
func (l lead) traces(t *testing.T, dir string) (list []string) {
	t.Helper()
	hits, err := bytesearch.Search(t.Context(), dir, l.texts)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range hits {
		list = append(list, h.File+" "+h.Encoding)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// erasureScene is a scene in which two people wrote about three insertions each, were refused by a receiver, and were replayed.
type erasureScene struct {
	scene
	gone, stays lead
	ids         []string // of contact requests of the one who goes
}

func newErasureScene(t *testing.T) (m erasureScene, d *child, url string, hook *place) {
	t.Helper()
	return newErasureSceneOf(t, 1_200_000) // more than a message may hold
}

// newErasureSceneOf is the scene in which the longest contact request of the one who goes has so many bytes.
func newErasureSceneOf(t *testing.T, longest int) (m erasureScene, d *child, url string, hook *place) {
	t.Helper()
	m = erasureScene{scene: newScene(t, "A100"), gone: newLead("Vergissmeinnicht", "079 311 22 33"), stays: newLead("Bleibtreu", "079 444 55 66")}
	hook = newPlace(t)
	hook.status = http.StatusBadRequest
	m.environ = m.with(hook.webhook(), "DOORBELL_WEBHOOK_TYPES=contact_request.created")
	d = launch(t, m.environ, "run")
	url = natsURL(t, m.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	for turn, person := range []lead{m.stays, m.gone} {
		var ids []string
		for n, i := range m.model.Truth().Insertions[:3] {
			more := ""
			if turn == 1 && n == 0 {
				more = strings.Repeat("y", longest)
			}
			id, err := m.model.AddContactRequest("A100", i.Reference, person.request(more))
			if err != nil {
				t.Fatal(err)
			}
			sub.request(t, id)
			ids = append(ids, id)
		}
		if err := m.model.EditContactRequest(ids[1], func(c *sandbox.ContactRequest) { c.Status = "READ" }); err != nil {
			t.Fatal(err)
		}
		sub.event(t, "contact_request.changed", "A100")
		m.ids = ids
	}
	eventually(t, "six dead letters", func() bool {
		return strings.Count(run(t, m.environ, "dlq", "ls").stdout, "contact_request.created") == 6
	})
	if got := run(t, m.environ, "replay", "--job", "before", "--type", "contact_request.>"); got.code != exit.Done {
		t.Fatalf("%+v", got)
	}
	return m, d, url, hook
}

// receiptOf is what a forget printed.
func receiptOf(t *testing.T, got result) (r people.Receipt) {
	t.Helper()
	if err := json.Unmarshal([]byte(got.stdout), &r); err != nil || r.Finished.IsZero() {
		t.Fatalf("exit %d: %s\n%s", got.code, got.stdout, got.stderr)
	}
	return r
}

// TestWhoWasForgottenIsInNoFile is the proof of the page on privacy: with the daemon, after its end, after a restart, and in a backup
// that is put back.
func TestWhoWasForgottenIsInNoFile(t *testing.T) {
	t.Parallel()
	m, d, url, hook := newErasureScene(t)
	backup := filepath.Join(shortDir(t), "before.db")
	if got := run(t, m.environ, "backup", backup); got.code != exit.Done {
		t.Fatalf("%+v", got)
	}
	for who, person := range map[string]lead{"the one who stays": m.stays, "the one who goes": m.gone} {
		if list := person.traces(t, m.dir); !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "doorbell.db") }) ||
			!slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "jetstream/") }) {
			t.Fatalf("before: %s is found in %q alone", who, list)
		}
	}
	_, js := connected(t, url)
	durable, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	nextOf(t, durable)

	dry := run(t, m.environ, "forget", "--email", m.gone.email, "--dry-run")
	has(t, dry.stdout, m.ids[0], m.ids[1], m.ids[2], "4 in the event log, 4 in the stream, 4 replayed, 3 dead letters")
	if asked := run(t, m.environ, "forget", "--email", m.gone.email); asked.code != exit.CodeUsage {
		t.Errorf("without --yes and a person at the terminal: %+v", asked)
	}
	r := m.forgetWhileReplayed(t, hook)
	if r.Erased["log"] != 4 || r.Erased["stream"] != 4 || r.Erased["replays"] != 4 || r.Erased["deadLetters"] != 3 || len(r.Requests) != 3 {
		t.Errorf("erased: %v", r.Erased)
	}
	if !slices.ContainsFunc(r.OutOfReach, func(s string) bool { return strings.Contains(s, "crm") }) {
		t.Error("the receipt does not name the consumer crm")
	}
	m.mustBeGone(t, "while the daemon runs")

	// The API shows the person as before, and changes what it shows.
	if err := m.model.EditContactRequest(m.ids[2], func(c *sandbox.ContactRequest) { c.Status = "READ" }); err != nil {
		t.Fatal(err)
	}
	m.goesOn(t, "A100", 30)
	last := m.ring(t, "A100")
	sub := subscribeTo(t, url)
	sub.request(t, last)
	m.mustBeErased(t, url)
	found := func(a arrival) bool { return a.body.ContactRequestID == last }
	for !found(nextOf(t, durable)) {
	}
	path := filepath.Join(m.dir, people.Folder, r.ID+".json")
	if got := run(t, m.environ, "forget", "--verify", path, "--email", m.gone.email); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	if got := run(t, m.environ, "export", "--email", m.gone.email); got.code != exit.CodeFailed {
		t.Errorf("there is something to export: exit %d", got.code)
	}
	if got := run(t, m.environ, "replay", "--job", "after", "--type", "contact_request.>"); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	if got := run(t, m.environ, "verify", "--json"); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	m.mustBeGone(t, "after polls and a replay")
	d.stop(t)
	m.mustBeGone(t, "after the end")

	d = launch(t, m.environ, "run")
	natsURL(t, m.dir)
	m.goesOn(t, "A100", 30)
	m.mustBeGone(t, "after a restart")
	d.stop(t)

	text, err := os.ReadFile(backup)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.dir, "doorbell.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d = launch(t, m.environ, "run", "--restored")
	url = natsURL(t, m.dir)
	has(t, d.stderr.String(), "the store held people who had been erased: they are erased again")
	d.stderr.await(t, "an erasure is finished")
	m.goesOn(t, "A100", 30)
	again := m.ring(t, "A100")
	subscribeTo(t, url).request(t, again)
	m.mustBeGone(t, "in the backup that was put back")
	m.mustBeErased(t, url)
	d.stop(t)
	m.mustBeGone(t, "after the end of the restored one")
	if got := run(t, m.environ, "verify"); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
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

// forgetWhileReplayed forgets the one while two replays are at the first event, which is of the other, and wants neither of them nor a later
// one to tell of who is gone.
func (m erasureScene) forgetWhileReplayed(t *testing.T, hook *place) (r people.Receipt) {
	t.Helper()
	// Not about the insertion with the long messages: a reader that waits for a receiver leaves them in the daemon, which waits 30 s.
	replay := []string{"replay", "--type", "contact_request.created", "--insertion", m.model.Truth().Insertions[1].Reference, "--to"}
	hook.answer(http.StatusServiceUnavailable)
	sending := launch(t, m.environ, append(replay, "webhook")...)
	sending.stderr.await(t, "webhook failed; retrying")
	out := &atFirst{do: func() {
		r = receiptOf(t, run(t, m.environ, "forget", "--email", strings.ToUpper(m.gone.email), "--yes", "--json"))
	}}
	if code := Main(t.Context(), append(replay, "-"), strings.NewReader(""), out, io.Discard, m.environ); code != exit.Done {
		t.Errorf("exit code %d of a replay to standard output", code)
	}
	if n := len(lines(out.String())); n != 1 || strings.Contains(out.String(), m.gone.email) {
		t.Errorf("a replay to standard output tells of %d contact requests, want one, and none of who is gone", n)
	}
	hook.answer(http.StatusOK)
	if code := sending.exit(t); code != exit.Done || sending.stdout.String() != "1 event sent to webhook; refused: 0; not wanted there: 0\n" {
		t.Errorf("exit code %d: %s\n%s", code, sending.stdout.String(), sending.stderr.String())
	}
	posts := hook.hooked("contact_request.created")
	if len(posts) != 1 || slices.ContainsFunc(posts, func(p post) bool { return strings.Contains(p.body, m.gone.email) }) {
		t.Errorf("%d contact requests arrived, want one, and none of who is gone", len(posts))
	}
	has(t, run(t, m.environ, "replay", "--type", "contact_request.created", "--dry-run").stdout, "3 events would be replayed")
	return r
}

// mustBeGone wants nothing of the one in any file, and the other one still there.
func (m erasureScene) mustBeGone(t *testing.T, when string) {
	t.Helper()
	hits, err := bytesearch.Search(t.Context(), m.dir, slices.Concat(m.gone.texts, m.stays.texts))
	if err != nil {
		t.Fatal(err)
	}
	control := false
	for _, h := range hits {
		if h.Text < len(m.gone.texts) {
			t.Errorf("%s the person is in %s, %s", when, h.File, h.Encoding)
		}
		control = control || h.Text >= len(m.gone.texts)
	}
	if !control {
		t.Errorf("%s the search does not even find who stays", when)
	}
}

// mustBeErased holds stream and log against what a forgotten person leaves: nothing in the stream but one redaction of each contact
// request, everything else once and in order, and a log without gap.
func (m erasureScene) mustBeErased(t *testing.T, url string) {
	t.Helper()
	all, err := readStream(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	redacted, ids, last := map[string]int{}, map[string]bool{}, ""
	for _, message := range all {
		sequence := message.header.Get("ce-sequence")
		if id := message.header.Get("ce-id"); ids[id] || sequence <= last {
			t.Errorf("event %s of the stream is doubled or not in order", sequence)
		} else {
			ids[id], last = true, sequence
		}
		if slices.Contains(m.ids, message.body.ContactRequestID) {
			redacted[message.kind()]++
		}
	}
	if len(redacted) != 1 || redacted["contact_request.redacted"] != 3 {
		t.Errorf("the stream tells of the person by %v, want three redactions", redacted)
	}
	erased := 0
	for n, e := range m.logged(t) {
		if e.Sequence != uint64(n+1) {
			t.Fatalf("in the log sequence %d follows %d", e.Sequence, n)
		}
		if e.Erased() {
			erased++
		}
	}
	if erased != 4 {
		t.Errorf("%d events of the log are erased, want 4", erased)
	}
}

// logged are the events of the log.
func (m erasureScene) logged(t *testing.T) (all []events.Event) {
	t.Helper()
	got := run(t, m.environ, "events", "ls", "--limit", "0", "--json")
	for line := range strings.Lines(got.stdout) {
		var e events.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal("no event")
		}
		all = append(all, e)
	}
	return all
}

func TestWithoutADaemonAPersonIsForgottenByThePhoneNumber(t *testing.T) {
	t.Parallel()
	m, d, _, _ := newErasureScene(t)
	d.stop(t)
	got := run(t, m.environ, "export", "--phone", "+41 79 311 22 33")
	var held struct{ Events []people.Exported }
	if err := json.Unmarshal([]byte(got.stdout), &held); err != nil || len(held.Events) != 8 {
		t.Fatalf("exit %d, %d events, want four and their replays", got.code, len(held.Events))
	}
	r := receiptOf(t, run(t, m.environ, "forget", "--phone", "0793112233", "--yes", "--json"))
	m.mustBeGone(t, "after a command without daemon")
	path := filepath.Join(m.dir, people.Folder, r.ID+".json")
	if got := run(t, m.environ, "forget", "--verify", path, "--phone", m.gone.phone); got.code != exit.Done {
		t.Errorf("%+v", got)
	}
	if got := run(t, m.environ, "forget", "--verify", path, "--phone", m.stays.phone); got.code != exit.CodeFailed {
		t.Errorf("another person is said to be erased: %+v", got)
	}
	d = launch(t, m.environ, "run")
	url := natsURL(t, m.dir)
	m.goesOn(t, "A100", 30)
	m.mustBeErased(t, url)
	m.mustBeGone(t, "after the next start")
	d.stop(t)
}

func TestWhoIsHeldTooLongIsErased(t *testing.T) {
	t.Parallel()
	m, d, _, _ := newErasureScene(t)
	oldest := func() time.Time {
		s, err := ops.NewClient(filepath.Join(m.dir, daemon.SocketFile)).Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Store.OldestPerson
	}
	if at := oldest(); at.IsZero() || time.Since(at) > time.Hour {
		t.Errorf("the oldest person is of %s", at)
	}
	d.stop(t)
	a := m.open(t, "127.0.0.1:0", func(o *daemon.Options) { o.Retention, o.PeopleRetention = time.Hour, time.Millisecond })
	runUntilTheEnd(t, a)
	eventually(t, "nobody is held", func() bool {
		return oldest().IsZero() && len(m.gone.traces(t, m.dir))+len(m.stays.traces(t, m.dir)) == 0
	})
	url := natsURL(t, m.dir)
	last := m.ring(t, "A100")
	subscribeTo(t, url).request(t, last)
	if oldest().IsZero() { // until the next time
		t.Error("the new one is not counted")
	}
	m.goesOn(t, "A100", 30)
	for _, e := range m.logged(t) {
		if e.HoldsPerson() && !strings.Contains(string(e.Data), last) || e.Type == events.TypeContactRequestRedacted {
			t.Errorf("event %d, %s: somebody is held, or the age told", e.Sequence, e.Type)
		}
	}
}
