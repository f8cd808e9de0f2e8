package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller/sandbox"
	"doorbell/schemas"
	"doorbell/schemas/skiptest"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// interop is where the third-party programs and the examples for them are.
const interop = "../../../schemas/interop"

// judges are the tests that look at one talker: with programs that are not ours, and by the text of
// the contract.
var judges = map[string]func(*testing.T, *talker){
	"the CloudEvents library and Ajv": judgedByLibraries,
	"the example in Go":               judgedByLeads,
	"the examples in JavaScript":      judgedByMirror,
	"the nats command":                judgedByNATS,
	"the contract":                    judgedByContract,
}

// TestThirdPartyProgramsUnderstandOurOutput runs the real program once through many events, and
// passes its output to programs that know nothing of doorbell but the contract.
func TestThirdPartyProgramsUnderstandOurOutput(t *testing.T) {
	t.Parallel()
	b := startTalker(t)
	for name, judge := range judges { // one after the other: the talker would keep working while they wait for their turn
		t.Run("judged by "+name, func(t *testing.T) { judge(t, b) })
	}
	b.daemon.Stop(t)
}

// talker is a doorbell that has published many events.
type talker struct {
	doorbelltest.Scene
	url    string // of its NATS
	nc     *nats.Conn
	daemon *doorbelltest.Child
	lead   string // contact request that was announced as news
	erased string // contact request that was redacted

	stream jetstream.MessagesContext
	heard  []doorbelltest.Message // of the stream, as far as it was read
}

// oddReference contains everything that must be escaped in a path or a header.
const oddReference = `Haus am See#12 "b"#EG#50%ä/`

// oddAgency contains what must be escaped in a token.
const oddAgency = "C.300"

func startTalker(t *testing.T) *talker {
	t.Helper()
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusRequestEntityTooLarge) }))
	t.Cleanup(receiver.Close)
	b := &talker{Scene: doorbelltest.SceneOf(t, 8, []string{"A100", "B200", "D400", oddAgency})}
	b.Environ = b.With("DOORBELL_BASELINE=emit", "DOORBELL_HTTP_LISTEN=off", "DOORBELL_POLL_INTERVAL=400ms", "DOORBELL_WALK_INTERVAL=300ms",
		doorbelltest.RoutesFile(t, ";webhook:"+receiver.URL), "DOORBELL_WEBHOOK_SECRET=whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r")
	b.daemon = doorbelltest.Launch(t, b.Environ, "run")
	b.url = doorbelltest.NatsURL(t, b.Dir)
	b.nc, _ = doorbelltest.Connected(t, b.url)
	b.stream = doorbelltest.SubscribeTo(t, b.url).Messages
	b.happen(t)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// happen changes what can be changed at the API and waits for the events that must follow.
func (b *talker) happen(t *testing.T) {
	t.Helper()
	for _, agency := range b.Model.Truth().Agencies {
		b.event(t, "watch.baselined", agency)
	}
	must(t, b.Model.UnlinkKey(doorbelltest.TestKey, "B200"))
	b.vanish(t, "D400")
	b.live(t)
	b.event(t, "access.halted", "B200")
	b.Model.AddKey(doorbelltest.TestKey, "B200")
	b.command(t, "resume", "B200")
	b.event(t, "access.resumed", "B200")
	b.event(t, "watch.change_held", "D400")
	b.command(t, "approve", "D400")
	b.event(t, "watch.recovered", "D400")
	b.command(t, "replay", "--agency", "A100", "--job", "again", "--yes")
	doorbelltest.Eventually(t, "a dead letter", func() bool {
		letters, err := doorbelltest.ReadStreamNamed(t.Context(), b.nc, "LISTINGS_DLQ")
		return err == nil && len(letters) > 0
	})
}

// live is the whole life of an insertion and of two contact requests.
func (b *talker) live(t *testing.T) {
	t.Helper()
	i := sandbox.Insertion{
		Reference: oddReference, OfferType: "RENT", Address: sandbox.Address{Locality: "Zürich"},
		Prices: sandbox.Prices{Currency: "CHF", Rent: sandbox.Rent{Gross: 2890, Interval: "MONTH"}},
	}
	must(t, b.Model.Publish("A100", i))
	b.event(t, "insertion.appeared", "A100")
	b.lead = b.ring(t)
	b.event(t, "contact_request.created", "A100")
	must(t, b.Model.EditContactRequest(b.lead, func(c *sandbox.ContactRequest) { c.Message = "Doch nicht" + sandbox.Marker }))
	b.event(t, "contact_request.changed", "A100")
	b.erased = b.ring(t)
	b.await(t, "the second contact request", func(m doorbelltest.Message) bool { return m.Body.ContactRequestID == b.erased })
	must(t, b.Model.Redact(b.erased))
	b.event(t, "contact_request.redacted", "A100")
	must(t, b.Model.Edit("A100", oddReference, func(i *sandbox.Insertion) { i.Prices.Rent.Gross = 2790 }))
	b.event(t, "insertion.changed", "A100")
	must(t, b.Model.Withdraw("A100", oddReference))
	b.event(t, "insertion.disappeared", "A100")
	must(t, b.Model.Publish("A100", i))
	b.event(t, "insertion.reappeared", "A100")
}

