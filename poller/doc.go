// Package poller watches agencies: it walks each agency's list of insertions, polls each
// insertion's contact requests, compares what it reads with what the store remembers, and commits
// what changed together with the events that follow.
//
//	schedule ─ which insertion next ─┐
//	pages of walks, further pages ───┴► dispatcher ── token of the budget, admitted? ──► listings
//	                                                                                       │
//	              agency: one store.Update of snapshot + events (+ halt) ◄── watch (pure) ◄┘
//
// The dispatcher is one goroutine, each agency has one for its walks, and each poll under way has
// its own; beside them runs a monitor of staleness. A goroutine that reads a response commits it
// before its next request. Package poller/watch decides what a response means, from what is
// remembered; commit makes one transaction of the changes and the events.
//
// # What is believed
//
// Presence counts immediately, absence needs proof. An insertion is gone only after several
// complete walks did not list it; a change that is too large to believe is held. A failed, partial
// or odd response changes nothing.
//
// A contact request is new if neither its id nor its fingerprint is known; see match of
// poller/watch. Contact requests from before the watch began are remembered and not announced;
// contactStart and startOf draw that line. A poll reads until it is proved that nothing unseen lies
// between the newest contact request and those known before; see watch.Closed. If that cannot be
// proved, an event says so. An empty response, in whatever form, is no failure; but where contact
// requests are known, it proves nothing.
//
// Most responses repeat the one before. A response is settled if it changed nothing and left
// nothing open that time alone decides: until something else changes that a decision depends on,
// the same response is neither read nor compared again. Only this process remembers that; see
// settled.
//
// We have never seen a response of the real API. So the store remembers where the records are in a
// response, which page sizes are refused, and which members all insertions have, and a change of
// these is announced. A change in most records at once is drift of the API, not a change of each
// record.
//
// # What is requested
//
// Never more than the budget, whatever happens. A refusal (403, 401) stops all requests in its
// scope until a person or another key ends the halt, except trials: one request a day for a refused
// insertion or refused contact requests, one for the latter when an insertion appears, and one
// after a takeover. Everything that fails is retried after a growing back-off; that of a key
// survives a restart. Only watch.Classify says what an error means. If there is no successful
// response for too long, an alarm raises an event, and its end raises another; see the table in
// poller/watch. Each commit publishes a snapshot of the agency with its alarms, which the status
// reads.
//
// # The files
//
// In the order in which a poll meets them: dispatch gives a request its turn, access decides
// whether it may be sent, walk and poll read and decide, write commits what follows. agency is what
// is known of one agency, and how its watch begins; pollstate what is known of the responses of one
// insertion. health records what fails and when it is retried. poller, status and metrics are for
// callers.
//
// The package knows neither NATS nor the environment. Package poller/listings makes requests and
// reads responses; package poller/schedule chooses the next insertion.
package poller
