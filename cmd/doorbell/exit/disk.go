package exit

import (
	"math"
	"syscall"
)

// MayWrite asks the system without writing whether a file or folder may be read and written:
// looking must leave nothing behind.
func MayWrite(path string) bool {
	const read, write = 4, 2
	return syscall.Access(path, read|write) == nil
}

// FreeSpace is what an ordinary user may still write to the disk of a directory. A file system
// without blocks, as /proc or a tmpfs without a limit, does not say.
func FreeSpace(dir string) (n int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Blocks == 0 {
		return 0, false
	}
	free := float64(s.Bavail) * float64(s.Bsize)
	return int64(min(free, math.MaxInt64/2)), true
}
