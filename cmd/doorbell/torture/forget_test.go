package torture

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/cli"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/people"
	"doorbell/events"
	"doorbell/poller/sandbox"

	"github.com/nats-io/nats.go/jetstream"
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
	for _, found := range traces(t, dir, l.texts) {
		list = append(list, found.file+" "+found.form)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// erasureScene is a scene in which two people wrote about three insertions each, were refused by a receiver, and were replayed.
type erasureScene struct {
	doorbelltest.Scene
	gone, stays lead
	ids         []string // of contact requests of the one who goes
}

func newErasureScene(t *testing.T) (m erasureScene, d *doorbelltest.Child, url string, hook *doorbelltest.Place) {
	t.Helper()
	return newErasureSceneOf(t, 1_200_000) // more than a message may hold
}

// newErasureSceneOf is the scene in which the longest contact request of the one who goes has so many bytes.
func newErasureSceneOf(t *testing.T, longest int) (m erasureScene, d *doorbelltest.Child, url string, hook *doorbelltest.Place) {
	t.Helper()
	m = erasureScene{Scene: doorbelltest.NewScene(t, "A100"), gone: newLead("Vergissmeinnicht", "079 311 22 33"), stays: newLead("Bleibtreu", "079 444 55 66")}
	hook = doorbelltest.NewPlace(t)
	hook.Status = http.StatusRequestEntityTooLarge
	m.Environ = m.With(doorbelltest.RoutesFile(t, ";webhook:"+strings.TrimPrefix(hook.Webhook(), "DOORBELL_WEBHOOK_URL=")))
	d = doorbelltest.Launch(t, m.Environ, "run")
	url = doorbelltest.NatsURL(t, m.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	for turn, person := range []lead{m.stays, m.gone} {
		var ids []string
		for n, i := range m.Model.Truth().Insertions[:3] {
			more := ""
			if turn == 1 && n == 0 {
				more = strings.Repeat("y", longest)
			}
			id, err := m.Model.AddContactRequest("A100", i.Reference, person.request(more))
			if err != nil {
				t.Fatal(err)
			}
			sub.Request(t, id)
			ids = append(ids, id)
		}
		if err := m.Model.EditContactRequest(ids[1], func(c *sandbox.ContactRequest) { c.Status = "READ" }); err != nil {
			t.Fatal(err)
		}
		sub.Event(t, "contact_request.changed", "A100")
		m.ids = ids
	}
	doorbelltest.Eventually(t, "six dead letters", func() bool {
		return strings.Count(doorbelltest.Run(t, m.Environ, "dlq", "ls").Stdout, "contact_request.created") == 6
	})
	doorbelltest.Eventually(t, "the log knows what is published", func() bool {
		return !strings.Contains(doorbelltest.Run(t, m.Environ, "events", "ls").Stdout, "(waits)")
	})
	if got := doorbelltest.Run(t, m.Environ, "replay", "--job", "before", "--type", "contact_request.>"); got.Code != exit.Done {
		t.Fatalf("%+v", got)
	}
	return m, d, url, hook
}

// receiptOf is what a forget printed.
func receiptOf(t *testing.T, got doorbelltest.Result) (r people.Receipt) {
	t.Helper()
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || r.Finished.IsZero() {
		t.Fatalf("exit %d: %s\n%s", got.Code, got.Stdout, got.Stderr)
	}
	return r
}

// TestWhoWasForgottenIsInNoFile is the proof of the page on privacy: with the daemon, after its end, after a restart, and in a backup
// that is put back.
func TestWhoWasForgottenIsInNoFile(t *testing.T) {
	t.Parallel()
	m, d, url, hook := newErasureScene(t)
	backup := filepath.Join(doorbelltest.ShortDir(t), "before.db")
	if got := doorbelltest.Run(t, m.Environ, "backup", backup); got.Code != exit.Done {
		t.Fatalf("%+v", got)
	}
	for who, person := range map[string]lead{"the one who stays": m.stays, "the one who goes": m.gone} {
		if list := person.traces(t, m.Dir); !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "doorbell.db") }) ||
			!slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, "jetstream/") }) {
			t.Fatalf("before: %s is found in %q alone", who, list)
		}
	}
	_, js := doorbelltest.Connected(t, url)
	durable, err := js.CreateConsumer(t.Context(), "LISTINGS", jetstream.ConsumerConfig{Durable: "crm", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	doorbelltest.NextOf(t, durable)

	dry := doorbelltest.Run(t, m.Environ, "forget", "--email", m.gone.email, "--dry-run")
	doorbelltest.Has(t, dry.Stdout, m.ids[0], m.ids[1], m.ids[2], "4 in the event log, 4 in the stream, 4 replayed, 3 dead letters")
	if asked := doorbelltest.Run(t, m.Environ, "forget", "--email", m.gone.email); asked.Code != exit.CodeUsage {
		t.Errorf("without --yes and a person at the terminal: %+v", asked)
	}
	r := m.forgetWhileReplayed(t, hook)
	if r.Erased["log"] != 4 || r.Erased["stream"] != 4 || r.Erased["replays"] != 4 || r.Erased["deadLetters"] != 3 || len(r.Requests) != 3 {
		t.Errorf("erased: %v", r.Erased)
	}
	m.mustBeGoneButFree(t, "while the daemon runs")

	// The API shows the person as before, and changes what it shows.
	if err := m.Model.EditContactRequest(m.ids[2], func(c *sandbox.ContactRequest) { c.Status = "READ" }); err != nil {
		t.Fatal(err)
	}
	m.GoesOn(t, "A100", 30)
	last := m.Ring(t, "A100")
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Request(t, last)
	m.mustBeErased(t, url)
	found := func(a doorbelltest.Arrival) bool { return a.Body.ContactRequestID == last }
	for !found(doorbelltest.NextOf(t, durable)) {
	}
	if got := doorbelltest.Run(t, m.Environ, "forget", "--dry-run", "--email", m.gone.email); got.Code != exit.CodeFailed {
		t.Errorf("there is something to forget: exit %d", got.Code)
	}
	if got := doorbelltest.Run(t, m.Environ, "export", "--email", m.gone.email); got.Code != exit.CodeFailed {
		t.Errorf("there is something to export: exit %d", got.Code)
	}
	if got := doorbelltest.Run(t, m.Environ, "replay", "--job", "after", "--type", "contact_request.>"); got.Code != exit.Done {
		t.Errorf("%+v", got)
	}
	if got := doorbelltest.Run(t, m.Environ, "verify", "--json"); got.Code != exit.Done {
		t.Errorf("%+v", got)
	}
	m.mustBeGoneButFree(t, "after polls and a replay")
	d.Stop(t)
	m.mustBeGoneButFree(t, "after the end")

	d = doorbelltest.Launch(t, m.Environ, "run")
	doorbelltest.NatsURL(t, m.Dir)
	m.GoesOn(t, "A100", 30)
	m.mustBeGone(t, "after a restart")
	d.Stop(t)

	text, err := os.ReadFile(backup)
	if err == nil {
		err = os.WriteFile(filepath.Join(m.Dir, "doorbell.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	d = doorbelltest.Launch(t, m.Environ, "run")
	url = doorbelltest.NatsURL(t, m.Dir)
	doorbelltest.Has(t, d.Stderr.String(), "the store held people who had been erased: they are erased again")
	d.Stderr.Await(t, "an erasure is finished")
	m.GoesOn(t, "A100", 30)
	again := m.Ring(t, "A100")
	doorbelltest.SubscribeTo(t, url).Request(t, again)
	m.mustBeGoneButFree(t, "in the backup that was put back")
	m.mustBeErased(t, url)
	d.Stop(t)
	d = doorbelltest.Launch(t, m.Environ, "run")
	doorbelltest.NatsURL(t, m.Dir)
	m.mustBeGone(t, "after the next start of the restored one")
	d.Stop(t)
	if got := doorbelltest.Run(t, m.Environ, "verify"); got.Code != exit.Done {
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
func (m erasureScene) forgetWhileReplayed(t *testing.T, hook *doorbelltest.Place) (r people.Receipt) {
	t.Helper()
	// Not about the insertion with the long messages: a reader that waits for a receiver leaves them in the daemon, which waits 30 s.
	replay := []string{"replay", "--type", "contact_request.created", "--insertion", m.Model.Truth().Insertions[1].Reference, "--to"}
	hook.Answer(http.StatusServiceUnavailable)
	sending := doorbelltest.Launch(t, m.Environ, append(replay, "webhook")...)
	sending.Stderr.Await(t, "webhook failed; retrying")
	out := &atFirst{do: func() {
		r = receiptOf(t, doorbelltest.Run(t, m.Environ, "forget", "--email", strings.ToUpper(m.gone.email), "--yes", "--json"))
	}}
	if code := cli.Main(t.Context(), append(replay, "-"), strings.NewReader(""), out, io.Discard, m.Environ); code != exit.Done {
		t.Errorf("exit code %d of a replay to standard output", code)
	}
	if n := len(doorbelltest.Lines(out.String())); n != 1 || strings.Contains(out.String(), m.gone.email) {
		t.Errorf("a replay to standard output tells of %d contact requests, want one, and none of who is gone", n)
	}
	hook.Answer(http.StatusOK)
	if code := sending.Exit(t); code != exit.Done || sending.Stdout.String() != "1 event sent to webhook; refused: 0\n" {
		t.Errorf("exit code %d: %s\n%s", code, sending.Stdout.String(), sending.Stderr.String())
	}
	posts := hook.Hooked("contact_request.created")
	if len(posts) != 1 || slices.ContainsFunc(posts, func(p doorbelltest.Post) bool { return strings.Contains(p.Body, m.gone.email) }) {
		t.Errorf("%d contact requests arrived, want one, and none of who is gone", len(posts))
	}
	shown := doorbelltest.Run(t, m.Environ, "replay", "--type", "contact_request.created", "--to", "-")
	if n := len(doorbelltest.Lines(shown.Stdout)); n != 3 {
		t.Errorf("%d events would be replayed", n)
	}
	return r
}

// mustBeGone wants nothing of the one in any file, and the other one still there.
func (m erasureScene) mustBeGone(t *testing.T, when string) {
	t.Helper()
	m.mustBeGoneFrom(t, when, func(string) bool { return true })
}

// mustBeGoneButFree is mustBeGone before the next start, which compacts the store: until then its free pages may hold the person.
func (m erasureScene) mustBeGoneButFree(t *testing.T, when string) {
	t.Helper()
	m.mustBeGoneFrom(t, when, func(file string) bool { return file != "doorbell.db" })
}

func (m erasureScene) mustBeGoneFrom(t *testing.T, when string, wanted func(file string) bool) {
	t.Helper()
	control := false
	for _, found := range traces(t, m.Dir, slices.Concat(m.gone.texts, m.stays.texts)) {
		if found.text < len(m.gone.texts) && wanted(found.file) {
			t.Errorf("%s the person is in %s, %s", when, found.file, found.form)
		}
		control = control || found.text >= len(m.gone.texts)
	}
	if !control {
		t.Errorf("%s the search does not even find who stays", when)
	}
}

// mustBeErased holds stream and log against what a forgotten person leaves: nothing in the stream but one redaction of each contact
// request, everything else once and in order, and a log without gap.
func (m erasureScene) mustBeErased(t *testing.T, url string) {
	t.Helper()
	var all []doorbelltest.Message
	doorbelltest.Eventually(t, "the redactions are published", func() bool { // the relay of this life may not have begun, nor made the stream of a folder that was deleted
		var err error
		all, err = doorbelltest.ReadStream(t.Context(), url)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, message := range all {
			if message.Kind() == "contact_request.redacted" && slices.Contains(m.ids, message.Body.ContactRequestID) {
				n++
			}
		}
		return n >= 3
	})
	redacted, ids, last := map[string]int{}, map[string]bool{}, ""
	for _, message := range all {
		sequence := message.Header.Get("ce-sequence")
		if id := message.Header.Get("ce-id"); ids[id] || sequence <= last {
			t.Errorf("event %s of the stream is doubled or not in order", sequence)
		} else {
			ids[id], last = true, sequence
		}
		if slices.Contains(m.ids, message.Body.ContactRequestID) {
			redacted[message.Kind()]++
		}
	}
	if len(redacted) != 1 || redacted["contact_request.redacted"] != 3 {
		t.Errorf("the stream tells of the person by %v, want three redactions", redacted)
	}
	erased := 0
	before := uint64(0)
	for _, e := range m.logged(t) {
		if e.Sequence <= before {
			t.Fatalf("in the log sequence %d follows %d", e.Sequence, before)
		}
		before = e.Sequence
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
	got := doorbelltest.Run(t, m.Environ, "events", "ls", "--limit", "0", "--json")
	for line := range strings.Lines(got.Stdout) {
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
	d.Stop(t)
	got := doorbelltest.Run(t, m.Environ, "export", "--phone", "+41 79 311 22 33")
	var held struct{ Events []people.Exported }
	if err := json.Unmarshal([]byte(got.Stdout), &held); err != nil || len(held.Events) != 8 {
		t.Fatalf("exit %d, %d events, want four and their replays", got.Code, len(held.Events))
	}
	if r := receiptOf(t, doorbelltest.Run(t, m.Environ, "forget", "--phone", "0793112233", "--yes", "--json")); r.FreePages != people.Compacted {
		t.Errorf("of free pages the receipt says %q", r.FreePages)
	}
	m.mustBeGone(t, "after a command without daemon")
	d = doorbelltest.Launch(t, m.Environ, "run")
	url := doorbelltest.NatsURL(t, m.Dir)
	m.GoesOn(t, "A100", 30)
	m.mustBeErased(t, url)
	m.mustBeGone(t, "after the next start")
	d.Stop(t)
}

// TestWhoWasForgottenIsNotAnnouncedAgainByAStoreThatWasLost loses the store beside the stream, with the receipts and without: then the
// redactions in the stream say who was erased.
func TestWhoWasForgottenIsNotAnnouncedAgainByAStoreThatWasLost(t *testing.T) {
	t.Parallel()
	m, d, _, _ := newErasureSceneOf(t, 20_000)
	receiptOf(t, doorbelltest.Run(t, m.Environ, "forget", "--email", m.gone.email, "--yes", "--json"))
	for _, lost := range [][]string{{"doorbell.db"}, {"doorbell.db", people.Folder}} {
		d.Stop(t)
		for _, name := range lost {
			if err := os.RemoveAll(filepath.Join(m.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		d = doorbelltest.Launch(t, m.Environ, "run")
		url := doorbelltest.NatsURL(t, m.Dir)
		sub := doorbelltest.SubscribeTo(t, url)
		m.GoesOn(t, "A100", 30)
		sub.Request(t, m.Ring(t, "A100")) // by then all contact requests have been read
		m.GoesOn(t, "A100", 30)
		all, err := doorbelltest.ReadStream(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		kinds, stays := map[string]int{}, 0
		for _, message := range all {
			if slices.Contains(m.ids, message.Body.ContactRequestID) {
				kinds[message.Kind()]++
			} else if message.Kind() == "contact_request.created" {
				stays++
			}
		}
		if len(kinds) != 1 || kinds["contact_request.redacted"] != 3 || stays < 4 {
			t.Errorf("without %q the stream tells of the person by %v, and of %d others", lost, kinds, stays)
		}
		m.mustBeGoneButFree(t, "after the store was lost")
	}
	d.Stop(t)
	if got := doorbelltest.Run(t, m.Environ, "export", "--email", m.gone.email); got.Code != exit.CodeFailed { // opens the store, and so compacts it
		t.Errorf("there is something to export: exit %d", got.Code)
	}
	m.mustBeGone(t, "after the next start")
}
