package torture

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// tracer runs a program under ptrace and counts, over all of its threads, the system calls by which it changes files below
// a directory: strace counts for each thread, and a Go program moves between threads as it likes. Of the n-th call on, so
// many do not happen: the program is killed in their place, or they return an error.
type tracer struct {
	below string
	at    int           // of the first call that fails; 0: none
	times int           // how many from there on; negative: all
	errno syscall.Errno // that they return; 0: SIGKILL instead of the call
	slow  atomic.Int64  // milliseconds that a sync of the store takes; 0: as long as it does
	every bool          // every sync below takes so long, and not only the store's

	pid    int
	calls  int      // that were seen
	names  []string // of them all
	struck int
	hit    chan struct{} // closed when the first call is struck
	gone   chan struct{} // closed when the program has ended
	status syscall.WaitStatus
}

// fileCalls change files. Those by name are taken from anywhere, those by descriptor only where it is of a file below.
var fileCalls = map[uint64]string{
	syscall.SYS_WRITE: "write", syscall.SYS_WRITEV: "writev", syscall.SYS_PWRITE64: "pwrite64", syscall.SYS_FTRUNCATE: "ftruncate",
	syscall.SYS_FALLOCATE: "fallocate", syscall.SYS_FSYNC: "fsync", syscall.SYS_FDATASYNC: "fdatasync", syscall.SYS_RENAME: "rename",
	syscall.SYS_RENAMEAT: "renameat", sysRenameat2: "renameat2", syscall.SYS_UNLINKAT: "unlinkat", syscall.SYS_MKDIRAT: "mkdirat",
}

const (
	sysRenameat2      = 316
	prSetNoNewPrivs   = 38
	prSetSeccomp      = 22
	seccompModeFilter = 2
	seccompAllow      = 0x7fff0000
	seccompTrace      = 0x7ff00000
	eventSeccomp      = 7
	traceSeccomp      = 1 << eventSeccomp
	exitKill          = 1 << 20
	onlyThisThread    = 0x20000000 // __WNOTHREAD
)

// tracing takes work to a thread whose children stop at fileCalls. Such a thread never ends, and carries nothing else: a
// child with a death signal would end with it.
var tracing = make(chan func(error))

// onTracingThread passes the work the reason why there is no such thread, if there is one.
func onTracingThread(do func(error)) {
	select {
	case tracing <- do:
		return
	default:
	}
	go func() {
		runtime.LockOSThread()
		err := filterFileCalls()
		for ; ; do = <-tracing {
			do(err)
		}
	}()
}

// run starts the program and follows it to its end.
func (t *tracer) run(environ []string, stderr io.Writer, program string, args ...string) error {
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(stderr, reading)
		reading.Close()
	}()
	started := make(chan error, 1)
	t.hit, t.gone = make(chan struct{}), make(chan struct{})
	onTracingThread(func(err error) {
		if err == nil {
			err = t.start(environ, writing.Fd(), program, args)
		}
		started <- err
		if err == nil {
			t.follow()
		}
		go func() { // not here, where a write may be none
			writing.Close()
			<-copied
			close(t.gone)
		}()
	})
	return <-started
}

func (t *tracer) start(environ []string, stderr uintptr, program string, args []string) error {
	pid, err := syscall.ForkExec(program, append([]string{program}, args...), &syscall.ProcAttr{
		// Of two settings with one name the last one counts, as for exec.Cmd. Every signal would be a stop.
		Env:   (&exec.Cmd{Env: append(environ[:len(environ):len(environ)], "GODEBUG=asyncpreemptoff=1")}).Environ(),
		Files: []uintptr{0, stderr, stderr},
		Sys:   &syscall.SysProcAttr{Ptrace: true, Setpgid: true},
	})
	if err != nil {
		return err
	}
	t.pid = pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, syscall.WALL, nil); err != nil {
		return err
	}
	if !status.Stopped() {
		return fmt.Errorf("%s cannot be traced: %w", program, syscall.EPERM)
	}
	if err := syscall.PtraceSetOptions(pid, traceSeccomp|exitKill|syscall.PTRACE_O_TRACECLONE|syscall.PTRACE_O_TRACEVFORK); err != nil {
		return err
	}
	return syscall.PtraceCont(pid, 0)
}

