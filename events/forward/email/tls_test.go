package email

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// post is a real SMTP server of another library, on a real port, with TLS and authentication.
type post struct {
	address string
	ca      *x509.CertPool
	users   map[string]string
	methods []string

	mu    sync.Mutex
	mails []mailed
}

type mailed struct {
	from, user string
	to         []string
	text       string
	underTLS   bool
}

type postSession struct {
	p    *post
	conn *smtp.Conn
	m    mailed
}

func (p *post) NewSession(c *smtp.Conn) (smtp.Session, error) {
	return &postSession{p: p, conn: c}, nil
}

func (s *postSession) AuthMechanisms() []string { return s.p.methods }

func (s *postSession) Auth(method string) (sasl.Server, error) {
	check := func(user, password string) error {
		if s.p.users[user] != password || password == "" {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "no such user as " + user}
		}
		s.m.user = user
		return nil
	}
	switch method {
	case sasl.Plain:
		return sasl.NewPlainServer(func(_, user, password string) error { return check(user, password) }), nil
	case sasl.Login:
		return &loginServer{check: check}, nil
	}
	return nil, smtp.ErrAuthUnknownMechanism
}

// loginServer is the LOGIN of old servers.
type loginServer struct {
	user  string
	asked int
	check func(user, password string) error
}

func (l *loginServer) Next(answer []byte) (challenge []byte, done bool, err error) {
	l.asked++
	switch l.asked {
	case 1:
		return []byte("Username:"), false, nil
	case 2:
		l.user = string(answer)
		return []byte("Password:"), false, nil
	}
	return nil, true, l.check(l.user, string(answer))
}

func (s *postSession) Mail(from string, _ *smtp.MailOptions) error {
	if len(s.p.users) > 0 && s.m.user == "" {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "who are you"}
	}
	s.m.from = from
	return nil
}

func (s *postSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "gone") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: to + " is unknown"}
	}
	s.m.to = append(s.m.to, to)
	return nil
}

func (s *postSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.m.text = string(text)
	_, s.m.underTLS = s.conn.TLSConnectionState()
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.mails = append(s.p.mails, s.m)
	return nil
}

func (s *postSession) Reset()        { s.m = mailed{user: s.m.user} }
func (s *postSession) Logout() error { return nil }

func (p *post) taken() []mailed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mails)
}

// open starts a server whose certificate is for name. With implicit it speaks TLS from the first byte.
func (p *post) open(t *testing.T, name string, implicit, offerTLS bool) *post {
	t.Helper()
	certificate, ca := certify(t, name)
	p.ca = ca
	server := smtp.NewServer(p)
	server.Domain, server.AllowInsecureAuth = "mail.agency.example", true
	server.ErrorLog = silent{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
	config := &tls.Config{Certificates: []tls.Certificate{certificate}}
	if offerTLS {
		server.TLSConfig = config
	}
	if implicit {
		l = tls.NewListener(l, config)
	}
	done := make(chan error, 1)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close() // a server that was closed before it served knows no listener
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return p
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// receiver reaches the server under its name, as if it were elsewhere.
func (p *post) receiver(t *testing.T, change func(*Options)) *Receiver {
	return newReceiver(t, func(o *Options) {
		o.RootCAs = p.ca
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.address)
		}
		if change != nil {
			change(o)
		}
	})
}

