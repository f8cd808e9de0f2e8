package natsd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A folder that the check finds nothing wrong with can still keep the server from starting. After some starts that came to
// no end in time it is set aside as a whole. A start that was killed or called off does not count.
const mostSlowStarts = 3

var errNeverReady = errors.New("the server was not ready in time, again and again")

func (s *Server) slowStartsFile() string {
	return filepath.Join(s.options.StoreDir, ".slow-starts")
}

// slowStarts is how many starts in a row came to no end.
func (s *Server) slowStarts() int {
	b, err := os.ReadFile(s.slowStartsFile())
	n, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil {
		return 0
	}
	return n
}

// wasSlow counts one more.
func (s *Server) wasSlow() error {
	return os.WriteFile(s.slowStartsFile(), []byte(strconv.Itoa(s.slowStarts()+1)+"\n"), 0o600)
}

// wasReady begins to count anew.
func (s *Server) wasReady() error {
	if err := os.Remove(s.slowStartsFile()); !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// giveUp sets everything aside when there is no hope.
func (s *Server) giveUp() error {
	if s.slowStarts() < mostSlowStarts {
		return nil
	}
	folder := filepath.Join(s.options.StoreDir, "jetstream")
	if err := s.setAside(folder, errNeverReady, "streams are built anew from the event log; consumers have to be made again"); err != nil {
		return err
	}
	return s.wasReady()
}