// filterFileCalls makes this thread, and what it starts, stop at fileCalls.
func filterFileCalls() error {
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	const load, equal, give = 0x20, 0x15, 0x06
	// A write of eight bytes is the runtime waking itself, here as there.
	list := []instruction{{code: load}, {code: equal, jf: 3, k: syscall.SYS_WRITE}, {code: load, k: 32}, {code: equal, jf: 1, k: 8}, {code: give, k: seccompAllow}, {code: load}}
	left := len(fileCalls)
	for number := range fileCalls {
		list = append(list, instruction{code: equal, jt: uint8(left), k: uint32(number)}) // to the end
		left--
	}
	list = append(list, instruction{code: give, k: seccompAllow}, instruction{code: give, k: seccompTrace})
	program := struct {
		length uint16
		first  *instruction
	}{uint16(len(list)), &list[0]}
	if _, _, e := syscall.RawSyscall6(syscall.SYS_PRCTL, prSetNoNewPrivs, 1, 0, 0, 0, 0); e != 0 {
		return e
	}
	if _, _, e := syscall.RawSyscall(syscall.SYS_PRCTL, prSetSeccomp, seccompModeFilter, uintptr(unsafe.Pointer(&program))); e != 0 {
		return e
	}
	return nil
}

func (t *tracer) follow() {
	for {
		var status syscall.WaitStatus
		// Of its group: before it became this one, the thread may have started children of others.
		tid, err := syscall.Wait4(-t.pid, &status, syscall.WALL|onlyThisThread, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil:
			return
		case status.Exited() || status.Signaled():
			if tid == t.pid {
				t.status = status
				return
			}
			continue
		}
		signal := 0
		switch stop := status.StopSignal(); {
		case stop == syscall.SIGTRAP && status.TrapCause() == eventSeccomp:
			t.look(tid)
		case stop == syscall.SIGTRAP, stop == syscall.SIGSTOP:
		default:
			signal = int(stop)
		}
		_ = syscall.PtraceCont(tid, signal) // it may have been killed
	}
}

// look counts a call that is about to happen, and strikes if it is time.
func (t *tracer) look(tid int) {
	var regs syscall.PtraceRegs
	if syscall.PtraceGetRegs(tid, &regs) != nil {
		return
	}
	name := fileCalls[regs.Orig_rax]
	switch regs.Orig_rax {
	case syscall.SYS_RENAME, syscall.SYS_RENAMEAT, sysRenameat2, syscall.SYS_UNLINKAT, syscall.SYS_MKDIRAT:
	default:
		path := make([]byte, 4096)
		n, _ := syscall.Readlink(fmt.Sprintf("/proc/%d/fd/%d", tid, int32(regs.Rdi)), path)
		file, below := strings.CutPrefix(string(path[:max(n, 0)]), t.below)
		if !below {
			return
		}
		name += " " + file
	}
	t.calls++
	t.names = append(t.names, name)
	syncs := regs.Orig_rax == syscall.SYS_FDATASYNC || regs.Orig_rax == syscall.SYS_FSYNC
	if slow := t.slow.Load(); slow > 0 && syncs && (t.every || strings.HasSuffix(name, "/doorbell.db")) {
		regs.Orig_rax, regs.Rdi, regs.Rsi, regs.Rdx = syscall.SYS_POLL, 0, 0, uint64(slow) // of nothing: it sleeps
		_ = syscall.PtraceSetRegs(tid, &regs)
		return
	}
	if t.at == 0 || t.calls < t.at || t.times >= 0 && t.calls >= t.at+t.times {
		return
	}
	if t.struck++; t.struck == 1 {
		close(t.hit)
	}
	if t.errno == 0 {
		_ = syscall.Kill(t.pid, syscall.SIGKILL)
		return
	}
	regs.Orig_rax, regs.Rax = ^uint64(0), uint64(-int64(t.errno))
	_ = syscall.PtraceSetRegs(tid, &regs)
}
