package main

import (
	"context"
	"runtime/debug"
	"time"
)

// garbage is how much of it, in percent of what is in use, may lie about before it is collected. Go's 100 would be a third of
// what the program holds; at five requests a second nobody sees the difference in CPU.
const garbage = 50

// collectSooner sets that, unless GOGC says otherwise.
func collectSooner() {
	if before := debug.SetGCPercent(garbage); before != 100 {
		debug.SetGCPercent(before)
	}
}

// leaveStart gives back what only the start has needed: its garbage, and the pages of the program itself.
func leaveStart() {
	debug.FreeOSMemory()
	releaseProgram()
}

// The first walks and polls run code that rarely runs again; what is left of them, and of a command at the socket or a page
// since, is given back a minute after the start and then once an hour.
const (
	leaveFirst = time.Minute
	leaveEvery = time.Hour
)

// stayLight gives back the pages of the program that nothing uses any more.
func stayLight(ctx context.Context) error {
	for wait := leaveFirst; ; wait = leaveEvery {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
			releaseProgram()
		}
	}
}
