// Package forward delivers events of the stream to people: through a [Receiver] for each address,
// and one pipeline that all receivers share. It knows neither the store nor the API key, so a
// forwarder runs wherever it can reach NATS.
//
// # How an event travels
//
// A [Forwarder] has a name, a folder for its files, and routes. A [Route] is a receiver and a
// [Filter]: one line of a table, of which the first line that fits wins. Only live events are
// forwarded; [SendReplayed] sends past ones. Each receiver has a worker, so that none waits for
// another one's full mailbox. A worker has its own durable pull consumer and delivers in the order
// of the stream:
//
//	fetch → ours? live? not done? → Receiver.Send → checkpoint → acknowledge
//
// The table of routes in force when an event was recorded decides which worker takes it; the
// present table decides where it goes. So events that wait for an address that is replaced go to
// the new one, and a line that is new, or was removed and put back, delivers nothing old
// ([history]). Once a removed receiver has had no message for a while, its consumer and its file
// are deleted. The table may change while the forwarder runs ([Forwarder.Change]): pace,
// Retry-After and attempts carry over.
//
// A lead that was meant for a receiver, and that no line takes any more, waits there and is
// counted. A lead that no line ever took is counted by a separate worker (Options.Untaken) until a
// line fits.
//
// # What the result of a Send means
//
// Nil: done. A [Retry], or any other error: the same delivery is tried again after a pause, which
// grows from a second to five minutes and is never shorter than Retry.After. Before each retry, and
// before a first attempt that had to wait, the message is fetched again: if it was erased
// meanwhile, or has expired, it is skipped.
//
// A refusal is blamed on the message only if the receiver accepts another message after it and then
// refuses it once more. So a message that is [Refused], or has failed ten times, lets the others
// try, one at each retry; until one of them is accepted all wait. Then it becomes a dead letter
// with its reason. Without another message to compare it with, it waits for a day. A failure of the
// receiver or its account never makes a dead letter: an address that is gone or a quota that is
// used up would bury every lead. A message that was sent completely and got no response may have
// been accepted: it is tried three times in all.
//
// When more than five messages wait, as after an outage, they are sent as digests: leads in one,
// alerts in another.
//
// # What is remembered
//
// The file of a worker contains, for each agency and store, the last 256 events done with their
// times and a bound below which all are done ([checkpoint]), and the name of the worker's consumer.
// It is written after the send and before the acknowledgement: a crash between the two repeats at
// most one delivery. A worker that attaches while messages await an acknowledgement waits until the
// server offers them again: otherwise the messages behind them would come first. A consumer that is
// gone, with its stream or alone, is created again from the beginning of the stream, and events
// that are done are skipped. Without the file, the position of the consumer counts; without both,
// the worker begins now.
//
// Two doorbells may watch disjoint agencies on one stream, and have the same receivers: a consumer
// names the agencies of its doorbell, and Options.Instance tells the two apart.
package forward
