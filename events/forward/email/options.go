package email

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/mail"
	"net/url"
	"strings"
	"unicode"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// Options say where mail goes and how.
type Options struct {
	// SMTP is the server: smtp://user@host:587 with STARTTLS, or smtps://user@host:465 with TLS
	// from the first byte. The user may be left out for a server that knows us by our address; so
	// may the port.
	SMTP     string
	Password string
	From     string // one address, with a name or without: Doorbell <leads@agency.example>
	// likewise: each address has a receiver of its own, so that none waits for another
	To string
	// OpenImmo attaches openimmo_feedback.xml to mails that tell of new contact requests.
	OpenImmo bool
	Message  message.Options // who reads
	// AllowPlaintext are names of hosts that may be spoken to without TLS if they offer none. The
	// loopback always may.
	AllowPlaintext []string

	Name    string         // of the forwarder; part of every Message-ID; "email" if empty
	RootCAs *x509.CertPool // that sign the server's certificate; the system's if nil
	// Dial connects to the server; a net.Dialer if nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// server is an SMTP server and how it is spoken to.
type server struct {
	host, port     string
	user, password string
	implicit       bool // TLS from the first byte
	loopback       bool
	plaintext      bool // may do without TLS
}

const maxAddress = 254

// parseServer reads an address that the settings have checked.
func parseServer(address, password string, allowed []string) (server, error) {
	u, err := url.Parse(strings.TrimSpace(address))
	// not err, which quotes
	if err != nil || u.Hostname() == "" || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return server{},
			errors.New("SMTP server: want smtp://user@host:587 (STARTTLS) or smtps://user@host:465 (TLS)")
	}
	s := server{
		host: strings.ToLower(u.Hostname()), port: cmp.Or(u.Port(), "587"),
		user: u.User.Username(), password: password, implicit: u.Scheme == "smtps",
	}
	if s.implicit {
		s.port = cmp.Or(u.Port(), "465")
	}
	if strings.ContainsFunc(s.user+s.password, unicode.IsControl) {
		return server{},
			errors.New("SMTP server: user and password must not contain control characters, such as a line break")
	}
	s.loopback, s.plaintext = forward.MayBePlain(s.host, nil), forward.MayBePlain(s.host, allowed)
	return s, nil
}

// parseAddress reads one address that every server understands. The error quotes nothing.
func parseAddress(whose, text string) (mail.Address, error) {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || r == '<' || r == '>' }
	if a, err := mail.ParseAddress(text); err == nil &&
		!strings.ContainsFunc(text, unicode.IsControl) {
		at := strings.LastIndexByte(a.Address, '@')
		if len(a.Address) <= maxAddress && at <= 64 && !strings.ContainsFunc(a.Address, odd) &&
			message.IsDomain(a.Address[at+1:]) {
			return *a, nil
		}
	}
	return mail.Address{},
		errors.New(whose + ": want one address such as leads@agency.example, in ASCII; " +
			"a domain with other letters has an xn-- form")
}

// destination is the host and a hash of what makes this receiver another one; the password does
// not.
func (o *Receiver) destination() string {
	parts := []string{o.server.port, o.server.user, o.from.Address, o.to.Address}
	return forward.Destination(o.server.host, strings.ToLower(strings.Join(parts, "\n")))
}
