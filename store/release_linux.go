package store

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// A page of the file that is read is mapped, and the system maps its neighbours with it. They stay in the system's cache when
// they are given back, and are mapped again when they are needed; but what the process holds is then what it works with, and
// not the whole file. To map a page again costs some 15 µs of CPU; a round in which nothing happened looks nothing up. Mostly the
// same pages are looked up again: so it is only from time to time asked how many there are.
const (
	neighbours   = 16      // pages that are mapped with one
	askAfter     = 2 << 20 // bytes that may have been mapped since the last time
	releaseAfter = 3 << 20 // bytes that may be mapped
)

// looked notes that so many bytes were read, scattered over the file, and gives the pages back if it is time. The file stays
// mapped where it is as long as the transaction is open.
func (tx *Tx) looked(bytes int) {
	s := tx.store
	if s.looked.Add(int64(bytes)*neighbours) < askAfter {
		return
	}
	s.looked.Store(0)
	held, before := mappedFiles(), s.mapped.Load()
	if held == 0 || held-before >= releaseAfter {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, s.db.Info().Data, uintptr(tx.tx.Size()), syscall.MADV_DONTNEED) // it is a wish
		before = mappedFiles()
	}
	s.mapped.Store(min(held, before))
}

// statm tells how much memory this process has. It stays open: to open it costs more than to read it.
var statm = sync.OnceValue(func() int {
	fd, err := syscall.Open("/proc/self/statm", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	return fd
})

// mappedFiles is how many bytes of files, the program among them, this process has mapped and in memory. It is 0 where the
// system does not tell.
func mappedFiles() int64 {
	var room [128]byte
	n, _ := syscall.Pread(statm(), room[:], 0)
	fields := strings.Fields(string(room[:max(n, 0)]))
	if len(fields) < 3 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[2], 10, 64)
	return pages * int64(os.Getpagesize())
}
