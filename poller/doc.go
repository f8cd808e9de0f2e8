// Package poller watches: it walks each agency's insertions, polls each insertion's contact requests, compares what it
// reads with what the store remembers, and commits what changed together with the events that follow.
//
//	schedule ─ which insertion next ─┐
//	pages of walks, further pages ───┴► dispatcher ── token of the budget, admitted? ──► listings
//	                                                                                       │
//	              agency: one store.Update of snapshot + events (+ halt) ◄── watch (pure) ◄┘
//
// One goroutine is the dispatcher, one for each agency walks, and each poll under way has its own; beside them a monitor of
// staleness. Whoever reads an answer commits it before it asks again. What an answer
// means is decided in poller/watch, by what is remembered; commit makes one transaction of changes and events.
//
// # What is believed
//
// Presence acts at once, absence needs proof. An insertion counts as gone only after several complete walks did not list
// it, and after a last look at its contact requests; a change that is too large to believe is held. A failed, partial or
// odd answer changes nothing.
//
// A contact request is new when it is known by neither its id nor its fingerprint; see pair of poller/watch. What was there
// before we began to watch is remembered and not announced; see contactStart and startOf for where the line runs. A poll reads as
// much as it takes to prove that nothing lies unseen between the newest and what was known before; see watch.Closed. Where that
// cannot be proved, an event says so. None, in any form, is no failure, and closes no window where some are known.
//
// Most responses say what the one before said. Where that changed nothing, and left nothing open that time alone decides,
// the response is settled: while nothing else has changed that a decision depends on, the same response again is neither
// read nor compared. This process alone remembers it; see settled.
//
// No response of this API was ever shown to us. So it is remembered where records stand, which page sizes are refused and what
// all insertions have, and a change of that is announced. What happens to most records at once is drift of the API, not
// a change of each.
//
// # What is asked
//
// Never more than the budget, whatever happens. A refusal (403, 401) stops all requests for its scope until a person or
// another key ends the halt. Everything that fails is tried again, after a back-off that grows; that of a key outlives a restart.
// What an error means is said in one place, see
// watch.Classify. Without a successful response for too long an event says so, and another one that it is over: an alarm, see
// the table in poller/watch. Each commit publishes a snapshot of the agency with its alarms; the status reads that.
//
// # The files
//
// In the order in which a poll meets them: dispatch gives a request its turn, access says whether it may be sent, walk and poll read and
// decide, write commits what follows. agency holds what is known of one agency, and how its watch begins; pollstate what
// is known of the responses of one insertion. health says what fails and when it is tried again. poller, status and metrics are what others see.
//
// The package knows no NATS and no environment. How requests are made and read is the business of poller/listings, which
// insertion is next that of poller/schedule.
package poller
