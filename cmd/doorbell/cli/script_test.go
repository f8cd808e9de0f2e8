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

// scriptPatience is how long a script waits for anything. It is not a measure of speed: machines are
// busy.
const scriptPatience = 2 * time.Minute

// TestScripts runs the transcripts in testdata/script, each with a data directory of its own and
// nothing from the environment. Beside what
// https://pkg.go.dev/github.com/rogpeppe/go-internal/testscript has, their commands are
//
//	doorbell ARGS             it must exit with 0
//	exits CODE doorbell ARGS  it must exit with this code
//	sandbox ARGS              start a made-up API, and set the variables to watch it with; $control changes it
//	daemon                    start doorbell run, and wait until its baseline is complete
//	start NAME doorbell ARGS  start it beside the script; it writes to NAME.out and NAME.err
//	end NAME [INT]            stop it, which must give exit code 0
//	wait-for FILE REGEXP      wait until a file has it
//	until REGEXP doorbell …   do it again until it has printed it
//	post PATH JSON            change the made-up API
//	receiver VARIABLE STATUS  start a receiver that answers with this status; its URL is in the variable
//	json PATH [REGEXP]        what was printed is one JSON value with this in it: .agencies.0.state
//	jsonl PATH [REGEXP]       the same of each line
func TestScripts(t *testing.T) {
	t.Parallel()
	program := filepath.Dir(doorbelltest.Binary(t))
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script", RequireExplicitExec: true, RequireUniqueNames: true,
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
			"doorbell": takes(0, func(ts *testscript.TestScript, args []string) { mustExit(ts, exit.Done, args) }),
			"exits":    takes(2, scriptExits), "sandbox": takes(0, scriptSandbox), "daemon": takes(0, scriptDaemon),
			"start": takes(2, scriptStart), "end": takes(1, scriptEnd),
			"wait-for": takes(2, scriptWaitFor), "until": takes(2, scriptUntil),
			"post": takes(2, scriptPost), "receiver": takes(2, scriptReceiver),
			"json": takes(1, func(ts *testscript.TestScript, args []string) { holdJSON(ts, args, ts.ReadFile("stdout")) }),
			"jsonl": takes(1, func(ts *testscript.TestScript, args []string) {
				holdJSON(ts, args, doorbelltest.Lines(ts.ReadFile("stdout"))...)
			}),
		},
	})
}

type scriptKey string

const started scriptKey = "processes"

// takes makes a command that needs n arguments.
func takes(n int, do func(*testscript.TestScript, []string)) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg || len(args) < n {
			ts.Fatalf("the comment of TestScripts shows how this is used")
		}
		do(ts, args)
	}
}

// scriptReceiver starts a receiver that answers with one status.
func scriptReceiver(ts *testscript.TestScript, args []string) {
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

func scriptExits(ts *testscript.TestScript, args []string) {
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
	tellNobody(ts, args, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// tellNobody wants no person and no key in what a command has printed, but what it is for.
func tellNobody(ts *testscript.TestScript, args []string, stdout, stderr string) {
	found := append(doorbelltest.Leaks(stderr), doorbelltest.Leaks(stdout, doorbelltest.Tells(args)...)...)
	if len(found) > 0 {
		ts.Fatalf("%s", strings.Join(found, "\n"))
	}
}

func scriptSandbox(ts *testscript.TestScript, args []string) {
	quiet := []string{"--contact-requests-per-minute=0", "--changes-per-minute=0", "--listen=127.0.0.1:0", "--control=127.0.0.1:0", "--json"}
	scriptStart(ts, slices.Concat([]string{"api", "doorbell", "sandbox"}, quiet, args))
	scriptWaitFor(ts, []string{"api.out", `(?s)^\{.*\n\}\n`})
	var o madeUp
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("api.out")), &o))
	for name, value := range o.Settings {
		ts.Setenv(name, value)
	}
	ts.Setenv("control", o.Control)
	ts.Setenv("DOORBELL_REQUESTS_PER_SECOND", "100")
	ts.Setenv("DOORBELL_POLL_INTERVAL", "1s")
	ts.Setenv("DOORBELL_WALK_INTERVAL", "1s")
}

func scriptDaemon(ts *testscript.TestScript, _ []string) {
	scriptStart(ts, []string{"run", "doorbell", "run"})
	agencies := strings.Count(ts.Getenv("DOORBELL_AGENCIES"), ",") + 1
	scriptWaitFor(ts, []string{"run.err", fmt.Sprintf(`(?s)("msg":"baselined.*){%d}`, agencies)})
}

func scriptStart(ts *testscript.TestScript, args []string) {
	name, flags := args[0], args[2:]
	ts.Check(ts.Exec("env", "-0"))
	cmd := exec.Command(filepath.Join(ts.Getenv("program"), "doorbell"), flags...)
	cmd.Env = strings.Split(strings.TrimRight(ts.ReadFile("stdout"), "\x00"), "\x00")
	cmd.Dir, cmd.SysProcAttr = ts.MkAbs("."), &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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
		tellNobody(ts, flags, ts.ReadFile(out.Name()), ts.ReadFile(log.Name()))
	})
}

func processes(ts *testscript.TestScript) map[string]*exec.Cmd {
	return ts.Value(started).(map[string]*exec.Cmd)
}

func scriptEnd(ts *testscript.TestScript, args []string) {
	cmd := processes(ts)[args[0]]
	if cmd == nil {
		ts.Fatalf("%s was not started", args[0])
	}
	signal := syscall.SIGTERM
	if slices.Contains(args, "INT") {
		signal = syscall.SIGINT
	}
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

func scriptWaitFor(ts *testscript.TestScript, args []string) {
	await(ts, args[1], args[0], func() string { return ts.ReadFile(args[0]) })
}

func scriptUntil(ts *testscript.TestScript, args []string) {
	await(ts, args[0], "what it prints", func() string {
		_ = ts.Exec("doorbell", args[2:]...) // its output counts
		return ts.ReadFile("stdout")
	})
}

func scriptPost(ts *testscript.TestScript, args []string) {
	answer, err := http.Post(ts.Getenv("control")+args[0], "application/json", strings.NewReader(args[1]))
	ts.Check(err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		ts.Fatalf("the sandbox answered %s", answer.Status)
	}
}

// holdJSON wants each text to be one JSON value, with something at a path in it.
func holdJSON(ts *testscript.TestScript, args []string, texts ...string) {
	if len(texts) == 0 {
		ts.Fatalf("nothing was printed")
	}
	for _, text := range texts {
		var v any
		ts.Check(json.Unmarshal([]byte(text), &v))
		for name := range strings.FieldsFuncSeq(args[0], func(r rune) bool { return r == '.' }) {
			in, isObject := v.(map[string]any)
			list, _ := v.([]any)
			n, err := strconv.Atoi(name)
			switch {
			case isObject && in[name] != nil:
				v = in[name]
			case err == nil && n < len(list):
				v = list[n]
			default:
				ts.Fatalf("there is no %s", args[0])
			}
		}
		if len(args) == 2 && !regexp.MustCompile(args[1]).MatchString(fmt.Sprint(v)) {
			ts.Fatalf("%s is %v", args[0], v)
		}
	}
}
