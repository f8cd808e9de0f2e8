package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// URLTrouble says what is wrong with an address that is called, empty for nothing: it has a scheme,
// a host, TLS unless the host is this machine or allowed, and no user or password.
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

// checkProxy refuses a proxy that net/http would pass over in silence, to ask directly. Its address
// may hold a password.
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
			r.wrong(name,
				"is not the address of a proxy; write it like http://proxy.example.com:3128, or unset it")
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

// isSubject reports whether a text is a subject without wildcards.
func isSubject(text string) bool {
	return plain(text) && !strings.ContainsAny(text, " *>") && !slices.Contains(strings.Split(text,
		"."), "")
}

// areServers reports whether a text names NATS servers, separated by commas.
func areServers(text string) bool {
	return !slices.ContainsFunc(strings.Split(text, ","), func(server string) bool {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		u, err := url.Parse(server)
		return err != nil || !slices.Contains([]string{"nats", "tls", "ws", "wss"},
			u.Scheme) || !goodHost(u.Hostname()) || !goodPort(u)
	})
}
