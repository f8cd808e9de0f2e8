package stream

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"doorbell/events/natsd"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

const secret = "SENTINELSECRET"

func TestErrorsExplainWhyNATSCannotBeUsed(t *testing.T) {
	locked := start(t, natsd.Options{GuestUser: "crm", GuestPassword: "right"})
	guarded := start(t, natsd.Options{Protected: []string{"listings.v1.>"}})
	plain := serve(t, new(server.Options))
	for name, c := range map[string]struct {
		dial natsd.Dial
		want string
		away bool
	}{
		"a wrong password":    {natsd.Dial{URL: strings.Replace(locked.ClientURL(), "//", "//crm:"+secret+"@", 1)}, ": it refuses our credentials", true},
		"nobody":              {natsd.Dial{URL: "nats://127.0.0.1:1", Token: secret}, " at nats://127.0.0.1:1: no server answers", true},
		"no JetStream":        {natsd.Dial{URL: plain.ClientURL(), Password: secret}, "JetStream is off for this NATS account at " + plain.ClientURL(), false},
		"no right to publish": {natsd.Dial{URL: guarded.ClientURL()}, `does not allow it: Permissions Violation for Publish to "listings.v1.A100.x"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			nc, err := natsd.Connect(c.dial, nil)
			must(t, err)
			defer nc.Close()
			js, err := jetstream.New(nc)
			must(t, err)
			var said error
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); { // a connection is made in the background
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				if _, err = js.Stream(ctx, "LISTINGS"); errors.Is(err, jetstream.ErrStreamNotFound) {
					_, err = js.Publish(ctx, "listings.v1.A100.x", nil)
				}
				cancel()
				if said = Explain(Conn{Conn: nc}, err); said != nil && strings.Contains(said.Error(), c.want) {
					break
				}
			}
			if said == nil || !strings.Contains(said.Error(), c.want) || strings.Contains(said.Error(), secret) || errors.Is(said, ErrNotConnected) != c.away {
				t.Errorf("%v is explained as %v", err, said)
			}
		})
	}
}

func start(t *testing.T, o natsd.Options) *natsd.Server {
	t.Helper()
	o.StoreDir, o.Listen = cmp.Or(o.StoreDir, t.TempDir()), cmp.Or(o.Listen, "127.0.0.1:0")
	s, err := natsd.Start(t.Context(), o)
	must(t, err)
	t.Cleanup(s.Shutdown)
	return s
}
