package email

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// TestEveryResponseHasItsMeaning lists what a server may say at any step, and what it means before
// and after the content was sent.
func TestEveryResponseHasItsMeaning(t *testing.T) {
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
		{endless, later, perhaps, "the server does not stop responding"},
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
				if got := meaning(err); got != want || err != nil && !strings.Contains(err.Error(), row.words) {
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
		if took := time.Since(begun); meaning(err) != later || !strings.Contains(err.Error(), "stopped") || took > 2*time.Second {
			t.Errorf("%v after %s", err, took)
		}
	})
}

// withTLS gives a server a certificate for example.com, and a receiver its authority.
func (s *script) withTLS(t *testing.T) *x509.CertPool {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	s.tls = &tls.Config{Certificates: certified.TLS.Certificates}
	authority := x509.NewCertPool()
	authority.AddCert(certified.Certificate())
	return authority
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

		"a wrong password":             {address: "smtp://other@example.com", offers: true, methods: []string{"PLAIN"}, want: laterSetup, words: "password is wrong"},
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
			s := &script{methods: row.methods, implicit: row.implicit, offersTLS: row.offers}
			authority := s.withTLS(t)
			err := s.receiver(t, func(o *Options) {
				o.SMTP, o.Password, o.AllowPlaintext = row.address, "hunter2", []string{row.allowed}
				if o.RootCAs = authority; row.stranger {
					o.RootCAs = x509.NewCertPool()
				}
			}).Send(t.Context(), delivery(t))
			if meaning(err) != row.want || err != nil && !strings.Contains(err.Error(), row.words) || (len(s.mails) == 1) != (err == nil) {
				t.Fatalf("%v, %d mails", err, len(s.mails))
			}
			tellsNothing(t, err)
			want := []string{"MAIL FROM:<doorbell@agency.example>", "RCPT TO:<office@agency.example>"}
			if err == nil && (row.offers || row.implicit) != s.underTLS || err == nil && !slices.Equal(s.envelope, want) {
				t.Errorf("under TLS: %t, %q", s.underTLS, s.envelope)
			}
		})
	}
}

// scripted opens a receiver whose server responds differently at one step.
func scripted(step, says string) func(t *testing.T) forward.Receiver {
	return func(t *testing.T) forward.Receiver {
		return (&script{says: map[string]string{step: says}}).receiver(t, nil)
	}
}

func TestMailIsAReceiverLikeAnyOther(t *testing.T) {
	forwardtest.Receiver(t, forwardtest.Suite{
		Works: func(t *testing.T) forwardtest.Place {
			s := new(script)
			return forwardtest.Place{Receiver: s.receiver(t, nil), Took: func() (all []string) {
				for _, m := range s.mails {
					h, parts := read(t, []byte(m))
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
