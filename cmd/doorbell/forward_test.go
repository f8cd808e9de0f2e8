package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events/forward"
)

// mustBePrivate wants no key, no secret of a receiver and no person in what was printed.
func mustBePrivate(t *testing.T, text string) {
	t.Helper()
	holdsNobody(t, text)
	for _, secret := range []string{hookToken, whsec, sentinel} {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is in:\n%s", strings.ReplaceAll(text, secret, "[HERE]"))
		}
	}
}

func TestANewContactRequestArrivesAtEachReceiverOnce(t *testing.T) {
	t.Parallel()
	s, p := newScene(t, "A100"), newPlace(t)
	d := launch(t, s.with(p.environ()...), "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100")
	var ids []string
	for range 2 {
		ids = append(ids, s.ring(t, "A100"))
		sub.request(t, ids[len(ids)-1])
	}
	eventually(t, "all receivers have both", func() bool {
		return len(p.hooked("contact_request.created")) == 2 && p.slacked("Nora M.") == 2 && p.mailed("Muster") == 2
	})
	judge, err := standardwebhooks.NewWebhook(whsec)
	if err != nil {
		t.Fatal(err)
	}
	for i, h := range p.hooked("contact_request.created") {
		var body struct{ ContactRequestID string }
		if err := json.Unmarshal([]byte(h.body), &body); err != nil || body.ContactRequestID != ids[i] {
			t.Errorf("number %d is %s, want %s", i, body.ContactRequestID, ids[i])
		}
		if err := judge.Verify([]byte(h.body), h.header); err != nil {
			t.Errorf("the signature of number %d: %v", i, err)
		}
	}
	status := run(t, s.environ, "status", "--check")
	if status.code != exit.Done {
		t.Errorf("status --check: %+v", status)
	}
	has(t, status.stdout, "FORWARDER", "slack", "email", "webhook", "leads", "alerts")
	d.stop(t)
	if got := len(p.hooked("contact_request.created")); got != 2 || p.slacked("Nora M.") != 2 || p.mailed("Muster") != 2 {
		t.Errorf("at the end there are %d, %d and %d, want 2 of each", got, p.slacked("Nora M."), p.mailed("Muster"))
	}
	mustBePrivate(t, d.stdout.String()+d.stderr.String()+status.stdout+status.stderr)
	if strings.Contains(p.all(), testKey) {
		t.Error("a receiver was shown the key of the API")
	}
}

func TestKillingTheDaemonWhileReceiversAreDownLosesNothing(t *testing.T) {
	t.Parallel()
	s, p := newScene(t, "A100"), newPlace(t)
	p.answer(http.StatusServiceUnavailable)
	d := launch(t, s.with(p.environ()...), "run")
	sub := subscribeTo(t, natsURL(t, s.dir))
	sub.baselined(t, "A100")
	var ids []string
	for range 3 {
		ids = append(ids, s.ring(t, "A100"))
		sub.request(t, ids[len(ids)-1])
	}
	d.stderr.await(t, `delivery failed; retrying.*"lane":"127_0_0_1-[0-9a-f]+/leads"`)
	if code := d.end(t, syscall.SIGKILL); code != -1 {
		t.Fatalf("exit code %d after SIGKILL", code)
	}
	p.answer(http.StatusOK)
	again := launch(t, s.with(p.environ()...), "run")
	subscribeTo(t, natsURL(t, s.dir)).request(t, ids[2])
	// The server delivers again after half a minute: nobody has told it that its consumer was killed.
	within(t, 3*patience, "all have arrived", func() bool {
		return len(p.hooked("contact_request.created")) == 3 && p.slacked("Nora M.") == 3 && p.mailed("Muster") == 3
	})
	for i, h := range p.hooked("contact_request.created") {
		if !strings.Contains(h.body, ids[i]) {
			t.Errorf("number %d is not the one that was made as number %d", i, i)
		}
	}
	again.stop(t)
	if got := len(p.hooked("contact_request.created")); got != 3 {
		t.Errorf("the webhook got %d, want 3", got)
	}
	mustBePrivate(t, d.stderr.String()+again.stderr.String())
}

