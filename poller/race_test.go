//go:build race

package poller_test

// raced: the race detector makes everything five times slower, so that tests of many cases take some of them, those that are
// [long] are left out, and the others end after [enough] requests. The check runs all of them once more without it, whole.
const raced = true
