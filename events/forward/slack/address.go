package slack

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// checkPath refuses an address that cannot be that of an incoming webhook, Slack's own or of a
// service that speaks like it. Its errors never quote the address, which is a secret.
func checkPath(address string) error {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil {
		return errors.New("the webhook URL is not a URL; Slack's begin with https://hooks.slack.com/services/")
	}
	host := strings.ToLower(u.Hostname())
	switch {
	case strings.Contains(address, "#"):
		return errors.New("the webhook URL must not contain #")
	case isSlack(host) && !strings.HasPrefix(u.Path, "/services/"):
		return fmt.Errorf("the URL at %s is not that of an incoming webhook, which begins with https://%s/services/; those of workflows accept no messages", host, host)
	case strings.Trim(u.Path, "/") == "" || isSlack(host) && strings.Trim(u.Path, "/") == "services":
		return errors.New("the part of the webhook URL that names the webhook is missing")
	}
	return nil
}

// isSlack knows Slack's own hosts, of which we know what webhooks look like.
func isSlack(host string) bool { return host == "hooks.slack.com" || host == "hooks.slack-gov.com" }
