// Package email is the receiver for mail: new contact requests, what happens to insertions, and
// alerts, one mail for each delivery.
//
// # What arrives
//
// A mail has a text and an HTML part and no remote content: who wrote and how to reach them, what
// they wrote, which property, when, and the ids to find it again. The subject names the person and
// the place. Answering the mail answers the person ([Reply-To], if their address is valid). Several
// events that waited together are one mail with a list. Alerts carry "[doorbell alert]" in their
// subject and say what to do. With [Options.OpenImmo] contact requests are also attached as
// OpenImmo feedback, the XML that the CRMs of this market import.
//
// # What it promises
//
//   - The same delivery always has the same Message-ID: if the server's response is lost, the mail
//     is sent again, and a mailbox can recognise it.
//   - Passwords and people travel over TLS: STARTTLS must be offered by smtp:// servers and
//     certificates must be valid, unless the host is the loopback or allowed by name.
//   - Nothing that a stranger wrote becomes a header, markup, a link to elsewhere or an invisible
//     character. All texts are cut to a maximum length.
//   - No error contains an address, a password or text from the server, only codes.
//
// # What the responses of a server mean
//
// A receiver is one recipient, so that none waits for the mailbox of another. What a server says
// before it has seen the content is about the account, the sender or the recipient, and the same
// for every mail: these wait, and none becomes a dead letter.
//
//	connection, TLS, greeting, EHLO,  anything but success       Retry of the receiver, in 5 minutes
//	AUTH, MAIL FROM, RCPT TO, DATA                               or more if the setup must change
//	after the content                 4xx                        Retry
//	                                  too large (552, x.3.4,     Refused, for certain
//	                                  x.2.3)
//	                                  mailbox full, quota,       Retry of the receiver
//	                                  limit, relaying, sender
//	                                  other 5xx                  Refused
//	                                  no response                Retry, unanswered
//	QUIT                              anything                   accepted already
//
// # Mails that are not events
//
// A [Letter] is a mail of its own, such as a weekly report. Its sender decides about retries.
package email

import (
	"cmp"
	"net"
	"net/mail"
	"time"

	"doorbell/events/forward"
)

// Receiver sends mail to one recipient through one server. It is made by [New] and may be used by
// several goroutines.
type Receiver struct {
	Options
	server   server
	from, to mail.Address
}

var _ forward.Receiver = (*Receiver)(nil)

const (
	// pace keeps a burst from looking like one to a provider that counts.
	pace = time.Second
	// digest is how many events one mail contains: all agencies of one key may halt together.
	digest = 200
)

// New makes a receiver, without connecting. The error is a sentence that says what is wrong with
// which option and quotes none of them.
func New(o Options) (*Receiver, error) {
	var err error
	r := &Receiver{}
	if r.server, err = parseServer(o.SMTP, o.Password, o.AllowPlaintext); err != nil {
		return nil, err
	}
	if r.from, err = parseAddress("mail sender", o.From); err != nil {
		return nil, err
	}
	if r.to, err = parseAddress("mail recipient", o.To); err != nil {
		return nil, err
	}
	o.Password, o.Name = "", cmp.Or(o.Name, "email") // the server has the password
	o.Message.Location = cmp.Or(o.Message.Location, time.UTC)
	if o.Dial == nil {
		o.Dial = new(net.Dialer).DialContext
	}
	r.Options = o
	return r, nil
}

// Traits: a mail a second, of up to 200 events. A program reads leads with OpenImmo: each is a
// mail.
func (o *Receiver) Traits() forward.Traits {
	return forward.Traits{Destination: o.destination(), Pace: pace, Digest: digest, LeadsAlone: o.OpenImmo}
}
