package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/schemas/skiptest"
)

const unitFile = deployDir + "/doorbell.service"

func TestSystemdFindsNothingWrongWithTheUnit(t *testing.T) {
	t.Parallel()
	analyze := foreignProgram(t, "", "systemd-analyze", "nobody verifies the unit")
	unit := filepath.Join(t.TempDir(), "doorbell.service")
	text := strings.ReplaceAll(readText(t, unitFile), "/usr/local/bin/doorbell", doorbelltest.Binary(t)) // it wants a program that is there
	if err := os.WriteFile(unit, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	second := filepath.Join(filepath.Dir(unit), "doorbell@-staging.service")
	if err := os.WriteFile(second, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, one := range []string{unit, second} {
		if out, err := exec.Command(analyze, "verify", "--man=no", one).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%v\n%s", err, out)
		}
	}
	const tenths = 15
	out, err := exec.Command(analyze, "security", "--offline=true", "--no-pager", "--threshold="+strconv.Itoa(tenths), unit).CombinedOutput()
	level := regexp.MustCompile(`Overall exposure level for doorbell.service: (\S+)`).FindSubmatch(out)
	if err != nil || level == nil {
		t.Errorf("%v\n%s", err, out)
		return
	}
	t.Logf("exposure level %s", level[1])
}

func TestTheUnitHandsOverEverySecretThatIsThere(t *testing.T) {
	var loaded []string
	for _, m := range regexp.MustCompile(`(?m)^LoadCredential=(\S+?):(\S+)$`).FindAllStringSubmatch(readText(t, unitFile), -1) {
		if m[2] != "doorbell%i."+m[1] {
			t.Errorf("%s comes from %s", m[1], m[2])
		}
		loaded = append(loaded, m[1])
	}
	slices.Sort(loaded)
	if want := secretNames(); !slices.Equal(loaded, want) {
		t.Errorf("the unit loads %q; the secrets are %q", loaded, want)
	}
}

func TestTheUnitDoesNotRestartWhatARestartDoesNotMend(t *testing.T) {
	text := readText(t, unitFile)
	doorbelltest.Has(t, text, fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exit.CodeConfig), "\nRestart=on-failure\n", "\nType=notify\n")
}

// asPID1 makes a systemd of its own the first process of new namespaces, with nothing but the unit to start: $1 is a folder with
// units, credstore and the program, $2 a control group. What it writes outside of the folder is gone with it.
const asPID1 = `set -e
echo $$ > "$2/cgroup.procs"
exec unshare --cgroup bash -ec '
mount --make-rprivate /
mount -t proc proc /proc
umount -l /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
for dir in /run /etc/systemd /usr/lib/systemd/system-generators /var/lib /usr/local/bin; do mount -t tmpfs tmpfs $dir; done
mkdir -p /run/credstore /etc/systemd/system
cp "$1"/credstore/* /run/credstore
cp "$1/doorbell" /usr/local/bin/doorbell
mount --bind "$1/units" /usr/lib/systemd/system
mount --make-rshared /
exec env -i container=test PATH="$PATH" /lib/systemd/systemd --system --unit=multi-user.target --log-target=null --show-status=0
' bash "$1"
`

// underSystemd is the unit at work.
type underSystemd struct {
	pid1 int
	log  string
}

// startUnderSystemd starts the unit, with some lines more, in a systemd of its own.
func startUnderSystemd(t *testing.T, keys, more string) *underSystemd {
	t.Helper()
	w := t.TempDir()
	u := &underSystemd{log: filepath.Join(w, "log")}
	files := map[string]string{
		"units/doorbell.service":             readText(t, unitFile),
		"units/doorbell.service.d/test.conf": "[Service]\nEnvironmentFile=\nStandardOutput=append:" + u.log + "\nStandardError=append:" + u.log + "\n" + more,
		"units/system.slice":                 "[Unit]\nDefaultDependencies=no\n",
		"credstore/doorbell.api_keys":        keys,
	}
	for _, target := range []string{"sysinit", "basic", "network-online", "shutdown", "umount", "final", "multi-user"} {
		files["units/"+target+".target"] = "[Unit]\nDefaultDependencies=no\n"
	}
	files["units/multi-user.target"] += "Wants=doorbell.service\n"
	for name, text := range files {
		path := filepath.Join(w, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(shippedProgram(t), filepath.Join(w, "doorbell")); err != nil {
		t.Fatal(err)
	}
	group := controlGroup(t)
	cmd := exec.Command("bash", "-c", asPID1, "bash", w, group)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
	}
	if err := cmd.Start(); err != nil {
		skiptest.Skipf(t, "this machine allows no namespaces (%v), so the unit is not run by systemd", err)
	}
	u.pid1 = cmd.Process.Pid
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // and with it all that is in its namespace
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s\n%s", out.String(), u.text())
		}
	})
	return u
}

// controlGroup makes a group for one systemd, below the root of version 2 as it is mounted here.
func controlGroup(t *testing.T) string {
	t.Helper()
	mounted := regexp.MustCompile(`(?m)^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 `).FindStringSubmatch(readText(t, "/proc/self/mountinfo"))
	if mounted == nil {
		skiptest.Skipf(t, "no control groups of version 2 are mounted, so the unit is not run by systemd")
	}
	group, err := os.MkdirTemp(mounted[1], "doorbell")
	if err != nil {
		skiptest.Skipf(t, "no control group can be made (%v), so the unit is not run by systemd", err)
	}
	t.Cleanup(func() {
		doorbelltest.Eventually(t, "the control group is empty", func() bool { return removeGroup(group) == nil })
	})
	return group
}

