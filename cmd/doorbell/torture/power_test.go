//go:build linux

package torture

import (
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
	"doorbell/schemas/skiptest"
)

// cutsInARound is how often the power of both stores fails.
const cutsInARound = 10

// disk is a file system of its own that can lose its power.
type disk struct{ image, dir string }

// journals are ways of mounting: how often the file system writes by itself, and in which order.
var journals = []string{"commit=5,data=ordered", "commit=1000,data=ordered", "commit=1,data=writeback", "commit=1000,data=writeback"}

// newDisk skips the test where the machine forbids mounting one.
func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := doorbelltest.ShortDir(t)
	d := &disk{image: filepath.Join(dir, "image"), dir: filepath.Join(dir, "d")}
	f, err := os.Create(d.image)
	if err == nil {
		err = errors.Join(f.Truncate(96<<20), f.Close(), os.Mkdir(d.dir, 0o700))
	}
	must(t, err)
	if out, err := exec.Command("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,nodiscard", d.image).CombinedOutput(); err != nil {
		skiptest.Skipf(t, "no file system can be made here: %v %s", err, out)
	}
	if out, err := d.mount(journals[0]); err != nil {
		skiptest.Skipf(t, "no file system can be mounted here: %v %s", err, out)
	}
	t.Cleanup(func() {
		_ = syscall.Unmount(d.dir, syscall.MNT_DETACH) // before the directory is removed
	})
	return d
}

func (d *disk) mount(opts string) (string, error) {
	out, err := exec.Command("mount", "-o", "loop,"+opts, d.image, d.dir).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// cut drops everything that was not synced: EXT4_IOC_SHUTDOWN without a flush of the journal.
func (d *disk) cut() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	how := uint32(2)
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), 0x8004587d, uintptr(unsafe.Pointer(&how))); e != 0 {
		return e
	}
	return nil
}

// comeBack mounts what is left.
func (d *disk) comeBack(t *testing.T, opts string) {
	t.Helper()
	must(t, syscall.Unmount(d.dir, 0))
	if out, err := d.mount(opts); err != nil {
		t.Fatalf("%v %s", err, out)
	}
}

// cutsInAScene is how often one file system loses its power before what is on it is judged.
const cutsInAScene = 20

// TestAPowerFailureOfBothStoresLosesAndDoublesNothing takes the power from a file system that holds event log and stream
// while the API keeps moving: what was not synced is gone, of both at once. It needs root, a loop device and ext4. The
// long form is `go test ./cmd/doorbell/torture -run TestAPowerFailure -rounds 10 -v`.
func TestAPowerFailureOfBothStoresLosesAndDoublesNothing(t *testing.T) {
	runsByName(t)
	if os.Geteuid() != 0 {
		skiptest.Skipf(t, "only root may mount a file system to take the power from it")
	}
	var list []int
	cuts := cutsInARound * *rounds
	for left := cuts; left > 0; left -= cutsInAScene {
		list = append(list, min(left, cutsInAScene))
	}
	begin := time.Now()
	atOnce(min(scenesAtOnce, 4), list, func(cuts int) {
		t.Run("scene", func(t *testing.T) { cutThePower(t, cuts) })
	})
	t.Logf("%d cuts, %.0f a minute", cuts, float64(cuts)/time.Since(begin).Minutes())
}

func cutThePower(t *testing.T, cuts int) {
	d := newDisk(t)
	b := newRestless(t, rand.Uint64(), sandbox.Flat(), filepath.Join(d.dir, "data"), 600, 60)
	for n := range cuts {
		b.launch(0)
		if n > 0 || cuts == 1 {
			b.up(0)
		}
		time.Sleep(rand.N(time.Second)) // the moment is the point of the test
		if err := d.cut(); errors.Is(err, syscall.ENOTTY) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.EPERM) {
			b.kill(0)
			skiptest.Skipf(t, "the power of this file system cannot be cut: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		_ = b.doorbells[0].Cmd.Process.Kill() // it may have noticed
		<-b.doorbells[0].Gone
		d.comeBack(t, journals[n%len(journals)])
	}
	b.launch(0)
	b.judge(0)
}