// vanish withdraws more of an agency's insertions at once than is plausible: the daemon waits,
// so that no walk sees a part of it.
func (b *talker) vanish(t *testing.T, agency string) {
	t.Helper()
	must(t, b.daemon.Cmd.Process.Signal(syscall.SIGSTOP))
	n := 0
	for _, i := range b.Model.Truth().Insertions {
		if i.AgencyID == agency && n < 7 {
			must(t, b.Model.Withdraw(agency, i.Reference))
			n++
		}
	}
	must(t, b.daemon.Cmd.Process.Signal(syscall.SIGCONT))
}

// ring makes a contact request and returns its id.
func (b *talker) ring(t *testing.T) string {
	t.Helper()
	id, err := b.Model.AddContactRequest("A100", oddReference, sandbox.ContactRequest{
		FirstName: "Nora", LastName: "Beispiel" + sandbox.Marker, Email: "nora@example.org", Phone: "079 000 01 23",
		Language: "de", Message: "Guten Tag,\r\nist sie noch frei?", Score: 72.5,
	})
	must(t, err)
	return id
}

// event waits until the stream holds a live one.
func (b *talker) event(t *testing.T, kind, agency string) {
	t.Helper()
	b.await(t, kind+" of "+agency, func(m doorbelltest.Message) bool {
		return m.Kind() == kind && m.Body.AgencyID == agency && m.Body.Origin == string(events.OriginLive)
	})
}

// await reads on until the stream holds a message that fits.
func (b *talker) await(t *testing.T, what string, fits func(doorbelltest.Message) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), doorbelltest.Patience)
	defer cancel()
	for !slices.ContainsFunc(b.heard, fits) {
		m, err := b.stream.Next(jetstream.NextContext(ctx))
		if err != nil {
			t.Fatalf("%s did not arrive: %v", what, err)
		}
		b.heard = append(b.heard, doorbelltest.Received(t, m))
	}
}

func (b *talker) command(t *testing.T, args ...string) {
	t.Helper()
	if got := doorbelltest.Run(t, b.Environ, args...); got.Code != exit.Done {
		t.Fatalf("%q: %+v", args, got)
	}
}

// foreign is a third-party program in a process of its own. It is killed at the end of the test.
func foreign(t *testing.T, environ []string, name string, args ...string) *doorbelltest.Child {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c := doorbelltest.Begin(t, cmd)
	t.Cleanup(func() { kill(c) })
	return c
}

// kill ends a third-party program with all that it has started.
func kill(c *doorbelltest.Child) {
	_ = syscall.Kill(-c.Cmd.Process.Pid, syscall.SIGKILL) // mostly it has ended already
	<-c.Gone
}

// npm is the path of what is installed for the tests; without it the test is skipped.
func npm(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(interop, name))
	must(t, err)
	if _, err := os.Stat(filepath.Join(interop, "node_modules", "@nats-io", "jetstream")); err != nil {
		skiptest.Skipf(t, "nats.js is not installed; run, at the top of the repository: npm ci --ignore-scripts --prefix schemas/interop")
	}
	return path
}

// judgedByContract checks the events of an insertion and its leads against sections 2 and 3 of the
// contract: the order, subjects, every header, and the payload of a contact request.
func judgedByContract(t *testing.T, b *talker) {
	b.GoesOn(t, "A100", 60) // several more walks and polls find nothing to publish
	of := map[string]doorbelltest.Arrival{}
	var kinds []string
	for _, m := range doorbelltest.MustBeWhole(t, b.url) {
		if m.Body.PropertyReferenceID != oddReference || m.Body.ContactRequestID == b.erased {
			continue
		}
		if m.Subject != "listings.v1.A100."+m.Kind() || m.Body.Origin != "live" {
			t.Errorf("%s is on %s, from %s", m.Kind(), m.Subject, m.Body.Origin)
		}
		of[m.Kind()] = m
		if kinds = append(kinds, m.Kind()); len(kinds) == 6 {
			break // what the other judges make happen
		}
	}
	if got := strings.Join(kinds, " "); got != "insertion.appeared contact_request.created contact_request.changed "+
		"insertion.changed insertion.disappeared insertion.reappeared" {
		t.Fatalf("the stream has %s", got)
	}
	want := []any{map[string]any{"path": "/prices/rent/gross", "before": 2890.0, "after": 2790.0}}
	if got := of["insertion.changed"].Member(t, "changes"); !reflect.DeepEqual(got, want) {
		t.Errorf("changes are %v", got)
	}
	for kind, want := range map[string]int{"insertion.appeared": 1, "insertion.disappeared": 1, "insertion.reappeared": 2} {
		if got := of[kind].Body.Episode; got != want {
			t.Errorf("%s has episode %d", kind, got)
		}
	}
	mustBeAsPinned(t, of["contact_request.created"], b)
}

