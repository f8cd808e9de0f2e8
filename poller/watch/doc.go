// Package watch decides what a response of the API means, given what is remembered: which
// insertions appeared, changed or are gone, which contact requests are new, whether a window leaves
// something unseen, what a refused key leads to, when silence is an alarm. Each decision is a
// function of values. The package reads no clock, starts no goroutine, and has neither a store nor
// a connection: package poller sends the requests, passes in the responses and what is remembered,
// and commits the results.
package watch
