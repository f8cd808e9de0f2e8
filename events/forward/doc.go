// Package forward brings events of the stream to where people are: a [Receiver] for each address, and
// one pipeline that all of them share. It knows neither the store nor the API key: a forwarder runs
// wherever NATS can be reached.
//
// # How an event travels
//
// A [Forwarder] has a name, a folder for its files, and routes. A [Route] is a receiver and a [Filter]:
// one line of a table, of which the first line that fits wins. Only live events are forwarded;
// [SendReplayed] sends those of the past. Each receiver has a worker for leads and one for alerts, so
// that neither waits for the other, nor for another receiver's full mailbox. A worker has a durable
// pull consumer of its own and delivers in the order of the stream:
//
//	fetch → is it ours? live? done? → Receiver.Send → checkpoint → acknowledge
//
// The table of routes in force when an event was recorded decides whose worker it is, the present one
// where it goes. So what waits at an address that is replaced goes to the new one, a new line brings
// nothing old, and one that is removed and put back does not either ([history]). Once nothing has come
// for a receiver that is gone, its consumer and its file are deleted. The table may change while the
// forwarder runs ([Forwarder.Change]): pace, Retry-After and attempts go on.
//
// A lead that was a receiver's, and that no line takes any more, waits there and is counted. One that
// no line ever took is counted by a worker of its own (Options.Untaken), until a line fits.
//
// # What an answer means
//
// Nil: done. A [Retry], and every other error: the same delivery is tried again after a pause, which
// grows from a second to five minutes and is never shorter than Retry.After. Before each retry, and
// where it has waited for its first attempt, the message is fetched again: one that was erased
// meanwhile is passed over.
//
// A refusal is the message's own only if another message is accepted after it and it is then refused
// once more. So what is [Refused], or has failed ten times, lets the others try, one at each retry;
// until one of them is accepted all wait. Then it is a dead letter with its reason. Without another
// message to compare it with, it waits for a day. What is about the receiver or its account never makes
// a dead letter: an address that is gone or a quota that is used up would bury every lead. A message
// that was sent whole and had no answer may have been accepted: it is tried three times in all.
//
// Where more than five wait, as after an outage, they are sent as digests.
//
// # What is remembered
//
// The file of a worker holds, for each agency and store, the ids of the last 256 events done and a
// bound below which all is done ([checkpoint]), and the name of its consumer. It is written after the
// send and before the acknowledgement: a crash between the two doubles one delivery at most. A worker
// that attaches while messages await an acknowledgement waits until the server offers them again:
// else those behind them would come first. A consumer that is gone, with its stream or alone, is made
// again from the beginning of the stream, and what is done is passed over. Without the file the
// consumer counts; without both, the worker begins now.
//
// Two doorbells may have disjoint agencies on one stream, and the same receivers: a consumer names the
// agencies of its doorbell, and Options.Instance tells the two apart.
package forward
