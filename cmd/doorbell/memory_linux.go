package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// releaseProgram gives back the pages of the program's file that were mapped so far: most of what a start runs never runs
// again. They stay in the system's cache, and what goes on maps its own anew. A part of which the memory differs from the file
// stays: the loader has put addresses into it (-buildmode=pie), or a debugger its breakpoints.
func releaseProgram() {
	path, err := os.Executable()
	if err != nil {
		return
	}
	smaps, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer smaps.Close()  //nolint:errcheck // it was only read
	var from, to uintptr // of a part; 0: it is of something else, or is written to
	for lines := bufio.NewScanner(smaps); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch {
		case !strings.HasSuffix(name, ":"):
			var access string
			_, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &access)
			if err != nil || !strings.HasSuffix(value, " "+path) || strings.Contains(access, "w") {
				from, to = 0, 0
			}
		case name == "Anonymous:" && strings.TrimSpace(value) == "0 kB" && to > 0:
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED) // it is a wish
		}
	}
}
