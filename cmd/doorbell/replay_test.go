package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// replayed reads what the stream of replays holds, as a guest.
func replayed(t *testing.T, url string) (all []arrival) {
	t.Helper()
	_, js := connected(t, url)
	s, err := js.Stream(t.Context(), "LISTINGS_REPLAY")
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(t.Context(), "LISTINGS_REPLAY", jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatalf("a guest may not read: %v", err)
	}
	for range s.CachedInfo().State.Msgs {
		all = append(all, nextOf(t, c))
	}
	return all
}

// lastOf is the last place of the stream of news.
func lastOf(t *testing.T, url string) uint64 {
	t.Helper()
	_, js := connected(t, url)
	return streamOf(t, js).CachedInfo().State.LastSeq
}

func TestWhileTheDaemonRunsItsEventsAreReplayedBesideTheNews(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100", "B200")
	d := launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100", "B200")
	var news []arrival
	for range 4 {
		news = append(news, sub.request(t, s.ring(t, "B200")))
	}
	confirmed := func() bool { // the log learns of it a moment after the subscriber
		status, err := ops.NewClient(s.dir + "/" + daemon.SocketFile).Status(t.Context())
		return err == nil && !slices.ContainsFunc(status.Relay, func(r ops.RelayStatus) bool { return r.Pending > 0 })
	}
	eventually(t, "the log knows what is published", confirmed)
	before := lastOf(t, url)
	args := []string{"replay", "--type", "contact_request.>", "--agency", "B200", "--job", "crm-2", "--rate", "0"}
	got := run(t, s.environ, args...)
	if got.code != 0 || got.stdout != "4 events replayed to listings.replay.crm-2.>, stream LISTINGS_REPLAY; there already: 0\n" {
		t.Fatalf("got %+v", got)
	}
	has(t, got.stderr, "replaying 4 events to listings.replay.crm-2.>, job crm-2")
	all := replayed(t, url)
	if len(all) != 4 {
		t.Fatalf("%d messages", len(all))
	}
	for i, a := range all {
		was := news[i]
		if a.subject != "listings.replay.crm-2.B200.contact_request.created" || a.header.Get("doorbell-replay") != "crm-2" ||
			a.header.Get("Nats-Msg-Id") != "crm-2/"+was.header.Get("ce-id") || a.header.Get("ce-origin") != "replay" {
			t.Errorf("message %d: %s %v", i, a.subject, a.header)
		}
		for _, name := range []string{"ce-id", "ce-sequence", "ce-time", "ce-recordedtime", "ce-subject", "ce-storeid", "ce-partitionkey"} {
			if a.header.Get(name) != was.header.Get(name) {
				t.Errorf("message %d: %s is %q, want %q", i, name, a.header.Get(name), was.header.Get(name))
			}
		}
		if want := bytes.Replace(was.data, []byte(`"origin":"live"`), []byte(`"origin":"replay"`), 1); !bytes.Equal(a.data, want) {
			t.Errorf("message %d: another payload", i)
		}
	}
	sub.request(t, s.ring(t, "B200"))
	eventually(t, "the log knows that too", confirmed)
	got = run(t, s.environ, append(args, "--json")...)
	var p ops.ReplayProgress
	if err := json.Unmarshal([]byte(got.stdout), &p); err != nil || p.Published != 1 || p.AlreadyThere != 4 || p.Total != 5 {
		t.Errorf("again: %+v, %v", got, err)
	}
	if after := lastOf(t, url); after != before+1 {
		t.Errorf("the stream of news grew by %d", after-before)
	}
	status := run(t, s.environ, "status", "--json")
	if strings.Contains(status.stdout, `"foreign"`) {
		t.Errorf("the relay met strangers: %s", status.stdout)
	}
	d.stop(t)
	holdsNobody(t, got.stdout+got.stderr+d.stderr.String())
}

func TestAStoppedReplaySaysHowItGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t, "A100")
	d := launch(t, s.environ, "run")
	url := natsURL(t, s.dir)
	sub := subscribeTo(t, url)
	sub.baselined(t, "A100")
	for range 5 {
		sub.request(t, s.ring(t, "A100"))
	}
	began := time.Now()
	c := launch(t, s.environ, "replay", "--since", "1h", "--type", "contact_request.>", "--rate", "2", "--job", "slow")
	c.stderr.await(t, "replaying 5 events")
	eventually(t, "the first is there", func() bool { return streamExists(t, url) && len(replayed(t, url)) > 0 })
	if code := c.end(t, syscall.SIGINT); code != exit.Done || time.Since(began) > 10*time.Second {
		t.Errorf("exit code %d", code)
	}
	said := c.stderr.await(t, `stopped; at least \d of 5 are there, and this goes on:\n  doorbell (.*)\n`)[1]
	eventually(t, "the daemon has stopped too", func() bool { return strings.Contains(d.stderr.String(), "replay stopped") })
	has(t, said, "replay --type 'contact_request.>' --since 20", "--job slow --rate 2")
	there := len(replayed(t, url))
	var words []string
	for _, w := range strings.Fields(said) {
		words = append(words, strings.Trim(w, "'"))
	}
	got := run(t, s.environ, append(words, "--rate", "0")...)
	if want := fmt.Sprintf("%d events replayed to listings.replay.slow.>, stream LISTINGS_REPLAY; there already: %d\n", 5-there, there); got.code != 0 || there > 4 || strings.Replace(got.stdout, "1 event ", "1 events ", 1) != want {
		t.Errorf("%d were there: %+v", there, got)
	}
	if n := len(replayed(t, url)); n != 5 {
		t.Errorf("%d messages, want 5", n)
	}
	d.stop(t)
}

func streamExists(t *testing.T, url string) bool {
	_, js := connected(t, url)
	_, err := js.Stream(t.Context(), "LISTINGS_REPLAY")
	return err == nil
}

func TestWithoutADaemonAnExternalNATSIsEnough(t *testing.T) {
	t.Parallel()
	url := startNATS(t, server.RANDOM_PORT)
	environ := append(logged(t, 9, "A100", "B200"), "NATS_URL="+strings.Replace(url, "://", "://u:"+sentinel+"@", 1))
	before := tree(t, settingOf(environ, "DOORBELL_DATA_DIR"))
	forbidden := run(t, append(environ, "DOORBELL_STREAM_MANAGE=off"), "replay")
	if forbidden.code != exit.CodeFailed || forbidden.stdout != "" {
		t.Errorf("got %+v", forbidden)
	}
	has(t, forbidden.stderr, "stream LISTINGS_REPLAY: the stream is missing", "listings.replay.>", "DOORBELL_STREAM_MANAGE")
	got := run(t, environ, "replay", "--job", "x", "--from-sequence", "2")
	if got.code != 0 || !strings.HasPrefix(got.stdout, "8 events replayed") {
		t.Errorf("got %+v", got)
	}
	if n := len(replayed(t, url)); n != 8 {
		t.Errorf("%d messages, want 8", n)
	}
	mustBeUntouched(t, settingOf(environ, "DOORBELL_DATA_DIR"), before)
	own := run(t, environ, "replay")
	name := time.Now().UTC().Format("20060102-")
	if own.code != 0 || !strings.Contains(own.stdout, "10 events replayed to listings.replay."+name) {
		t.Errorf("got %+v", own)
	}
	for _, r := range []result{forbidden, got, own} {
		r.holdsNoSecret(t)
		holdsNobody(t, r.stdout+r.stderr)
	}
	away := run(t, append(environ, "NATS_URL=nats://127.0.0.1:"+strconv.Itoa(freePort(t))), "replay")
	if away.code != exit.CodeFailed {
		t.Errorf("got %+v", away)
	}
	has(t, away.stderr, "no connection to NATS at", "--to -")
}

