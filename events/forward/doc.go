// Package forward brings events of the stream to where people are: an [Outlet] for each kind of place, and one pipeline that
// all of them share. It knows neither the store nor the API key: a forwarder runs wherever there is a way to NATS.
//
// # How an event travels
//
// A [Forwarder] has a name, a small state file, and routes. A [Route] is an outlet and a [Filter]: which agencies, which types,
// which score. Only what is news (origin live) travels; who wants the past calls [SendReplayed].
//
// The routes make lanes: one for the leads of each destination and one for its alerts, so that no lead waits behind an alert.
// A lane has a durable pull consumer of its own, of which one message at a time is in hand. So the server keeps the order,
// a crash leaves at most one message in doubt, and an outlet that is down stops its own lanes and no others.
//
//	message in hand → is it ours? live? wanted? done already? → perhaps read ahead, for a digest
//	  → Outlet.Send → state file → acknowledge
//
// What Send returns decides what follows. Nil: done. [Off]: nothing more is sent to the destination until the program is started
// anew; what waits, waits. [Never]: a copy goes to the dead letters, then the message is done. [Later], and every other error: the
// server delivers it again after a pause, which grows from a second to five minutes and is never shorter than Later.After.
//
// After many tries a message counts as one that the outlet cannot take, though it does not say so, but only if the outlet takes the
// next one. An outlet that takes nothing is down, and then everything waits, however long: an outage makes no dead letters.
//
// # Digests
//
// Where more than five wait, as after an outage, the lane reads ahead and sends up to Traits.Digest of them as one. When the server
// delivers those that were read ahead, they are found done and acknowledged. Halts of many agencies with one key come within
// seconds of each other: the first is sent at once, and those of the half minute after it as one delivery.
//
// # What is remembered
//
// The consumer's position, which the server keeps, says what is done. The state file says it too, agency by agency, because a
// consumer can be lost: with its stream, or because nobody used it for too long. A consumer that is made again begins early and passes
// over what was done ([mark]), and what was recorded before the lane began. Without the file the position of the consumer
// counts; without both, everything begins now. A forwarder never sends what was there before it.
//
// The file is written after the send and before the acknowledgement. So nothing is lost whatever happens, and a crash between
// send and write doubles one message at most.
//
// An agency that moves from one destination to another, as when the URL of a channel changes, takes along what was done and
// what waits. A destination that is no longer configured, with nobody in its place, is forgotten.
package forward
