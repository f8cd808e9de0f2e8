package ops

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"
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
