//go:build race

package slack_test

// raced: the race detector makes everything slower, so that the broad test takes a part of its cases.
const raced = true
