package torture

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/listings/listingstest"
	"doorbell/poller/sandbox"

	"github.com/nats-io/nats.go/jetstream"
)

// daysInARound is how many days are run, from seed 1. With -only SEED one day is run, and the log shows what happens in it.
const daysInARound = 2

// mostRequests is the maximum number of requests of a day.
const mostRequests = 5000

// TestAnyScheduleOfFaultsLosesAndDoublesNothing lets the whole daemon but its socket live through
// days in which the API, its NATS server, the stream and the process itself fail as a seed decides;
// store, server and HTTP are real, time is not. The long form is
// `go test ./cmd/doorbell/torture -run TestAnySchedule -rounds 1000 -timeout 2h -v`.
func TestAnyScheduleOfFaultsLosesAndDoublesNothing(t *testing.T) {
	t.Parallel()
	var seed, last, step uint64
	if order := cmp.Or(os.Getenv(orders), *only); order != "" { // the first seed, the last one, and the step between two
		if n, err := fmt.Sscan(order, &seed, &last, &step); n == 0 {
			t.Fatalf("-only is not the seed of a day: %v", err)
		}
		for last = max(last, seed); seed <= last; seed += max(step, 1) {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				inBubble(t, func(t *testing.T, dir string) { liveADay(t, seed, dir) })
			})
		}
		return
	}
	begin, days := time.Now(), daysInARound**rounds
	workers := make([]int, min(2*runtime.GOMAXPROCS(0), days)) // each waits for the server's disk half of the time
	for n := range workers {
		workers[n] = 1 + n
	}
	var lived atomic.Int64
	atOnce(len(workers), workers, func(first int) {
		out, err := again(t, fmt.Sprint(first, days, len(workers)))
		lived.Add(int64(bytes.Count(out, []byte("    --- PASS: "+t.Name()+"/"))))
		if err != nil {
			t.Errorf("%v\n%s", err, passes.ReplaceAll(out, nil))
		}
	})
	t.Logf("%d days, nothing wrong on %d of them, %.0f days a minute", days, lived.Load(), float64(days)/time.Since(begin).Minutes())
	if lived.Load() != int64(days) {
		t.Errorf("of %d days %d passed without a fault", days, lived.Load())
	}
}

// passes are the lines about days on which nothing was wrong.
var passes = regexp.MustCompile(`(?m)^.*(=== |--- PASS).*\n`)

func liveADay(t *testing.T, seed uint64, dir string) {
	d := newDay(t, seed, dir)
	defer d.end()
	d.begin()
	time.Sleep(time.Minute)
	d.model.SetFault(d.fault(nil))
	d.oracle.Until = time.Now()
	d.suffer()
	requests, events := d.drain()
	t.Logf("%d requests, %d events", requests, events)
}

// day is an API, a daemon and what happens to both, in virtual time.
type day struct {
	t         *testing.T
	random    *rand.Rand
	model     *sandbox.Model
	generator *sandbox.Generator
	oracle    doorbelltest.Oracle
	dir       string
	lives     int // data directories so far
	options   daemon.Options
	key       string
	log       doorbelltest.Transcript
	transport *http.Transport
	refusing  atomic.Bool // the API refuses connections

	daemon *daemon.Daemon
	stop   context.CancelFunc
	ended  chan error
	keys   chan []poller.AgencyKeys // read again

	asked       int // requests of earlier days
	faultsUntil time.Time
	closeAtCall atomic.Bool // the next question of the API closes the store
	refused     string      // agency that the key does not open now
	cut         string      // copy of the stream's folder, from before; empty: none
}

var dayAgencies = []string{"A100", "B200"}