// TestAForwarderRunsAloneWithoutTheKey lets a guest of the embedded server forward. Its environment holds a key that cannot be read:
// whoever looked at it would stop.
func TestAForwarderRunsAloneWithoutTheKey(t *testing.T) {
	t.Parallel()
	s, p := newScene(t, "A100"), newPlace(t)
	d := launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	before := s.ring(t, "A100")
	sub.request(t, before)
	alone := []string{
		"NATS_URL=" + url, "DOORBELL_DATA_DIR=" + shortDir(t), "DOORBELL_API_KEY_FILE=/none/key", "DOORBELL_API_KEYS=" + sentinel + "=", "DOORBELL_PAGE_SIZE=nonsense",
		p.webhook(), "DOORBELL_WEBHOOK_SECRET=" + whsec,
	}
	f := launch(t, alone, "forward", "webhook")
	f.stderr.await(t, `consumer created.*leads`)
	after := s.ring(t, "A100")
	eventually(t, "it arrives", func() bool { return len(p.hooked("contact_request.created")) == 1 })
	if got := p.hooked("contact_request.created")[0].body; !strings.Contains(got, after) || strings.Contains(got, before) {
		t.Error("another one arrived")
	}
	f.stop(t)
	p.answer(http.StatusBadRequest)
	f = launch(t, alone, "forward", "webhook")
	f.stderr.await(t, `"nats":"nats://127.0.0.1:`)
	refused := s.ring(t, "A100")
	f.stderr.await(t, "moved to the dead letters")
	settings := s.with(p.environ()...)
	list := run(t, s.environ, "dlq", "ls")
	if list.code != exit.Done || strings.Count(list.stdout, "\n") != 2 {
		t.Fatalf("dlq ls: %+v", list)
	}
	has(t, list.stdout, "webhook", "A100", "contact_request.created", "the webhook answers 400 Bad Request")
	retry := run(t, settings, "dlq", "retry", "1")
	if retry.code != exit.CodeFailed || !strings.Contains(retry.stdout, "1 failed: refused: the webhook answers 400") {
		t.Errorf("retry while it is refused: %+v", retry)
	}
	p.answer(http.StatusOK)
	retry = run(t, settings, "dlq", "retry", "--all", "--json")
	if retry.code != exit.Done || !strings.Contains(retry.stdout, `"outcome": "sent"`) {
		t.Errorf("retry: %+v", retry)
	}
	if all := p.hooked("contact_request.created"); len(all) != 2 || !strings.Contains(all[1].body, refused) {
		t.Errorf("%d contact requests arrived, want 2", len(all))
	}
	if again := run(t, s.environ, "dlq", "ls"); again.stdout != "no dead letters\n" {
		t.Errorf("afterwards: %+v", again)
	}
	f.stop(t)
	d.stop(t)
	mustBePrivate(t, f.stdout.String()+f.stderr.String()+d.stderr.String()+list.stdout+retry.stdout+retry.stderr)
}

func TestADeadLetterOfANamedForwarderFindsItsReceiverAtANewAddress(t *testing.T) {
	l := forward.Letter{Forwarder: "mine", Destination: "h_example-0123456789abcdef"}
	for _, tt := range []struct {
		environ []string
		routes  int
	}{
		{[]string{"DOORBELL_WEBHOOK_URL=https://h.example/new"}, 1},
		{[]string{"DOORBELL_WEBHOOK_URL=https://h.example/new", "DOORBELL_SLACK_URL=https://chat.example/new"}, 0}, // whose it is, nobody knows
	} {
		c, err := config.Read(tt.environ, config.GroupForward)
		if err != nil {
			t.Fatal(err)
		}
		configured, err := receivers.All(c, release)
		if err != nil {
			t.Fatal(err)
		}
		if routes := routesFor(configured, l); len(routes) != tt.routes {
			t.Errorf("%v: %d routes, want %d", tt.environ, len(routes), tt.routes)
		}
	}
}