// mustBeAsPinned checks a contact_request.created against the contract: subject, every header, the payload.
func mustBeAsPinned(t *testing.T, a doorbelltest.Arrival, b *talker) {
	t.Helper()
	made, ok := b.Model.Truth().ContactRequest(b.lead)
	if !ok || a.Body.ContactRequestID != b.lead {
		t.Fatalf("contact request %q, want %q", a.Body.ContactRequestID, b.lead)
	}
	status, err := ops.NewClient(filepath.Join(b.Dir, daemon.SocketFile)).Status(t.Context())
	must(t, err)
	const moment = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`
	literally := regexp.QuoteMeta
	pinned := map[string]string{
		"Nats-Msg-Id": `[a-z2-7]{26}`, "ce-id": `[a-z2-7]{26}`, "ce-specversion": literally("1.0"), "ce-source": "/agencies/A100",
		"ce-type": literally("contact_request.created"), "ce-subject": literally(`Haus%20am%20See#12%20%22b%22#EG#50%25%C3%A4/`),
		"ce-time": moment, "ce-recordedtime": moment, "ce-sequence": `\d{20}`, "ce-partitionkey": "A100",
		"ce-datacontenttype": "application/json", "ce-dataschema": literally("urn:doorbell:schema:contact_request.created:v1"),
		"ce-origin": "live", "ce-storeid": literally(status.StoreID), "Nats-Expected-Stream": "LISTINGS",
	}
	for name, pattern := range pinned {
		values := a.Header[name]
		if len(values) != 1 || !regexp.MustCompile("^"+pattern+"$").MatchString(values[0]) {
			t.Errorf("header %s is %q, want %s", name, values, pattern)
		}
	}
	for name := range a.Header {
		if _, ok := pinned[name]; !ok {
			t.Errorf("header %s is not pinned", name)
		}
	}
	if a.Header.Get("ce-id") != a.Header.Get("Nats-Msg-Id") {
		t.Error("ce-id and Nats-Msg-Id differ")
	}
	at, err := time.Parse(time.RFC3339Nano, a.Header.Get("ce-time"))
	if err != nil || !at.Equal(a.Body.CreatedAt) || made.CreatedAt.Sub(at).Abs() > time.Second {
		t.Errorf("ce-time %s, payload %s, made %s: %v", at, a.Body.CreatedAt, made.CreatedAt, err)
	}
	mustHoldThePerson(t, a)
}

func mustHoldThePerson(t *testing.T, a doorbelltest.Arrival) {
	t.Helper()
	want := map[string]any{
		"firstName": "Nora", "lastName": "Beispiel" + sandbox.Marker, "email": "nora@example.org", "phone": "+41790000123",
		"phoneRaw": "079 000 01 23", "language": "de", "message": "Guten Tag,\r\nist sie noch frei?",
	}
	if got := a.Member(t, "contact"); !reflect.DeepEqual(got, want) {
		t.Errorf("contact is %v", got)
	}
	if a.Member(t, "identity") != "id" || a.Member(t, "score") != 72.5 || a.Body.Origin != "live" {
		t.Errorf("identity %v, score %v, origin %s", a.Member(t, "identity"), a.Member(t, "score"), a.Body.Origin)
	}
	var raw struct{ Record json.RawMessage }
	if err := json.Unmarshal(a.Data, &raw); err != nil || !strings.Contains(string(raw.Record), a.Body.ContactRequestID) {
		t.Error("record is not the API's")
	}
	if slices.Contains([]byte(raw.Record), '\n') {
		t.Error("record is not compact")
	}
}

