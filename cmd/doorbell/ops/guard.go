package ops

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"doorbell/poller"
)

// Who may do what over HTTP:
//
//   - Everybody: health, metrics, schemas.
//   - Who shows the token (Authorization: Bearer): everything that the commands do over the socket, a backup and the events with
//     people's data included. The holder of the token is the operator.
//   - Who has a session, which is begun with the token: the page and its buttons, from that page, under the host name it was
//     begun with.
//   - Who comes from this machine, to a loopback address, under a loopback name, through no proxy: may look at the page and the
//     status, and do nothing. Other programs' pages in a browser of this machine cannot: they come under another name
//     (DNS rebinding) or say that they come from another site.

// guard lets requests through, or answers them.
type guard struct {
	token   [sha256.Size]byte
	known   bool // there is a token
	local   bool // the server stands on a loopback address
	people  *sessions
	wrong   *throttle
	sameWeb http.CrossOriginProtection
	log     *slog.Logger
}

func newGuard(token string, local bool, log *slog.Logger) *guard {
	return &guard{token: sha256.Sum256([]byte(token)), known: token != "", local: local, people: newSessions(), wrong: newThrottle(), log: log}
}

// visitor is who asks.
type visitor int

const (
	stranger visitor = iota
	signedIn         // has a session
	operator         // has shown the token
)

var (
	errWrongToken = errors.New("this is not the token")
	errManyTokens = errors.New("too many wrong tokens came from this address; wait a minute")
	errNoToken    = errors.New("DOORBELL_HTTP_TOKEN is not set: over HTTP nothing can be done")
	errNeedsToken = errors.New("this needs the token (DOORBELL_HTTP_TOKEN): Authorization: Bearer …")
	errNotLocal   = errors.New("without DOORBELL_HTTP_TOKEN the page is for this machine only: ask for 127.0.0.1 or localhost, at a loopback address, " +
		"through no proxy. Health, metrics and schemas are for everybody")
	errForeign = errors.New("the request comes from another site")
)

// identify says who asks. An error is to be answered: what is shown and wrong counts for nothing less than what is missing.
func (g *guard) identify(r *http.Request) (visitor, error) {
	if shown := r.Header.Values("Authorization"); len(shown) > 0 {
		scheme, token, _ := strings.Cut(shown[0], " ")
		if len(shown) > 1 || !strings.EqualFold(scheme, "Bearer") {
			return stranger, errWrongToken
		}
		return operator, g.compare(r, token)
	}
	for _, c := range r.CookiesNamed(cookieName(r)) {
		if g.people.holds(c.Value, r.Host) {
			return signedIn, nil
		}
	}
	return stranger, nil
}

// compare holds what was shown against the token. Who is wrong too often has to wait, also when right at last: else it would be
// no limit.
func (g *guard) compare(r *http.Request, shown string) error {
	if !g.known {
		return errNoToken
	}
	from := origin(r)
	if !g.wrong.take(from, time.Now()) {
		return errManyTokens
	}
	hash := sha256.Sum256([]byte(shown))
	if subtle.ConstantTimeCompare(hash[:], g.token[:]) != 1 {
		g.log.Warn("a wrong token was shown", "from", from.Addr().String())
		return errWrongToken
	}
	g.wrong.giveBack(from)
	return nil
}

// origin is where a request comes from; of IPv6 the network, for it is one customer's.
func origin(r *http.Request) netip.Prefix {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Prefix{}
	}
	bits := 32
	if at.Addr().Unmap().Is6() {
		bits = 64
	}
	p, _ := at.Addr().Unmap().WithZone("").Prefix(bits)
	return p
}

// reads lets those look who may. What they may do stands in the context.
func (g *guard) reads(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.identify(r)
		switch {
		case err != nil:
			refuse(w, r, err)
		case embedded(r):
			refuse(w, r, errForeign)
		case who == operator:
			next.ServeHTTP(w, r.WithContext(WithAccess(r.Context(), Access{Act: true})))
		case who == signedIn:
			ctx, leave := g.people.during(r)
			defer leave()
			next.ServeHTTP(w, r.WithContext(WithAccess(ctx, Access{Act: true})))
		case g.local && loopbackName(r.Host) && !proxied(r):
			next.ServeHTTP(w, r)
		case g.known:
			signIn(w, r, nil)
		default:
			refuse(w, r, errNotLocal)
		}
	})
}

