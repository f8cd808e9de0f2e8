package cli

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"

	"doorbell/cmd/doorbell/exit"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// mustBePrivate wants no key, no secret of a receiver and no person in what was printed.
func mustBePrivate(t *testing.T, text string) {
	t.Helper()
	doorbelltest.HoldsNobody(t, text)
	for _, secret := range []string{doorbelltest.HookToken, doorbelltest.Whsec, doorbelltest.Sentinel} {
		if strings.Contains(text, secret) {
			t.Errorf("a secret is in:\n%s", strings.ReplaceAll(text, secret, "[HERE]"))
		}
	}
}

// TestANewContactRequestArrivesAtEachReceiverOnce also wants every message to name the installation.
func TestANewContactRequestArrivesAtEachReceiverOnce(t *testing.T) {
	t.Parallel()
	s, p := doorbelltest.NewScene(t, "A100"), doorbelltest.NewPlace(t)
	d := doorbelltest.Launch(t, s.With(append(p.Environ(), "DOORBELL_INSTANCE=staging")...), "run")
	sub := doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir))
	sub.Baselined(t, "A100")
	var ids []string
	for range 2 {
		ids = append(ids, s.Ring(t, "A100"))
		sub.Request(t, ids[len(ids)-1])
	}
	arrived := func() [4]int {
		const title = "[staging] New contact request: "
		return [4]int{
			len(p.Hooked("contact_request.created")), p.Posted("slack", title), p.Posted("teams", title), p.Mailed("[staging]"),
		}
	}
	doorbelltest.Eventually(t, "all receivers have both", func() bool { return arrived() == [4]int{2, 2, 2, 2} })
	judge, err := standardwebhooks.NewWebhook(doorbelltest.Whsec)
	must(t, err)
	for i, h := range p.Hooked("contact_request.created") {
		if err := judge.Verify([]byte(h.Body), h.Header); err != nil || !strings.Contains(h.Body, `"contactRequestId":"`+ids[i]+`"`) {
			t.Errorf("number %d is not %s, or its signature is wrong: %v", i, ids[i], err)
		}
	}
	status := doorbelltest.Run(t, s.Environ, "status", "--check")
	if status.Code != exit.Done || !strings.HasPrefix(status.Stdout, "staging: All is well.") {
		t.Errorf("status --check: %+v", status)
	}
	stream, err := sub.JS.Stream(t.Context(), "LISTINGS")
	must(t, err)
	for name := range stream.ConsumerNames(t.Context()).Name() {
		if strings.HasPrefix(name, "doorbell-") && !strings.HasPrefix(name, "doorbell-staging-") {
			t.Errorf("there is a consumer %s", name)
		}
	}
	d.Stop(t)
	if got := arrived(); got != [4]int{2, 2, 2, 2} {
		t.Errorf("at the end %v have arrived, want 2 at each", got)
	}
	mustBePrivate(t, d.Stdout.String()+d.Stderr.String()+status.Stdout+status.Stderr)
	agent := strings.Count(p.All(), "User-Agent: doorbell/"+release+" (staging)\r\n")
	if strings.Contains(p.All(), doorbelltest.TestKey) || agent < 3 || agent != strings.Count(p.All(), "User-Agent: ") {
		t.Errorf("a receiver was shown the key of the API, or %d requests name the installation", agent)
	}
}

// TestAForwarderRunsAloneWithoutTheKey lets a guest of the embedded server forward. Its environment
// holds a key that cannot be read: a command that read it would stop.
func TestAForwarderRunsAloneWithoutTheKey(t *testing.T) {
	t.Parallel()
	s, p := doorbelltest.NewScene(t, "A100"), doorbelltest.NewPlace(t)
	d, sub, url := running(t, s)
	before := s.Ring(t, "A100")
	sub.Request(t, before)
	alone := []string{
		"NATS_URL=" + url, "DOORBELL_DATA_DIR=" + doorbelltest.ShortDir(t), "DOORBELL_API_KEY_FILE=/none/key",
		"DOORBELL_API_KEYS=" + doorbelltest.Sentinel + "=", "DOORBELL_WALK_INTERVAL=nonsense",
		p.Webhook(), "DOORBELL_WEBHOOK_SECRET=" + doorbelltest.Whsec,
	}
	f := doorbelltest.Launch(t, alone, "forward", "webhook")
	f.Stderr.Await(t, `consumer created`)
	after := s.Ring(t, "A100")
	doorbelltest.Eventually(t, "it arrives", func() bool { return len(p.Hooked("contact_request.created")) == 1 })
	if got := p.Hooked("contact_request.created")[0].Body; !strings.Contains(got, after) || strings.Contains(got, before) {
		t.Error("another one arrived")
	}
	f.Stop(t)
	p.Answer(http.StatusRequestEntityTooLarge)
	f = doorbelltest.Launch(t, alone, "forward", "webhook")
	f.Stderr.Await(t, `"nats":"nats://127.0.0.1:`)
	refused := s.Ring(t, "A100")
	f.Stderr.Await(t, "moved to the dead letters")
	dlq := func(code int, args, says string) {
		t.Helper()
		got := doorbelltest.Run(t, s.With(p.Environ()...), append([]string{"dlq"}, strings.Fields(args)...)...)
		mustBePrivate(t, got.Stdout+got.Stderr)
		if got.Code != code || !regexp.MustCompile(says).MatchString(got.Stdout) {
			t.Errorf("dlq %s: %+v", args, got)
		}
	}
	dlq(exit.Done, "ls", `^NUMBER.*\n1 +\S+ +webhook +A100 +contact_request\.created +1 +status 413.*\n$`)
	dlq(exit.CodeFailed, "retry 1", `^1 failed: refused: status 413`)
	p.Answer(http.StatusOK)
	dlq(exit.Done, "retry --all --json", `"outcome": "sent"`)
	dlq(exit.Done, "ls", `^no dead letters\n$`)
	if all := p.Hooked("contact_request.created"); len(all) != 2 || !strings.Contains(all[1].Body, refused) {
		t.Errorf("%d contact requests arrived, want 2", len(all))
	}
	f.Stop(t)
	d.Stop(t)
	mustBePrivate(t, f.Stdout.String()+f.Stderr.String()+d.Stderr.String())
}