// judgedByLibraries has the CloudEvents library read every message, and Ajv check it and all examples
// against the schemas.
func judgedByLibraries(t *testing.T, b *talker) {
	judge := exec.Command("node", npm(t, "judge.mjs"), "LISTINGS", "LISTINGS_REPLAY", "LISTINGS_DLQ")
	judge.Env = append(judge.Environ(), "NATS_URL="+b.url)
	out, err := judge.Output()
	must(t, err)
	examples, streams, types := 0, map[string]bool{}, map[string]bool{}
	for line := range bytes.Lines(out) {
		var u struct {
			Example, Stream, Subject, Reference string
			PropertyReferenceID, Origin         string // of the data
			Attributes                          map[string]any
			Problems                            []string
		}
		must(t, json.Unmarshal(line, &u))
		if len(u.Problems) > 0 {
			t.Errorf("%s%s, on %s: %q", u.Example, u.Stream, u.Subject, u.Problems)
		}
		if u.Example != "" {
			examples++
			continue
		}
		streams[u.Stream], types[u.Attributes["type"].(string)] = true, true
		if u.Reference != u.PropertyReferenceID || u.Origin != u.Attributes["origin"] {
			t.Errorf("on %s it reads another event: %+v", u.Subject, u)
		}
	}
	if examples != 2*len(schemas.Types()) || len(streams) != 3 || len(types) != 12 {
		t.Errorf("%d files of examples were judged, %v, %v", examples, streams, types)
	}
}

func judgedByLeads(t *testing.T, b *talker) {
	program := filepath.Join(t.TempDir(), "leads")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "leads.go") // with what binary was compiled for
	build.Dir, build.Env = interop, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	leads := foreign(t, []string{"NATS_URL=" + b.url}, program)
	leads.Stdout.Await(t, "known before the watch began: ")
	leads.Stdout.Await(t, "ring: "+b.lead+" wrote to A100 about "+regexp.QuoteMeta(oddReference)+"\n")
	leads.Stdout.Await(t, "erase the person of "+b.erased+"\n")
	if rung := strings.Count(leads.Stdout.String(), "ring: "+b.lead); rung != 1 {
		t.Errorf("it rang %d times for one contact request", rung)
	}
}

func judgedByMirror(t *testing.T, b *talker) {
	mirror := foreign(t, []string{"NATS_URL=" + b.url}, "node", npm(t, "mirror.mjs"))
	quiet := doorbelltest.NatsServer(t).ClientURL()
	alive := foreign(t, []string{"NATS_URL=" + quiet, "PATIENCE_SECONDS=1"}, "node", npm(t, "alive.mjs"), "A100", "none")
	nc, _ := doorbelltest.Connected(t, quiet)
	mirror.Stdout.Await(t, "A100: insertion.reappeared "+regexp.QuoteMeta(oddReference)+", episode 2, live\n")
	mirror.Stdout.Await(t, "C.300: watch.baselined\n")
	mirror.Stdout.Await(t, "insertion.appeared .*, baseline\n")
	alive.Stdout.Await(t, "none: no heartbeat.*\n")
	doorbelltest.Eventually(t, "a heartbeat is heard", func() bool {
		beat := []byte(`{"agencyId":"A100","at":"2026-11-20T09:42:00Z","lastSequence":1842,"state":"watching"}`)
		must(t, nc.Publish("listings.heartbeat.A100", beat))
		return strings.Contains(alive.Stdout.String(), "A100: watching\n")
	})
}

func judgedByNATS(t *testing.T, b *talker) {
	command, err := filepath.Abs(foreignProgram(t, "DOORBELL_TEST_NATS", "nats", "the nats command reads no event"))
	must(t, err)
	bin := t.TempDir()
	for name, path := range map[string]string{"nats": command, "doorbell": doorbelltest.Binary(t)} {
		must(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	environ := append(b.Environ, "NATS_URL="+b.url, "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin, "XDG_CONFIG_HOME="+bin)
	script := foreign(t, environ, "sh", "-ex", filepath.Join(interop, "commands.sh"))
	for ended := false; !ended; {
		b.ring(t) // some of the commands wait for something to happen
		select {
		case <-script.Gone:
			ended = true
		case <-time.After(300 * time.Millisecond):
		}
	}
	if code := script.Cmd.ProcessState.ExitCode(); code != 0 {
		begun := regexp.MustCompile(`(?m)^(\+|nats: error|doorbell:) .*$`).FindAllString(script.Stderr.String(), -1) // no people
		t.Fatalf("commands.sh ended with %d:\n%s", code, strings.Join(begun, "\n"))
	}
	for _, want := range []string{
		"ce-type: contact_request.created", "ce-subject: Haus%20am%20See#12", "listings.v1.A100.watch.baselined",
		"Nats-Msg-Id: crm-2/", "ce-origin: replay", "doorbell-replay: crm-2", "doorbell-reason: ", "doorbell-attempts: 1",
		`"state":"watching"`,
	} {
		if !strings.Contains(script.Stdout.String(), want) {
			t.Errorf("the commands do not show %s", want)
		}
	}
}
