//go:build !race

package poller_test

const raced = false
