//go:build linux || darwin || freebsd

package main

import (
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// terminalSize is 0 where it is not known.
func terminalSize(f *os.File) (width, height int) {
	var size struct{ rows, columns, x, y uint16 }
	if _, _, failure := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))); failure != 0 {
		return 0, 0
	}
	return int(size.columns), int(size.rows)
}

// resized tells when the terminal has another size, until stop is called.
func resized() (told <-chan os.Signal, stop func()) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGWINCH)
	return c, func() { signal.Stop(c) }
}
