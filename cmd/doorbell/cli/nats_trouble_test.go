package cli

import (
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// natsTrouble is why NATS cannot be used. People see the reason wherever they look, and the address without the password in it. Each is
// a test of its own, as they wait for many seconds: parallel subtests would begin only when all other tests have begun.
type natsTrouble struct {
	why     string // URL stands for the address
	takes   bool   // it takes some of what the commands ask
	replays bool   // the stream of replays, which is another one, can be used
}

func passwordOfCRM(o *server.Options) { o.Username, o.Password = "crm", doorbelltest.Sentinel }

func withPasswordOfCRM(url string) string {
	return strings.Replace(url, "//", "//crm:"+doorbelltest.Sentinel+"@", 1)
}

func TestAWrongPasswordOfNATSIsSaidWherePeopleLook(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NatsServer(t, func(o *server.Options) { o.Username, o.Password = "crm", "right" })
	natsTrouble{why: "no connection to NATS at URL: it refuses our credentials"}.isSaid(t, s.ClientURL())
}

func TestANATSWithoutJetStreamIsSaidWherePeopleLook(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NatsServer(t, passwordOfCRM, func(o *server.Options) { o.JetStream = false })
	natsTrouble{why: "JetStream is off for this account of NATS at URL"}.isSaid(t, s.ClientURL())
}

func TestAMissingRightToPublishIsSaidWherePeopleLook(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NatsServer(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "crm", Password: doorbelltest.Sentinel, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"listings.>"}},
		}}}
	})
	natsTrouble{why: `NATS at URL does not allow it: Permissions Violation for Publish to "listings.`, takes: true}.isSaid(t, s.ClientURL())
}

func TestAStreamOfThatNameThatIsAnotherIsSaidWherePeopleLook(t *testing.T) {
	t.Parallel()
	url := doorbelltest.NatsServer(t, passwordOfCRM).ClientURL()
	_, js := doorbelltest.Connected(t, withPasswordOfCRM(url))
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LISTINGS", Subjects: []string{"other.>"}}); err != nil {
		t.Fatal(err)
	}
	natsTrouble{why: "the stream is not fit: LISTINGS: its subjects do not cover listings.v1.>", takes: true, replays: true}.isSaid(t, url)
}

func (c natsTrouble) isSaid(t *testing.T, url string) {
	t.Helper()
	s, good := doorbelltest.NewScene(t, "A100"), doorbelltest.StartFar(t)
	a, _ := inProcess(t, s.With("NATS_URL="+good.URL()))
	endsInTime := runs(t, a)
	doorbelltest.SubscribeTo(t, good.URL()).Baselined(t, "A100") // there is something to replay
	endsInTime()

	why := strings.ReplaceAll(c.why, "URL", url)
	environ := s.With("NATS_URL="+withPasswordOfCRM(url), "DOORBELL_WEBHOOK_URL=http://127.0.0.1:1/x", "DOORBELL_WEBHOOK_SECRET=whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r")
	a, log := inProcess(t, environ)
	endsInTime = runs(t, a)
	s.Ring(t, "A100")
	doorbelltest.Eventually(t, "the log says why", func() bool { return strings.Contains(strings.ReplaceAll(log.String(), `\"`, `"`), why) })
	// A connection of its own has a few seconds for its first answer, and a daemon says what its last try to connect ended with:
	// where a machine is busy, one may reach nobody.
	said := func(args ...string) {
		t.Helper()
		doorbelltest.Eventually(t, args[0]+" says why", func() bool {
			got := doorbelltest.Run(t, environ, args...)
			words := strings.Join(strings.Fields(got.Stdout+got.Stderr), " ") // the lines are broken to fit
			if strings.Contains(words, doorbelltest.Sentinel) {
				t.Errorf("%v says the password", args)
			}
			return got.Code == exit.CodeFailed && strings.Contains(words, why)
		})
	}
	doorbelltest.Eventually(t, "the status says why", func() bool {
		got := doorbelltest.Run(t, environ, "status")
		return strings.Contains(strings.Join(strings.Fields(got.Stdout), " "), why) && strings.Contains(got.Stdout, url)
	})
	said("check")
	if !c.takes {
		said("status", "--check")
		said("events", "tail")
	}
	if !c.replays {
		said("replay", "--job", "x")
	}
	endsInTime()
	if strings.Contains(log.String(), doorbelltest.Sentinel) {
		t.Error("the password is in the log")
	}
	if c.takes {
		return
	}
	d := doorbelltest.Launch(t, environ, "forward", "webhook")
	d.Stderr.Await(t, why)
	d.Stop(t)
	if strings.Contains(d.Stderr.String(), doorbelltest.Sentinel) {
		t.Error("the password is in the log of the forwarder")
	}
}
