package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"

	"github.com/rogpeppe/go-internal/testscript"
)

const scriptFolder = "testdata/script"

// scriptPatience is how long a script waits for anything. It is not a measure of speed: machines are busy.
const scriptPatience = 2 * time.Minute

// TestScripts runs the transcripts in testdata/script, each with a data directory of its own and nothing from the environment. Beside
// what https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript has, they say
//
//	doorbell ARGS             it must exit with 0
//	exits CODE doorbell ARGS  it must exit with this code
//	sandbox ARGS              start a made-up API, and set the variables to watch it with; $control changes it
//	daemon                    start doorbell run, and wait until it has learned what is there
//	start NAME doorbell ARGS  start it beside the script; it writes to NAME.out and NAME.err
//	end NAME [SIGNAL]         stop it, which must give exit code 0
//	wait-for FILE REGEXP      wait until a file has it
//	until REGEXP doorbell …   do it again until it has printed it
//	post PATH JSON            change the made-up API
//	json PATH [REGEXP]        what was printed is one JSON value with this in it: .agencies.0.state
//	jsonl PATH [REGEXP]       the same of each line
func TestScripts(t *testing.T) {
	t.Parallel()
	program := filepath.Dir(doorbelltest.Binary(t))
	testscript.Run(t, testscript.Params{
		Dir: scriptFolder, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", program+string(os.PathListSeparator)+os.Getenv("PATH"))
			e.Setenv("program", program)
			e.Setenv("DOORBELL_DATA_DIR", filepath.Join(e.WorkDir, "d"))
			e.Setenv("DOORBELL_NATS_LISTEN", "127.0.0.1:0")
			e.Setenv("DOORBELL_HTTP_LISTEN", "off")
			e.Values[started] = map[string]*exec.Cmd{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"doorbell": scriptDoorbell, "exits": scriptExits, "sandbox": scriptSandbox, "daemon": scriptDaemon, "start": scriptStart,
			"end": scriptEnd, "wait-for": scriptWaitFor, "until": scriptUntil, "post": scriptPost, "receiver": scriptReceiver, "json": scriptJSON, "jsonl": scriptJSONLines,
		},
	})
}

type scriptKey string

const started scriptKey = "processes"

func wants(ts *testscript.TestScript, neg, ok bool, usage string) {
	if neg || !ok {
		ts.Fatalf("usage: %s", usage)
	}
}

func scriptDoorbell(ts *testscript.TestScript, _ bool, args []string) { mustExit(ts, exit.Done, args) }

// scriptReceiver starts a receiver that answers with one status, and puts its URL into a variable.
func scriptReceiver(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) == 2, "receiver VARIABLE STATUS")
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) >= 2 && args[1] == "doorbell", "exits CODE doorbell ARGS")
	code, err := strconv.Atoi(args[0])
	ts.Check(err)
	mustExit(ts, code, args[2:])
}

func mustExit(ts *testscript.TestScript, want int, args []string) {
	got := 0
	err := ts.Exec("doorbell", args...)
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		got = ended.ExitCode()
	} else {
		ts.Check(err)
	}
	if found := append(doorbelltest.Leaks(ts.ReadFile("stderr")), doorbelltest.Leaks(ts.ReadFile("stdout"), doorbelltest.Tells(args)...)...); len(found) > 0 {
		ts.Fatalf("%s", strings.Join(found, "\n"))
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func scriptSandbox(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, true, "sandbox ARGS")
	quiet := []string{"--contact-requests-per-minute=0", "--changes-per-minute=0", "--listen=127.0.0.1:0", "--control=127.0.0.1:0", "--json"}
	scriptStart(ts, false, slices.Concat([]string{"api", "doorbell", "sandbox"}, quiet, args))
	scriptWaitFor(ts, false, []string{"api.out", `(?s)^\{.*\n\}\n`})
	var o madeUp
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("api.out")), &o))
	for name, value := range o.Settings {
		ts.Setenv(name, value)
	}
	for name, value := range map[string]string{
		"control": o.Control, "DOORBELL_REQUESTS_PER_SECOND": "100", "DOORBELL_POLL_INTERVAL": "1s", "DOORBELL_WALK_INTERVAL": "1s",
	} {
		ts.Setenv(name, value)
	}
}

func scriptDaemon(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) == 0, "daemon")
	scriptStart(ts, false, []string{"run", "doorbell", "run"})
	agencies := strings.Count(ts.Getenv("DOORBELL_AGENCIES"), ",") + 1
	scriptWaitFor(ts, false, []string{"run.err", fmt.Sprintf(`(?s)("msg":"baselined.*){%d}`, agencies)})
}

