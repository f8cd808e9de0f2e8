package doorbelltest

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// HookToken is the part of a webhook's address that is secret.
const HookToken = "sentinel-hook-token"

// Place is where receivers bring events: webhooks of Slack and Teams, a webhook and a mail server,
// all on this machine.
type Place struct {
	http *httptest.Server
	smtp string

	mu     sync.Mutex
	Status int // of every answer over HTTP; over SMTP 250, otherwise 451
	posts  []Post
	mails  []string
}

// Post is a request that was accepted.
type Post struct {
	path   string
	Header http.Header
	Body   string
}

func NewPlace(t *testing.T) *Place {
	t.Helper()
	p := &Place{Status: http.StatusOK}
	p.http = httptest.NewServer(p)
	t.Cleanup(p.http.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{place: p}, nil }))
	server.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // ends with Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		_ = l.Close() // a server that was closed before it served knows no listener
		<-done
	})
	p.smtp = l.Addr().String()
	return p
}

// Environ are the settings of all receivers.
func (p *Place) Environ() []string {
	return []string{
		"DOORBELL_SLACK_URL=" + p.http.URL + "/slack/" + HookToken, "DOORBELL_TEAMS_URL=" + p.http.URL + "/teams/" + HookToken, "DOORBELL_EMAIL_SMTP=smtp://" + p.smtp,
		"DOORBELL_EMAIL_FROM=doorbell@agency.example", "DOORBELL_EMAIL_TO=leads@agency.example", p.Webhook(), "DOORBELL_WEBHOOK_SECRET=" + Whsec,
	}
}

// RoutesFile writes a table of routes with the columns agency and to, and is the setting that names
// it.
func RoutesFile(t testing.TB, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routes.csv")
	if err := os.WriteFile(path, []byte("agency;to\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return "DOORBELL_ROUTES_FILE=" + path
}

// Webhook is the setting of the webhook's address.
func (p *Place) Webhook() string { return "DOORBELL_WEBHOOK_URL=" + p.http.URL + "/hook/" + HookToken }

// Answer sets the status of all responses from now on.
func (p *Place) Answer(status int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Status = status
}

func (p *Place) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	w.WriteHeader(p.Status)
	if p.Status != http.StatusOK {
		_, _ = io.WriteString(w, "no_service")
		return
	}
	p.posts = append(p.posts, Post{r.URL.Path, r.Header, string(body)})
	_, _ = io.WriteString(w, "ok")
}

// Hooked are the events of a type that the webhook received.
func (p *Place) Hooked(kind string) (posts []Post) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.posts {
		if strings.HasPrefix(one.path, "/hook/") && one.Header.Get("ce-type") == kind {
			posts = append(posts, one)
		}
	}
	return posts
}

// Posted is how many messages to a chat, slack or teams, hold a text.
func (p *Place) Posted(chat, text string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.posts {
		if strings.HasPrefix(one.path, "/"+chat+"/") && strings.Contains(one.Body, text) {
			n++
		}
	}
	return n
}

// Mailed is how many mails hold a text.
func (p *Place) Mailed(text string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.mails {
		if strings.Contains(m, text) {
			n++
		}
	}
	return n
}

// All is everything that arrived.
func (p *Place) All() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, one := range p.posts {
		_ = one.Header.Write(&b)
		b.WriteString(one.Body)
	}
	return b.String() + strings.Join(p.mails, "\n")
}

// mailSession accepts a mail while HTTP requests would be accepted.
type mailSession struct{ place *Place }

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
	if s.place.Status != http.StatusOK {
		return &smtp.SMTPError{Code: 451, Message: "later"}
	}
	s.place.mails = append(s.place.mails, string(text))
	return nil
}

// Whsec is a secret of Standard Webhooks.
const Whsec = "whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r"
