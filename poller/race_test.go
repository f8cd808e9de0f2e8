//go:build race

package poller_test

// raced: the race detector makes everything five times slower, so that the broad tests take a part of their cases. The
// check runs them once more without it, with all of them.
const raced = true