func TestADeadLetterIsDropped(t *testing.T) {
	t.Parallel()
	s, p := newScene(t, "A100"), newPlace(t)
	p.answer(http.StatusNotFound)
	d := launch(t, s.with(p.webhook()), "run")
	d.stderr.await(t, "moved to the dead letters") // the alert that the watch has begun
	eventually(t, "status tells", func() bool { return strings.Contains(run(t, s.environ, "status").stdout, "doorbell dlq ls") })
	got := run(t, s.environ, "dlq", "drop", "7")
	if got.code != exit.CodeFailed || !strings.Contains(got.stdout, "7 failed: there is no such dead letter") || !strings.Contains(got.stderr, "no dead letter has this number") {
		t.Errorf("one that is not there: %+v", got)
	}
	if got := run(t, s.environ, "dlq", "drop", "1"); got.code != exit.Done || got.stdout != "1 dropped\n" {
		t.Errorf("drop: %+v", got)
	}
	if got := run(t, s.environ, "dlq", "ls", "--json"); got.stdout != "[]\n" {
		t.Errorf("afterwards: %+v", got)
	}
	eventually(t, "status tells of none", func() bool { return !strings.Contains(run(t, s.environ, "status").stdout, "doorbell dlq ls") })
	d.stop(t)
}

func TestAReceiverThatIsOffIsTroubleAndTheWatchGoesOn(t *testing.T) {
	t.Parallel()
	s, p := newScene(t, "A100"), newPlace(t)
	p.answer(http.StatusGone)
	d := launch(t, s.with(p.webhook()), "run")
	d.stderr.await(t, "receiver is gone")
	s.ring(t, "A100") // without a lead, who brings leads looks every 30 s only
	s.goesOn(t, "A100", 5)
	var got result
	eventually(t, "leads and alerts are switched off", func() bool {
		got = run(t, s.environ, "status", "--check")
		return strings.Contains(got.stdout, "webhook is switched off, for leads and alerts")
	})
	if got.code != exit.CodeFailed {
		t.Errorf("status --check: %+v", got)
	}
	has(t, got.stdout, "Last error: the webhook answers 410 Gone")
	mustBePrivate(t, got.stdout+got.stderr+d.stderr.String())
	d.stop(t)
}

