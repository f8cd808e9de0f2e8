//go:build race

package poller_test

// raced: the race detector makes everything five times slower, so that tests of many cases take some of them, and those that are
// [long] are left out. The check runs all of them again without it, with all of their cases.
const raced = true
