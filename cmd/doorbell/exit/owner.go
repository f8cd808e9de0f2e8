package exit

import (
	"os"
	"strconv"
	"syscall"
)

// Owner is the number of the user that owns a file, and whether that is not who runs this program:
// what is made by the superuser in the data directory, the daemon cannot open.
func Owner(path string) (uid string, other bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return "", false
	}
	return strconv.Itoa(int(stat.Uid)), true
}