// certify makes a certificate for a name, and the authority that signed it.
func certify(t *testing.T, name string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	root, err := x509.CreateCertificate(rand.Reader, ca, ca, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(root)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func withUser(scheme string) func(*Options) {
	return func(o *Options) { o.SMTP, o.Password = scheme+"://leads-user@mail.agency.example", "hunter2" }
}

func TestMailTravelsUnderTLSAndWithAPassword(t *testing.T) {
	for _, row := range []struct {
		scheme  string
		methods []string
	}{
		{"smtp", []string{sasl.Plain}}, {"smtps", []string{sasl.Plain}}, {"smtp", []string{sasl.Login}}, {"smtps", []string{sasl.Login, "XOAUTH2"}},
	} {
		p := &post{users: map[string]string{"leads-user": "hunter2"}, methods: row.methods}
		p.open(t, "mail.agency.example", row.scheme == "smtps", row.scheme == "smtp")
		if err := p.receiver(t, withUser(row.scheme)).Send(t.Context(), delivery(t)); err != nil {
			t.Fatalf("%s %s: %v", row.scheme, row.methods, err)
		}
		m := p.taken()
		if len(m) != 1 || !m[0].underTLS && row.scheme == "smtp" || m[0].user != "leads-user" || m[0].from != "doorbell@agency.example" ||
			!slices.Equal(m[0].to, []string{"office@agency.example"}) {
			t.Errorf("%s %s: %+v", row.scheme, row.methods, m)
		}
	}
}

func TestACertificateThatProvesNothingIsRefused(t *testing.T) {
	for _, scheme := range []string{"smtp", "smtps"} {
		wrongName := new(post).open(t, "mail.elsewhere.example", scheme == "smtps", scheme == "smtp")
		stranger := new(post).open(t, "mail.agency.example", scheme == "smtps", scheme == "smtp")
		_, stranger.ca = certify(t, "mail.agency.example")
		for what, p := range map[string]*post{"wrong name": wrongName, "unknown authority": stranger} {
			err := p.receiver(t, func(o *Options) { o.SMTP = scheme + "://mail.agency.example" }).Send(t.Context(), delivery(t))
			if outcome(err) != laterSetup || !strings.Contains(err.Error(), "certificate") || len(p.taken()) != 0 {
				t.Errorf("%s, %s: %v, %d mails", scheme, what, err, len(p.taken()))
			}
			tellsNothing(t, err)
		}
	}
}

func TestOnTheLoopbackAnyCertificateDoes(t *testing.T) {
	p := new(post).open(t, "a-laptop", false, true)
	err := p.receiver(t, func(o *Options) { o.SMTP, o.RootCAs = "smtp://127.0.0.1:25", nil }).Send(t.Context(), delivery(t))
	if m := p.taken(); err != nil || len(m) != 1 || !m[0].underTLS {
		t.Errorf("%v, %+v", err, m)
	}
}

func TestOnTheLoopbackNoTLSIsNeeded(t *testing.T) {
	p := &post{users: map[string]string{"leads-user": "hunter2"}, methods: []string{sasl.Plain}}
	p.open(t, "a-laptop", false, false)
	err := p.receiver(t, func(o *Options) { o.SMTP, o.Password = "smtp://leads-user@localhost:2525", "hunter2" }).Send(t.Context(), delivery(t))
	if m := p.taken(); err != nil || len(m) != 1 {
		t.Errorf("%v, %+v", err, m)
	}
}

func TestAWrongPasswordWaitsAndThrowsNothingAway(t *testing.T) {
	for _, method := range []string{sasl.Plain, sasl.Login} {
		p := &post{users: map[string]string{"leads-user": "hunter3"}, methods: []string{method}}
		p.open(t, "mail.agency.example", false, true)
		err := p.receiver(t, withUser("smtp")).Send(t.Context(), delivery(t))
		if outcome(err) != laterSetup || !strings.Contains(err.Error(), "535") || !strings.Contains(err.Error(), "password are wrong") {
			t.Error(err)
		}
		tellsNothing(t, err)
	}
}

func TestTLSOnThePortForSTARTTLSIsSaid(t *testing.T) {
	p := new(post).open(t, "mail.agency.example", false, true)
	err := p.receiver(t, func(o *Options) { o.SMTP = "smtps://mail.agency.example:587" }).Send(t.Context(), delivery(t))
	if outcome(err) != later || !strings.Contains(err.Error(), "STARTTLS") {
		t.Error(err)
	}
}
