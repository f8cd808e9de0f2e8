package main

import (
	"errors"
	"fmt"
	"io"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/ops"
	"doorbell/store"
)

// Exit codes. They are a contract with supervisors: 78 must not be restarted, the others may be.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnavailable = 69 // the daemon holds the store and does not answer
	exitIO          = 74 // store, disk
	exitConfig      = 78
)

// adviceOnHolder is for a store that is locked by somebody who does not answer: a daemon that hangs, or a command, for a replay
// or a verify without a daemon takes the store for itself.
const adviceOnHolder = "look at its log, and restart it if it hangs; if another doorbell command is at work there, wait for it"

// adviceOnDamage is for the store of a data directory.
const adviceOnDamage = "stop doorbell, put the newest backup that `doorbell verify --file PATH` calls sound in the place of that file, and start once with " +
	"`doorbell run --restored`; what was announced since is taken from the stream"

// exitError is an error that knows its exit code and what a person can do about it. Err may be nil.
type exitError struct {
	Code int
	Text string // one sentence, no full stop
	Hint string // what to check, what to type; may be empty
	Err  error
}

func (e *exitError) Error() string {
	if e.Err == nil {
		return e.Text
	}
	if e.Text == "" {
		return e.Err.Error()
	}
	return e.Text + ": " + e.Err.Error()
}

func (e *exitError) Unwrap() error { return e.Err }

// failed, usageError, unavailable, ioError and configError make the errors of the exit codes 1, 2, 69, 74 and 78.
func failed(err error, hint string) error { return &exitError{exitFailed, "", hint, err} }

func usageError(text, hint string) error { return &exitError{exitUsage, text, hint, nil} }

func unavailable(err error, hint string) error { return &exitError{exitUnavailable, "", hint, err} }

func ioError(err error, hint string) error { return &exitError{exitIO, "", hint, err} }

func configError(err error, hint string) error { return &exitError{exitConfig, "", hint, err} }

// outcome is the one place that turns an error into an exit code, its sentences and a hint.
func outcome(err error) (code int, sentences []string, hint string) {
	if err == nil {
		return exitDone, nil, ""
	}
	var config *ConfigError
	if errors.As(err, &config) {
		return exitConfig, config.Sentences(), "`doorbell config` shows what is in effect and where it comes from"
	}
	var damage *store.DamagedError
	if errors.As(err, &damage) { // whatever was tried, and whatever else came of it
		return exitIO, []string{damage.Error()}, adviceOnDamage
	}
	var refused *daemon.Error
	if errors.As(err, &refused) {
		code = exitIO
		if refused.Config {
			code = exitConfig
		}
		return code, []string{err.Error()}, refused.Hint
	}
	var known *exitError
	if errors.As(err, &known) {
		return known.Code, []string{err.Error()}, known.Hint
	}
	return exitFailed, []string{err.Error()}, ""
}

// report prints an error as people see it and returns its exit code.
func report(w io.Writer, err error) int {
	code, sentences, hint := outcome(err)
	for _, s := range sentences {
		fmt.Fprintln(w, "doorbell: "+printable(s))
	}
	if hint != "" {
		fmt.Fprintln(w, "  "+printable(hint))
	}
	return code
}

// printable is ops.Printable.
func printable(line string) string { return ops.Printable(line) }