func newDay(t *testing.T, seed uint64, dir string) *day {
	d := &day{t: t, random: rand.New(rand.NewPCG(seed, 7)), dir: dir, key: doorbelltest.TestKey}
	statuses := []int{200, 200, 404, 403}
	d.model = sandbox.NewModel(sandbox.Options{Seed: seed, WithdrawnStatus: statuses[d.random.IntN(len(statuses))]})
	d.generator = sandbox.NewGenerator(d.model, sandbox.GeneratorOptions{
		Seed: seed, Agencies: dayAgencies, Insertions: 3, History: 2, ContactRequestsPerMinute: 3, ChangesPerMinute: 1,
	})
	d.generator.Seed()
	d.model.AddKey(d.key, dayAgencies...)
	d.oracle = doorbelltest.Oracle{Model: d.model, From: time.Now()}
	rendering := d.rendering()
	d.oracle.Zoneless = rendering.TimeLayout == sandbox.TimeZoneless
	d.say("rendering %s", rendering.Name)
	api := listingstest.Serve(t, sandbox.New(d.model, rendering))
	d.transport = &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if d.refusing.Load() {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		}
		return api.Dial(ctx, network, address)
	}}
	t.Cleanup(d.transport.CloseIdleConnections)
	log := slog.New(slog.NewTextHandler(&d.log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	d.options = daemon.Options{
		Base: config.Base{
			NATSListen: "off", SubjectPrefix: "listings", Retention: 720 * time.Hour, StreamMax: 1 << 30,
		},
		CheckEvery: 2 * time.Minute, // most of what happens in a day would be checks
		Log:        log,
		Poller: poller.Options{
			API: listings.Options{BaseURL: "http://127.0.0.1:1", Transport: d.transport}, PollInterval: 20 * time.Minute, WalkInterval: 30 * time.Minute,
		},
	}
	return d
}

// rendering is one that shows ids as the model has them.
func (d *day) rendering() sandbox.Rendering {
	var all []sandbox.Rendering
	for _, r := range sandbox.Renderings() {
		if r.IDs == "" {
			all = append(all, r)
		}
	}
	return all[d.random.IntN(len(all))]
}

func (d *day) say(format string, args ...any) {
	if *only != "" {
		d.t.Logf("%s "+format, append([]any{time.Now().UTC().Format("02 15:04:05")}, args...)...)
	}
}

// begin starts a daemon on the data directory.
func (d *day) begin() {
	d.t.Helper()
	o := d.options
	o.DataDir, o.Socket = filepath.Join(d.dir, fmt.Sprint(d.lives)), listingstest.NewPipes()
	o.Poller.Agencies = d.agencyKeys()
	keys := make(chan []poller.AgencyKeys)
	o.Keys = func(ctx context.Context, set func([]poller.AgencyKeys) error) error {
		for {
			select {
			case list := <-keys:
				if err := set(list); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	}
	a, err := daemon.New(d.t.Context(), o)
	d.must(err)
	ctx, stop := context.WithCancel(d.t.Context())
	d.daemon, d.stop, d.ended, d.keys = a, stop, make(chan error, 1), keys
	go func(ended chan error) { ended <- a.Run(ctx) }(d.ended)
}

func (d *day) agencyKeys() (list []poller.AgencyKeys) {
	for _, id := range dayAgencies {
		list = append(list, poller.AgencyKeys{ID: id, Key: listings.NewKey(d.key)})
	}
	return list
}

// halt ends the daemon; an error of its run is wanted or not.
func (d *day) halt(wanted bool) {
	d.t.Helper()
	d.stop()
	if err := <-d.ended; err != nil && !wanted {
		d.t.Errorf("the daemon ended with %v", err)
	}
	d.daemon.Close()
	d.daemon = nil
}

func (d *day) end() {
	if d.daemon != nil {
		d.halt(true)
	}
	doorbelltest.HoldsNobody(d.t, d.log.String())
	if d.t.Failed() && *only != "" {
		d.t.Log(d.log.String())
	}
}

// pass lets time go by, and runs what is due.
func (d *day) pass(most time.Duration) {
	time.Sleep(time.Duration(d.random.Int64N(int64(most))))
	synctest.Wait()
	if d.daemon != nil && len(d.ended) == 0 {
		if h := d.daemon.Health(); !h.Live {
			d.t.Errorf("%s: it is not alive: %+v", time.Now().UTC().Format("02 15:04:05"), h.Checks)
		}
	}
}

// suffer is a day of faults.
func (d *day) suffer() {
	for end := time.Now().Add(24 * time.Hour); time.Now().Before(end); {
		if time.Now().After(d.faultsUntil) {
			d.model.SetFault(d.fault(nil))
		}
		for range d.random.IntN(3) {
			d.generator.Step()
		}
		if d.random.IntN(3) == 0 {
			happen := dayHappenings[d.random.IntN(len(dayHappenings))]
			happen(d)
		}
		d.pass(40 * time.Minute)
	}
}

// drain ends all faults, and compares the stream with the truth once it has had time to settle.
func (d *day) drain() (requests, events int) {
	d.say("all faults end")
	d.model.SetFault(nil)
	d.allow()
	for _, id := range dayAgencies {
		d.resume(id)
	}
	time.Sleep(4 * time.Hour)
	synctest.Wait()
	requests = d.model.Requests(sandbox.Filter{}) - d.asked
	d.asked += requests
	if requests > mostRequests {
		d.t.Errorf("%d requests", requests)
	}
	all := d.read()
	wrong := d.oracle.Judge(all)
	for _, missing := range d.oracle.Settled(all) {
		wrong = append(wrong, "the stream misses "+missing)
	}
	slices.Sort(wrong)
	for _, w := range slices.Compact(wrong) {
		d.t.Error(w)
	}
	if d.t.Failed() {
		d.t.Logf("repeat it with -only SEED; the last events of the watch: %s", doorbelltest.LastWatch(all))
	}
	return requests, len(all)
}

func (d *day) read() []doorbelltest.Message {
	d.t.Helper()
	nc, err := d.daemon.Server().Connect("judge")
	d.must(err)
	defer nc.Close()
	all, err := doorbelltest.ReadStreamOver(d.t.Context(), nc)
	d.must(err)
	return all
}

// dayHappenings are weighted by how often they stand here.
var dayHappenings = []func(*day){
	(*day).weather, (*day).weather, (*day).weather, (*day).weather, (*day).weather,
	(*day).refuse, (*day).refuse, (*day).rotate,
	(*day).restart, (*day).kill, (*day).kill, (*day).killAtCall, (*day).killInPlace, (*day).killInPlace,
	(*day).natsAway, (*day).natsRestart, (*day).streamDeleted, (*day).streamCopied, (*day).streamCut, (*day).streamCut, (*day).folderLost,
}

// weathers are faults of answers that a client can see to be faults, and delays.
var weathers = strings.Fields(`400 404 410 429 429_seconds 429_date 429_huge 500 502 503 503_seconds redirect html empty null object error
	unsuccessful garbage encoding wrong_type cut cut_late hangup late stall stuck unnamed`)

// ofContacts are faults after which an insertion is truly another one.
var ofContacts = strings.Fields("renamed reshaped bad_utf8 half_surrogate name_twice stale")

// weather makes the API misbehave for some time.
func (d *day) weather() {
	n := d.random.IntN(len(weathers) + len(ofContacts))
	name := slices.Concat(weathers, ofContacts)[n]
	rule := sandbox.Rule{Fault: faultNamed(d.t, name), Share: []float64{0.1, 0.5, 0.9, 1}[d.random.IntN(4)]}
	rule.Operation = []string{"", sandbox.OperationInsertions, sandbox.OperationContactRequests}[d.random.IntN(3)]
	if n >= len(weathers) {
		rule.Operation = sandbox.OperationContactRequests
	}
	rule.AgencyID = []string{"", "A100", "B200"}[d.random.IntN(3)]
	rule.Further = rule.Operation == sandbox.OperationInsertions && d.random.IntN(3) == 0
	lasts := time.Duration(d.random.Int64N(int64(4 * time.Hour)))
	d.say("%s of %s%s for %s, share %v", name, rule.AgencyID, rule.Operation, lasts, rule.Share)
	d.faultsUntil = time.Now().Add(lasts)
	d.model.SetFault(d.fault(sandbox.Misbehave(d.random.Uint64(), rule)))
}

func faultNamed(t *testing.T, name string) sandbox.Fault {
	f, ok := sandbox.FaultNamed(name)
	if !ok {
		t.Fatalf("no fault %s", name)
	}
	return f
}

// fault is a weather through which the daemon can still be killed.
func (d *day) fault(weather func(sandbox.Call) *sandbox.Fault) func(sandbox.Call) *sandbox.Fault {
	return func(c sandbox.Call) *sandbox.Fault {
		if d.closeAtCall.CompareAndSwap(true, false) {
			_ = d.daemon.Store().Close()
		}
		if weather == nil {
			return nil
		}
		return weather(c)
	}
}

// refuse unlinks an agency from its key for some time: no request is allowed once that is known.
func (d *day) refuse() {
	id := dayAgencies[d.random.IntN(len(dayAgencies))]
	d.say("403 for %s", id)
	d.must(d.model.UnlinkKey(d.key, id))
	d.refused = id
	time.Sleep(90 * time.Minute)
	synctest.Wait()
	halted := d.halted(id)
	before := d.model.Requests(sandbox.Filter{AgencyID: id})
	time.Sleep(2 * time.Hour)
	synctest.Wait()
	if n := d.model.Requests(sandbox.Filter{AgencyID: id}) - before; halted && n > 0 {
		d.t.Errorf("%s was asked %d times after its halt", id, n)
	}
	d.say("%s is opened again; it was halted: %v", id, halted)
	d.allow()
	d.resume(id)
}

// halted reports whether no request for the agency is allowed.
func (d *day) halted(id string) bool {
	s, err := d.daemon.Verbs().Status()
	d.must(err)
	for _, a := range s.Watch.Agencies {
		if a.AgencyID == id {
			return a.State == "halted"
		}
	}
	return false
}

func (d *day) allow() {
	if d.refused != "" {
		d.model.AddKey(d.key, d.refused)
		d.refused = ""
	}
}

func (d *day) resume(id string) {
	if _, err := d.daemon.Verbs().Resume(d.t.Context(), ops.AgencyRequest{AgencyID: id}); err != nil {
		d.t.Errorf("resume: %v", err)
	}
}

// rotate replaces the key: first at the API, later here.
func (d *day) rotate() {
	d.say("another key")
	old := d.key
	d.key = map[string]string{doorbelltest.TestKey: doorbelltest.OtherKey, doorbelltest.OtherKey: doorbelltest.TestKey}[old]
	d.model.AddKey(d.key, dayAgencies...)
	d.must(d.model.DeactivateKey(old))
	d.pass(2 * time.Hour)
	d.keys <- d.agencyKeys()
	synctest.Wait()
}

// restart stops the daemon as a supervisor would.
func (d *day) restart() {
	d.say("restart")
	d.halt(false)
	d.rest()
}

// kill takes the store away, without what is remembered in memory being written.
func (d *day) kill() {
	d.say("kill")
	_ = d.daemon.Store().Close()
	d.halt(true)
	d.rest()
}

// killAtCall does so while the next request is answered.
func (d *day) killAtCall() {
	d.say("kill at the next question")
	d.closeAtCall.Store(true)
	for range 240 {
		time.Sleep(time.Minute)
		synctest.Wait()
		if !d.closeAtCall.Load() {
			break
		}
	}
	d.closeAtCall.Store(false)
	d.halt(true)
	d.rest()
}

// killInPlace continues with the files as they were at one instant, with everything that was open.
func (d *day) killInPlace() {
	d.say("kill in place")
	synctest.Wait()
	from := filepath.Join(d.dir, fmt.Sprint(d.lives))
	d.must(os.CopyFS(filepath.Join(d.dir, fmt.Sprint(d.lives+1)), os.DirFS(from)))
	_ = d.daemon.Store().Close()
	d.halt(true)
	d.must(os.RemoveAll(from))
	d.lives++
	d.rest()
}

// rest leaves the daemon down for a while, or not at all.
func (d *day) rest() {
	if d.random.IntN(2) == 0 {
		d.pass(time.Hour)
	}
	d.begin()
}

// natsAway takes the folder away, too: otherwise the server would be started again.
func (d *day) natsAway() {
	d.say("NATS goes")
	d.natsGoes()
	d.pass(3 * time.Hour)
	if _, err := d.daemon.Server().InProcessConn(); err == nil {
		d.t.Error("NATS was not away")
	}
	d.natsMayCome()
	d.natsRestart()
}

func (d *day) natsGoes() {
	d.daemon.Server().Shutdown()
	d.must(os.Rename(d.streams(), filepath.Join(d.dir, "away")))
	d.must(os.WriteFile(d.streams(), nil, 0o600))
}

func (d *day) natsMayCome() {
	d.must(os.Remove(d.streams()))
	d.must(os.Rename(filepath.Join(d.dir, "away"), d.streams()))
}

func (d *day) natsRestart() {
	d.say("NATS restarts")
	d.must(d.daemon.Server().Restart(d.t.Context()))
}

func (d *day) streamDeleted() {
	d.say("the stream is deleted")
	nc, err := d.daemon.Server().Connect("hand")
	d.must(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	d.must(err)
	_ = js.DeleteStream(d.t.Context(), "LISTINGS") // perhaps there is none just now
}

// streamCopied keeps the stream's folder as it is now; streamCut puts it back.
func (d *day) streamCopied() {
	d.say("the stream is copied")
	d.daemon.Server().Shutdown()
	copied := filepath.Join(d.dir, fmt.Sprint("cut", time.Now().Unix()))
	d.must(os.CopyFS(copied, os.DirFS(d.streams())))
	d.cut = copied
	d.natsRestart()
}

func (d *day) streamCut() {
	if d.cut == "" {
		d.streamCopied()
		return
	}
	d.say("the stream is as it was")
	d.daemon.Server().Shutdown()
	d.must(os.RemoveAll(d.streams()))
	d.must(os.Rename(d.cut, d.streams()))
	d.cut = ""
	d.natsRestart()
}

func (d *day) folderLost() {
	d.say("the stream's folder is lost")
	d.daemon.Server().Shutdown()
	d.must(os.RemoveAll(d.streams()))
	d.natsRestart()
}

func (d *day) streams() string {
	return filepath.Join(d.dir, fmt.Sprint(d.lives), daemon.StreamFolder)
}

func (d *day) must(err error) {
	d.t.Helper()
	must(d.t, err)
}
