package store

import "syscall"

// A page of the file that is read is mapped, and the system maps its neighbours with it. They stay in the system's cache when
// they are given back, and are mapped again when they are needed; but what the process holds is then what it works with, and
// not the whole file. To map a page again costs some 15 µs of CPU; a round in which nothing happened looks nothing up.
const (
	neighbours   = 16      // pages that are mapped with one
	releaseAfter = 4 << 20 // bytes that may be mapped
)

// looked notes that so many bytes were read, scattered over the file, and gives the pages back if it is time. The file stays
// mapped where it is as long as the transaction is open.
func (tx *Tx) looked(bytes int) {
	if tx.store.mapped.Add(int64(bytes)*neighbours) < releaseAfter {
		return
	}
	tx.store.mapped.Store(0)
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, tx.store.db.Info().Data, uintptr(tx.tx.Size()), syscall.MADV_DONTNEED) // it is a wish
}
