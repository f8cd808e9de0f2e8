//go:build !unix

package listings

import "syscall"

// socket is that of a connection.
type socket struct{}

func newSocket(syscall.Conn) *socket { return nil }

// quiet is not to be had here: what a connection says that was kept is read with the next answer.
func (s *socket) quiet() bool { return true }