func scriptStart(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) >= 2 && args[1] == "doorbell", "start NAME doorbell ARGS")
	name, flags := args[0], args[2:]
	ts.Check(ts.Exec("env", "-0"))
	environ := strings.Split(strings.TrimRight(ts.ReadFile("stdout"), "\x00"), "\x00")
	cmd := exec.Command(filepath.Join(ts.Getenv("program"), "doorbell"), flags...)
	cmd.Env, cmd.Dir, cmd.SysProcAttr = environ, ts.MkAbs("."), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(ts.MkAbs(name + ".out"))
	ts.Check(err)
	defer out.Close()
	log, err := os.Create(ts.MkAbs(name + ".err"))
	ts.Check(err)
	defer log.Close()
	cmd.Stdout, cmd.Stderr = out, log
	ts.Check(cmd.Start())
	processes(ts)[name] = cmd
	ts.Defer(func() {
		if processes(ts)[name] == cmd {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		out, _ := os.ReadFile(filepath.Join(cmd.Dir, name+".out"))
		log, _ := os.ReadFile(filepath.Join(cmd.Dir, name+".err"))
		if found := append(doorbelltest.Leaks(string(log)), doorbelltest.Leaks(string(out), doorbelltest.Tells(flags)...)...); len(found) > 0 {
			ts.Fatalf("%s", strings.Join(found, "\n"))
		}
	})
}

func processes(ts *testscript.TestScript) map[string]*exec.Cmd {
	return ts.Value(started).(map[string]*exec.Cmd)
}

func scriptEnd(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) == 1 || len(args) == 2, "end NAME [SIGNAL]")
	cmd := processes(ts)[args[0]]
	if cmd == nil {
		ts.Fatalf("%s was not started", args[0])
	}
	signal := map[string]syscall.Signal{"": syscall.SIGTERM, "INT": syscall.SIGINT}[strings.Join(args[1:], "")]
	ts.Check(cmd.Process.Signal(signal))
	delete(processes(ts), args[0])
	if err := cmd.Wait(); err != nil {
		ts.Fatalf("%s: %v\n%s", args[0], err, ts.ReadFile(args[0]+".err"))
	}
}

// await does something until what it gives has a pattern in it.
func await(ts *testscript.TestScript, pattern, what string, do func() string) {
	re, err := regexp.Compile(`(?m)` + pattern)
	ts.Check(err)
	for deadline := time.Now().Add(scriptPatience); ; time.Sleep(50 * time.Millisecond) {
		text := do()
		if re.MatchString(text) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("%s does not get %s:\n%s", what, pattern, text)
		}
	}
}

func scriptWaitFor(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) == 2, "wait-for FILE REGEXP")
	await(ts, args[1], args[0], func() string { return ts.ReadFile(args[0]) })
}

func scriptUntil(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) >= 2 && args[1] == "doorbell", "until REGEXP doorbell ARGS")
	await(ts, args[0], "what it prints", func() string {
		_ = ts.Exec("doorbell", args[2:]...) // what it says counts
		return ts.ReadFile("stdout")
	})
}

func scriptPost(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) == 2, "post PATH JSON")
	answer, err := http.Post(ts.Getenv("control")+args[0], "application/json", strings.NewReader(args[1]))
	ts.Check(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("the sandbox answered %s", answer.Status)
	}
}

func scriptJSON(ts *testscript.TestScript, neg bool, args []string) {
	wants(ts, neg, len(args) == 1 || len(args) == 2, "json PATH [REGEXP]")
	holdsJSON(ts, ts.ReadFile("stdout"), args)
}

func scriptJSONLines(ts *testscript.TestScript, neg bool, args []string) {
	lines := doorbelltest.Lines(ts.ReadFile("stdout"))
	wants(ts, neg, len(lines) > 0, "jsonl PATH [REGEXP], after something was printed")
	for _, line := range lines {
		holdsJSON(ts, line, args)
	}
}

// holdsJSON wants a text that is one JSON value, with something at a path in it.
func holdsJSON(ts *testscript.TestScript, text string, args []string) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		ts.Fatalf("it is not one JSON value: %v", err)
	}
	for name := range strings.SplitSeq(strings.Trim(args[0], "."), ".") {
		var there bool
		switch in := v.(type) {
		case map[string]any:
			v, there = in[name]
		case []any:
			n, err := strconv.Atoi(name)
			if there = err == nil && n < len(in); there {
				v = in[n]
			}
		}
		if name != "" && !there {
			ts.Fatalf("there is no %s", args[0])
		}
	}
	if len(args) == 2 && !regexp.MustCompile(args[1]).MatchString(fmt.Sprint(v)) {
		ts.Fatalf("%s is %v", args[0], v)
	}
}
