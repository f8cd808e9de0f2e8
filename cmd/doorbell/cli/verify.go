package cli

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
	"path/filepath"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/store"
)

// VerifyCmd is `doorbell verify`.
type VerifyCmd struct {
	File string `placeholder:"PATH" help:"Look at this file, a backup for instance, instead of the store in the data directory."`
	JSON bool   `name:"json" help:"Print JSON."`
}

func (VerifyCmd) Help() string {
	return "Reads every page and every value of the store, and changes nothing. Beside a running daemon it looks at a copy, which it makes in the " +
		"data directory and removes.\n\n" +
		"Exit codes: 0 sound, 74 damaged, 78 of a newer doorbell or not the store that belongs there.\n\n" +
		"Examples:\n  doorbell verify\n  doorbell verify --file /backup/doorbell.db"
}

// Run says whether a store is sound.
func (c *VerifyCmd) Run(ctx context.Context, p *program, cfg *config.Config) error {
	r, err := verifyStore(ctx, cfg.Base, c.File)
	if err != nil {
		return err
	}
	if n := len(r.Findings) + r.More; n > 0 {
		err = exit.IO(fmt.Errorf("%s is damaged: %s", r.Path, ops.Counted(n, "finding")), adviceOn(c.File))
	}
	if c.JSON {
		return firstError(p.printJSON(verified{&r}), err)
	}
	return firstError(printReport(p, r), err)
}

// verified is what `verify --json` prints.
type verified struct {
	Store *store.Report `json:"store"`
}

// adviceOn says what to do about damage of the store, or of another file.
func adviceOn(file string) string {
	if file == "" {
		return exit.AdviceOnDamage
	}
	return "do not start from this file: take another backup, which `doorbell verify --file` calls sound"
}

func verifyStore(ctx context.Context, b config.Base, file string) (store.Report, error) {
	if file != "" {
		r, err := verifyFile(ctx, file)
		var locked *store.LockedError
		if errors.As(err, &locked) {
			return r, exit.Unavailable(err, "leave out --file to look at the store of the daemon that holds it")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return r, exit.Failed(fmt.Errorf("there is no file %s", file), "give the path of a store or backup; without --file, verify reads the store in DOORBELL_DATA_DIR")
		}
		if errors.Is(err, store.ErrDamaged) {
			return r, exit.IO(errors.New(err.Error()), adviceOn(file)) // not that of the store
		}
		return r, stoppedError(err, filepath.Dir(file))
	}
	r, err := verifyCopy(ctx, b)
	if !errors.Is(err, ops.ErrNoAnswer) {
		return r, stoppedError(err, b.DataDir)
	}
	path := filepath.Join(b.DataDir, daemon.StoreFile)
	if info, err := os.Stat(path); err == nil && info.Size() > 0 {
		if r, err = verifyFile(ctx, path); err != nil || len(r.Findings) > 0 {
			return r, stoppedError(err, b.DataDir)
		}
	}
	kept, err := readStopped(b) // says what does not belong here
	if err != nil {
		return r, err
	}
	return r, kept.Close()
}

// sayOfStore lets damage of a copy be that of the store that was copied: the copy is gone.
func sayOfStore(err error, b config.Base) {
	var damage *store.DamagedError
	if errors.As(err, &damage) {
		damage.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	}
}

// verifyCopy looks at a copy of the store that the daemon has open: others go on to write.
func verifyCopy(ctx context.Context, b config.Base) (r store.Report, err error) {
	client := options.Client(b)
	if _, err := client.Status(ctx); err != nil {
		return r, err
	}
	dir, done, err := store.Scratch(b.DataDir)
	if err != nil {
		return r, err
	}
	defer done()
	r, err = store.ReceiveBackup(ctx, filepath.Join(dir, daemon.StoreFile), false, verifyFile, func(w io.Writer) error {
		return client.Backup(ctx, w, func(bytes int64) error { return needSpace(b.DataDir, bytes) })
	})
	if errors.Is(err, ops.ErrNoAnswer) {
		err = errors.New("the daemon stopped meanwhile") // and not: none runs
	}
	r.Path = filepath.Join(b.DataDir, daemon.StoreFile)
	sayOfStore(err, b)
	if len(r.Findings) > 0 {
		return r, nil
	}
	return r, err
}

func printReport(p *program, r store.Report) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintln(&b, printable(f))
	}
	if r.More > 0 {
		fmt.Fprintf(&b, "and %d more\n", r.More)
	}
	if r.Torn {
		fmt.Fprintln(&b, "one of the two heads of the file is unreadable: the last commit may be missing, as after a power failure; run goes on from the commit before")
	}
	what := "is sound: " + reportText(r)
	if len(r.Findings) > 0 {
		what = "is damaged" // and nobody knows what would be in it
	}
	fmt.Fprintf(&b, "%s, store %s of %s, %s\n", r.Path, r.StoreID, r.BaseURL, what)
	return p.print(b.String())
}

func reportText(r store.Report) string {
	return strings.Join([]string{
		ops.Counted(r.Agencies, "agency"), ops.Counted(r.Insertions, "insertion"), ops.Counted(r.ContactRequests, "contact request"),
		ops.Counted(r.Events, "event"), ops.BytesText(r.Bytes),
	}, ", ")
}

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
	os.Exit(exit.CodeFailed)
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
			os.Exit(exit.CodeIO)
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
	if errors.As(err, &ended) && ended.ExitCode() == exit.CodeIO {
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
	return &ops.Said{Words: a.Error, Known: verifierErrors[a.Kind]}
}

// soundFile refuses a file of which a store must not be opened to be written. What else forbids it, the store says itself.
func soundFile(path string) error {
	r, err := verifyFile(context.Background(), path)
	if errors.Is(err, store.ErrEmpty) || errors.Is(err, store.ErrNewer) || errors.Is(err, store.ErrForeign) {
		return nil
	}
	return errors.Join(err, r.Damage())
}
