package cli

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/schemas/schematest"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TestWhyNATSCannotBeUsedIsReportedWherePeopleLook wants the reason in the log and from each
// command, and the address without the password in it.
func TestWhyNATSCannotBeUsedIsReportedWherePeopleLook(t *testing.T) {
	t.Parallel()
	denied := &server.Permissions{Publish: &server.SubjectPermission{Deny: []string{"listings.>"}}}
	for why, configure := range map[string]func(*server.Options){ // URL is replaced by the address
		"no connection to NATS at URL: it refuses our credentials": func(o *server.Options) {
			o.Username, o.Password = "crm", "right"
		},
		`NATS at URL does not allow it: Permissions Violation for Publish to "listings.`: func(o *server.Options) {
			o.Users = []*server.User{{Username: "crm", Password: doorbelltest.Sentinel, Permissions: denied}}
		},
	} {
		t.Run(strings.Fields(why)[0], func(t *testing.T) {
			t.Parallel()
			s, n := doorbelltest.NewScene(t, "A100"), doorbelltest.NatsServer(t, configure)
			why = strings.ReplaceAll(why, "URL", n.ClientURL())
			s.Watched(t, "A100")
			environ := s.With("NATS_URL=" + strings.Replace(n.ClientURL(), "//", "//crm:"+doorbelltest.Sentinel+"@", 1))
			d := doorbelltest.Launch(t, environ, "run")
			s.Ring(t, "A100")
			doorbelltest.Eventually(t, "the log says why", func() bool {
				return strings.Contains(strings.ReplaceAll(d.Stderr.String(), `\"`, `"`), why)
			})
			for command, code := range map[string]int{"status": exit.Done, "check": exit.CodeFailed} {
				doorbelltest.Eventually(t, command+" says why", func() bool {
					got := doorbelltest.Run(t, environ, command)
					got.HoldsNoSecret(t)
					words := strings.Join(strings.Fields(got.Stdout), " ") // the lines are broken to fit
					return got.Code == code && strings.Contains(words, why)
				})
			}
			d.Stop(t)
			if strings.Contains(d.Stderr.String(), doorbelltest.Sentinel) {
				t.Error("the password is in the log")
			}
		})
	}
}

func TestAnExternalStreamIsUsedAsItIsAndStrayMessagesAreSkipped(t *testing.T) {
	t.Parallel()
	s, url := doorbelltest.NewScene(t, "A100"), doorbelltest.StartNATS(t, server.RANDOM_PORT)
	_, js := doorbelltest.Connected(t, url)
	theirs, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "LISTINGS", Description: "ours", Subjects: []string{"listings.v1.>"}, MaxAge: time.Hour, Duplicates: time.Hour,
	})
	must(t, err)
	d := doorbelltest.Launch(t, s.With("NATS_URL="+strings.Replace(url, "://", "://u:"+doorbelltest.Sentinel+"@", 1)), "run")
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, "A100")
	for range 2 {
		sub.Request(t, s.Ring(t, "A100"))
		if _, err := js.Publish(t.Context(), "listings.v1.A100.test", []byte("hi")); err != nil {
			t.Fatal(err)
		}
	}
	sub.Request(t, s.Ring(t, "A100"))

	var status ops.Status
	got := doorbelltest.Run(t, s.Environ, "status", "--json")
	if err := json.Unmarshal([]byte(got.Stdout), &status); err != nil || status.NATS.Embedded || !status.NATS.Connected ||
		status.NATS.URL != url || len(status.Relay) != 1 || status.NATS.Problem != "" {
		t.Errorf("status: %v, %+v", err, got)
	}
	if after := doorbelltest.StreamOf(t, js); !reflect.DeepEqual(theirs.CachedInfo().Config, after.CachedInfo().Config) {
		t.Errorf("the stream was changed to %+v", after.CachedInfo().Config)
	}
	d.Stop(t)
	doorbelltest.Has(t, d.Stderr.String(), "external NATS")
	if strings.Contains(got.Stdout+d.Stderr.String(), doorbelltest.Sentinel) {
		t.Error("the password of NATS is printed")
	}
}

// TestAGuestReceivesHeartbeatsAndCannotPublishForDoorbell uses a plain client of the embedded
// server.
func TestAGuestReceivesHeartbeatsAndCannotPublishForDoorbell(t *testing.T) {
	t.Parallel()
	a := doorbelltest.NewScene(t, "A100").Open(t, "127.0.0.1:0")
	refused := make(chan string, 10)
	nc, _ := doorbelltest.Connected(t, doorbelltest.StatusOf(t, a).NATS.URL,
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err.Error() }))
	beats, err := nc.SubscribeSync("listings.heartbeat.A100")
	must(t, err)
	for _, subject := range []string{"listings.v1.A100.contact_request.created", "listings.heartbeat.A100"} {
		must(t, nc.Publish(subject, []byte("{}")))
		select {
		case got := <-refused:
			doorbelltest.Has(t, got, `Publish to "`+subject+`"`)
		case <-time.After(doorbelltest.Patience):
			t.Fatalf("%s is not refused", subject)
		}
	}
	doorbelltest.RunUntilTheEnd(t, a)
	beat, err := beats.NextMsg(doorbelltest.Patience)
	must(t, err)
	schematest.Validate(t, "heartbeat", beat.Data)
}
