// Package watch decides. What an answer of the API means, in the light of what is remembered, is a function of values here:
// which insertions appeared, changed or are gone, which contact requests are new, whether a window leaves something unseen, what
// a refused key leads to, when a silence is an alarm. It reads no clock, starts nothing, and holds neither a store nor a
// connection: package poller asks, hands over what was answered and remembered, and commits what comes back.
package watch
