//go:build race

package trace

// raced: the race detector makes everything ten times slower, so that the markets are smaller with it.
const raced = true
