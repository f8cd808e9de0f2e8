package email

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// TestEveryAnswerHasItsMeaning: what a server may say at any step, what it means until the content
// was sent, and what it means then.
func TestEveryAnswerHasItsMeaning(t *testing.T) {
	for _, row := range []struct{ says, before, after, words string }{
		{"", taken, taken, ""},
		{"421 4.3.2 going down", later, later, "421 4.3.2"},
		{"450 4.2.1 greylisted for office@agency.example", later, later, ""},
		{"451 4.3.0 try again", later, later, ""},
		{"452 4.2.2 mailbox full", later, later, ""},
		{"454 4.7.0 not now", later, later, ""},
		{"500 what", laterSetup, never, ""},
		{"501 5.1.3 bad address", laterSetup, never, ""},
		{"503 5.5.1 bad sequence", laterSetup, never, ""},
		{"521 no mail here", laterSetup, never, ""},
		{"530 5.7.0 authentication required", laterSetup, laterSetup, ""},
		{"550 5.1.1 <office@agency.example> unknown", laterSetup, laterSetup, ""},
		{"550 5.4.5 daily user sending limit exceeded", laterSetup, laterSetup, ""},
		{"554 quota of this account", laterSetup, laterSetup, ""},
		{"550 no enhanced code", laterSetup, never, ""},
		{"550 5.7.1 relaying denied", laterSetup, laterSetup, ""},
		{"552 5.2.2 mailbox full", laterSetup, laterSetup, ""},
		{"552 5.2.2 mailbox size limit exceeded", laterSetup, laterSetup, ""},
		{"552 maximum mailbox size reached", laterSetup, laterSetup, ""},
		{"554 5.7.1 against our corporate rules", laterSetup, never, ""},
		{"552 5.3.4 too large", laterSetup, tooLarge, ""},
		{"554 5.6.0 no", laterSetup, never, ""},
		{"300 what now", later, perhaps, ""},
		{"this is no SMTP", later, perhaps, "does not follow the protocol"},
		{"99 neither", later, perhaps, ""},
		{cutOff, later, perhaps, "the connection broke"},
		{silence, later, perhaps, "no answer in time"},
		{endless, later, perhaps, "the server does not stop answering"},
	} {
		for _, step := range []string{"", "EHLO", "MAIL", "RCPT", "DATA", "."} {
			synctest.Test(t, func(t *testing.T) {
				s, want := &script{says: map[string]string{step: row.says}}, row.before
				if step == "." {
					want = row.after
				}
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				begun := time.Now()
				err := s.receiver(t, nil).Send(ctx, delivery(t))
				if got := outcome(err); got != want || err != nil && !strings.Contains(err.Error(), row.words) {
					t.Errorf("%q at %q: %s, want %s (%v)", row.says, step, got, want, err)
				}
				if took := time.Since(begun); took > 36*time.Second {
					t.Errorf("%q at %q: took %s, ctx allows 30s", row.says, step, took)
				}
				tellsNothing(t, err)
				if mails := len(s.mails); (mails == 1) != (err == nil) {
					t.Errorf("%q at %q: %d mails and %v", row.says, step, mails, err)
				}
			})
		}
	}
}

func TestACancelEndsASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		begun := time.Now()
		err := (&script{says: map[string]string{"RCPT": silence}}).receiver(t, nil).Send(ctx, delivery(t))
		if took := time.Since(begun); outcome(err) != later || !strings.Contains(err.Error(), "stopped") || took > 2*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// post is a real SMTP server of another library, on a real port, with TLS and authentication. Its
// certificate is for example.com.
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
	answers []string
	check   func(user, password string) error
}

func (l *loginServer) Next(answer []byte) (challenge []byte, done bool, err error) {
	l.answers = append(l.answers, string(answer))
	if n := len(l.answers); n < 3 {
		return []byte([]string{"Username:", "Password:"}[n-1]), false, nil
	}
	return nil, true, l.check(l.answers[1], l.answers[2])
}

func (s *postSession) Mail(from string, _ *smtp.MailOptions) error {
	if len(s.p.users) > 0 && s.m.user == "" {
		return &smtp.SMTPError{Code: 530, EnhancedCode: smtp.EnhancedCode{5, 7, 0}, Message: "who are you"}
	}
	s.m.from = from
	return nil
}

func (s *postSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.m.to = append(s.m.to, to)
	return nil
}

func (s *postSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	s.m.text = string(text)
	_, s.m.underTLS = s.conn.TLSConnectionState()
	s.p.mu.Lock()
	defer s.p.mu.Unlock()
	s.p.mails = append(s.p.mails, s.m)
	return err
}

func (s *postSession) Reset()        { s.m = mailed{user: s.m.user} }
func (s *postSession) Logout() error { return nil }

func (p *post) taken() []mailed {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.mails)
}

// open starts the server: with TLS from the first byte, on request, or without.
func (p *post) open(t *testing.T, implicit, offerTLS bool) *post {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	p.ca = x509.NewCertPool()
	p.ca.AddCert(certified.Certificate())
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	server := smtp.NewServer(p)
	server.Domain, server.AllowInsecureAuth, server.ErrorLog = "example.com", true, silent{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.address = l.Addr().String()
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
		<-done
	})
	return p
}

type silent struct{}

func (silent) Printf(string, ...any) {}
func (silent) Println(...any)        {}

// receiver reaches the server under a name, as if it were elsewhere.
func (p *post) receiver(t *testing.T, change func(*Options)) *Receiver {
	return newReceiver(t, func(o *Options) {
		o.SMTP, o.RootCAs = "smtp://example.com", p.ca
		o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, p.address)
		}
		if change != nil {
			change(o)
		}
	})
}