func TestAForwarderThatCannotBeginDoesNotEndTheDaemon(t *testing.T) {
	t.Parallel()
	s, p := newScene(t, "A100"), newPlace(t)
	if err := os.WriteFile(filepath.Join(s.dir, "forward-webhook.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := launch(t, s.with(p.webhook()), "run")
	d.stderr.await(t, "forwarder failed; retrying")
	s.goesOn(t, "A100", 5)
	if got := run(t, s.environ, "status", "--check"); got.code != exit.CodeFailed || !strings.Contains(got.stdout, "forward-webhook.json is damaged") {
		t.Errorf("status --check: %+v", got)
	}
	d.stop(t)
}

func TestATestSaysWhatEachReceiverAnswers(t *testing.T) {
	t.Parallel()
	trying := func(t *testing.T, status int, args ...string) (*place, result) {
		p := newPlace(t)
		p.answer(status)
		environ := append(p.environ(), "DOORBELL_DATA_DIR="+shortDir(t), "DOORBELL_NATS_LISTEN=127.0.0.1:1", "DOORBELL_API_KEY_FILE=/none/key")
		return p, run(t, environ, append([]string{"forward"}, args...)...)
	}
	for _, tt := range []struct {
		kind   string
		status int
		code   int
		says   string
	}{
		{"slack", 200, exit.Done, "accepted a test contact request"},
		{"slack", 200, exit.Done, "DOORBELL_SLACK_PEOPLE=full"},
		{"email", 200, exit.Done, "accepted a test contact request"},
		{"webhook", 200, exit.Done, "accepted a test contact request"},
		{"webhook", 400, exit.CodeFailed, "rejected a test contact request: the webhook answers 400 Bad Request"},
		{"webhook", 410, exit.CodeFailed, "is gone: the webhook answers 410 Gone"},
		{"webhook", 500, exit.CodeFailed, "failed to take a test contact request: the webhook answers 500"},
		{"email", 500, exit.CodeFailed, "failed to take a test contact request: "},
		{"slack", 404, exit.CodeFailed, "slack"},
	} {
		t.Run(fmt.Sprint(tt.kind, " ", tt.status), func(t *testing.T) {
			p, got := trying(t, tt.status, tt.kind, "--test")
			if got.code != tt.code || !strings.Contains(got.stdout, tt.says) {
				t.Errorf("%+v", got)
			}
			has(t, got.stderr, "no connection to NATS at nats://127.0.0.1:1: no server answers; the receiver is tested all the same")
			mustBePrivate(t, got.stdout+got.stderr)
			posts := p.hooked("contact_request.created")
			if tt.kind != "webhook" || tt.status != http.StatusOK {
				if len(posts) > 0 {
					t.Errorf("the webhook got %d", len(posts))
				}
			} else if len(posts) != 1 || posts[0].header.Get("doorbell-test") != "true" {
				t.Errorf("the webhook got %d, want one that is marked as a test", len(posts))
			}
		})
	}
	t.Run("as JSON", func(t *testing.T) {
		_, got := trying(t, http.StatusOK, "slack", "--name", "mine", "--test", "--json")
		var trials []trial
		if err := json.Unmarshal([]byte(got.stdout), &trials); err != nil || len(trials) != 1 || trials[0].Forwarder != "mine" || trials[0].Outcome != "taken" {
			t.Errorf("%+v", got)
		}
	})
}

func TestATestSaysWhoseEventsGoWhere(t *testing.T) {
	c := readForward(t, "DOORBELL_EMAIL_SMTP=smtp://127.0.0.1:1", "DOORBELL_EMAIL_FROM=leads@agency.example",
		"DOORBELL_EMAIL_TO=A100=nora@agency.example,*=office@agency.example")
	f, err := receivers.New(c, "email", "email", release)
	if err != nil || len(f.Distinct()) != 2 {
		t.Fatalf("%d receivers, %v", len(f.Distinct()), err)
	}
	for i, want := range []string{" (A100) failed to take", " (all but A100) failed to take"} {
		if got := try(t.Context(), "email", f.Distinct()[i], forward.TestAgency).text(); !strings.Contains(got, want) || strings.Contains(got, "@") {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (forward.Filter{Except: []string{"A", "B", "C", "D", "E", "F", "G"}}).Whose(); got != "all but A, B, C, D, E and 2 more" {
		t.Errorf("of many: %q", got)
	}
}

func TestATestUsesTheLanguageAndTheNameOfAnAgencyOfTheRoute(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		kind, setting string
		says          []string
	}{
		{"slack", "DOORBELL_SLACK_PEOPLE=short", []string{"Neue Kontaktanfrage: Nora B.", "Agentur Muster AG (A100)"}},
		{"slack", "DOORBELL_SLACK_AGENCIES=B200", []string{"Nouvelle demande de contact\u00a0: Nora B.", "Agence Exemple SA (B200)"}},
		{"slack", "DOORBELL_SLACK_AGENCIES=C300", []string{"Agentur C300"}},
		{"webhook", "DOORBELL_WEBHOOK_AGENCIES=B200", nil},
	} {
		t.Run(tt.setting, func(t *testing.T) {
			p := newPlace(t)
			environ := append(p.environ(), "DOORBELL_DATA_DIR="+shortDir(t), "DOORBELL_NATS_LISTEN=127.0.0.1:1",
				"DOORBELL_LANGUAGE=*=de,B200=fr", "DOORBELL_AGENCY_NAMES=A100=Muster AG,B200=Exemple SA", tt.setting)
			if got := run(t, environ, "forward", tt.kind, "--test"); got.code != exit.Done {
				t.Fatalf("%+v", got)
			}
			for _, text := range tt.says {
				if p.slacked(text) == 0 {
					t.Errorf("nothing says %q", text)
				}
			}
			posts := p.hooked("contact_request.created")
			if tt.kind == "webhook" && (len(posts) != 1 || !strings.Contains(posts[0].body, `"agencyId":"TEST"`)) {
				t.Errorf("a program took the test for a request of an agency: %+v", posts)
			}
		})
	}
}

func TestForwardSaysWhatIsMissing(t *testing.T) {
	for kind, needed := range map[string]string{"slack": "DOORBELL_SLACK_URL", "email": "DOORBELL_EMAIL_TO", "webhook": "DOORBELL_WEBHOOK_URL"} {
		got := run(t, []string{"DOORBELL_DATA_DIR=" + shortDir(t)}, "forward", kind)
		if got.code != exit.CodeConfig || !strings.HasPrefix(got.stderr, "doorbell: "+needed+" is not set\n") {
			t.Errorf("%s: %+v", kind, got)
		}
	}
	got := run(t, []string{"DOORBELL_DATA_DIR=" + shortDir(t), "DOORBELL_WEBHOOK_URL=" + hook, "DOORBELL_NATS_LISTEN=off"}, "forward", "webhook")
	if got.code != exit.CodeFailed || !strings.Contains(got.stderr, "DOORBELL_NATS_LISTEN is off") {
		t.Errorf("without a way to NATS: %+v", got)
	}
}

func TestAReplayToAReceiverGoesOnWhereItStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	environ := append(logged(t, 9, "A100", "B200"), p.environ()...)
	got := run(t, environ, "replay", "--to", "webhook")
	if got.code != exit.Done || got.stdout != "10 events sent to webhook; refused: 0; not wanted there: 0\n" {
		t.Fatalf("got %+v", got)
	}
	posts := p.hooked("contact_request.created")
	if len(posts) != 9 {
		t.Fatalf("%d contact requests arrived, want 9", len(posts))
	}
	for _, one := range posts {
		if one.header.Get("ce-origin") != "replay" || !strings.Contains(one.body, `"origin":"replay"`) {
			t.Errorf("its origin is %q", one.header.Get("ce-origin"))
		}
	}
	mustBePrivate(t, got.stdout+got.stderr)
	got = run(t, append(environ, "DOORBELL_WEBHOOK_MIN_SCORE=7.5"), "replay", "--to", "webhook", "--type", "contact_request.>")
	if got.code != exit.Done || got.stdout != "0 events sent to webhook; refused: 0; not wanted there: 9\n" {
		t.Errorf("below the score: %+v", got)
	}
	p.answer(http.StatusGone)
	got = run(t, environ, "replay", "--to", "webhook", "--agency", "A100")
	if got.code != exit.CodeFailed || !strings.Contains(got.stderr, "at sequence 1 of A100") {
		t.Fatalf("stopped: %+v", got)
	}
	_, command, ok := strings.Cut(got.stderr, "this goes on: doorbell ")
	if !ok {
		t.Fatalf("no command: %s", got.stderr)
	}
	p.answer(http.StatusOK)
	got = run(t, environ, strings.Fields(command)...)
	if got.code != exit.Done || !strings.HasPrefix(got.stdout, "5 events sent to webhook") {
		t.Errorf("going on: %+v", got)
	}
}

func TestAReceiverThatTakesNothingForLongIsTrouble(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		f    ops.ForwarderStatus
		want bool
	}{
		{ops.ForwarderStatus{Destination: "x"}, false},
		{ops.ForwarderStatus{Destination: "x", FailingSince: now.Add(-time.Minute), LastError: "503"}, false},
		{ops.ForwarderStatus{Destination: "x", FailingSince: now.Add(-6 * time.Minute), LastError: "503"}, true},
		{ops.ForwarderStatus{Destination: "x", Off: true}, true},
		{ops.ForwarderStatus{Destination: "x", Problem: "no connection to NATS"}, true}, // it gets nothing
		{ops.ForwarderStatus{Problem: "damaged"}, true},
	} {
		s := ops.Status{Forwarders: []ops.ForwarderStatus{tt.f}}
		s.Watch.At = now
		if (s.Summary() != "") != tt.want {
			t.Errorf("%+v: the summary is %q", tt.f, s.Summary())
		}
	}
}
