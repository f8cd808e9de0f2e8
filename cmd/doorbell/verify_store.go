package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"doorbell/store"
)

// A damaged file can end the process that looks at all of it, or lead it in circles. So that is a process of its own: this
// program once more, under a name that says what it is for. It prints its answer as JSON; one that dies has found damage, too.

// verifierName is the name of the program, as the system lists it, when it is that process. The file follows it.
const verifierName = "doorbell-verify"

// verifierAnswer is what the process prints: a report, or an error and which one it is.
type verifierAnswer struct {
	Report store.Report
	Error  string
	Kind   string
	Damage *store.DamagedError
	Locked *store.LockedError
}

// verifierErrors are the errors of store.Verify on which somebody decides.
var verifierErrors = map[string]error{
	"empty": store.ErrEmpty, "newer": store.ErrNewer, "foreign": store.ErrForeign, "none": fs.ErrNotExist, "forbidden": fs.ErrPermission,
}

// asVerifier is the whole program under that name: it returns false under any other.
func asVerifier() bool {
	if len(os.Args) != 2 || os.Args[0] != verifierName {
		return false
	}
	path := os.Args[1]
	go endWithParent()
	go limitVerifier(path)
	debug.SetMaxStack(64 << 20) // no tree is so deep
	r, err := store.Verify(context.Background(), path)
	answer := verifierAnswer{Report: r}
	if err != nil {
		answer.Error = err.Error()
	}
	for kind, is := range verifierErrors {
		if errors.Is(err, is) {
			answer.Kind = kind
		}
	}
	errors.As(err, &answer.Damage)
	errors.As(err, &answer.Locked)
	_ = json.NewEncoder(os.Stdout).Encode(answer) // who asked is gone
	return true
}

// endWithParent ends the process when nobody waits for it any more: it would keep the lock.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(exitFailed)
}

// limitVerifier ends the process when it takes more memory or time than a whole file of this size needs on the slowest disk.
func limitVerifier(path string) {
	var size int64
	if info, err := os.Stat(path); err == nil {
		size = info.Size()
	}
	began, memory := time.Now(), []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	for range time.Tick(50 * time.Millisecond) {
		metrics.Read(memory)
		if memory[0].Value.Uint64() > 256<<20+uint64(size)/8 || time.Since(began) > 20*time.Second+time.Duration(size/(4<<20))*time.Second {
			os.Exit(exitIO)
		}
	}
}

// verifyFile is store.Verify in a process of its own.
func verifyFile(ctx context.Context, path string) (store.Report, error) {
	self, err := os.Executable()
	if err != nil {
		return store.Report{Path: path}, fmt.Errorf("verify %s: %w", path, err)
	}
	if _, err := os.Stat(ownImage); err == nil {
		self = ownImage
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args, cmd.Env = []string{verifierName, path}, []string{}
	var out bytes.Buffer
	cmd.Stdout = &out
	alive, err := cmd.StdinPipe() // is closed when we end, however
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return store.Report{Path: path}, fmt.Errorf("verify %s in a process of its own: %w", path, err)
	}
	defer alive.Close()
	ended := cmd.Wait()
	var a verifierAnswer
	switch err := json.Unmarshal(out.Bytes(), &a); {
	case ctx.Err() != nil:
		return store.Report{Path: path}, ctx.Err()
	case err != nil:
		return store.Report{Path: path}, &store.DamagedError{Path: path, Why: howVerifierEnded(ended)}
	}
	return a.Report, a.err()
}

// howVerifierEnded says of a process that gave no answer what that means for the file.
func howVerifierEnded(err error) string {
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() == exitIO {
		return "reading all of it takes more memory or time than any sound file of its size, as if its pages led in circles"
	}
	return "reading all of it crashes, as if its pages led nowhere"
}

// ownImage is this very program, also when its file was replaced by a newer one.
const ownImage = "/proc/self/exe"

func (a verifierAnswer) err() error {
	switch {
	case a.Error == "":
		return nil
	case a.Locked != nil:
		return a.Locked
	case a.Damage != nil:
		return a.Damage
	}
	return &verifierError{a.Error, verifierErrors[a.Kind]}
}

// verifierError is an error of the other process.
type verifierError struct {
	text string
	is   error
}

func (e *verifierError) Error() string { return e.text }
func (e *verifierError) Unwrap() error { return e.is }

// soundFile refuses a file of which a store must not be opened to be written. What else forbids it, the store says itself.
func soundFile(path string) error {
	r, err := verifyFile(context.Background(), path)
	if errors.Is(err, store.ErrEmpty) || errors.Is(err, store.ErrNewer) || errors.Is(err, store.ErrForeign) {
		return nil
	}
	return errors.Join(err, r.Damage())
}
