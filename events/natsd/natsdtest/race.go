//go:build race

package natsdtest

// Raced says that the race detector slows everything down.
const Raced = true
