//go:build unix

package listings

import "syscall"

// socket is that of a connection.
type socket struct {
	raw   syscall.RawConn
	one   [1]byte
	still bool
	look  func(fd uintptr) bool // made once
}

func newSocket(c syscall.Conn) *socket {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	s := &socket{raw: raw}
	s.look = func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), s.one[:])
		s.still = err == syscall.EAGAIN
		return true
	}
	return s
}

// quiet says whether there is nothing to read, not even an end. If there was something, it is lost.
func (s *socket) quiet() bool { return s.raw.Read(s.look) == nil && s.still }