// removeGroup removes a control group and those below it.
func removeGroup(group string) error {
	below, err := filepath.Glob(filepath.Join(group, "*/"))
	if err != nil {
		return err
	}
	for _, g := range below {
		if info, err := os.Stat(g); err == nil && info.IsDir() {
			if err := removeGroup(g); err != nil {
				return err
			}
		}
	}
	return os.Remove(group)
}

func (u *underSystemd) text() string {
	text, _ := os.ReadFile(u.log) // there is none before it starts
	return string(text)
}

// command runs a command beside the unit.
func (u *underSystemd) command(args ...string) (string, error) {
	out, err := exec.Command("nsenter", append([]string{"-t", strconv.Itoa(u.pid1), "-a"}, args...)...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// show is a property of the unit as systemd sees it; empty while it does not answer.
func (u *underSystemd) show(property string) string {
	out, err := u.command("systemctl", "show", "--value", "-p", property, "doorbell")
	if err != nil {
		return ""
	}
	return out
}

func (u *underSystemd) awaits(t *testing.T, property, value string) {
	t.Helper()
	doorbelltest.Eventually(t, property+" is "+value, func() bool { return u.show(property) == value })
}

func needSystemd(t *testing.T) {
	t.Helper()
	for _, name := range []string{"/lib/systemd/systemd", "systemctl", "unshare", "nsenter", "bash"} {
		foreignProgram(t, "", name, "the unit is not run by systemd")
	}
	if os.Geteuid() != 0 {
		skiptest.Skipf(t, "only root may start a systemd of its own, so the unit is not run by systemd")
	}
}

// TestTheUnitRunsUnderSystemdWithAllItsRestrictions runs beside no other test: a daemon that is late is killed by the watchdog.
func TestTheUnitRunsUnderSystemdWithAllItsRestrictions(t *testing.T) {
	needSystemd(t)
	s := doorbelltest.NewScene(t, "A100")
	u := startUnderSystemd(t, "A100="+doorbelltest.TestKey+"\n", "RestartSec=100ms\nWatchdogSec=2\n"+
		"Environment=DOORBELL_BASE_URL="+s.URL+" DOORBELL_NATS_LISTEN=127.0.0.1:0 DOORBELL_HTTP_LISTEN=off\n")
	u.awaits(t, "ActiveState", "active") // it has said READY=1
	s.GoesOn(t, "A100", 3)

	pid, err := strconv.Atoi(u.show("MainPID"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := u.command("cat", fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(out)
	}
	doorbelltest.Has(t, out, "NoNewPrivs:\t1\n", "Seccomp:\t2\n", "CapBnd:\t0000000000000000\n", "CapEff:\t0000000000000000\n")
	if strings.Contains(out, "Uid:\t0") {
		t.Error("it runs as root")
	}
	out, err = u.command("env", "DOORBELL_DATA_DIR=/var/lib/doorbell", "/usr/local/bin/doorbell", "status")
	if err != nil {
		t.Error(out)
	}
	doorbelltest.Has(t, out, "A100", "NATS: embedded, connected")

	out, err = u.command("env", "DOORBELL_DATA_DIR=/var/lib/doorbell", "CREDENTIALS_DIRECTORY=/run/credentials/doorbell.service",
		"DOORBELL_BASE_URL="+s.URL, "/usr/local/bin/doorbell", "check") // as the runbook says
	if err != nil {
		t.Error(out)
	}

	before := u.show("WatchdogTimestampMonotonic")
	doorbelltest.Eventually(t, "a sign of life", func() bool { return u.show("WatchdogTimestampMonotonic") != before })
	if out, err := u.command("kill", "-KILL", strconv.Itoa(pid)); err != nil {
		t.Fatal(out)
	}
	u.awaits(t, "NRestarts", "1")
	u.awaits(t, "ActiveState", "active")
	s.GoesOn(t, "A100", 3)
	if out, err := u.command("systemctl", "reload", "doorbell"); err != nil {
		t.Error(out)
	}
	if out, err := u.command("systemctl", "stop", "doorbell"); err != nil {
		t.Error(out)
	}
	u.awaits(t, "ActiveState", "inactive") // and not failed
	if code := u.show("ExecMainStatus"); code != strconv.Itoa(exit.Done) {
		t.Errorf("exit code %s", code)
	}
	doorbelltest.HoldsNobody(t, u.text())
}

func TestSystemdLeavesAMisconfiguredDaemonAlone(t *testing.T) {
	t.Parallel()
	needSystemd(t)
	u := startUnderSystemd(t, "", "RestartSec=100ms\nEnvironment=DOORBELL_BASE_URL=ftp://api.example.com\n")
	u.awaits(t, "ActiveState", "failed")
	if code, again := u.show("ExecMainStatus"), u.show("NRestarts"); code != strconv.Itoa(exit.CodeConfig) || again != "0" {
		t.Errorf("exit code %s, %s restarts", code, again)
	}
	doorbelltest.Has(t, u.text(), "DOORBELL_BASE_URL")
}
