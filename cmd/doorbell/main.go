// Command doorbell rings NATS when something happens at a listings API that has no events of its own.
//
// This package is how it is started and spoken to: commands, environment, signals, exit codes and wording. What runs is in
// cmd/doorbell/daemon. Neither holds rules about insertions, contact requests or streams; those live in the rooms to the right:
// poller, store, events.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	log.SetOutput(io.Discard) // net/http quotes there what a server says beyond the end of its answer: people
	if asVerifier() {
		return
	}
	ctx := untilSignal(context.Background())
	os.Exit(Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}

// Main is the whole program as a function: it reads the command line, runs the command and returns the exit code. It
// touches no global state, so that several of them can run in one process.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, environ []string) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr, environ: environ}
	return report(stderr, p.execute(ctx, args))
}

// program is what a command may use of the world.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	environ        []string // as os.Environ gives it
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. The second one ends the process at once: who
// presses Ctrl-C twice does not want to wait for the drain.
func untilSignal(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		os.Exit(exitFailed)
	}()
	return ctx
}
