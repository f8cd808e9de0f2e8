package ops

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	sessionCookie = "doorbell_session" // and the port, see cookieName
	// sessionLasts is how long a session lasts at most. It ends with the process, too.
	sessionLasts = 12 * time.Hour
	// mostSessions bounds them; of more the oldest ends.
	mostSessions = 64
)

// sessions are the browsers that have shown the token. They are in memory only, as hashes.
type sessions struct {
	mu  sync.Mutex
	all map[[sha256.Size]byte]session
}

type session struct {
	host  string // under which it was begun: no other may use it
	until time.Time
	lasts context.Context // what was begun with it ends with it
	end   context.CancelFunc
}

func newSessions() *sessions { return &sessions{all: map[[sha256.Size]byte]session{}} }

// begin returns the id of a new session.
func (s *sessions) begin(host string) string {
	id, now := rand.Text(), time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for hash, one := range s.all {
		if !now.Before(one.until) {
			s.drop(hash)
		}
	}
	if len(s.all) >= mostSessions {
		s.dropOldest()
	}
	one := session{host: strings.ToLower(host), until: now.Add(sessionLasts)}
	one.lasts, one.end = context.WithDeadline(context.Background(), one.until)
	s.all[sha256.Sum256([]byte(id))] = one
	return id
}

func (s *sessions) dropOldest() {
	var oldest [sha256.Size]byte
	first := true
	for hash, one := range s.all {
		if first || one.until.Before(s.all[oldest].until) {
			oldest, first = hash, false
		}
	}
	s.drop(oldest)
}

// drop ends a session, and what was begun with it. The caller holds s.mu.
func (s *sessions) drop(hash [sha256.Size]byte) {
	if one, ok := s.all[hash]; ok {
		one.end()
		delete(s.all, hash)
	}
}

// during is the context of a request with a session: a live stream must not go on after it.
func (s *sessions) during(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range r.CookiesNamed(cookieName(r)) {
		if one, ok := s.all[sha256.Sum256([]byte(c.Value))]; ok {
			stop := context.AfterFunc(one.lasts, cancel)
			return ctx, func() { stop(); cancel() }
		}
	}
	cancel() // it has just ended
	return ctx, cancel
}

// holds says whether a session was begun under this host and lasts.
func (s *sessions) holds(id, host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.all[sha256.Sum256([]byte(id))]
	return ok && time.Now().Before(one.until) && one.host == strings.ToLower(host)
}

func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(sha256.Sum256([]byte(id)))
}

// cookieName has the port in it: browsers give a cookie to all ports of a host, where another doorbell may have its own.
func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return sessionCookie
	}
	return sessionCookie + "_" + port
}

// cookie carries a session; without an id it takes it away.
func cookie(r *http.Request, id string) *http.Cookie {
	c := &http.Cookie{
		Name: cookieName(r), Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: int(sessionLasts.Seconds()),
		Secure: r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https"),
	}
	if id == "" {
		c.MaxAge = -1
	}
	return c
}