func TestATestReportsTheResponseOfEachReceiver(t *testing.T) {
	t.Parallel()
	server := doorbelltest.StartNATS(t, -1)
	for _, tt := range []struct {
		args   string
		status int
		code   int
		says   string
	}{
		{"slack --test", 200, exit.Done, "accepted a test contact request"},
		{"slack --name mine --test --json", 200, exit.Done, `"forwarder": "mine",`},
		{"slack --name mine --test --json", 200, exit.Done, `"outcome": "taken"`},
		{"teams --test", 202, exit.Done, "accepted a test contact request"},
		{"teams --test", 404, exit.CodeFailed, "teams (all agencies) failed to accept a test contact request: status 404"},
		{"email --test", 200, exit.Done, "accepted a test contact request"},
		{"email --test", 500, exit.CodeFailed, "failed to accept a test contact request: "},
		{"webhook --test", 200, exit.Done, "accepted a test contact request"},
		{"webhook --test", 400, exit.CodeFailed, "rejected a test contact request: status 400"},
		{"webhook --test", 410, exit.CodeFailed, "failed to accept a test contact request: status 410"},
	} {
		t.Run(fmt.Sprint(tt.args, " ", tt.status), func(t *testing.T) {
			p := doorbelltest.NewPlace(t)
			p.Answer(tt.status)
			environ := append(p.Environ(), "DOORBELL_DATA_DIR="+doorbelltest.ShortDir(t), "NATS_URL="+server, "DOORBELL_API_KEY_FILE=/none/key")
			got := doorbelltest.Run(t, environ, append([]string{"forward"}, strings.Fields(tt.args)...)...)
			if got.Code != tt.code || !strings.Contains(got.Stdout, tt.says) {
				t.Errorf("%+v", got)
			}
			mustBePrivate(t, got.Stdout+got.Stderr)
			marked := 0
			for _, post := range p.Hooked("contact_request.created") {
				if marked++; post.Header.Get("doorbell-test") != "true" {
					t.Error("it is not marked as a test")
				}
			}
			if want := tt.args == "webhook --test" && tt.status == 200; want != (marked == 1) {
				t.Errorf("the webhook got %d", marked)
			}
		})
	}
}

func TestAReplayToAReceiverContinuesWhereItStopped(t *testing.T) {
	t.Parallel()
	p, environ := doorbelltest.NewPlace(t), logged(t, 9, true)
	watchesNothing(t, environ)
	replays := func(environ []string, args string, code int, out, err string) {
		t.Helper()
		got := doorbelltest.Run(t, environ, strings.Fields("replay --to webhook "+args)...)
		mustBePrivate(t, got.Stdout+got.Stderr)
		if got.Code != code || !strings.HasPrefix(got.Stdout, out) || !strings.Contains(got.Stderr, err) {
			t.Errorf("replay %s: %+v", args, got)
		}
	}
	here := append(environ[:len(environ):len(environ)], p.Environ()...)
	replays(here, "", exit.Done, "10 events sent to webhook; refused: 0\n", "")
	posts := p.Hooked("contact_request.created")
	for _, one := range posts {
		if one.Header.Get("ce-origin") != "replay" || !strings.Contains(one.Body, `"origin":"replay"`) {
			t.Errorf("its origin is %q", one.Header.Get("ce-origin"))
		}
	}
	if len(posts) != 9 {
		t.Errorf("%d contact requests arrived, want 9", len(posts))
	}
	elsewhere := append(here[:len(here):len(here)], "DOORBELL_WEBHOOK_URL=", doorbelltest.RoutesFile(t, "C300;webhook:http://127.0.0.1:1/"))
	replays(elsewhere, "--type contact_request.>", exit.Done, "0 events sent to webhook; refused: 0\n", "")
	p.Answer(http.StatusGone)
	replays(here, "--agency A100", exit.CodeFailed, "", "at sequence 1: ")
	replays(here, "--agency A100", exit.CodeFailed, "", "run it again with --from-sequence 1")
	p.Answer(http.StatusOK)
	replays(here, "--agency A100 --from-sequence 1", exit.Done, "5 events sent to webhook", "")
}
