package slack

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"doorbell/events/forward"
)

// parseAddress takes what can be an incoming webhook, Slack's own or of a service that speaks like it. Its errors never quote
// the address, which is a secret; [url.Parse] would.
func parseAddress(s string, allowPlaintext []string) (*url.URL, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return nil, errors.New("there is no webhook URL")
	}
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("the webhook URL is no URL; Slack's begin with https://hooks.slack.com/services/")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, errors.New("the webhook URL must begin with https://")
	case u.Scheme == "http" && !forward.MayBePlain(host, allowPlaintext):
		return nil, fmt.Errorf("the webhook URL speaks plain http to %q, which would show people's data to everybody on the way; write https://", shown(host))
	case u.User != nil:
		return nil, errors.New("the webhook URL must hold no user and password")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return nil, errors.New("the webhook URL must hold no #")
	case isSlack(host) && !strings.HasPrefix(u.Path, "/services/"):
		return nil, fmt.Errorf("the URL at %s is no incoming webhook's, which begins with https://%s/services/; those of workflows do not take messages", host, host)
	case strings.Trim(u.Path, "/") == "" || isSlack(host) && strings.Trim(u.Path, "/") == "services":
		return nil, fmt.Errorf("the webhook URL ends after %q; the part that names the webhook is missing", shown(host))
	}
	return u, nil
}

// isSlack knows Slack's own hosts, of which we know what webhooks look like.
func isSlack(host string) bool { return host == "hooks.slack.com" || host == "hooks.slack-gov.com" }

// shown is a host as it may stand in an error: a secret that was pasted into the wrong place has no dots.
func shown(host string) string {
	if net.ParseIP(host) == nil && (!strings.Contains(host, ".") || len(host) > 100) {
		return "the host"
	}
	return host
}
