//go:build race

package trace

// raced: the race detector makes everything ten times slower, so that the runs are shorter with it.
const raced = true
