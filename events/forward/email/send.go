package email

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	gomail "github.com/wneessen/go-mail"
	"github.com/wneessen/go-mail/smtp"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// sendLimit bounds a delivery where ctx does not.
const sendLimit = 5 * time.Minute

// Send sends a delivery. See the package comment for what the responses mean.
func (o *Receiver) Send(ctx context.Context, d forward.Delivery) error {
	m, err := o.compose(d, time.Now())
	return o.send(ctx, m, err)
}

// SendLetter sends a letter. The error is like that of [Receiver.Send], and quotes nothing of it.
func (o *Receiver) SendLetter(ctx context.Context, l Letter) error {
	return o.send(ctx, l.compose(o.Message), nil)
}

// send sends a mail, unless it could not be composed.
func (o *Receiver) send(ctx context.Context, m draft, err error) error {
	var mail *gomail.Msg
	if err == nil {
		mail, err = o.mail(m)
	}
	if err != nil {
		return &forward.Refused{Reason: "the mail cannot be written", Certain: true}
	}
	ctx, cancel := context.WithTimeout(ctx, sendLimit)
	defer cancel()
	return o.deliver(ctx, mail)
}

// deliver has go-mail's client send a mail. The connection is ours: the client closes none that it
// could not log in on, and none when ctx ends.
func (o *Receiver) deliver(ctx context.Context, mail *gomail.Msg) error {
	raw, err := o.Dial(ctx, "tcp", net.JoinHostPort(o.server.host, o.server.port))
	if err != nil {
		return outcome(ctx, stepConnect, err)
	}
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	watched := &watchedConn{Conn: raw, left: maxAnswers}
	conn, policy := net.Conn(watched), gomail.TLSMandatory
	if o.server.plaintext {
		policy = gomail.TLSOpportunistic
	}
	if o.server.implicit {
		conn, policy = tls.Client(watched, o.tls()), gomail.NoTLS
		if err := conn.(*tls.Conn).HandshakeContext(ctx); err != nil {
			return outcome(ctx, stepTLS, err)
		}
	}
	l := &login{server: o.server}
	options := []gomail.Option{
		gomail.WithDialContextFunc(func(context.Context, string, string) (net.Conn, error) { return conn, nil }),
		gomail.WithTLSPolicy(policy), gomail.WithTLSConfig(o.tls()),
		gomail.WithHELO(helloName(conn)), gomail.WithTimeout(sendLimit),
		// all our addresses are ASCII
		gomail.WithoutNoop(), gomail.WithoutRset(), gomail.WithoutSMTPUTF8(),
	}
	if o.server.user != "" {
		options = append(options, gomail.WithSMTPAuthCustom(l))
	}
	client, err := gomail.NewClient(o.server.host, options...)
	if err != nil {
		return outcome(ctx, stepConnect, err)
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return l.outcome(ctx, errors.Join(err, watched.err))
	}
	err = client.SendWithSMTPClient(session, mail)
	switch {
	case mail.IsDelivered(): // whatever failed behind it
		err = nil
	case err != nil:
		err = outcome(ctx, stepSession, errors.Join(err, watched.err))
	}
	_ = raw.SetDeadline(time.Now().Add(5 * time.Second)) // the mail is taken or not by now
	_ = session.Quit()
	return err
}

// tls verifies the identity of the server, but not on the loopback: plaintext is allowed there, and
// the certificate of a mail server on this machine is rarely issued for that name.
func (o *Receiver) tls() *tls.Config {
	return &tls.Config{
		ServerName: o.server.host, RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: o.server.loopback,
	}
}

// login authenticates by PLAIN or LOGIN, which all servers offer, and which need TLS. (By itself,
// go-mail prefers CRAM-MD5, which some servers offer though they store only hashes of passwords.)
type login struct {
	server
	smtp.Auth
	begun bool
}

var errNoWay = errors.New(
	"the server offers no login that keeps the password secret: PLAIN or LOGIN over TLS")

// Start implements smtp.Auth.
func (l *login) Start(s *smtp.ServerInfo) (string, []byte, error) {
	l.begun = true
	offered := func(way string) bool {
		return slices.ContainsFunc(s.Auth, func(o string) bool { return strings.EqualFold(o, way) })
	}
	switch secret := s.TLS || l.loopback; {
	case secret && offered("PLAIN"):
		l.Auth = smtp.PlainAuth("", l.user, l.password, l.host, l.loopback)
	case secret && offered("LOGIN"):
		l.Auth = smtp.LoginAuth(l.user, l.password, l.host, l.loopback)
	default:
		return "", nil, errNoWay
	}
	return l.Auth.Start(s)
}

// outcome is what the error of a session that could not be opened means.
func (l *login) outcome(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, errNoWay):
		return wrongSetup(stepAuth, errNoWay.Error())
	case l.begun:
		return outcome(ctx, stepAuth, err)
	// go-mail's words, for which it has no type
	case strings.Contains(err.Error(), "does not support STARTTLS"):
		return wrongSetup(stepTLS, "the server offers no STARTTLS; use smtps://, or name the host in DOORBELL_ALLOW_PLAINTEXT")
	}
	return outcome(ctx, stepSession, err)
}

// helloName is the name for EHLO: our full name, otherwise our address, as RFC 5321 requires.
func helloName(conn net.Conn) string {
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") &&
		message.IsDomain(name) {
		return name
	}
	a, err := netip.ParseAddrPort(conn.LocalAddr().String())
	switch {
	case err != nil:
		return "localhost"
	case a.Addr().Unmap().Is4():
		return "[" + a.Addr().Unmap().String() + "]"
	}
	return "[IPv6:" + a.Addr().WithZone("").String() + "]"
}

// watchedConn cuts off a server that never stops sending, and keeps the first error, which
// go-mail hides.
type watchedConn struct {
	net.Conn
	left int
	err  error
}

// maxAnswers is far more than any server sends in one session, certificates included.
const maxAnswers = 1 << 20

var errTooMuch = errors.New("too many answers")

func (c *watchedConn) Read(p []byte) (n int, err error) {
	if c.left > 0 {
		n, err = c.Conn.Read(p[:min(len(p), c.left)])
		c.left -= n
	} else {
		err = errTooMuch
		_ = c.Close() // otherwise go-mail tries HELO after EHLO, which the server does not read
	}
	c.err = cmp.Or(c.err, err)
	return n, err
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.err = cmp.Or(c.err, err)
	return n, err
}
