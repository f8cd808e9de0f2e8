// Package forward brings events of the stream to where people are: a [Receiver] for each kind of place, and one pipeline that
// all of them share. It knows neither the store nor the API key: a forwarder runs wherever there is a way to NATS.
//
// # How an event travels
//
// A [Forwarder] has a name, a small state file, and routes. A [Route] is a receiver and a [Filter]: which agencies, which types,
// which score. Only live events are forwarded; [SendReplayed] sends those of the past.
//
// The routes make workers: one for the leads of each destination and one for its alerts, so that no lead waits behind an alert.
// A worker has a durable pull consumer of its own and fetches what a delivery can hold, in the order of the stream. It tries the first
// delivery until it is done, so a receiver that is down stops its own workers and no others.
//
//	fetched messages → is the first ours? live? wanted? done already? → with those behind it, for a digest
//	  → Receiver.Send → state file → acknowledge
//
// What Send returns decides what follows. Nil: done. [Gone]: nothing more is sent to the destination until the program is started
// anew; what waits, waits. [Permanent]: a copy goes to the dead letters, then the message is done; a digest is tried one by one first.
// [Retry], and every other error: the same delivery is tried again after a pause, which grows from a second to five minutes and is never
// shorter than Retry.After.
//
// After many tries a message counts as one that the receiver cannot take, though it does not say so, but only if the receiver takes the
// next one. A receiver that takes nothing is down, and then everything waits, however long: an outage makes no dead letters.
//
// # Digests
//
// Where more than five wait, as after an outage, up to Traits.Digest of them are sent as one. Halts of many agencies with one key come
// within seconds of each other: the first is sent at once, and what came in the half minute after it as one delivery.
//
// # What is remembered
//
// The state file holds how far all is done, agency by agency ([checkpoint]), what the routes took from when on ([period]), and for each
// worker its place in the stream. At every start the consumer is made anew behind that place, so that what was fetched before a crash is there
// again at once. Where the stream is another one, the consumer begins with all there is, and what is done, or was not wanted when it was
// recorded, is passed over. Without the file the consumer that is there counts; without both, everything begins now. A forwarder
// never sends what was there before it.
//
// The file is written after the send and before the acknowledgement. So nothing is lost whatever happens, and a crash between
// send and write doubles one message at most.
//
// The leads of an agency have one destination, and so have its alerts. An agency that moves from one to another, as when the URL of a
// channel changes, takes along what was done and what waits.
package forward
