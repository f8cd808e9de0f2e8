package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd"
)

// asked sends a request until somebody answers.
func asked(t *testing.T, nc *nats.Conn, subject, body string) *nats.Msg {
	t.Helper()
	var answer *nats.Msg
	eventually(t, "an answer on "+subject, func() bool {
		var err error
		answer, err = nc.Request(subject, []byte(body), time.Second)
		return err == nil
	})
	holdsNobody(t, string(answer.Data))
	return answer
}

func TestTheMicroServiceIsFoundAndTellsTheStatus(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	d := launch(t, s.environ, "run")
	g := newGuest(t, natsURL(t, s.dir))
	for _, body := range []string{"", `{"agencyId":"B200"}`} {
		var status ops.Status
		answer := asked(t, g.nc, "listings.admin.status", body)
		if err := json.Unmarshal(answer.Data, &status); err != nil || !status.Running || status.StoreID == "" || len(answer.Header) > 0 {
			t.Fatalf("%v: %s", err, answer.Data)
		}
		agencies := status.Watch.Agencies
		if body == "" && len(agencies) != 2 || body != "" && (len(agencies) != 1 || agencies[0].AgencyID != "B200" || len(status.Relay) > 1) {
			t.Errorf("%s: %s", body, answer.Data)
		}
	}
	for body, code := range map[string]string{`{"agencyId":"C300"}`: "404", `no JSON`: "400", strings.Repeat("x", 10_000): "400"} {
		if answer := asked(t, g.nc, "listings.admin.status", body); answer.Header.Get(micro.ErrorCodeHeader) != code || answer.Header.Get(micro.ErrorHeader) == "" {
			t.Errorf("%.30s: %v", body, answer.Header)
		}
	}
	var info micro.Info
	if err := json.Unmarshal(asked(t, g.nc, "$SRV.INFO.doorbell", "").Data, &info); err != nil || info.Type != micro.InfoResponseType ||
		info.Metadata["storeId"] == "" || len(info.Endpoints) != 1 || info.Endpoints[0].Subject != "listings.admin.status" || info.Endpoints[0].QueueGroup != "" {
		t.Errorf("info is %+v, %v", info, err)
	}
	var stats micro.Stats
	if err := json.Unmarshal(asked(t, g.nc, "$SRV.STATS.doorbell."+info.ID, "").Data, &stats); err != nil || len(stats.Endpoints) != 1 ||
		stats.Endpoints[0].NumRequests != 5 || stats.Endpoints[0].NumErrors != 3 || stats.ID != info.ID {
		t.Errorf("statistics are %+v, %v", stats, err)
	}
	var ping micro.Ping
	if err := json.Unmarshal(asked(t, g.nc, "$SRV.PING", "").Data, &ping); err != nil || ping.Name != "doorbell" || ping.Type != micro.PingResponseType {
		t.Errorf("ping is %+v, %v", ping, err)
	}
	d.stop(t)
	holdsNobody(t, d.stderr.String())
}

func TestGuestsMayAskTheMicroServiceAndNotAnswerForIt(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	a := s.open(t, "127.0.0.1:0")
	runUntilTheEnd(t, a)
	sub := subscribeTo(t, statusOf(t, a).NATS.URL)
	sub.baselined(t, "A100")
	g := newGuest(t, statusOf(t, a).NATS.URL)
	for _, subject := range []string{"listings.admin.status", "listings.admin.>", "$SRV.PING.doorbell", "$SRV.INFO.doorbell.X"} {
		g.mayNot(t, "listening on "+subject, func(context.Context) error {
			_, err := g.nc.SubscribeSync(subject)
			return err
		})
	}
	g.mayNot(t, "a forged heartbeat", func(context.Context) error { return g.nc.Publish("listings.heartbeat.A100", []byte("{}")) })
	all, err := g.nc.SubscribeSync(">") // may be made, and shows nothing of what others ask
	if err != nil {
		t.Fatal(err)
	}
	asked(t, newGuest(t, statusOf(t, a).NATS.URL).nc, "listings.admin.status", "")

	before := streamOf(t, g.js).CachedInfo().State
	for _, reply := range []string{"listings.v1.A100.test", "listings.heartbeat.A100", "$JS.API.STREAM.PURGE.LISTINGS", "$JS.API.STREAM.DELETE.LISTINGS", "_RELAY.x", "elsewhere"} {
		for _, subject := range []string{"listings.admin.status", "$SRV.PING", "$SRV.INFO.doorbell", "$SRV.STATS"} {
			if err := g.nc.PublishRequest(subject, reply, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	asked(t, g.nc, "$SRV.STATS.doorbell", "") // what was asked before is done
	if after := streamOf(t, g.js).CachedInfo().State; after.LastSeq != before.LastSeq || after.Msgs != before.Msgs {
		t.Errorf("the service was made to change the stream: %+v", after)
	}
	for {
		m, err := all.NextMsg(100 * time.Millisecond)
		if err != nil {
			break
		}
		if strings.HasPrefix(m.Subject, "listings.admin.") || strings.Contains(m.Subject, "RELAY") || m.Subject == "elsewhere" {
			t.Errorf("a guest heard %s", m.Subject)
		}
	}
	if err := a.Server().Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked(t, newGuest(t, statusOf(t, a).NATS.URL).nc, "listings.admin.status", "") // the service is there again
}

func TestAConnectionOfTheMicroServiceThatIsClosedIsReplaced(t *testing.T) {
	t.Parallel()
	server, err := natsd.Start(t.Context(), natsd.Options{StoreDir: t.TempDir(), Listen: "127.0.0.1:0", ServiceSubjects: []string{"listings.admin.>"}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	conn, err := server.ConnectService("admin")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- ops.ServeMicro(t.Context(), ops.MicroOptions{Conn: conn, Prefix: "listings", Status: func() (ops.Status, error) { return ops.Status{}, nil }})
	}()
	asked(t, newGuest(t, server.ClientURL()).nc, "listings.admin.status", "")
	conn.Close()
	if err := <-ended; err == nil {
		t.Error("it ends without an error, as if it were over") // with one the daemon makes another connection
	}
}
