// Package cli is the command line of doorbell: commands, environment, signals, exit codes and
// wording. The service itself is cmd/doorbell/daemon. Neither contains rules about insertions,
// contact requests or streams; those are in the packages that they import: poller, store, events.
package cli

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"doorbell/cmd/doorbell/exit"
)

// Process runs the command line of this process and returns its exit code.
func Process() int {
	log.SetOutput(io.Discard) // net/http logs bytes that a server sends beyond its response, which may hold personal data
	ctx := untilSignal(context.Background())
	return Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ())
}

// Main is the whole program as a function: it reads the command line, runs the command and returns
// the exit code. It touches no global state, so that several of them can run in one process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ}
	return report(stderr, p.terminalOf(stderr), p.execute(ctx, args))
}

// program is what a command may use of the world.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string // as os.Environ gives it
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The second one ends the
// process immediately, without the drain.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exit.CodeFailed)
	}()
	return ctx
}

// Version is what is known of the build.
type Version struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // built from a tree with changes
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// release is the version that deploy/changelog.md begins with. A build of a tag sets it to that of
// the tag, with -ldflags="-X doorbell/cmd/doorbell/cli.release=…"; nothing else writes it.
var release = "1.0.0"

// readVersion adds what the Go command wrote into the program.
func readVersion() Version {
	v := Version{Version: release, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// VersionCmd is `doorbell version`.
type VersionCmd struct {
	JSON bool `name:"json" help:"Print JSON."`
}

func (VersionCmd) Help() string { return "Example:\n  doorbell version --json" }

func (c *VersionCmd) Run(_ context.Context, p *program) error {
	v := readVersion()
	if c.JSON {
		return p.printJSON(v)
	}
	build := v.Go + ", " + v.Platform
	if v.Revision != "" {
		build = "revision " + v.Revision[:min(12, len(v.Revision))] + ", " + build
	}
	_, err := fmt.Fprintf(p.stdout, "doorbell %s (%s)\n", v.Version, build)
	return err
}
