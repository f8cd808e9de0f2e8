//go:build !race

package natsdtest

// Raced reports whether the race detector slows everything down.
const Raced = false
