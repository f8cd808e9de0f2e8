package cli

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// replayed reads what the stream of replays holds, as a guest.
func replayed(t *testing.T, url string) (all []doorbelltest.Arrival) {
	t.Helper()
	_, js := doorbelltest.Connected(t, url)
	s, err := js.Stream(t.Context(), "LISTINGS_REPLAY")
	must(t, err)
	c, err := js.CreateConsumer(t.Context(), "LISTINGS_REPLAY", jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatalf("a guest may not read: %v", err)
	}
	for range s.CachedInfo().State.Msgs {
		all = append(all, doorbelltest.NextOf(t, c))
	}
	return all
}

func TestARunningDaemonReplaysEventsBesideNewOnes(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	d, sub, url := running(t, s)
	var news []doorbelltest.Arrival
	for range 4 {
		news = append(news, sub.Request(t, s.Ring(t, "B200")))
	}
	confirmed := confirmedBy(t, s)
	doorbelltest.Eventually(t, "the log knows what is published", confirmed)
	before := doorbelltest.StreamOf(t, sub.JS).CachedInfo().State.LastSeq
	args := []string{"replay", "--type", "contact_request.>", "--agency", "B200", "--job", "crm-2", "--rate", "0"}
	got := doorbelltest.Run(t, s.Environ, args...)
	if got.Code != 0 || got.Stdout != "4 events replayed to listings.replay.crm-2.>, stream LISTINGS_REPLAY; already present: 0\n" {
		t.Fatalf("got %+v", got)
	}
	doorbelltest.Has(t, got.Stderr, "replaying 4 events, job crm-2")
	all := replayed(t, url)
	if len(all) != 4 {
		t.Fatalf("%d messages", len(all))
	}
	for i, a := range all {
		was := news[i]
		if a.Subject != "listings.replay.crm-2.B200.contact_request.created" || a.Header.Get("doorbell-replay") != "crm-2" ||
			a.Header.Get("Nats-Msg-Id") != "crm-2/"+was.Header.Get("ce-id") || a.Header.Get("ce-origin") != "replay" {
			t.Errorf("message %d: %s %v", i, a.Subject, a.Header)
		}
		for _, name := range []string{"ce-id", "ce-sequence", "ce-time", "ce-recordedtime", "ce-subject", "ce-storeid", "ce-partitionkey"} {
			if a.Header.Get(name) != was.Header.Get(name) {
				t.Errorf("message %d: %s is %q, want %q", i, name, a.Header.Get(name), was.Header.Get(name))
			}
		}
		if want := bytes.Replace(was.Data, []byte(`"origin":"live"`), []byte(`"origin":"replay"`), 1); !bytes.Equal(a.Data, want) {
			t.Errorf("message %d: another payload", i)
		}
	}
	sub.Request(t, s.Ring(t, "B200"))
	doorbelltest.Eventually(t, "the log knows that too", confirmed)
	got = doorbelltest.Run(t, s.Environ, append(args, "--json")...)
	var p ops.ReplayAnswer
	if err := json.Unmarshal([]byte(got.Stdout), &p); err != nil || p.Published != 1 || p.AlreadyThere != 4 || p.Total != 5 {
		t.Errorf("again: %+v, %v", got, err)
	}
	if after := doorbelltest.StreamOf(t, sub.JS).CachedInfo().State.LastSeq; after != before+1 {
		t.Errorf("the stream of new events grew by %d", after-before)
	}
	d.Stop(t)
}

// confirmedBy reports whether the log knows that all is published, which it learns a moment after the subscriber.
func confirmedBy(t *testing.T, s doorbelltest.Scene) func() bool {
	return func() bool {
		status, err := ops.NewClient(s.Dir + "/" + daemon.SocketFile).Status(t.Context())
		return err == nil && !slices.ContainsFunc(status.Relay, func(r ops.RelayStatus) bool { return r.Pending > 0 })
	}
}

// watchesNothing runs a daemon on an event log, with an API that does not respond.
func watchesNothing(t *testing.T, environ []string) {
	t.Helper()
	environ = append(environ, "DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_AGENCIES=A100,B200", "DOORBELL_API_KEY="+doorbelltest.TestKey,
		"DOORBELL_HTTP_LISTEN=off", "DOORBELL_NATS_LISTEN=off")
	d := doorbelltest.Launch(t, environ, "run")
	d.Stderr.Await(t, `"msg":"watching"`)
	t.Cleanup(func() { d.Stop(t) })
}

func TestAReplayOfMoreThanAThousandEventsNeedsConfirmation(t *testing.T) {
	t.Parallel()
	environ := append(logged(t, 1000, true), "NATS_URL="+doorbelltest.StartNATS(t, server.RANDOM_PORT)) // and a halt
	watchesNothing(t, environ)
	got := doorbelltest.Run(t, environ, "replay", "--rate", "0")
	if got.Code != exit.CodeUsage || got.Stdout != "" {
		t.Errorf("got %+v", got)
	}
	doorbelltest.Has(t, got.Stderr, "1001 events would be replayed", "add --yes to do it")
	if got = doorbelltest.Run(t, environ, "replay", "--rate", "0", "--yes"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "1,001 events replayed") {
		t.Errorf("with --yes: %+v", got)
	}
	if got = doorbelltest.Run(t, environ, "replay", "--rate", "0", "--type", "contact_request.created"); got.Code != 0 || !strings.HasPrefix(got.Stdout, "1,000 events replayed") {
		t.Errorf("a thousand: %+v", got)
	}
	if got = doorbelltest.Run(t, environ, "replay", "--to", "-"); got.Code != 0 || len(doorbelltest.Lines(got.Stdout)) != 1001 {
		t.Errorf("standard output: %d lines, %s", len(doorbelltest.Lines(got.Stdout)), got.Stderr)
	}
}
