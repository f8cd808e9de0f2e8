package main

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// hookToken is the part of a webhook's address that is secret.
const hookToken = "sentinel-hook-token"

// place is where receivers bring events: a Slack webhook, a webhook and a mail server, all on this machine.
type place struct {
	http *httptest.Server
	smtp string

	mu     sync.Mutex
	status int // of every answer over HTTP; 250 or else 451 over SMTP
	posts  []post
	mails  []string
}

// post is a request that was taken.
type post struct {
	path   string
	header http.Header
	body   string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	p := &place{status: http.StatusOK}
	p.http = httptest.NewServer(p)
	t.Cleanup(p.http.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{place: p}, nil }))
	server.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	p.smtp = l.Addr().String()
	return p
}

// environ are the settings of all three receivers.
func (p *place) environ() []string {
	return []string{
		"DOORBELL_SLACK_URL=" + p.http.URL + "/slack/" + hookToken, "DOORBELL_EMAIL_SMTP=smtp://" + p.smtp,
		"DOORBELL_EMAIL_FROM=doorbell@agency.example", "DOORBELL_EMAIL_TO=leads@agency.example", p.webhook(), "DOORBELL_WEBHOOK_SECRET=" + whsec,
	}
}

// webhook is the setting of the webhook's address.
func (p *place) webhook() string { return "DOORBELL_WEBHOOK_URL=" + p.http.URL + "/hook/" + hookToken }

// answer sets the status that is answered from now on.
func (p *place) answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status = status
}

func (p *place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	w.WriteHeader(p.status)
	if p.status != http.StatusOK {
		_, _ = io.WriteString(w, "no_service")
		return
	}
	p.posts = append(p.posts, post{r.URL.Path, r.Header, string(body)})
	_, _ = io.WriteString(w, "ok")
}

// hooked are the events of a type that the webhook got.
func (p *place) hooked(kind string) (posts []post) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.posts {
		if strings.HasPrefix(one.path, "/hook/") && one.header.Get("ce-type") == kind {
			posts = append(posts, one)
		}
	}
	return posts
}

// slacked is how many messages to Slack hold a text.
func (p *place) slacked(text string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.posts {
		if strings.HasPrefix(one.path, "/slack/") && strings.Contains(one.body, text) {
			n++
		}
	}
	return n
}

// mailed is how many mails hold a text.
func (p *place) mailed(text string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mails {
		if strings.Contains(m, text) {
			n++
		}
	}
	return n
}

// all is everything that arrived.
func (p *place) all() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, one := range p.posts {
		_ = one.header.Write(&b)
		b.WriteString(one.body)
	}
	return b.String() + strings.Join(p.mails, "\n")
}

// mailSession takes a mail as long as HTTP would be taken.
type mailSession struct{ place *place }

func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	s.place.mu.Lock()
	defer s.place.mu.Unlock()
	if s.place.status != http.StatusOK {
		return &smtp.SMTPError{Code: 451, Message: "later"}
	}
	s.place.mails = append(s.place.mails, string(text))
	return nil
}
