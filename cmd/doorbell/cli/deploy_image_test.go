package cli

import (
	"debug/elf"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/schemas/skiptest"

	"github.com/alecthomas/kong"
)

const dockerfile = deployDir + "/Dockerfile"

// instruction is one of a Dockerfile: FROM, the rest of its line with continued lines joined.
type instruction struct{ name, rest string }

// instructions are those of the Dockerfile, and of its last stage.
func instructions(t testing.TB) (all, last []instruction) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(readText(t, dockerfile), "")
	text = regexp.MustCompile(`\\\n\s*`).ReplaceAllString(text, "")
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok {
			continue
		}
		all = append(all, instruction{name, rest})
	}
	start := -1
	for i, in := range all {
		if in.name == "FROM" {
			start = i
		}
	}
	if start < 1 {
		t.Fatal("the Dockerfile has less than two stages")
	}
	return all, all[start:]
}

// rest returns what follows the only instruction of a name.
func rest(t *testing.T, all []instruction, name string) string {
	t.Helper()
	var found []string
	for _, in := range all {
		if in.name == name {
			found = append(found, in.rest)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d instructions %s: %q", len(found), name, found)
	}
	return found[0]
}

// words are those of an instruction in its JSON form, which needs no shell.
func words(t *testing.T, text string) (list []string) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		t.Fatalf("%s: %v: there is no shell in the image", text, err)
	}
	return list
}

func TestTheImageIsPinnedAndHoldsTheProgramAlone(t *testing.T) {
	all, last := instructions(t)
	for _, in := range all {
		if in.name == "FROM" && in.rest != "scratch" && !regexp.MustCompile(`:\d+\.\d+\.\d+-\w+( AS \w+)?$`).MatchString(in.rest) {
			t.Errorf("FROM %s is not pinned", in.rest)
		}
		if in.name == "ADD" {
			t.Errorf("ADD %s: COPY fetches nothing", in.rest)
		}
	}
	for _, in := range last {
		if in.name == "RUN" {
			t.Errorf("RUN %s: there is no shell in the image", in.rest)
		}
	}
	if user := rest(t, last, "USER"); user != "65532:65532" {
		t.Errorf("USER %s", user) // a number, so that runAsNonRoot can be verified
	}
	var copied []string
	for _, in := range last {
		if in.name == "COPY" {
			copied = append(copied, in.rest)
		}
	}
	want := []string{
		"--from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt",
		"--from=build /out/doorbell /doorbell", "--from=build --chown=65532:65532 /out/data /data",
	}
	if !slices.Equal(copied, want) {
		t.Errorf("copied: %q", copied)
	}
}

// parsing says of one command line after the other whether it exists: words behind the name of the program.
func parsing(t *testing.T) (parses func(args []string) error) {
	t.Helper()
	return func(args []string) error { // a parser remembers the flags of a parse
		parser, err := newParser(kong.Exit(func(int) {}), kong.Writers(t.Output(), t.Output()))
		if err == nil {
			_, err = parser.Parse(args)
		}
		return err
	}
}

// image is what the last stage of the Dockerfile makes, put together without an engine.
type image struct {
	root                    string
	entry, command, healthy []string
	environ                 []string
}

// buildLine is the Dockerfile's own go build, which puts the program at a path.
func buildLine(t testing.TB, path string) string {
	t.Helper()
	all, _ := instructions(t)
	for _, in := range all {
		if in.name == "RUN" && strings.Contains(in.rest, "go build") {
			line := regexp.MustCompile(`--mount=\S+ `).ReplaceAllString(in.rest, "")
			return strings.ReplaceAll(line, "/out/doorbell", "'"+path+"'")
		}
	}
	t.Fatal("the Dockerfile builds nothing")
	return ""
}

// buildVariable lets the tests of image and unit build the program as the image does.
const buildVariable = "DOORBELL_TEST_IMAGE"

// shipped is the program that shippedProgram built, empty if that failed.
var shipped struct {
	sync.Once
	path string
}

// shippedProgram builds the program by the line of the Dockerfile, once.
func shippedProgram(t *testing.T) string {
	t.Helper()
	if os.Getenv(buildVariable) == "" {
		skiptest.Skipf(t, "%s is not set, so the program is not built as the image has it", buildVariable)
	}
	shipped.Do(func() {
		dir, err := os.MkdirTemp("", "doorbell")
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "doorbell")
		line := buildLine(t, path)
		if exec.Command("git", "-C", top, "status").Run() != nil {
			line = strings.Replace(line, "-buildvcs=auto", "-buildvcs=false", 1) // a tree that git does not trust
		}
		build := exec.Command("sh", "-ec", line)
		build.Dir = top
		build.Env = append(os.Environ(), "GOFLAGS=", "TARGETOS="+runtime.GOOS, "TARGETARCH="+runtime.GOARCH)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		shipped.path = path
	})
	if shipped.path == "" {
		t.Fatal("the program was not built: the first test that uses it says why")
	}
	return shipped.path
}

