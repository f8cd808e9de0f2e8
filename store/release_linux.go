package store

import (
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
)

// releaseEvery is how often the pages of the file that were read are given back. They stay in the system's cache and are
// mapped again when they are needed; but what the process holds is then what it works with, and not the whole file.
const releaseEvery = 5 * time.Second

// release gives back the pages, if it is time. The file stays mapped where it is as long as a transaction is open.
func (s *Store) release() {
	last, now := s.released.Load(), time.Now().UnixNano()
	if now-last < int64(releaseEvery) || !s.released.CompareAndSwap(last, now) {
		return
	}
	_ = s.db.View(func(tx *bolt.Tx) error {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, s.db.Info().Data, uintptr(tx.Size()), syscall.MADV_DONTNEED)
		return nil // it was a wish
	})
}
