package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// URLTrouble says what is wrong with an address that is called, empty for nothing: it has a scheme, a host, TLS unless the host is this
// machine or allowed, and no user or password.
func URLTrouble(text string, plaintext Hosts) string {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || !plain(text) || strings.ContainsAny(text, " \"<>\\") {
		return "is not an https:// address; write it whole, like https://api.example.com"
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case !goodHost(host) || !goodPort(u):
		return "names no usable host; write it like https://api.example.com"
	case u.User != nil:
		return "holds a user or password; leave out what stands before the @"
	case linkLocal(host):
		return "names a link-local address, where no such service can be; write its own"
	case u.Scheme == "http" && !Loopback(host) && !slices.Contains(plaintext, host):
		return "speaks plain http to another machine, which would show secrets and people's data to everybody on the way; write https://, or name the host in DOORBELL_ALLOW_PLAINTEXT"
	}
	return ""
}

// proxySchemes are the proxies that net/http knows.
var proxySchemes = []string{"http", "https", "socks5", "socks5h"}

// checkProxy refuses a proxy that net/http would pass over in silence, to ask directly. Its address may hold a password.
func (r *reader) checkProxy() {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy"} {
		text := r.environ[name]
		if text == "" {
			continue
		}
		u, err := url.Parse(text)
		if err != nil || u.Scheme == "" || u.Host == "" {
			u, err = url.Parse("http://" + text)
		}
		if err != nil || !slices.Contains(proxySchemes, u.Scheme) || !goodHost(u.Hostname()) || !goodPort(u) {
			r.wrong(name, "is not the address of a proxy; write it like http://proxy.example.com:3128, or unset it")
		}
		return // the first one counts
	}
}

func goodHost(host string) bool {
	return host != "" && len(host) <= 253 && !strings.ContainsAny(host, " *{}\\\"'<>")
}

func goodPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := netip.ParseAddrPort("127.0.0.1:" + u.Port())
	return err == nil && port.Port() != 0
}

// linkLocal finds the addresses under which clouds hand out credentials.
func linkLocal(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLinkLocalUnicast()
}

// Loopback reports whether a host name or address means this machine and nothing else.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// checkNATS looks at the server to use, or at what the embedded one demands of guests. What is only for an external server
// has no effect on the embedded one, which may surprise.
func (r *reader) checkNATS(c *Config) {
	n := c.NATS
	if n.URL == "" {
		r.warnIdle("NATS_URL", false, "NATS_CREDS", "NATS_NKEY", "NATS_CA", "NATS_CERT", "NATS_KEY", "NATS_JS_DOMAIN", "NATS_JS_API_PREFIX")
		if !r.checkGuests(c.Base.NATSListen, n) {
			r.warnIdle("NATS_PASSWORD", !n.Password.IsZero(), "NATS_USER")
			r.warnIdle("NATS_USER", n.User != "", "NATS_PASSWORD")
		}
		return
	}
	r.checkServers(string(n.URL))
	if n.User == "" && !n.Password.IsZero() {
		r.wrong("NATS_PASSWORD", "is set without NATS_USER; set both, or NATS_TOKEN instead")
	}
	if (n.Cert == "") != (n.Key == "") {
		r.wrong("NATS_CERT", "and NATS_KEY belong together; set both or none")
	}
	if n.JSDomain != "" && (strings.Contains(n.JSDomain, ".") || !goodSubject(n.JSDomain)) {
		r.wrong("NATS_JS_DOMAIN", "is not the name of a domain, which holds no dots, spaces and wildcards; write it like hub")
	}
	if n.JSApiPrefix != "" && !goodSubject(strings.TrimSuffix(n.JSApiPrefix, ".")) {
		r.wrong("NATS_JS_API_PREFIX", "is not the beginning of a subject without wildcards; write it like JS.leads.API")
	}
	if n.JSDomain != "" && n.JSApiPrefix != "" {
		r.wrong("NATS_JS_DOMAIN", "and NATS_JS_API_PREFIX exclude each other; set the domain behind a leaf node, the prefix where another account exports JetStream")
	}
	r.checkFile("NATS_CREDS", n.Creds)
	r.checkFile("NATS_NKEY", n.Nkey)
	r.checkFile("NATS_CA", n.CA)
	r.checkFile("NATS_CERT", n.Cert)
	r.checkFile("NATS_KEY", n.Key)
}

// goodSubject reports whether a text is a subject without wildcards.
func goodSubject(text string) bool {
	return plain(text) && !strings.ContainsAny(text, " *>") && !slices.Contains(strings.Split(text, "."), "")
}

// checkGuests demands credentials where others than this machine can reach the embedded server.
func (r *reader) checkGuests(listen string, n NATS) (refused bool) {
	host, _, err := net.SplitHostPort(listen)
	refused = err == nil && !Loopback(host) && n.Token.IsZero() && (n.User == "" || n.Password.IsZero())
	if refused {
		r.wrong("DOORBELL_NATS_LISTEN", "lets other machines in without credentials; set NATS_USER and NATS_PASSWORD, or NATS_TOKEN, or listen on 127.0.0.1")
	}
	return refused
}

func (r *reader) checkServers(text string) {
	name, _ := r.variable("NATS_URL")
	for server := range strings.SplitSeq(text, ",") {
		server = strings.TrimSpace(server)
		if !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		if err != nil || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) || !goodHost(u.Hostname()) || !goodPort(u) {
			r.wrong(name, "is not the address of a NATS server; write it like nats://host:4222 or tls://host:4222")
			return
		}
	}
}

// checkFile wants a file that can be read, if one is named.
func (r *reader) checkFile(name, path string) {
	if path == "" || !r.good(name) {
		return
	}
	if _, trouble := ReadFile(path); trouble != "" {
		r.wrong(name, "names "+path+", which "+trouble)
	}
}
