package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/exit"
)

// TestWhyNATSCannotBeUsedIsSaidWherePeopleLook: the reason, and the address without the password in it.
func TestWhyNATSCannotBeUsedIsSaidWherePeopleLook(t *testing.T) {
	t.Parallel()
	withSecret := func(url string) string { return strings.Replace(url, "//", "//crm:"+sentinel+"@", 1) }
	lets := func(o *server.Options) { o.Username, o.Password = "crm", sentinel }
	for name, c := range map[string]struct {
		server func(t *testing.T) string
		why    string
		takes  bool // it takes some of what the commands ask
	}{
		"a wrong password": {func(t *testing.T) string {
			return natsServer(t, func(o *server.Options) { o.Username, o.Password = "crm", "right" }).ClientURL()
		}, "no connection to NATS at URL: it refuses our credentials", false},
		"nobody there": {func(*testing.T) string { return "nats://127.0.0.1:1" }, "no connection to NATS at URL: no server answers", false},
		"JetStream is off": {func(t *testing.T) string {
			return natsServer(t, lets, func(o *server.Options) { o.JetStream = false }).ClientURL()
		}, "JetStream is off for this account of NATS at URL", false},
		"no right to publish": {func(t *testing.T) string {
			return natsServer(t, func(o *server.Options) {
				o.Users = []*server.User{{Username: "crm", Password: sentinel, Permissions: &server.Permissions{
					Publish: &server.SubjectPermission{Deny: []string{"listings.>"}},
				}}}
			}).ClientURL()
		}, `NATS at URL does not allow it: Permissions Violation for Publish to "listings.`, true},
		"another stream of that name": {func(t *testing.T) string {
			url := natsServer(t, lets).ClientURL()
			_, js := connected(t, withSecret(url))
			if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"other.>"}}); err != nil {
				t.Fatal(err)
			}
			return url
		}, "the stream is not fit: LISTINGS: its subjects do not cover listings.v1.>", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, good := newScene(t, "A100"), startFar(t)
			d := launch(t, s.with("NATS_URL="+good.url()), "run")
			natsURL(t, s.dir)
			subscribeTo(t, good.url()).baselined(t, "A100") // there is something to replay
			d.stop(t)

			url := c.server(t)
			why := strings.ReplaceAll(c.why, "URL", url)
			environ := s.with("NATS_URL="+withSecret(url), "DOORBELL_WEBHOOK_URL=http://127.0.0.1:1/x", "DOORBELL_WEBHOOK_SECRET=whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r")
			d = launch(t, environ, "run")
			natsURL(t, s.dir)
			s.ring(t, "A100")
			eventually(t, "the log says why", func() bool { return strings.Contains(strings.ReplaceAll(d.stderr.String(), `\"`, `"`), why) })
			// A connection of its own has a few seconds for its first answer, and a daemon says what its last try to connect ended with:
			// where a machine is busy, one may reach nobody.
			said := func(args ...string) {
				t.Helper()
				eventually(t, args[0]+" says why", func() bool {
					got := run(t, environ, args...)
					words := strings.Join(strings.Fields(got.stdout+got.stderr), " ") // the lines are broken to fit
					if strings.Contains(words, sentinel) {
						t.Errorf("%v says the password", args)
					}
					return got.code == exit.CodeFailed && strings.Contains(words, why)
				})
			}
			eventually(t, "the status says why", func() bool {
				got := run(t, environ, "status")
				return strings.Contains(strings.Join(strings.Fields(got.stdout), " "), why) && strings.Contains(got.stdout, url)
			})
			said("check")
			if !c.takes {
				said("status", "--check")
				said("events", "tail")
				said("verify")
			}
			if name != "another stream of that name" { // that of replays is another one
				said("replay", "--job", "x")
			}
			d.stop(t)
			if strings.Contains(d.stderr.String(), sentinel) {
				t.Error("the password is in the log")
			}
			if c.takes {
				return
			}
			said("verify") // the command itself looks for NATS now
			d = launch(t, environ, "forward", "webhook")
			d.stderr.await(t, why)
			d.stop(t)
			if strings.Contains(d.stderr.String(), sentinel) {
				t.Error("the password is in the log of the forwarder")
			}
		})
	}
}
