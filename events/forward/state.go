package forward

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

var (
	// ErrBusy: another process forwards under this name with this directory.
	ErrBusy = errors.New("a forwarder of this name is running already")
	// ErrState: the state file is there and cannot be used. It stays as it is.
	ErrState = errors.New("the state file of the forwarder cannot be used")
)

const stateVersion = 2

// memory is what the state file holds.
type memory struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	// Periods are what the routes took from when on, oldest first.
	Periods []period `json:"periods"`
	// Done is by kind, agency and store.
	Done    map[string]*checkpoint  `json:"done"`
	Workers map[string]*workerState `json:"lanes"`
	// Leftover are consumers that nobody needs any more and that are not deleted yet.
	Leftover []string `json:"leftover,omitempty"`
}

// workerState is what is remembered of a worker.
type workerState struct {
	// Since is when the worker began, by the server's clock. Zero: it has not begun yet.
	Since time.Time `json:"since,omitzero"`
	// Early: the consumer begins before the worker did, so the time of an event says whether the routes took it. Elsewhere time does
	// not count, as clocks differ.
	Early    bool      `json:"early,omitempty"`
	Consumer string    `json:"consumer,omitempty"`
	Filters  []Filter  `json:"filters"`
	Position *position `json:"position,omitempty"`
}

// stateFile is the memory, its file, and the lock on it.
type stateFile struct {
	path    string
	release func()

	mu     sync.Mutex // held while the memory is read or changed
	memory memory
	dirty  bool // the file is older than the memory

	writing sync.Mutex
}

// openState takes the lock and reads the file, if there is one.
func openState(dir, name string) (*stateFile, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", name, err)
	}
	path := filepath.Join(dir, "forward-"+name+".json")
	release, err := lockFile(path + ".lock")
	if errors.Is(err, errLocked) {
		return nil, fmt.Errorf("%w: %s in %s; give the second one another name, or stop the first", ErrBusy, name, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("forwarder %s: %w", name, err)
	}
	s := &stateFile{path: path, release: sync.OnceFunc(release)}
	if s.memory, err = readMemory(path, name); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *stateFile) close() { s.release() }

// readMemory is strict: what is half read would flood, or lose.
func readMemory(path, name string) (memory, error) {
	fresh := memory{Version: stateVersion, Name: name, Done: map[string]*checkpoint{}, Workers: map[string]*workerState{}}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fresh, nil
	}
	if err != nil {
		return memory{}, fmt.Errorf("%w: %w", ErrState, err)
	}
	var m memory
	d := json.NewDecoder(bytes.NewReader(data))
	err = d.Decode(&m)
	const moveAway = "move it away: then the forwarder goes on where its consumer in NATS stands, and one that is gone as well begins anew " +
		"with what comes from now on"
	if err == nil && m.Version > 0 && m.Version != stateVersion {
		return memory{}, fmt.Errorf("%w: %s was written by another version of doorbell; run that one, or %s", ErrState, path, moveAway)
	}
	if err != nil || d.More() || m.Version != stateVersion || !m.whole() {
		return memory{}, fmt.Errorf("%w: %s is damaged. Restore it from a backup; or %s", ErrState, path, moveAway)
	}
	if m.Name != name {
		return memory{}, fmt.Errorf("%w: %s belongs to the forwarder %.40q", ErrState, path, m.Name)
	}
	return m, nil
}

// whole says that nothing is missing that the code relies on.
func (m memory) whole() bool {
	for _, l := range m.Workers {
		if l == nil || len(m.Periods) == 0 {
			return false
		}
	}
	return m.Workers != nil && m.Done != nil
}

// change alters the memory, which the next save writes.
func (s *stateFile) change(alter func(*memory)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	alter(&s.memory)
	s.dirty = true
}

// look reads the memory.
func (s *stateFile) look(at func(*memory)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at(&s.memory)
}

// save writes what has changed: all of it or nothing, and on the disk when it returns.
func (s *stateFile) save() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	dirty := s.dirty
	data, err := json.Marshal(s.memory)
	s.dirty = false
	s.mu.Unlock()
	if !dirty {
		return nil
	}
	if err == nil {
		err = replaceFile(s.path, append(data, '\n'))
	}
	if err != nil {
		s.mu.Lock()
		s.dirty = true
		s.mu.Unlock()
		return fmt.Errorf("state file: %w", err)
	}
	return nil
}

// replaceFile puts a file into the place of another.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename last. Not every file system can, and then it need not.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}
