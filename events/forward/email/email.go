// Package email is the receiver for mail: new contact requests, what happens at insertions, and alerts, one mail for each delivery.
//
// # What arrives
//
// A mail has a text and an HTML part and no remote content: who wrote and how to reach them, what they wrote, which
// property, when, and the ids to find it again. The subject names the person and the place. Answering the mail answers
// the person ([Reply-To], if their address is valid). All mails about one insertion form one thread. Several events that
// waited together are one mail with a list. Alerts carry "[doorbell alert]" in their subject and say what to do. With
// [Options.OpenImmo] contact requests are also attached as OpenImmo feedback, the XML that the CRMs of this market import.
//
// # What it promises
//
//   - The same delivery always has the same Message-ID. Where the answer of the server was lost the mail is sent once
//     more, and a mailbox can tell.
//   - Passwords and people travel over TLS: STARTTLS must be offered by smtp:// servers and certificates must be valid,
//     unless the host is the loopback or allowed by name.
//   - Nothing that a stranger wrote becomes a header, markup, a link to elsewhere or an invisible character. Everything is
//     cut to a length.
//   - No error holds an address, a password, or a text that the server sent: codes only.
//
// # What the answers of a server mean
//
// One transaction serves all recipients. Some may be refused while others are taken; then the mail is sent to those that
// take it, and this receiver remembers for whom it still has to be sent, so that a retry doubles nothing. (It remembers in
// memory: after a restart a retry goes to all of them again, under the same Message-ID; a dead letter says who has it.) A recipient who
// takes nothing for an hour while others do holds them up no longer: what is Retry below is Permanent then, for that recipient, until one
// is taken.
//
//	connection, TLS, greeting, EHLO    anything but yes            Retry
//	no STARTTLS offered, bad certificate                           Retry, in 5 minutes or more; the reason says what to set
//	AUTH                               4xx                         Retry
//	                                   5xx, or no usable method    Retry, in 5 minutes or more
//	MAIL FROM                          4xx                         Retry
//	                                   5xx                         Retry, in 5 minutes or more: no mail of ours would be taken
//	RCPT TO, DATA                      4xx, 421                    Retry
//	                                   530, x.7.x, x.2.2           Retry, in 5 minutes or more
//	                                   other 5xx                   Permanent
//	after the content                  4xx                         Retry
//	                                   5xx                         Permanent, but x.2.2 (mailbox full): Retry
//	                                   no answer                   Retry: unknown, the Message-ID tells
//	QUIT                               anything                    taken already
//
// A refused password (535) or sender is Retry and neither Permanent nor Gone. It is the setup that is wrong and not the message:
// as Permanent, every lead that comes until somebody notices would be a dead letter, and Gone would need a restart where a
// provider merely had a bad hour. The wait keeps accounts from being locked. The same holds for refusals of who we are
// (x.7.x, "relaying denied") before the content was sent; a refusal of the content itself is about this one mail.
package email

import (
	"time"

	"doorbell/events/forward"
)

// Receiver sends mail to one set of recipients through one server. It is made by [New] and may be used by several goroutines.
type Receiver struct {
	settings
	taken memory
}

var _ forward.Receiver = (*Receiver)(nil)

const (
	// pace keeps a burst from looking like one to a provider that counts.
	pace = time.Second
	// digest is how many events one mail holds: all agencies of one key may halt at once.
	digest = 200
)

// New makes a receiver, without connecting. The error is a sentence that says what is wrong with which option and quotes
// none of them.
func New(o Options) (*Receiver, error) {
	s, err := o.check()
	if err != nil {
		return nil, err
	}
	return &Receiver{settings: s}, nil
}

// Traits tell that mails may follow each other by the second and hold up to 200 events.
func (o *Receiver) Traits() forward.Traits {
	return forward.Traits{Destination: o.destination(), Pace: pace, Digest: digest}
}
