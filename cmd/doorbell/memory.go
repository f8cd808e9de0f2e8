package main

import "runtime/debug"

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
