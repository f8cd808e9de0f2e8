package exit

import (
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Owner is who owns a file, by name where there is one, and whether that is not who runs this
// program: what is made by the superuser in the data directory, the daemon cannot open.
func Owner(path string) (name string, other bool) {
	info, err := os.Stat(path)
	if err != nil {
		return "", false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || int(stat.Uid) == os.Geteuid() {
		return "", false
	}
	name = strconv.Itoa(int(stat.Uid))
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	return name, true
}