// acts lets the forms of our pages through.
func (g *guard) acts(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.identify(r)
		switch {
		case err != nil:
			refuse(w, r, err)
		case !g.known:
			refuse(w, r, errNoToken)
		case who == stranger:
			signIn(w, r, nil)
		case g.sameWeb.Check(r) != nil, who == signedIn && !saysOrigin(r):
			refuse(w, r, errForeign)
		case !readForm(w, r):
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// commands lets the operator through. A session is not enough: what a browser sends by itself should hand out no copy of the
// store.
func (g *guard) commands(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, err := g.identify(r)
		switch {
		case err != nil:
			refuse(w, r, err)
		case !g.known:
			refuse(w, r, errNoToken)
		case who != operator:
			refuse(w, r, errNeedsToken)
		case g.sameWeb.Check(r) != nil:
			refuse(w, r, errForeign)
		case !readWhole(w, r):
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// begin starts a session for who shows the token in a form.
func (g *guard) begin(w http.ResponseWriter, r *http.Request) {
	if g.sameWeb.Check(r) != nil || !saysOrigin(r) {
		refuse(w, r, errForeign)
		return
	}
	if !readForm(w, r) {
		return
	}
	if err := g.compare(r, strings.TrimSpace(r.PostForm.Get("token"))); err != nil {
		signIn(w, r, err)
		return
	}
	http.SetCookie(w, cookie(r, g.people.begin(r.Host)))
	home(w, "signedin", "")
}

// end ends the session that a request shows.
func (g *guard) end(w http.ResponseWriter, r *http.Request) {
	if g.sameWeb.Check(r) != nil || !saysOrigin(r) {
		refuse(w, r, errForeign)
		return
	}
	for _, c := range r.CookiesNamed(cookieName(r)) {
		g.people.end(c.Value)
	}
	http.SetCookie(w, cookie(r, ""))
	home(w, "signedout", "")
}

// home leads back to the page, which says in words of its own what was done, and for which agency.
func home(w http.ResponseWriter, done, agency string) {
	w.Header().Set("Location", "/?"+url.Values{"done": {done}, "agency": {agency}}.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// saysOrigin reports whether a request says where it comes from, as every browser does with a form. Who has a cookie and does
// not say it is no browser of a person.
func saysOrigin(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") != "" || r.Header.Get("Origin") != ""
}

// embedded reports whether a page of another site asks for what it would show or load as a part of itself. Links are no such
// thing.
func embedded(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	if site != "cross-site" && site != "same-site" {
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document"
}

// loopbackName reports whether a Host header names this machine. Nobody else can make a browser send such a one.
func loopbackName(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// proxied reports whether a request was passed on for somebody, who may be anywhere.
func proxied(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"} {
		if len(r.Header.Values(name)) > 0 {
			return true
		}
	}
	return false
}

// Access is what a request over HTTP may do, beyond reading what holds no person and no secret. The zero value may do
// nothing more.
type Access struct {
	// Act: it may use the verbs that change something. It came with the token, or with a session that was begun with it, and
	// from our own pages.
	Act bool
}

type accessKey struct{}

// WithAccess returns a context of a request that may do this much.
func WithAccess(ctx context.Context, a Access) context.Context {
	return context.WithValue(ctx, accessKey{}, a)
}

// AccessOf says what a request may do.
func AccessOf(ctx context.Context) Access {
	a, _ := ctx.Value(accessKey{}).(Access)
	return a
}

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

const (
	mostWrong  = 10              // wrong tokens in a row from one address
	wrongAgain = 6 * time.Second // and one more after each such time
	// mostOrigins bounds the addresses that are told apart; more of them share one limit.
	mostOrigins = 1024
)

// throttle bounds how many wrong tokens may come from an address.
type throttle struct {
	mu   sync.Mutex
	from map[netip.Prefix]tries
}

// tries are what is left, as of a moment.
type tries struct {
	left float64
	at   time.Time
}

func newThrottle() *throttle { return &throttle{from: map[netip.Prefix]tries{}} }

// take takes one try, if one is left. It has to be taken before the token is looked at: many may come at once.
func (t *throttle) take(from netip.Prefix, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	from = t.place(from, now)
	is := t.now(from, now)
	if is.left < 1 {
		return false
	}
	t.from[from] = tries{is.left - 1, now}
	return true
}

// giveBack returns the try of a right token.
func (t *throttle) giveBack(from netip.Prefix) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.from[from]; !ok {
		from = netip.Prefix{}
	}
	is := t.from[from]
	is.left = min(is.left+1, mostWrong)
	t.from[from] = is
}

// place is where an address is counted.
func (t *throttle) place(from netip.Prefix, now time.Time) netip.Prefix {
	if _, ok := t.from[from]; ok || len(t.from) < mostOrigins {
		return from
	}
	for other := range t.from {
		if t.now(other, now).left >= mostWrong {
			delete(t.from, other)
		}
	}
	if len(t.from) < mostOrigins {
		return from
	}
	return netip.Prefix{}
}

func (t *throttle) now(from netip.Prefix, now time.Time) tries {
	is, ok := t.from[from]
	if !ok {
		return tries{mostWrong, now}
	}
	return tries{min(is.left+now.Sub(is.at).Seconds()/wrongAgain.Seconds(), mostWrong), now}
}

var (
	errTooLarge = errors.New("the body is too large, or did not come whole")
	errNoForm   = errors.New("this takes a small form (application/x-www-form-urlencoded)")
	errChunked  = errors.New("say how long the body is (Content-Length)")
	errBusy     = errors.New("too many requests are being answered, or live streams open; close one")
	errNoAgency = errors.New("the form names no agency")
)

// codes are the statuses of errors; 500 for all others.
var codes = map[error]int{
	errWrongToken: http.StatusUnauthorized, errNeedsToken: http.StatusUnauthorized, errManyTokens: http.StatusTooManyRequests,
	errNoToken: http.StatusForbidden, errNotLocal: http.StatusForbidden, errForeign: http.StatusForbidden,
	errTooLarge: http.StatusRequestEntityTooLarge, errNoForm: http.StatusUnsupportedMediaType, errNoAgency: http.StatusBadRequest, errBody: http.StatusBadRequest,
	errBusy: http.StatusServiceUnavailable, errChunked: http.StatusLengthRequired, poller.ErrUnknownAgency: http.StatusNotFound,
}

func codeOf(err error) int {
	for known, code := range codes {
		if errors.Is(err, known) {
			return code
		}
	}
	return http.StatusInternalServerError
}

// refuse answers with an error: a page for people, JSON for programs.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	code := codeOf(err)
	switch code {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="doorbell"`)
	case http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "60")
	}
	if forPeople(r) {
		plainPage(w, code, plain{Title: http.StatusText(code), Text: aSentence(err)})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(problem{Error: err.Error()}) //nolint:errcheck // a client that hung up
}

// signIn asks a person for the token, and a program to show it.
func signIn(w http.ResponseWriter, r *http.Request, err error) {
	if !forPeople(r) {
		if err == nil {
			err = errNeedsToken
		}
		refuse(w, r, err)
		return
	}
	p := plain{Title: "Sign in", Form: true, Text: "The token is the value of DOORBELL_HTTP_TOKEN."}
	code := http.StatusUnauthorized
	if err != nil {
		p.Title, p.Text, code = "Sign in again", aSentence(err), codeOf(err)
	}
	plainPage(w, code, p)
}

// aSentence is an error on a page of its own.
func aSentence(err error) string {
	first, n := utf8.DecodeRuneInString(err.Error())
	return string(unicode.ToUpper(first)) + err.Error()[n:] + "."
}

// forPeople reports whether the one who asks is shown pages.
func forPeople(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// form does a verb with what a form of the page says, and leads back to the page with the word for what came of it.
func form(verb func(agency, insertion string) (done string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		agency := r.PostForm.Get("agency")
		if agency == "" {
			refuse(w, r, errNoAgency)
			return
		}
		done, err := verb(agency, r.PostForm.Get("insertion"))
		if err != nil {
			refuse(w, r, err)
			return
		}
		home(w, done, agency)
	}
}

// plain is a page that needs nothing else, for who may see nothing else.
type plain struct {
	Title, Text string
	Form        bool
}

const plainStyle = `body{font:1rem/1.5 system-ui,sans-serif;max-width:30rem;margin:12vh auto;padding:0 1rem;color:#1b1f24;background:#fff}` +
	`h1{font-size:1.25rem}input,button{font:inherit;padding:.5rem .7rem;border:1px solid #8a939d;border-radius:6px;width:100%;box-sizing:border-box}` +
	`button{margin-top:.7rem;border-color:#1b1f24;background:#1b1f24;color:#fff;cursor:pointer}` +
	`@media (prefers-color-scheme:dark){body{color:#e6e9ec;background:#14171a}input{background:#1e2227;color:inherit}button{background:#e6e9ec;color:#14171a}a{color:#8ab4f8}}`

var plainTemplate = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>{{.Title}} · doorbell</title><link rel="icon" href="data:,"><style>` + plainStyle + `</style></head>
<body><main><h1>{{.Title}}</h1>
<p>{{.Text}}</p>
{{if .Form}}<form method="post" action="/session"><label>Token <input type="password" name="token" autocomplete="current-password" required autofocus></label>
<button>Sign in</button></form>{{else}}<p><a href="/">Back to the page</a></p>{{end}}
</main></body></html>
`))

// plainPolicy is contentPolicy for a page whose style stands in it.
var plainPolicy = func() string {
	sum := sha256.Sum256([]byte(plainStyle))
	return strings.Replace(contentPolicy, "style-src 'self'", "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", 1)
}()

func plainPage(w http.ResponseWriter, code int, p plain) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", plainPolicy)
	w.WriteHeader(code)
	plainTemplate.Execute(w, p) //nolint:errcheck // a client that hung up
}