// TestMailAndPasswordTravelUnderTLS: the server has a certificate for example.com of an authority
// that is known, and offers TLS from the first byte, on request, or not at all.
func TestMailAndPasswordTravelUnderTLS(t *testing.T) {
	const user = "leads-user@"
	for name, row := range map[string]struct {
		address          string
		implicit, offers bool
		methods          []string // with a password
		allowed          string
		stranger         bool // the authority is not known
		want, words      string
	}{
		"PLAIN, on request":          {address: "smtp://" + user + "example.com", offers: true, methods: []string{"PLAIN"}, want: taken},
		"PLAIN, from the first byte": {address: "smtps://" + user + "example.com", implicit: true, methods: []string{"PLAIN"}, want: taken},
		"LOGIN, on request":          {address: "smtp://" + user + "example.com", offers: true, methods: []string{"LOGIN"}, want: taken},
		"LOGIN, from the first byte": {address: "smtps://" + user + "example.com", implicit: true, methods: []string{"LOGIN", "XOAUTH2"}, want: taken},

		"a wrong password":             {address: "smtp://other@example.com", offers: true, methods: []string{"PLAIN"}, want: laterSetup, words: "password are wrong"},
		"a wrong password, by LOGIN":   {address: "smtp://other@example.com", offers: true, methods: []string{"LOGIN"}, want: laterSetup, words: "535"},
		"no login that is safe":        {address: "smtp://" + user + "example.com", offers: true, methods: []string{"XOAUTH2"}, want: laterSetup, words: "PLAIN or LOGIN"},
		"a password without TLS":       {address: "smtp://" + user + "example.com", methods: []string{"PLAIN"}, allowed: "example.com", want: laterSetup, words: "PLAIN or LOGIN"},
		"a wrong name":                 {address: "smtp://mail.agency.example", offers: true, want: laterSetup, words: "certificate"},
		"a wrong name, implicit":       {address: "smtps://mail.agency.example", implicit: true, want: laterSetup, words: "certificate"},
		"an unknown authority":         {address: "smtp://example.com", offers: true, stranger: true, want: laterSetup, words: "certificate"},
		"another authority, implicit":  {address: "smtps://example.com", implicit: true, stranger: true, want: laterSetup, words: "certificate"},
		"no TLS":                       {address: "smtp://example.com", allowed: "example.org", want: laterSetup, words: "STARTTLS; use smtps://, or name the host in DOORBELL_ALLOW_PLAINTEXT"},
		"no TLS, allowed":              {address: "smtp://example.com", allowed: "example.com", want: taken},
		"TLS on the wrong port":        {address: "smtps://example.com:587", offers: true, want: later, words: "STARTTLS"},
		"any certificate on this host": {address: "smtp://127.0.0.1:25", offers: true, stranger: true, want: taken},
		"no TLS on this host":          {address: "smtp://" + user + "localhost:2525", methods: []string{"PLAIN"}, want: taken},
	} {
		t.Run(name, func(t *testing.T) {
			p := &post{methods: row.methods}
			if row.methods != nil {
				p.users = map[string]string{"leads-user": "hunter2"}
			}
			p.open(t, row.implicit, row.offers)
			err := p.receiver(t, func(o *Options) {
				o.SMTP, o.Password, o.AllowPlaintext = row.address, "hunter2", []string{row.allowed}
				if row.stranger {
					o.RootCAs = x509.NewCertPool()
				}
			}).Send(t.Context(), delivery(t))
			m := p.taken()
			if outcome(err) != row.want || err != nil && !strings.Contains(err.Error(), row.words) || (len(m) == 1) != (err == nil) {
				t.Fatalf("%v, %d mails", err, len(m))
			}
			tellsNothing(t, err)
			if err == nil && (row.offers && !m[0].underTLS || row.methods != nil && m[0].user != "leads-user" ||
				m[0].from != "doorbell@agency.example" || !slices.Equal(m[0].to, []string{"office@agency.example"})) {
				t.Errorf("%+v", m[0])
			}
		})
	}
}

// scripted opens a receiver whose server says something else at one step.
func scripted(step, says string) func(t *testing.T) forward.Receiver {
	return func(t *testing.T) forward.Receiver {
		return (&script{says: map[string]string{step: says}}).receiver(t, nil)
	}
}

func TestMailIsAReceiverLikeAnyOther(t *testing.T) {
	forwardtest.Receiver(t, forwardtest.Suite{
		Works: func(t *testing.T) forwardtest.Place {
			p := new(post).open(t, false, true)
			return forwardtest.Place{Receiver: p.receiver(t, nil), Took: func() (all []string) {
				for _, m := range p.taken() {
					h, parts := read(t, []byte(m.text))
					all = append(all, "Message-ID: "+h.Get("Message-ID")+"\n"+h.Get("Subject")+"\n"+
						parts["text/plain"]+parts["text/html"]+parts["application/xml"])
				}
				return all
			}, ID: func(m string) string {
				id, _, _ := strings.Cut(m, "\n")
				return id
			}}
		},
		Answers: []forwardtest.Answer{
			{Name: "550 to a recipient", Open: scripted("RCPT", "550 5.1.1 unknown"), Want: forwardtest.Waits, After: setupRetryDelay},
			{Name: "554 to the content", Open: scripted(".", "554 5.6.0 no"), Want: forwardtest.Refused},
		},
		Silent: scripted("", silence),
		Away: func(t *testing.T) forward.Receiver {
			return newReceiver(t, func(o *Options) {
				o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:1")
				}
			})
		},
		Secrets: []string{"agency.example", "office", "hunter2"},
	})
}