// makeImage puts together what the last stage does.
func makeImage(t *testing.T) image {
	t.Helper()
	_, last := instructions(t)
	i := image{root: doorbelltest.ShortDir(t)}
	i.entry, i.command = words(t, rest(t, last, "ENTRYPOINT")), words(t, rest(t, last, "CMD"))
	_, checking, ok := strings.Cut(rest(t, last, "HEALTHCHECK"), " CMD ")
	if !ok {
		t.Fatal("HEALTHCHECK has no command")
	}
	i.healthy = words(t, checking)
	i.environ = strings.Fields(rest(t, last, "ENV"))
	for _, dir := range []string{"data", "etc/ssl/certs"} {
		if err := os.MkdirAll(filepath.Join(i.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(i.root, 0o755), os.Link(shippedProgram(t), filepath.Join(i.root, "doorbell"))); err != nil {
		t.Fatal(err)
	}
	return i
}

func TestTheProgramOfTheImageIsStatic(t *testing.T) {
	t.Parallel()
	i := makeImage(t)
	f, err := elf.Open(filepath.Join(i.root, "doorbell"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a program header %s", p.Type)
		}
	}
	out, err := exec.Command(filepath.Join(i.root, "doorbell"), "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var v Version
	if err := json.Unmarshal(out, &v); err != nil {
		t.Fatal(err)
	}
	head, err := exec.Command("git", "-C", top, "rev-parse", "HEAD").Output()
	if err == nil && (v.Revision != strings.TrimSpace(string(head)) || v.Version != release) {
		t.Errorf("version %+v, built from %s", v, head)
	}
	parses := parsing(t)
	for _, args := range [][]string{i.command, i.healthy[1:]} {
		if err := parses(args); err != nil {
			t.Errorf("doorbell %q: %v", args, err)
		}
	}
	if c, err := config.Read(i.environ); err != nil || c.Base.DataDir != "/data" || len(c.Warnings) > 0 && !strings.HasSuffix(c.Warnings[0], "no effect yet") {
		t.Errorf("%v %v %q", err, c.Base, c.Warnings)
	}
}

// inside runs a command line as a container would: no other files than the image's and none that can be written but below /data,
// another user, no more rights to gain.
func (i image) inside(t *testing.T, data string, environ []string, args ...string) *doorbelltest.Child {
	t.Helper()
	const script = `set -e
mount --bind "$1" "$1"; mount --bind "$2" "$1/data"; mount -o remount,bind,ro "$1"
root=$1; shift 2; PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec setpriv --no-new-privs --inh-caps=-all --bounding-set=-all,+sys_chroot,+setuid,+setgid $(command -v chroot) --userspec=65532:65532 "$root" "$@"`
	cmd := exec.Command("unshare", append([]string{"--mount", "bash", "-c", script, "bash", i.root, data}, args...)...)
	cmd.Env = append(slices.Clone(i.environ), environ...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	return doorbelltest.Begin(t, cmd).TellingNobody(t, args)
}

func TestTheImageRunsReadOnlyAsAnotherUser(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"unshare", "setpriv", "chroot", "bash"} {
		foreignProgram(t, "", name, "nothing is run as in the image")
	}
	if os.Geteuid() != 0 || exec.Command("unshare", "--mount", "mount", "--make-rprivate", "/").Run() != nil {
		skiptest.Skipf(t, "this user may make no namespace of mounts, so nothing is run as in the image")
	}
	i, data, s := makeImage(t), doorbelltest.ShortDir(t), doorbelltest.NewScene(t, "A100", "B200")
	if err := os.Chown(data, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	environ := []string{
		"DOORBELL_BASE_URL=" + s.URL, "DOORBELL_API_KEYS=A100=" + doorbelltest.TestKey + ",B200=wrong", "DOORBELL_NATS_LISTEN=127.0.0.1:0",
		"DOORBELL_HTTP_LISTEN=off", "DOORBELL_WALK_INTERVAL=200ms", "DOORBELL_POLL_INTERVAL=100ms",
	}
	d := i.inside(t, data, environ, append(slices.Clone(i.entry), i.command...)...)
	healthy := func() (int, string) {
		c := i.inside(t, data, environ, i.healthy...)
		return c.Exit(t), c.Stdout.String() + c.Stderr.String()
	}
	d.Stderr.Await(t, `"watching"`)
	if code, text := healthy(); code != exit.Done {
		t.Errorf("exit code %d\n%s", code, text)
	}
	d.Stderr.Await(t, "B200.*halted|halted.*B200")
	if code, text := healthy(); code != exit.Done || !strings.Contains(text, "B200 is halted") {
		t.Errorf("with a halted agency: exit code %d\n%s", code, text)
	}
	s.GoesOn(t, "A100", 3)
	if err := d.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if code, text := healthy(); code != exit.CodeUnavailable {
		t.Errorf("a daemon that hangs: exit code %d\n%s", code, text)
	}
	if err := d.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	d.Stop(t)
}

func TestTheContextOfTheImageHasAllThatGitTracks(t *testing.T) {
	ignored, err := filepath.Abs(filepath.Join(top, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("git", "-C", top, "ls-files", "--cached", "--ignored", "--exclude-from="+ignored).CombinedOutput()
	if err != nil {
		skiptest.Skipf(t, "git does not list what it tracks here (%v), so nobody knows what .dockerignore leaves out", err)
	}
	if len(out) > 0 {
		t.Errorf("without these, the version of the image says that the tree was changed:\n%s", out)
	}
	doorbelltest.Has(t, readText(t, ignored), "data/\n", "deploy/secrets/\n", "deploy/.env\n")
}
