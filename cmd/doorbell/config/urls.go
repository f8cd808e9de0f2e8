package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"doorbell/events/forward"
)

// URLTrouble says what is wrong with an address that is called, empty for nothing: it has a scheme,
// a host, TLS unless the host is this machine or allowed, and no user or password.
func URLTrouble(text string, plaintext Hosts) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || !plain(text) ||
		strings.ContainsAny(text, " \"<>\\") {
		return "is not an https:// address; write it whole, like https://api.example.com"
	}
	switch {
	case !goodHost(u):
		return "names no usable host; write it like https://api.example.com"
	case u.User != nil:
		return "holds a user or password; leave out what stands before the @"
	case u.Scheme == "http" && !forward.MayBePlain(u.Hostname(), plaintext):
		return "speaks plain http to another machine, which would show secrets and people's data " +
			"to everybody on the way; write https://, or name the host in DOORBELL_ALLOW_PLAINTEXT"
	}
	return ""
}

// goodHost reports whether a URL names a host, and a port that exists or none.
func goodHost(u *url.URL) bool {
	_, err := strconv.ParseUint(cmp.Or(u.Port(), "443"), 10, 16)
	host := u.Hostname()
	return host != "" && err == nil && !strings.ContainsAny(host, " *{}\\\"'<>") &&
		!strings.HasSuffix(u.Host, ":")
}

// Loopback reports whether a host name or address means this machine and nothing else.
func Loopback(host string) bool { return forward.MayBePlain(host, nil) }

// areServers reports whether a text names NATS servers, separated by commas.
func areServers(text string) bool {
	for server := range strings.SplitSeq(text, ",") {
		u, err := parseServer(server)
		if err != nil || !goodHost(u) ||
			!slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			return false
		}
	}
	return true
}

// checkServer looks at the address of a mail server, and returns its user. A server that speaks no
// TLS is found out when it is spoken to, and gets nothing.
func (r *reader) checkServer(name, text string) (user string) {
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" {
		r.wrongIf(true, name, "is not the address of a mail server; "+
			"write it like smtp://user@host:587 or smtps://user@host:465")
		return ""
	}
	_, password := u.User.Password()
	r.wrongIf(password, name, "holds a password; "+
		"write it into DOORBELL_EMAIL_PASSWORD, and the user alone before the @")
	r.wrongIf(!goodHost(u), name, "names no usable host; "+
		"write it like smtp://user@host:587. An @ in the user is written %40")
	r.wrongIf(strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "", name,
		"holds more than a server; leave out what follows the port")
	return u.User.Username()
}

var proxy = regexp.MustCompile(`^((https?|socks5h?)://)?([^/]*@)?` +
	`(\[[0-9a-fA-F:.]+\]|[^][/:@\s]+)(:\d+)?/?$`)

// checkProxy refuses a proxy that net/http would pass over in silence, to ask directly. Its address
// may hold a password.
func (r *reader) checkProxy() {
	name := "HTTPS_PROXY"
	if r.environ[name] == "" {
		name = "https_proxy"
	}
	text := r.environ[name]
	r.wrongIf(text != "" && !proxy.MatchString(text), name,
		"is not the address of a proxy; write it like http://proxy.example.com:3128, or unset it")
}