func TestToStandardOutputEventsAreCloudEventsWithOriginReplay(t *testing.T) {
	t.Parallel()
	environ := logged(t, 9, "A100", "B200")
	was := lines(run(t, environ, "events", "ls", "--json").stdout)
	for _, flag := range [][]string{{"--to", "-"}, {"--to=-", "--json", "--rate", "1000"}} {
		got := run(t, environ, append([]string{"replay"}, flag...)...)
		if got.code != 0 || got.stderr != "" {
			t.Fatalf("%v: got %+v", flag, got)
		}
		want := make([]string, len(was))
		for i, text := range was {
			want[i] = strings.ReplaceAll(text, `"origin":"live"`, `"origin":"replay"`)
		}
		if !slices.Equal(lines(got.stdout), want) {
			t.Errorf("%v: other lines", flag)
		}
	}
	one := run(t, environ, "replay", "--to", "-", "--insertion", "see#1##", "--agency", "B200")
	for _, text := range lines(one.stdout) {
		var e events.Event
		if err := json.Unmarshal([]byte(text), &e); err != nil || e.Origin != events.OriginReplay || e.Reference != "see#1##" || e.AgencyID != "B200" {
			t.Errorf("%v, %v", e.Header(), err)
		}
	}
	if len(lines(one.stdout)) != 2 {
		t.Errorf("%d lines", len(lines(one.stdout)))
	}
}

func TestADryRunCountsAndDoesNothing(t *testing.T) {
	t.Parallel()
	environ := logged(t, 9, "A100", "B200")
	before := tree(t, settingOf(environ, "DOORBELL_DATA_DIR"))
	got := run(t, environ, "replay", "--dry-run")
	text := strings.Join(strings.Fields(got.stdout), " ")
	if got.code != 0 || got.stderr != "" {
		t.Errorf("got %+v", got)
	}
	has(t, text, "AGENCY WHAT EVENTS A100 contact_request.created 5 A100 sequences 1 to 5 5 B200 contact_request.created 4 B200 access.halted 1 B200 sequences 1 to 5 5 10 events would be replayed")
	got = run(t, environ, "replay", "--dry-run", "--json", "--type", "access.>")
	var c ops.EventCounts
	if err := json.Unmarshal([]byte(got.stdout), &c); err != nil || c.Total != 1 || c.Agencies[0].Types["access.halted"] != 1 || c.Agencies[0].AgencyID != "B200" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got = run(t, environ, "replay", "--dry-run", "--origin", "baseline"); got.code != 0 || got.stdout != "0 events would be replayed\n" {
		t.Errorf("got %+v", got)
	}
	if got = run(t, environ, "replay", "--origin", "baseline", "--to", "-"); got.code != 0 || got.stdout != "" || got.stderr != "the event log holds no such event\n" {
		t.Errorf("got %+v", got)
	}
	mustBeUntouched(t, settingOf(environ, "DOORBELL_DATA_DIR"), before)
}

func TestMoreThanAThousandEventsAreAskedFor(t *testing.T) {
	t.Parallel()
	environ := logged(t, 1000, "A100", "B200") // and a halt
	environ = append(environ, "NATS_URL="+startNATS(t, server.RANDOM_PORT))
	got := run(t, environ, "replay", "--rate", "0")
	if got.code != exit.CodeUsage || got.stdout != "" {
		t.Errorf("got %+v", got)
	}
	has(t, got.stderr, "1001 events would be replayed, and there is nobody to ask", "--yes does it")
	if got = run(t, environ, "replay", "--rate", "0", "--yes"); got.code != 0 || !strings.HasPrefix(got.stdout, "1,001 events replayed") {
		t.Errorf("with --yes: %+v", got)
	}
	if got = run(t, environ, "replay", "--rate", "0", "--type", "contact_request.created"); got.code != 0 || !strings.HasPrefix(got.stdout, "1,000 events replayed") {
		t.Errorf("a thousand: %+v", got)
	}
	if got = run(t, environ, "replay", "--to", "-"); got.code != 0 || len(lines(got.stdout)) != 1001 {
		t.Errorf("standard output floods nobody: %d lines, %s", len(lines(got.stdout)), got.stderr)
	}
	for answer, yes := range map[string]bool{"y\n": true, "Yes\n": true, "yes": true, "n\n": false, "\n": false, "": false, "yesterday\n": false} {
		var out strings.Builder
		if err := ask(t.Context(), strings.NewReader(answer), &out, "Go on? "); (err == nil) != yes || out.String() != "Go on? " {
			t.Errorf("%q: %v, %q", answer, err, out.String())
		}
	}
}

