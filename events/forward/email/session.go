package email

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/wneessen/go-mail/smtp"

	"doorbell/events/forward/message"
)

// session is a connection on which mail can be sent: greeted, under TLS where it must be, authenticated.
type session struct {
	client *smtp.Client
	conn   net.Conn
	done   func() bool
}

// open makes a session. Everything that happens on it ends with ctx.
func (o *Receiver) open(ctx context.Context) (*session, error) {
	address := net.JoinHostPort(o.server.host, o.server.port)
	raw, err := o.Dial(ctx, "tcp", address)
	if err != nil {
		return nil, failed(stepConnect, err)
	}
	conn := net.Conn(&boundedConn{Conn: raw, left: maxAnswers})
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline) // without it the close below ends what hangs
	}
	s := &session{conn: conn, done: context.AfterFunc(ctx, func() { _ = raw.Close() })}
	if err := o.begin(ctx, s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (o *Receiver) begin(ctx context.Context, s *session) error {
	conn := s.conn
	if o.server.implicit {
		t := tls.Client(conn, o.tls())
		if err := t.HandshakeContext(ctx); err != nil {
			return failed(stepTLS, err)
		}
		conn = t // as it is: the client looks at its type to know of TLS
	}
	var err error
	if s.client, err = smtp.NewClient(conn, o.server.host); err != nil {
		return failed(stepGreeting, err)
	}
	s.client.SkipSMTPUTF8(true) // all our addresses are ASCII
	if err := s.client.Hello(helloName(conn)); err != nil {
		return failed(stepHello, err)
	}
	if err := o.startTLS(s.client); err != nil {
		return err
	}
	return o.authenticate(s.client)
}

// close says goodbye, briefly: a mail is taken or not by now.
func (s *session) close() {
	if s.client != nil {
		_ = s.conn.SetDeadline(time.Now().Add(5 * time.Second))
		_ = s.client.Quit()
	}
	_ = s.conn.Close()
	s.done()
}

func (o *Receiver) startTLS(c *smtp.Client) error {
	if o.server.implicit {
		return nil
	}
	if offered, _ := c.Extension("STARTTLS"); !offered {
		if o.server.plaintext {
			return nil
		}
		return &failure{step: stepTLS, words: "the server offers no STARTTLS; use smtps://, or name the host in DOORBELL_ALLOW_PLAINTEXT", setup: true}
	}
	if err := c.StartTLS(o.tls()); err != nil {
		return failed(stepTLS, err)
	}
	return nil
}

// tls verifies who the server is, but not on the loopback: nobody else can listen there, plaintext would do as well, and the
// certificate of a mail server on this machine is rarely made out to that name.
func (o *Receiver) tls() *tls.Config {
	return &tls.Config{
		ServerName: o.server.host, RootCAs: o.RootCAs, MinVersion: tls.VersionTLS12,
		InsecureSkipVerify: o.server.loopback,
	}
}

// authenticate proves who we are in the best way that the server offers. A way that shows the password needs TLS.
func (o *Receiver) authenticate(c *smtp.Client) error {
	if o.server.user == "" {
		return nil
	}
	_, offer := c.Extension("AUTH")
	_, underTLS := c.TLSConnectionState()
	way := o.choose(strings.Fields(strings.ToUpper(offer)), underTLS || o.server.loopback)
	if way == nil {
		return &failure{step: stepAuth, words: "the server offers no way to authenticate that keeps the password secret", setup: true}
	}
	if err := c.Auth(way); err != nil {
		return failed(stepAuth, err)
	}
	return nil
}

// choose prefers what does not show the password to the server either. CRAM-MD5 comes last under TLS: servers that keep
// passwords well cannot do it and offer it all the same.
func (o *Receiver) choose(offer []string, secret bool) smtp.Auth {
	s := o.server
	offered := func(method string) bool { return slices.Contains(offer, method) }
	switch {
	case offered("SCRAM-SHA-256"):
		return smtp.ScramSHA256Auth(s.user, s.password)
	case offered("SCRAM-SHA-1"):
		return smtp.ScramSHA1Auth(s.user, s.password)
	case secret && offered("PLAIN"):
		return smtp.PlainAuth("", s.user, s.password, s.host, s.loopback)
	case secret && offered("LOGIN"):
		return smtp.LoginAuth(s.user, s.password, s.host, s.loopback)
	case offered("CRAM-MD5"):
		return smtp.CRAMMD5Auth(s.user, s.password)
	}
	return nil
}

// helloName is how we introduce ourselves: our full name, or else our address, as RFC 5321 wants it.
func helloName(conn net.Conn) string {
	if name, err := os.Hostname(); err == nil && strings.Contains(name, ".") && message.IsDomain(name) {
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

// boundedConn ends a server that never stops answering.
type boundedConn struct {
	net.Conn
	left int
}

// maxAnswers is far more than any server says in one session, with its certificates.
const maxAnswers = 1 << 20

var errTooMuch = errors.New("too many answers")

func (c *boundedConn) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooMuch
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}