func TestReplayRefusesWhatCannotBe(t *testing.T) {
	t.Parallel()
	environ := logged(t, 3, "A100", "B200")
	for args, sentence := range map[string]string{
		"--job a.b":                             "--job: write 1 to 64 letters, digits, _ and -",
		"--job >":                               "--job: write 1 to 64",
		"--job " + strings.Repeat("a", 65):      "--job: write 1 to 64",
		"--job a --to -":                        "--job: has a meaning for NATS alone",
		"--to kafka":                            "--to: write nats, -, slack, email or webhook",
		"--rate=-1":                             "--rate: write a number from",
		"--rate NaN":                            "--rate: write a number from",
		"--rate Inf":                            "--rate: write a number from",
		"--rate 1e-300":                         "--rate: write a number from",
		"--rate fast":                           "--rate: ",
		"--agency A/1":                          "--agency: ",
		"--type appeared":                       "--type: there is no event type",
		"--since soon":                          "is neither a time",
		"--since 2999-01-01T00:00:00Z":          "--since: lies in the future",
		"--since 1h --until 2h":                 "--until: is not after --since",
		"--from-sequence 2 --to-sequence 1":     "--from-sequence: is higher than --to-sequence",
		"--origin replay":                       "--origin: write live or baseline",
		"everything":                            "everything",
		"--from-sequence 99999999999999999999 ": "--from-sequence: ",
	} {
		got := run(t, environ, append([]string{"replay"}, strings.Fields(args)...)...)
		if got.code != exit.CodeUsage || got.stdout != "" || strings.Count(got.stderr, "doorbell: ") != 1 {
			t.Errorf("%s: got %+v", args, got)
		}
		has(t, got.stderr, sentence)
	}
	got := run(t, environ, "replay", "--agency", "C300")
	if got.code != exit.CodeFailed {
		t.Errorf("got %+v", got)
	}
	has(t, got.stderr, "knows no such agency: C300")
	got = run(t, environ, "replay")
	if got.code != exit.CodeFailed {
		t.Errorf("got %+v", got)
	}
	has(t, got.stderr, "no daemon runs, and with it no NATS server", "--to -")
}

func TestAJobThatWasUsedForOtherEventsIsRefused(t *testing.T) {
	t.Parallel()
	url := startNATS(t, server.RANDOM_PORT)
	environ := append(logged(t, 9, "A100", "B200"), "NATS_URL="+url)
	replay := func(args ...string) result {
		return run(t, environ, append([]string{"replay", "--job", "x", "--rate", "0"}, args...)...)
	}
	if got := replay("--type", "contact_request.created", "--from-sequence", "2"); got.code != exit.Done || !strings.HasPrefix(got.stdout, "7 events replayed") {
		t.Fatalf("%+v", got)
	}
	for name, other := range map[string][]string{
		"another type":              {"--type", "access.halted", "--from-sequence", "2"},
		"all types":                 {"--from-sequence", "2"},
		"one that begins earlier":   {"--type", "contact_request.created"},
		"another insertion as well": {"--type", "contact_request.created", "--from-sequence", "2", "--insertion", "see#1##"},
	} {
		got := replay(other...)
		if got.code != exit.CodeFailed || got.stdout != "" {
			t.Errorf("%s: %+v", name, got)
		}
		has(t, got.stderr, "another choice of events", "choose another --job")
	}
	for name, same := range map[string][]string{
		"the same":        {"--type", "contact_request.created", "--from-sequence", "2"},
		"that ends early": {"--type", "contact_request.created", "--from-sequence", "2", "--to-sequence", "3"},
		"of one agency":   {"--type", "contact_request.created", "--from-sequence", "2", "--agency", "B200"},
	} {
		if got := replay(same...); got.code != exit.Done || !strings.HasPrefix(got.stdout, "0 events replayed") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if n := len(replayed(t, url)); n != 7 {
		t.Errorf("%d messages, want 7", n)
	}
}
